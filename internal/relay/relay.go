package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/internal/rpcline"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	defaultGiveUp = time.Minute
	// linger is how long answers are waited for after the client's last message.
	linger = time.Second
	// maxPending and maxPendingBytes bound what waits for answers, which is all kept
	// to be sent again.
	maxPending      = 1024
	maxPendingBytes = 64 << 20
	// maxSends is how often a request is sent: one that ends the server each time
	// must not do so for ever.
	maxSends = 5
	// worthSaying is how long a request waits here before the server is told.
	worthSaying = time.Second
)

// Options are what Run needs; In, Out and Connect are required.
type Options struct {
	In  io.Reader
	Out io.Writer
	// Connect opens a stream to a server. Closing the stream ends a read of it.
	Connect func(ctx context.Context) (io.ReadWriteCloser, error)
	// Prepare is run once, when there is a server; tools/call waits until it has
	// returned. Its error ends Run. Default: nothing to do.
	Prepare func(ctx context.Context) error
	// GiveUp is how long a request waits for a server. Default: 1 min.
	GiveUp time.Duration
	Logger *slog.Logger // default slog.Default
}

// Run relays until In ends, which is no error, or ctx does. A first connection
// that cannot be made is an error; later ones are tried again. It does not wait
// for a read of In, which it cannot end.
func Run(ctx context.Context, opts Options) error {
	if opts.GiveUp <= 0 {
		opts.GiveUp = defaultGiveUp
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &relay{opts: opts, fail: cancel, wanted: make(chan struct{}, 1), settled: make(chan struct{}, 1), prepared: opts.Prepare == nil}
	over := make(chan error, 1)
	go func() { over <- r.connections(ctx) }()
	eof := make(chan error, 1)
	go func() { eof <- r.readClient() }()
	select {
	case err := <-over:
		return err
	case err := <-eof:
		r.awaitAnswers(ctx)
		cancel(nil)
		awaitBriefly(over)
		return err
	case <-ctx.Done():
		awaitBriefly(over)
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// awaitBriefly gives the other side a moment to end: a client that does not read
// may hold it up.
func awaitBriefly(over <-chan error) {
	select {
	case <-over: //nolint:errcheck // it ends because it was told to
	case <-time.After(linger / 4):
	}
}

type relay struct {
	opts    Options
	fail    context.CancelCauseFunc // ends Run with an error
	wanted  chan struct{}           // holds an element when a connection is needed
	settled chan struct{}           // holds an element when an answer has gone out
	writing sync.Mutex

	mu       sync.Mutex
	link     *link // nil while there is none
	pending  []*request
	bytes    int // of pending
	prepared bool
	// What a new connection begins with, if the client had an answer to it.
	initialize, initialized []byte
	initializeID            string
}

// request is one without an answer.
type request struct {
	id         string // as it was written
	line       []byte
	arrived    time.Time
	initialize bool
	call       bool
	callID     string
	cancel     []byte // the client's notifications/cancelled, if it sent one
	sends      int
}

// readClient takes the client's messages until they end.
func (r *relay) readClient() error {
	in := rpcline.NewReader(r.opts.In, 0)
	for {
		line, err := in.Next()
		if tooLong, ok := errors.AsType[*rpcline.TooLongError](err); ok {
			r.write(rpcline.Failure(tooLong.ID, rpcline.InvalidRequest, tooLong.Error(), nil))
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the client: %w", err)
		}
		r.fromClient(line)
	}
}

func (r *relay) fromClient(line []byte) {
	m, err := rpcline.Parse(line)
	if err != nil {
		r.write(rpcline.Failure(nil, rpcline.ParseError, err.Error(), nil))
		return
	}
	if m.IsRequest() {
		r.request(m, line)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Method == "notifications/initialized" {
		r.initialized = line
	}
	if id, ok := m.Cancelled(); ok {
		if q := r.find(string(id)); q != nil {
			q.cancel = line
		}
	}
	// Without a connection there is nobody whom it concerns: what must be known
	// later is sent with the next one.
	if r.link != nil {
		r.link.send(line)
	}
}

// request takes on a request.
func (r *relay) request(m rpcline.Message, line []byte) {
	q := &request{id: string(m.ID), line: line, arrived: time.Now(), initialize: m.Method == "initialize", call: m.Method == methodCall}
	if q.call {
		q.line, q.callID = stampCall(line, session.NewCallID)
	}
	r.mu.Lock()
	if len(r.pending) >= maxPending || r.bytes+len(q.line) > maxPendingBytes {
		r.mu.Unlock()
		r.write(rpcline.Failure(m.ID, rpcline.ServerBusy, "too many requests wait for an answer; nothing was done, wait for some to end", nil))
		return
	}
	defer r.mu.Unlock()
	if q.initialize {
		r.initialize, r.initialized = nil, nil
	}
	r.pending = append(r.pending, q)
	r.bytes += len(q.line)
	if r.link == nil {
		r.want()
		return
	}
	r.sendRequest(q)
}

// sendRequest sends a request on the link, unless it has to wait.
func (r *relay) sendRequest(q *request) {
	if q.call && !r.prepared {
		return
	}
	line := q.line
	if waited := time.Since(q.arrived); q.call && (q.sends > 0 || waited >= worthSaying) {
		line = stampLate(line, q.sends > 0, waited)
	}
	q.sends++
	r.link.send(line)
	if q.cancel != nil {
		r.link.send(q.cancel)
	}
}

// want asks for a connection.
func (r *relay) want() { raise(r.wanted) }

func raise(flag chan struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

func (r *relay) find(id string) *request {
	for _, q := range r.pending {
		if q.id == id {
			return q
		}
	}
	return nil
}

// take removes the request that an answer is for.
func (r *relay) take(id string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, q := range r.pending {
		if q.id == id {
			r.pending = append(r.pending[:i:i], r.pending[i+1:]...)
			r.bytes -= len(q.line)
			if q.initialize {
				r.initialize, r.initializeID = q.line, q.id
			}
			return q
		}
	}
	return nil
}

// fromServer passes a message on.
func (r *relay) fromServer(line []byte) {
	m, err := rpcline.Parse(line)
	if err != nil {
		r.opts.Logger.Error("the server sent what is no message", "error", err)
		return
	}
	if !m.IsResponse() {
		r.write(append(line, '\n'))
		return
	}
	q := r.take(string(m.ID))
	if q == nil {
		r.opts.Logger.Debug("an answer that nobody waits for", "id", string(m.ID))
		return
	}
	if q.cancel == nil { // MCP wants no answer to what was cancelled
		r.write(append(line, '\n'))
	}
	raise(r.settled)
}

// write writes to the client. Each call is one whole line.
func (r *relay) write(line []byte) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if _, err := r.opts.Out.Write(line); err != nil {
		r.fail(fmt.Errorf("write to the client: %w", err))
	}
}

// refuse answers every unanswered request, or those that which chooses, with an
// error.
func (r *relay) refuse(which func(*request) bool, message string) {
	r.mu.Lock()
	var refused, kept []*request
	for _, q := range r.pending {
		if which != nil && !which(q) {
			kept = append(kept, q)
			continue
		}
		refused = append(refused, q)
		r.bytes -= len(q.line)
	}
	r.pending = kept
	r.mu.Unlock()
	for _, q := range refused {
		if q.cancel != nil {
			continue
		}
		var data any
		text := message
		if q.callID != "" {
			data = map[string]string{session.MetaCallID: q.callID}
			text = fmt.Sprintf("%s; to learn what became of the call send it again with _meta[%q] %q", message, session.MetaCallID, q.callID)
		}
		r.write(rpcline.Failure(json.RawMessage(q.id), rpcline.ServerGone, text, data))
	}
	raise(r.settled)
}

// awaitAnswers waits a moment for answers under way.
func (r *relay) awaitAnswers(ctx context.Context) {
	late := time.After(linger)
	for {
		r.mu.Lock()
		waiting := len(r.pending)
		r.mu.Unlock()
		if waiting == 0 {
			return
		}
		select {
		case <-r.settled:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}
