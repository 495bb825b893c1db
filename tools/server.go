package tools

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// serverName is what clients know the server by.
const serverName = "mcp-sandbox"

// instructions tell a model what no single tool's description can.
const instructions = `Sandboxes: Linux containers to work in, whose files and processes outlive crashes and reconnects.
%s
Commands run by bash as user sandbox: no root, no terminal, and no network unless the session was started with one. Each starts in the working directory with a fresh shell: files stay, cd and variables do not.
Long commands: run_command answers after wait_seconds with status running and a command_id, and the command goes on. Then read_output, send_input, stop_command. Use wait_seconds 0 for servers.
Long output is cut in its middle: page with read_output or with read_file's offset and limit.
A non-zero exit code is a result, not an error. Errors read "Code: message"; the message names the next step.`

// What instructions say about session_id, without and with a default session.
const (
	startFirst   = "start_session first, then give its session_id to the other tools; end_session when done."
	startsItself = "Leave session_id out to work in this connection's own session, which starts with the first call; its ID is in the first result. start_session makes further ones; end_session when done."
)

func instructionsFor(defaultSession bool) string {
	if defaultSession {
		return fmt.Sprintf(instructions, startsItself)
	}
	return fmt.Sprintf(instructions, startFirst)
}

// Options configure a server. Only Caller is required.
type Options struct {
	// Caller performs the calls.
	Caller session.Caller
	// Version is shown to clients. Default: dev.
	Version string
	// Toolsets chooses groups of tools. Default: all. Check names that a user gave
	// with CheckToolsets; New panics on an unknown one.
	Toolsets []string
	// Networks are what agents may ask for; the schema shows no others. "none" is
	// always among them, and the default.
	Networks []string
	// Logger gets what a caller must not see. Default: slog.Default().
	Logger *slog.Logger
	// DefaultSession gives the session of calls that name none, and so makes
	// session_id optional. Default: nil, it is required.
	DefaultSession func(ctx context.Context, use DefaultUse) (DefaultSession, error)
	// Interrupt stops the command of a run_command whose client cancelled it. Its
	// context is fresh, with a deadline of 5 s. It may come before the call has
	// reached its session, and after it has ended. Default: nothing is stopped.
	Interrupt func(ctx context.Context, call session.Call) error
	// Progress gives the last line that the command of a waiting run_command has
	// printed, "" if it is not known. Its context has a deadline of 2 s. Default:
	// progress notifications tell the time only.
	Progress func(ctx context.Context, call session.Call) string
	// TraceID names the trace of a call. Default: that of ctx's OpenTelemetry span.
	TraceID func(ctx context.Context) string
	// Now is the clock for logged durations. Default: time.Now.
	Now func() time.Time
	// ProgressEvery is the interval of progress notifications. Default: 5 s.
	ProgressEvery time.Duration
	// Tracer makes a span of each call. Default: the global provider's.
	Tracer trace.Tracer
	// Meter counts and times the calls. Default: the global provider's.
	Meter metric.Meter
	// Server is added to the MCP server's own options: hooks, propagator.
	Server []server.ServerOption
}

func (o Options) withDefaults() Options {
	if o.Version == "" {
		o.Version = "dev"
	}
	if len(o.Toolsets) == 0 {
		o.Toolsets = Toolsets()
	}
	if !slices.Contains(o.Networks, session.NetworkNone) {
		o.Networks = slices.Insert(slices.Clone(o.Networks), 0, session.NetworkNone)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.TraceID == nil {
		o.TraceID = traceID
	}
	if o.Tracer == nil {
		o.Tracer = otel.Tracer(tracerName)
	}
	if o.Meter == nil {
		o.Meter = otel.Meter(tracerName)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ProgressEvery == 0 {
		o.ProgressEvery = progressEvery
	}
	return o
}

// New makes the MCP server with the chosen tools. Serve it with mcp-go's
// transports; over stdio raise the worker pool (server.WithWorkerPoolSize), as a
// queued call cannot be cancelled.
func New(opts Options) *server.MCPServer {
	opts = opts.withDefaults()
	if err := CheckToolsets(opts.Toolsets); err != nil {
		panic("tools: " + err.Error())
	}
	s := server.NewMCPServer(serverName, opts.Version, slices.Concat([]server.ServerOption{
		server.WithTitle("Sandboxes"),
		server.WithInstructions(instructionsFor(opts.DefaultSession != nil)),
		server.WithToolCapabilities(false),
		server.WithToolHandlerMiddleware(spans(opts.Tracer)),
		server.WithToolHandlerMiddleware(durations(opts.Meter)),
		server.WithRecovery(), // for middleware of ours that panics; handlers recover themselves
	}, opts.Server)...)
	for _, spec := range Catalog() {
		if slices.Contains(opts.Toolsets, spec.Toolset) {
			h := &handler{opts: opts, spec: tailor(spec, opts.Networks, opts.DefaultSession != nil)}
			s.AddTool(h.spec.Tool(), h.handle)
		}
	}
	return s
}

type ownerKey struct{}

// WithOwner says who sends the requests of ctx: the authenticated token's owner.
// Without it every call is refused.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

func ownerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

func traceID(ctx context.Context) string {
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}
