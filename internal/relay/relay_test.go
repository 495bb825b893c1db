package relay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/internal/relay"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// rig is a relay between a client and servers, both played by the test.
type rig struct {
	t      *testing.T
	stdin  *io.PipeWriter
	stdout *bufio.Scanner
	ended  chan error
	// conns gives the server's end of each connection. A connection is made when it
	// is taken from here.
	conns chan *conn
	stop  context.CancelFunc
}

// conn is the server's end of a connection.
type conn struct {
	net.Conn
	t  *testing.T
	in *bufio.Scanner
}

func start(t *testing.T, change func(*relay.Options)) *rig {
	t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	r := &rig{t: t, stdin: in, stdout: bufio.NewScanner(out), ended: make(chan error, 1), conns: make(chan *conn), stop: stop}
	r.stdout.Buffer(nil, 1<<20)
	opts := relay.Options{
		In: stdin, Out: stdout, Logger: slog.New(slog.DiscardHandler), GiveUp: patience,
		Connect: func(ctx context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			s := &conn{Conn: theirs, t: t, in: bufio.NewScanner(theirs)}
			s.in.Buffer(nil, 8<<20)
			select {
			case r.conns <- s:
				return ours, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	}
	if change != nil {
		change(&opts)
	}
	go func() { r.ended <- relay.Run(ctx, opts) }()
	t.Cleanup(func() {
		stop()
		_ = in.Close()
		_ = out.Close()
	})
	return r
}

func (r *rig) send(line string) {
	r.t.Helper()
	_, err := io.WriteString(r.stdin, line+"\n")
	require.NoError(r.t, err)
}

// next is the next line to the client.
func (r *rig) next() string {
	r.t.Helper()
	got := make(chan string, 1)
	go func() {
		r.stdout.Scan()
		got <- r.stdout.Text()
	}()
	select {
	case line := <-got:
		require.True(r.t, json.Valid([]byte(line)), line)
		return line
	case <-time.After(patience):
		r.t.Fatal("nothing for the client")
		return ""
	}
}

func (r *rig) connection() *conn {
	r.t.Helper()
	select {
	case c := <-r.conns:
		return c
	case <-time.After(patience):
		r.t.Fatal("no connection")
		return nil
	}
}

// next is the next line to the server.
func (c *conn) next() string {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(patience)))
	require.True(c.t, c.in.Scan(), "%v", c.in.Err())
	return c.in.Text()
}

func (c *conn) send(line string) {
	c.t.Helper()
	require.NoError(c.t, c.SetWriteDeadline(time.Now().Add(patience)))
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

func result(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%q}`, id, text)
}

// call takes a tools/call apart.
type call struct {
	ID     json.RawMessage
	Params struct {
		Name      string
		Arguments json.RawMessage
		Meta      map[string]json.RawMessage `json:"_meta"`
	}
}

func parseCall(t *testing.T, line string) (c call) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(line), &c), line)
	return c
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// The server is killed with requests under way: the next gets the client's
// session, then the requests again, and each is answered once.
func TestServerBreaks(t *testing.T) {
	r := start(t, nil)
	first := r.connection()
	r.send(initialize)
	require.JSONEq(t, initialize, first.next())
	first.send(result(`"init"`, "old"))
	require.Equal(t, result(`"init"`, "old"), r.next())
	r.send(initialized)
	require.JSONEq(t, initialized, first.next())

	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	r.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"c","_meta":{"mcp-sandbox/call_id":"mine"}}}`)
	a := first.next()
	require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, first.next())
	c := first.next()
	require.JSONEq(t, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"c","_meta":{"mcp-sandbox/call_id":"mine"}}}`, c)
	first.send(result("2", "answered"))
	require.Equal(t, result("2", "answered"), r.next())
	require.NoError(t, first.Close())

	second := r.connection()
	require.JSONEq(t, initialize, second.next())
	second.send(result(`"init"`, "swallowed"))
	require.JSONEq(t, initialized, second.next())
	again := parseCall(t, second.next())
	require.Equal(t, "1", string(again.ID))
	require.NotEmpty(t, parseCall(t, a).Params.Meta[session.MetaCallID])
	require.Equal(t, parseCall(t, a).Params.Meta[session.MetaCallID], again.Params.Meta[session.MetaCallID], "under its call ID")
	require.Equal(t, "true", string(again.Params.Meta[session.MetaResent]))
	require.Regexp(t, `^[0-9]+$`, string(again.Params.Meta[session.MetaWaitedMS]))
	again = parseCall(t, second.next())
	require.Equal(t, `"mine"`, string(again.Params.Meta[session.MetaCallID]))
	require.Equal(t, "true", string(again.Params.Meta[session.MetaResent]))
	second.send(result("2", "late, of nobody"))
	second.send(result("3", "c"))
	require.Equal(t, result("3", "c"), r.next())
	second.send(result("1", "a"))
	require.Equal(t, result("1", "a"), r.next())

	// Without a need there is no third; with one there is.
	require.NoError(t, second.Close())
	select {
	case <-r.conns:
		t.Fatal("a connection that nobody needs")
	case <-time.After(50 * time.Millisecond):
	}
	r.send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"d"}}`)
	third := r.connection()
	require.JSONEq(t, initialize, third.next())
	third.send(result(`"init"`, "swallowed"))
	require.JSONEq(t, initialized, third.next())
	require.Empty(t, parseCall(t, third.next()).Params.Meta[session.MetaResent], "the first time it is sent")
	third.send(result("4", "d"))
	require.Equal(t, result("4", "d"), r.next())

	require.NoError(t, r.stdin.Close())
	require.NoError(t, <-r.ended)
}

