package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	defaultimage "github.com/mcp-sandbox/mcp-sandbox/images/default"
	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

// checkTimeout bounds one check of the doctor.
const checkTimeout = 5 * time.Second

// verdict is what a check found.
type verdict string

const (
	verdictOK   verdict = "ok"
	verdictWarn verdict = "warn" // works, but not as one would expect
	verdictFail verdict = "fail"
	verdictSkip verdict = "skip" // cannot be told, or does not matter, now
)

// finding is a check's result. Remedy is empty where there is nothing to do.
type finding struct {
	Check  string  `json:"check"`
	Status verdict `json:"status"`
	Detail string  `json:"detail"`
	Remedy string  `json:"remedy,omitempty"`
}

// report is the document of doctor.
type report struct {
	OK     bool      `json:"ok"`
	Checks []finding `json:"checks"`
}

func newDoctor(p process) *cobra.Command {
	d := doctor{getenv: p.getenv}
	var out output
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what a server needs, and say what to do about what is missing",
		Long: "Check what a server needs, and say what to do about what is missing. It makes, starts and changes nothing, and may run beside a server. " +
			"Exit code 1 if a check fails. Its flags are those of serve: give both the same.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := configure(c, p); err != nil {
				return err
			}
			var err error
			if d.log, err = newLogger(c, p); err != nil {
				return err
			}
			if d.dataDir, err = dataDir(c, p); err != nil {
				return usageError{err}
			}
			if d.dataDir, err = filepath.Abs(d.dataDir); err != nil {
				return err
			}
			return d.run(c.Context(), p, &out)
		},
	}
	f := c.Flags()
	connectFlags(c, &d.temporal)
	f.StringVar(&d.defaultImage, "default-image", defaultimage.Ref, "image of sessions that ask for none")
	f.StringVar(&d.runtime, "runtime", "", "OCI runtime of the engine for sandboxes, such as runsc")
	f.StringVar(&d.listen, "listen", defaultListen, "address for MCP over HTTP")
	f.StringVar(&d.ui, "temporal-ui", defaultUI, "address of Temporal's UI, or off")
	out.flag(c)
	return c
}

// doctor checks a machine. Its checks know of each other only what is in it.
type doctor struct {
	dataDir      string
	temporal     temporalConfig
	defaultImage string
	runtime      string
	listen, ui   string
	getenv       func(string) string
	log          *slog.Logger

	holder string // who holds the data dir's lock; "" is nobody
	arch   string // of the engine, as in GOARCH; "" when it is not known
}

func (d *doctor) run(ctx context.Context, p process, out *output) error {
	r := report{OK: true}
	failed := 0
	for _, check := range []func(context.Context) []finding{
		d.checkDataDir, d.checkEngine, d.checkGuest, d.checkPorts, d.checkServer, d.checkTemporal,
	} {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		for _, f := range check(ctx) {
			r.Checks = append(r.Checks, f)
			if f.Status == verdictFail {
				r.OK = false
				failed++
			}
		}
		cancel()
	}
	if err := writeReport(p.stdout, r, out); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(r.Checks))
	}
	return nil
}

func writeReport(w io.Writer, r report, out *output) error {
	if out.json {
		return writeJSON(w, r)
	}
	var b strings.Builder
	for _, f := range r.Checks {
		fmt.Fprintf(&b, "%-4s  %-13s  %s\n", f.Status, f.Check, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%21s  %s\n", "", "-> "+f.Remedy)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// checkDataDir looks whether a server could use the data dir, and who does.
func (d *doctor) checkDataDir(context.Context) []finding {
	f := finding{Check: "data dir", Status: verdictOK, Detail: d.dataDir}
	if _, err := os.Stat(filepath.Join(d.dataDir, "installation.json")); errors.Is(err, fs.ErrNotExist) {
		return []finding{d.checkFreshDataDir(f)}
	}
	// This takes the lock for less than a millisecond, if nobody has it.
	dir, err := datadir.Open(d.dataDir, datadir.Options{Exclusive: true, Purpose: "mcp-sandbox doctor, for a moment,"})
	if inUse, ok := errors.AsType[*datadir.InUseError](err); ok {
		d.holder = inUse.Holder
		f.Detail += ", used by " + d.holder
		return append([]finding{f}, d.checkSecrets()...)
	}
	if err != nil { // it says what to do
		f.Status, f.Detail = verdictFail, err.Error()
		return []finding{f}
	}
	_ = dir.Close()
	f.Detail += ", used by no server"
	return append([]finding{f}, d.checkSecrets()...)
}

// checkFreshDataDir looks whether a data dir could be made.
func (d *doctor) checkFreshDataDir(f finding) finding {
	path := d.dataDir
	info, err := os.Stat(path)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		path = filepath.Dir(path)
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		f.Status, f.Detail, f.Remedy = verdictFail, err.Error(), "run as a user who may use it, or give another --data-dir"
	case !info.IsDir():
		f.Status, f.Detail, f.Remedy = verdictFail, path+" is no directory", "move it away, or give another --data-dir"
	case unix.Access(path, unix.W_OK) != nil:
		f.Status, f.Detail, f.Remedy = verdictFail, "this user may not write to "+path, "run as a user who may, or give another --data-dir"
	case path == d.dataDir && info.Mode().Perm()&0o077 != 0:
		f.Status, f.Detail = verdictFail, fmt.Sprintf("%s has mode %#o, so that others could read the secrets in it", path, info.Mode().Perm())
		f.Remedy = "chmod 700 " + shellWord(path)
	default:
		f.Detail += ", made when a server starts"
	}
	return f
}

// checkSecrets names the files of the data dir that others could use, if the
// directory were opened to them.
func (d *doctor) checkSecrets() []finding {
	entries, err := os.ReadDir(d.dataDir)
	if err != nil {
		return []finding{{Check: "secrets", Status: verdictFail, Detail: err.Error(), Remedy: "run as the owner of the data dir"}}
	}
	var open []string
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && holdsSecrets(e.Name()) {
			open = append(open, shellWord(filepath.Join(d.dataDir, e.Name())))
		}
	}
	if len(open) > 0 {
		return []finding{{
			Check: "secrets", Status: verdictWarn, Detail: "others could read " + strings.Join(open, ", ") + " if the data dir were opened to them",
			Remedy: "chmod 600 " + strings.Join(open, " "),
		}}
	}
	return nil
}

func holdsSecrets(name string) bool {
	switch name {
	case "token", "installation.json", "temporal.toml":
		return true
	}
	return strings.Contains(name, "secret")
}
