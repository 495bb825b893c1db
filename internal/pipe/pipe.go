package pipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcp-sandbox/mcp-sandbox/internal/rpcline"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// maxRequests bounds the requests of one connection that are served at once.
const maxRequests = 256

// Options are what a connection needs. Only MCP is required.
type Options struct {
	MCP *server.MCPServer
	// MaxLine is the longest message in bytes. Default: rpcline.MaxBytes.
	MaxLine int
	// MaxRequests are served at once; those beyond are refused. Default: 256.
	MaxRequests int
	Logger      *slog.Logger // default slog.Default
}

// Serve serves a connection until it breaks or ends, which is no error, or until
// ctx ends, and closes it. It returns when its requests have ended. Values of ctx,
// such as the owner (tools.WithOwner), reach the tools.
func Serve(ctx context.Context, conn io.ReadWriteCloser, opts Options) error {
	if opts.MaxRequests <= 0 {
		opts.MaxRequests = maxRequests
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	p := &pipe{
		opts: opts, conn: conn, session: newMCPSession("stdio-" + uuid.NewString()),
		answers: make(chan []byte), running: make(map[string]context.CancelCauseFunc),
	}
	// No child of ctx: the end of the answers comes before the end of the requests.
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, func() {
		p.mute()
		cancel(context.Cause(ctx))
	})
	defer detach()
	if err := opts.MCP.RegisterSession(base, p.session); err != nil {
		_ = conn.Close()
		cancel(err)
		return fmt.Errorf("open an MCP session: %w", err)
	}
	defer opts.MCP.UnregisterSession(base, p.session.SessionID())
	base = opts.MCP.WithContext(base, p.session)

	var writer sync.WaitGroup
	writer.Go(func() { p.deliver(base) })
	err := p.read(base)
	p.mute()
	if ctx.Err() != nil {
		cancel(context.Cause(ctx)) // which closed the connection, and may come here later than that
	}
	cancel(tools.ErrDisconnected)
	p.requests.Wait()
	writer.Wait()
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// pipe is one connection.
type pipe struct {
	opts     Options
	conn     io.ReadWriteCloser
	session  *mcpSession
	requests sync.WaitGroup
	answers  chan []byte

	writing sync.Mutex
	muted   bool

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // by ID as it was written
	count   int
}

// mute ends the connection: nothing more is written to it, not even an answer
// under way.
func (p *pipe) mute() {
	_ = p.conn.Close() // first, as it ends a write that the other end holds up
	p.writing.Lock()
	defer p.writing.Unlock()
	p.muted = true
}

func (p *pipe) write(line []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.muted {
		return
	}
	if _, err := p.conn.Write(line); err != nil {
		p.muted = true // half a line may be out; reading ends by itself
		_ = p.conn.Close()
	}
}

// deliver writes answers and notifications. It alone takes notifications, which
// keeps their order, and writes those that were sent before an answer first.
func (p *pipe) deliver(ctx context.Context) {
	for {
		select {
		case n := <-p.session.notifications:
			p.write(p.encode(nil, n))
		case line := <-p.answers:
			p.flushNotifications()
			p.write(line)
		case <-ctx.Done():
			return
		}
	}
}

func (p *pipe) flushNotifications() {
	for {
		select {
		case n := <-p.session.notifications:
			p.write(p.encode(nil, n))
		default:
			return
		}
	}
}

// answer has a response written, unless the connection has ended.
func (p *pipe) answer(ctx context.Context, line []byte) {
	select {
	case p.answers <- line:
	case <-ctx.Done():
	}
}

func (p *pipe) encode(id json.RawMessage, message any) []byte {
	line, err := json.Marshal(message)
	if err != nil {
		p.opts.Logger.Error("encode an MCP message", "error", err)
		return rpcline.Failure(id, rpcline.InternalError, "internal error", nil)
	}
	return append(line, '\n')
}

// read takes messages until the connection ends.
func (p *pipe) read(ctx context.Context) error {
	in := rpcline.NewReader(p.conn, p.opts.MaxLine)
	for {
		line, err := in.Next()
		if tooLong, ok := errors.AsType[*rpcline.TooLongError](err); ok {
			p.write(rpcline.Failure(tooLong.ID, rpcline.InvalidRequest, tooLong.Error(), nil))
			continue
		}
		if err != nil {
			return err
		}
		p.take(ctx, line)
	}
}

func (p *pipe) take(ctx context.Context, line []byte) {
	m, err := rpcline.Parse(line)
	switch {
	case err != nil:
		p.write(rpcline.Failure(nil, rpcline.ParseError, err.Error(), nil))
	case m.IsResponse(): // nothing was asked
	case m.IsRequest():
		p.start(ctx, m, line)
	default:
		if id, ok := m.Cancelled(); ok {
			// Not left to mcp-go, which takes 1 and "1" for the same, and loses the
			// cancel of a request that it has not begun.
			p.cancel(string(id))
			return
		}
		p.handle(ctx, nil, line) // at once, to keep their order
	}
}

func (p *pipe) cancel(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.running[id]; cancel != nil {
		cancel(tools.ErrClientCancelled)
	}
}

// start serves a request beside the others. It is known to cancel before the
// next message is read.
func (p *pipe) start(base context.Context, m rpcline.Message, line []byte) {
	ctx, cancel := context.WithCancelCause(base)
	id := string(m.ID)
	p.mu.Lock()
	if p.count >= p.opts.MaxRequests {
		p.mu.Unlock()
		cancel(nil)
		p.write(rpcline.Failure(m.ID, rpcline.ServerBusy,
			fmt.Sprintf("%d requests are in flight on this connection, the most there may be; nothing was done, wait for some to end", p.opts.MaxRequests), nil))
		return
	}
	p.count++
	p.running[id] = cancel
	p.mu.Unlock()
	p.requests.Go(func() {
		defer cancel(nil)
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.count--
			delete(p.running, id)
		}()
		if response := p.handle(ctx, m.ID, line); response != nil {
			p.answer(base, response)
		}
	})
}

// handle has mcp-go perform a message and gives the answer, if it wants one.
func (p *pipe) handle(ctx context.Context, id json.RawMessage, line []byte) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			p.opts.Logger.Error("panic in an MCP message", "panic", r, "stack", string(debug.Stack()))
			if id != nil {
				answer = rpcline.Failure(id, rpcline.InternalError, "internal error", nil)
			}
		}
	}()
	response := p.opts.MCP.HandleMessage(ctx, line)
	if response == nil {
		return nil
	}
	// mcp-go reads an ID as a float64, which cuts the digits of a large one.
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		r.ID = mcp.NewRequestId(id)
		response = r
	case mcp.JSONRPCError:
		r.ID = mcp.NewRequestId(id)
		response = r
	}
	return p.encode(id, response)
}
