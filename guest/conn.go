package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// baseURL names no host: the stream leads to one guest only.
const baseURL = "http://guest"

// conn is one stream with HTTP/2 on it, after a good hello.
type conn struct {
	http   *http.ClientConn
	stream *streamConn
	hello  Hello
}

func (c *conn) close() {
	_ = c.http.Close()
	_ = c.stream.Close()
}

// connector makes conns.
type connector struct {
	dial      Dial
	timeout   time.Duration
	transport func(*streamConn) *http.Transport
	send      func(ctx context.Context, rt http.RoundTripper, path string, body []byte, out any) error
}

func newConnector(dial Dial, opts ClientOptions, send func(context.Context, http.RoundTripper, string, []byte, any) error) *connector {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &connector{
		dial: dial, timeout: opts.ConnectTimeout, send: send,
		transport: func(stream *streamConn) *http.Transport {
			return &http.Transport{
				Protocols:          &protocols,
				DisableCompression: true, // local; output is compressible at a cost only
				DialContext:        func(context.Context, string, string) (net.Conn, error) { return stream, nil },
				HTTP2: &http.HTTP2Config{
					SendPingTimeout: opts.PingAfter, PingTimeout: opts.PingTimeout,
					MaxReceiveBufferPerConnection: 3 << 20, MaxReceiveBufferPerStream: 2 << 20,
					MaxReadFrameSize: MaxFrame,
				},
			}
		},
	}
}

// open dials and says hello. A guest of another incarnation gives CodeFenced.
func (c *connector) open(ctx context.Context) (*conn, error) {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	raw, err := c.dial(limited)
	if err != nil {
		return nil, unreachable(ctx, "dial", err)
	}
	stream := &streamConn{ReadWriteCloser: raw}
	// Nothing but closing it ends a handshake on a hung stream.
	stop := context.AfterFunc(limited, func() { _ = stream.Close() })
	defer stop()
	httpConn, err := c.transport(stream).NewClientConn(limited, "http", "guest:80")
	if err != nil {
		_ = stream.Close()
		return nil, unreachable(ctx, "connect", err)
	}
	fresh := &conn{http: httpConn, stream: stream}
	body, _ := json.Marshal(HelloRequest{MinProtocol: MinProtocol, MaxProtocol: ProtocolVersion})
	if err := c.send(limited, httpConn, PathHello, body, &fresh.hello); err != nil {
		fresh.close()
		if CodeOf(err) != "" {
			return nil, err
		}
		return nil, unreachable(ctx, "hello", err)
	}
	if p := fresh.hello.Protocol; p < MinProtocol || p > ProtocolVersion {
		fresh.close()
		return nil, fmt.Errorf("%w: hello: the guest chose protocol %d", ErrUnreachable, p)
	}
	return fresh, nil
}

// streamConn makes a byte stream look like a connection. It has no deadlines:
// pings and Close do what they are for.
type streamConn struct {
	io.ReadWriteCloser
	once sync.Once
	err  error
}

func (s *streamConn) Close() error {
	s.once.Do(func() { s.err = s.ReadWriteCloser.Close() })
	return s.err
}

func (*streamConn) LocalAddr() net.Addr              { return streamAddr{} }
func (*streamConn) RemoteAddr() net.Addr             { return streamAddr{} }
func (*streamConn) SetDeadline(time.Time) error      { return nil }
func (*streamConn) SetReadDeadline(time.Time) error  { return nil }
func (*streamConn) SetWriteDeadline(time.Time) error { return nil }

type streamAddr struct{}

func (streamAddr) Network() string { return "stream" }
func (streamAddr) String() string  { return "guest" }
