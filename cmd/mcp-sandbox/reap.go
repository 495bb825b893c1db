package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// reapList is the document of reap.
type reapList struct {
	Hosts []session.ReapReport `json:"hosts"`
}

func newReap(p process) *cobra.Command {
	var dryRun bool
	var out output
	c := &cobra.Command{
		Use:   "reap",
		Short: "Remove now what no session owns any more, and show what is left and why",
		Long: "Remove now what no session owns any more, and show what is left and why. Every host's worker looks at its own engine, as it does by itself (serve --reap-every). " +
			"What is not this installation's is never touched. Exit code 1 if something could not be removed, or a host gave no answer.",
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "remove nothing, only show what would be")
	out.flag(c)
	return operatorCommand{
		timeout: changeTimeout,
		do: func(ctx context.Context, admin *session.Admin, _ []string) error {
			reports, err := admin.Reap(ctx, dryRun)
			if err != nil {
				return err
			}
			if err := writeReaped(p.stdout, reports, &out); err != nil {
				return err
			}
			for _, r := range reports {
				if r.Unlisted > 0 {
					_, _ = fmt.Fprintf(p.stderr, "host %s: %d more are counted, but not listed\n", r.HostID, r.Unlisted)
				}
			}
			return reapFailures(reports)
		},
	}.install(p, c)
}

func writeReaped(w io.Writer, reports []session.ReapReport, out *output) error {
	var rows [][]string
	for _, r := range reports {
		for _, t := range r.Things {
			id := t.ID
			if t.Kind != "volume" { // whose name is all there is
				id = short(id)
			}
			owner := t.SessionID
			if t.SnapshotID != "" {
				owner = t.SnapshotID
			}
			rows = append(rows, []string{t.Outcome, t.Kind, id, owner, t.CreatedAt, r.HostID, t.Reason})
		}
	}
	return out.write(w, reapList{reports}, []string{"OUTCOME", "KIND", "ID", "OF", "CREATED", "HOST", "REASON"}, rows)
}

// short cuts an engine's ID as the engine's own listings do.
func short(id string) string {
	const digits = 12
	if len(id) > len("sha256:") && id[:len("sha256:")] == "sha256:" {
		id = id[len("sha256:"):]
	}
	return id[:min(len(id), digits)]
}

// reapFailures tells of hosts that did not answer, and of things that could not
// be removed.
func reapFailures(reports []session.ReapReport) error {
	var errs []error
	for _, r := range reports {
		switch {
		case r.Error != "":
			errs = append(errs, fmt.Errorf("host %s: %s", r.HostID, r.Error))
		case r.Failed > 0:
			errs = append(errs, fmt.Errorf("host %s: %d could not be removed; the next look tries again", r.HostID, r.Failed))
		}
	}
	return errors.Join(errs...)
}
