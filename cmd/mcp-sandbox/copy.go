package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// copyTimeout bounds a cp: how long it waits for a server that is away, too.
const copyTimeout = time.Hour

const copyHelp = `Copy a file or a folder into a sandbox, or out of it.

One of SOURCE and DESTINATION is SESSION_ID:PATH, the other a path here. A relative PATH starts at the working
directory of the sandbox (/home/sandbox), which SESSION_ID: alone means. Everything that does not begin with s_ and
a colon before its first slash is a path here; write ./s_x:y for a file of such a name.

What lands where:
  - DESTINATION is a folder that is there: SOURCE goes into it, under its own name.
    SOURCE/. means what is in SOURCE: that goes into it, without a folder SOURCE.
  - DESTINATION is not there: it becomes the copy. With a slash at its end, a file goes into that new folder.
    Missing parents are made.
  - A file that is there is replaced, a folder merged with. What SOURCE does not have stays.

Kept are permissions, modification times and links. Links are copied as links and never followed (a link that is
SOURCE itself too, unless a slash follows). On the way out a link that leads out of the copied tree is skipped. Not
kept are owners (the copy is yours, or the sandbox user's), setuid, setgid and sticky bits, and hard links, which
become files. FIFOs, sockets and devices are skipped; so are, on the way out, other file systems mounted below SOURCE.

Each file is there whole, or as it was before. A copy that was interrupted is simply run again: what is on the other
side already is not sent, or not written, again. What happens in a sandbox goes on when this command ends early.
At most 100,000 files and folders and 16 GiB go in one copy.

Exit code 0: all was copied but what is skipped by the rules above. 1: it could not be copied, or files could not be
read (the others were copied). 2: the command line is wrong. What is missing is named on stderr, and with --json.`

const copyExample = `  mcp-sandbox cp ./project s_abc:             # becomes /home/sandbox/project
  mcp-sandbox cp ./project/. s_abc:/srv/app   # its content goes into /srv/app
  mcp-sandbox cp s_abc:project/report.pdf .
  mcp-sandbox cp s_abc:project ./result`

func newCopy(p process) *cobra.Command {
	var cfg temporalConfig
	var blobDir string
	var out output
	c := &cobra.Command{
		Use:     "cp SOURCE SESSION_ID:PATH | mcp-sandbox cp SESSION_ID:PATH DESTINATION",
		Short:   "Copy files and folders into a sandbox and out of it",
		Long:    copyHelp,
		Example: copyExample,
		Args:    exactly(2, "a source and a destination"),
	}
	connectFlags(c, &cfg)
	c.Flags().StringVar(&blobDir, "blob-dir", "", "directory through which contents pass; the same as that of the session's worker (default <data-dir>/"+blobsName+")")
	out.flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := configure(c, p); err != nil {
			return err
		}
		log, err := newLogger(c, p)
		if err != nil {
			return err
		}
		job, err := parseCopy(args[0], args[1])
		if err != nil {
			return err
		}
		dir, err := dataDir(c, p)
		if err != nil && (cfg.address == "" || blobDir == "") {
			return usageError{err}
		}
		ctx, cancel := context.WithTimeoutCause(c.Context(), copyTimeout, fmt.Errorf("not done within %s; run the same cp again, it goes on where it is", copyTimeout))
		defer cancel()
		return runCopy(ctx, copyPlace{temporal: cfg, dataDir: dir, blobDir: blobDir}, job, p, out, log)
	}
	return c
}

// runCopy copies and says what came of it.
func runCopy(ctx context.Context, place copyPlace, job copyJob, p process, out output, log *slog.Logger) error {
	bar := newProgress(p.stderr)
	began := time.Now()
	res, err := copyTree(ctx, place, job, bar, log)
	bar.clear()
	if err != nil {
		return err
	}
	if err := res.report(p, out, time.Since(began)); err != nil {
		return err
	}
	if n := res.Unread; n > 0 {
		return fmt.Errorf("%d files or folders could not be read; the others were copied", n)
	}
	return nil
}

// copyJob is one copy.
type copyJob struct {
	sessionID string
	remote    string // the path in the sandbox
	local     string // the path here
	out       bool   // out of the sandbox
}

// parseCopy reads the two arguments.
func parseCopy(source, destination string) (copyJob, error) {
	from, fromPath, fromSession := splitRemote(source)
	to, toPath, toSession := splitRemote(destination)
	switch {
	case source == "" || destination == "":
		return copyJob{}, usagef("an empty path; write . for this folder")
	case fromSession && toSession:
		return copyJob{}, usagef("both %s and %s are in sandboxes; copy out of the one first, then into the other", source, destination)
	case fromSession:
		return copyJob{sessionID: from, remote: fromPath, local: destination, out: true}, nil
	case toSession:
		return copyJob{sessionID: to, remote: toPath, local: source}, nil
	}
	return copyJob{}, usagef("neither %s nor %s is in a sandbox: write one as SESSION_ID:PATH (mcp-sandbox sessions list shows the IDs)", source, destination)
}

// splitRemote takes SESSION_ID:PATH apart.
func splitRemote(arg string) (sessionID, path string, ok bool) {
	id, path, found := strings.Cut(arg, ":")
	if !found || !strings.HasPrefix(id, "s_") || strings.Contains(id, "/") {
		return "", "", false
	}
	return id, path, true
}

// copyPlace is where a copy's server and blob store are.
type copyPlace struct {
	temporal temporalConfig
	dataDir  string
	blobDir  string // "" is the data dir's
}

// copyIn copies a file or folder into a session's sandbox, for commands that
// start one. dest is as in cp; bar may be nil.
func copyIn(ctx context.Context, place copyPlace, sessionID, source, dest string, bar *progress, log *slog.Logger) (copyResult, error) {
	if bar == nil {
		bar = &progress{}
	}
	defer bar.clear()
	return copyTree(ctx, place, copyJob{sessionID: sessionID, remote: dest, local: source}, bar, log)
}

// copyTree performs a copy.
func copyTree(ctx context.Context, place copyPlace, job copyJob, bar *progress, log *slog.Logger) (copyResult, error) {
	conn, err := dialRunning(ctx, place.temporal, place.dataDir, log)
	if err != nil {
		return copyResult{}, err
	}
	c := &copier{copyJob: job, place: place, bar: bar, log: log, callID: session.NewCallID(), conn: conn}
	defer c.close()
	c.admin = c.newAdmin()
	// Before anything is read: a copy of much takes its time.
	if err := c.admin.CheckCopy(ctx, job.sessionID); err != nil {
		return copyResult{}, operatorError(err)
	}
	if c.blobs, err = openBlobs(cmp.Or(place.blobDir, filepath.Join(place.dataDir, blobsName))); err != nil {
		return copyResult{}, err
	}
	res := copyResult{SessionID: job.sessionID, CallID: c.callID, Notes: []copyNote{}}
	if job.out {
		res.Direction = "out"
		err = c.copyOut(ctx, &res)
	} else {
		res.Direction = "in"
		err = c.copyIn(ctx, &res)
	}
	if err != nil && ctx.Err() != nil {
		err = c.interrupted(ctx)
	}
	return res, operatorError(err)
}

// interrupted says what goes on after the command was told to end.
func (c *copier) interrupted(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == context.Canceled { //nolint:errorlint // the plain one alone is a signal's
		cause = errors.New("interrupted; run the same cp again to complete it")
	}
	if c.asked {
		return fmt.Errorf("%w (what was sent may still be done: call %s of session %s)", cause, c.callID, c.sessionID)
	}
	return cause
}
