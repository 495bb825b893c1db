package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/internal/background"
	"github.com/mcp-sandbox/mcp-sandbox/internal/control"
	"github.com/mcp-sandbox/mcp-sandbox/internal/defaultsession"
	"github.com/mcp-sandbox/mcp-sandbox/internal/relay"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const stdioHelp = `Serve MCP on stdin and stdout, for the configuration file of a client. It passes the messages on to the server of the data dir, and starts one in the background if there is none. All clients share that server; it reads its settings from the environment and from the configuration file, as serve does.

session_id may be left out of the calls: they go to a session of this connection, which starts with the first one. --session NAME gives it a name, by which a later connection finds it again; two that use a name share its session. The first result names the session_id. --copy FOLDER puts a folder into the session when it is a new one, before its first call.

The server outlives the client, and the client outlives the server: when the server is killed, restarted or replaced, the next message starts it again, and calls without an answer are sent again, with their effect once. Ending either ends no session and no command.

The server in the background logs to server.log in the data dir, and ends when for 10 minutes (MCP_SANDBOX_IDLE_EXIT) no client was connected, no request came and no session lived; mcp-sandbox shutdown ends it at once. A client of a newer version replaces it; an older one uses it, if the two understand each other. A server that was started with serve is used and never replaced.`

type stdioConfig struct {
	session string
	dataDir string
	config  string
	copyDir string    // to be put into a new session; "" is nothing
	place   copyPlace // where the copy passes through
}

func newStdio(p process) *cobra.Command {
	var cfg stdioConfig
	c := &cobra.Command{
		Use:   "stdio",
		Short: "Serve MCP on stdin and stdout, by a shared server in the background",
		Long:  stdioHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := configure(c, p); err != nil {
				return err
			}
			log, err := newLogger(c, p)
			if err != nil {
				return err
			}
			if cfg.session != "" {
				if err := defaultsession.CheckName(cfg.session); err != nil {
					return usagef("--session: %w", err)
				}
			}
			if cfg.dataDir, err = dataDir(c, p); err != nil {
				return usageError{err}
			}
			if cfg.dataDir, err = filepath.Abs(cfg.dataDir); err != nil {
				return err
			}
			if cfg.config, err = c.Flags().GetString("config"); err != nil {
				return err
			}
			if err := checkFolder("--copy", cfg.copyDir); err != nil {
				return err
			}
			cfg.place.dataDir = cfg.dataDir
			return stdio(c.Context(), cfg, p, log)
		},
	}
	c.Flags().StringVar(&cfg.session, "session", "", "name of the session for calls without session_id; a later connection with it finds the session again")
	c.Flags().StringVar(&cfg.copyDir, "copy", "", "folder to put into the session when it is new, as cp FOLDER SESSION_ID: does")
	connectFlags(c, &cfg.place.temporal)
	c.Flags().StringVar(&cfg.place.blobDir, "blob-dir", "", "")
	// The server's own settings, for --copy: here they come from where it reads them.
	for _, name := range []string{"temporal-address", "temporal-namespace", "blob-dir"} {
		c.Flags().Lookup(name).Hidden = true
	}
	return c
}

// checkFolder refuses a flag's path that is no folder.
func checkFolder(flag, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return usagef("%s: %w", flag, err)
	}
	if !info.IsDir() {
		return usagef("%s: %s is not a folder", flag, path)
	}
	return nil
}