// A message is passed on as it is, but for the call ID.
func TestUnaltered(t *testing.T) {
	r := start(t, nil)
	s := r.connection()
	args := `{"n":12345678901234567890.123456789012345678901,"s":"<\ud83d\ude00&>","x":[1e400,null]}`
	r.send(`{"id":123456789012345678901234567890,"extra":{"a":1.0},"jsonrpc":"2.0","method":"tools/call","params":{"later":[0.10],"arguments":` + args + `,"name":"a","_meta":{"progressToken":9007199254740993}}}`)
	line := s.next()
	for _, kept := range []string{`"id":123456789012345678901234567890`, `"extra":{"a":1.0}`, `"later":[0.10]`, `"arguments":` + args, `"progressToken":9007199254740993`} {
		require.Contains(t, line, kept)
	}
	for _, as := range []string{
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[1]}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"_meta":1}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"_meta":{"mcp-sandbox/call_id":7}}}`,
		`{"jsonrpc":"2.0", "id":5, "method":"resources/read"}`,
		`{"jsonrpc":"2.0","id":6,"result":{}}`,
	} {
		r.send(as)
		require.Equal(t, as, s.next())
	}
	progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.50}}`
	s.send(progress)
	require.Equal(t, progress, r.next())
	s.send("no message")
	s.send(result("123456789012345678901234567890", "big"))
	require.Equal(t, result("123456789012345678901234567890", "big"), r.next())
	r.send("garbage")
	require.Contains(t, r.next(), `"id":null,"error":{"code":-32700`)
	go r.send(`{"jsonrpc":"2.0","method":"tools/call","params":"` + strings.Repeat("x", 5<<20) + `","id":7}`)
	require.Contains(t, r.next(), `"id":7,"error":{"code":-32600,"message":"the message is over 4194304 bytes`)
}

// What the client has cancelled it hears no more of; the next server hears of
// both.
func TestCancelled(t *testing.T) {
	r := start(t, nil)
	s := r.connection()
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	r.send(cancel)
	parseCall(t, s.next())
	require.Equal(t, cancel, s.next())
	require.NoError(t, s.Close())
	s = r.connection()
	require.Equal(t, "1", string(parseCall(t, s.next()).ID))
	require.Equal(t, cancel, s.next())
	s.send(result("1", "cancelled"))
	r.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	s.next()
	s.send(result("2", "pong"))
	require.Equal(t, result("2", "pong"), r.next())
}

// Without a server the requests get an error after a while, and the next request
// is another try.
func TestGivesUp(t *testing.T) {
	r := start(t, func(o *relay.Options) { o.GiveUp = 100 * time.Millisecond })
	s := r.connection()
	require.NoError(t, s.Close())
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"mcp-sandbox/call_id":"mine"}}}`)
	line := r.next()
	require.Contains(t, line, `"id":1,"error":`)
	require.Contains(t, line, `"data":{"mcp-sandbox/call_id":"mine"}`)
	require.Contains(t, line, "mcp-sandbox doctor")
	require.Contains(t, line, "send it again with _meta")
	r.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	s = r.connection()
	s.next()
	s.send(result("2", "pong"))
	require.Equal(t, result("2", "pong"), r.next())
}

// A request that ends every server is not sent for ever.
func TestPoison(t *testing.T) {
	r := start(t, nil)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	for range 5 {
		s := r.connection()
		s.next()
		require.NoError(t, s.Close())
	}
	require.Contains(t, r.next(), "the server broke 5 times while this request was there")
}

func TestFirstConnectionFails(t *testing.T) {
	r := start(t, func(o *relay.Options) {
		o.Connect = func(context.Context) (io.ReadWriteCloser, error) { return nil, errors.New("no engine") }
	})
	require.EqualError(t, <-r.ended, "no engine")
}

func TestPrepare(t *testing.T) {
	gate := make(chan error)
	prepare := func(o *relay.Options) { o.Prepare = func(context.Context) error { return <-gate } }
	t.Run("calls wait for it", func(t *testing.T) {
		r := start(t, prepare)
		s := r.connection()
		r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
		r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		require.Contains(t, s.next(), "tools/list", "nothing else does")
		gate <- nil
		require.Equal(t, "1", string(parseCall(t, s.next()).ID))
	})
	t.Run("fails", func(t *testing.T) {
		r := start(t, prepare)
		r.connection()
		r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
		r.send("\ngarbage")
		require.Contains(t, r.next(), "-32700", "the call has been taken")
		gate <- errors.New("no such folder")
		require.Contains(t, r.next(), "no such folder")
		require.EqualError(t, <-r.ended, "no such folder")
	})
}

// Run ends with its input, its context and its output, and answers that are on
// their way come first.
func TestEnds(t *testing.T) {
	t.Run("end of input", func(t *testing.T) {
		r := start(t, nil)
		s := r.connection()
		r.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		s.next()
		require.NoError(t, r.stdin.Close())
		s.send(result("1", "pong"))
		require.Equal(t, result("1", "pong"), r.next())
		require.NoError(t, <-r.ended)
	})
	t.Run("end of input with a call under way", func(t *testing.T) {
		r := start(t, nil)
		s := r.connection()
		r.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		s.next()
		began := time.Now()
		require.NoError(t, r.stdin.Close())
		require.NoError(t, <-r.ended)
		require.Less(t, time.Since(began), 2*time.Second)
	})
	t.Run("context", func(t *testing.T) {
		r := start(t, nil)
		r.connection()
		r.stop()
		require.NoError(t, <-r.ended)
	})
	t.Run("output", func(t *testing.T) {
		r := start(t, func(o *relay.Options) { o.Out.(*io.PipeWriter).CloseWithError(io.ErrClosedPipe) })
		r.connection()
		r.send("garbage")
		require.ErrorContains(t, <-r.ended, "write to the client")
	})
}