// stdio relays until stdin ends, the parent process does, or ctx.
func stdio(ctx context.Context, cfg stdioConfig, p process, log *slog.Logger) error {
	launcher, err := newLauncher(cfg.dataDir, cfg.config, log)
	if err != nil {
		return err
	}
	client := control.NewClient(cfg.dataDir)
	attach := control.Attach{
		SessionName: cfg.session, ConnectionID: uuid.NewString(), ClientVersion: version, ClientPID: os.Getpid(),
	}
	connect := func(ctx context.Context) (io.ReadWriteCloser, error) {
		for {
			if _, err := launcher.Ensure(ctx); err != nil {
				return nil, err
			}
			stream, err := client.Stdio(ctx, attach)
			if err == nil || !control.NotRunning(err) || ctx.Err() != nil {
				return stream, err
			}
			// It has ended in between.
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watchParent(ctx, p.parent, func() { cancel(errParentGone) })
	err = relay.Run(ctx, relay.Options{
		In: p.stdin, Out: p.stdout, Connect: connect, Logger: log, Prepare: cfg.prepare(client, attach, log),
	})
	if errors.Is(err, errParentGone) {
		return nil
	}
	return err
}

// prepare fills the default session, if it is fresh, before the first call is
// answered; nil where there is nothing to copy. One of the connection's own that
// cannot be filled is ended; a named one stays fresh for the next that comes.
func (cfg stdioConfig) prepare(client *control.Client, attach control.Attach, log *slog.Logger) func(context.Context) error {
	if cfg.copyDir == "" {
		return nil
	}
	return func(ctx context.Context) error {
		reply, err := freshSession(ctx, client, attach)
		if err != nil || !reply.Fresh {
			return err
		}
		res, err := copyIn(ctx, cfg.place, reply.SessionID, cfg.copyDir, "", nil, log)
		if err == nil {
			log.InfoContext(ctx, "copied", "folder", cfg.copyDir, session.KeySession, reply.SessionID, "path", res.Path,
				"files", res.Files, "bytes", res.Bytes, "skipped", len(res.Notes))
			attach.Filled = true
			if _, err := client.Session(ctx, attach); err != nil { // the next call says so, too
				log.WarnContext(ctx, "record that the session is filled", session.KeySession, reply.SessionID, "error", err)
			}
			return nil
		}
		err = fmt.Errorf("--copy %s: %w", cfg.copyDir, err)
		if cfg.session != "" {
			return err
		}
		return errors.Join(err, cfg.end(context.WithoutCancel(ctx), reply.SessionID, log))
	}
}

// freshSession starts the default session or finds it. A start that takes long is
// Unavailable after a while and goes on: it is asked for again.
func freshSession(ctx context.Context, client *control.Client, attach control.Attach) (control.SessionReply, error) {
	for began := time.Now(); ; {
		reply, err := client.Session(ctx, attach)
		if session.CodeOf(err) != session.Unavailable || time.Since(began) > startTimeout {
			return reply, err
		}
		select {
		case <-ctx.Done():
			return reply, err
		case <-time.After(startPause):
		}
	}
}

const (
	startTimeout = 2 * time.Minute
	startPause   = 200 * time.Millisecond
)

// end ends a session.
func (cfg stdioConfig) end(ctx context.Context, sessionID string, log *slog.Logger) error {
	conn, err := dialRunning(ctx, cfg.place.temporal, cfg.place.dataDir, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	return operatorError(session.NewAdmin(session.NewClient(session.ClientOptions{Temporal: conn, AnswerWithin: endTimeout, Logger: log})).EndSession(ctx, sessionID))
}

// endTimeout bounds the end of a session that could not be filled.
const endTimeout = 10 * time.Second

// newLauncher starts this program again as a server. Its path is taken now: it may
// be replaced by a newer one while this process runs.
func newLauncher(dataDir, config string, log *slog.Logger) (*background.Launcher, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--background", "--data-dir", dataDir}
	if config != "" {
		if config, err = filepath.Abs(config); err != nil {
			return nil, err
		}
		args = append(args, "--config", config)
	}
	return &background.Launcher{
		DataDir: dataDir, Self: background.Version{Number: version, Build: buildTime()}, Logger: log,
		Command: func() *exec.Cmd { return exec.Command(self, args...) }, //nolint:noctx // it outlives this process
	}, nil
}

var errParentGone = errors.New("the parent process has ended")

// parentEvery is how often the parent process is looked at. Mostly stdin ends with
// it; but another process may have inherited the other end.
const parentEvery = 250 * time.Millisecond

// watchParent calls gone when this process has another parent than at first.
// Linux has PR_SET_PDEATHSIG, which fires at the end of the thread that started
// this process already.
func watchParent(ctx context.Context, parent func() int, gone func()) {
	first := parent()
	ticker := time.NewTicker(parentEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if parent() != first {
				gone()
				return
			}
		}
	}
}
