package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func newSessions(p process) *cobra.Command {
	c := &cobra.Command{
		Use:   "sessions",
		Short: "List, show and end the sessions of all owners",
		Long:  "List, show and end the sessions of all owners. Whoever may read the data dir administers what is in it.",
	}
	c.AddCommand(newSessionsList(p), newSessionsShow(p), newSessionsEnd(p))
	return c
}

var sessionStatuses = []string{
	session.StatusStarting, session.StatusRunning, session.StatusSuspended, session.StatusLost, session.StatusEnding, session.StatusEnded,
}

// sessionList is the document of sessions list.
type sessionList struct {
	Sessions []session.OwnedSession `json:"sessions"`
}

func newSessionsList(p process) *cobra.Command {
	var filter session.Filter
	var out output
	c := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest first",
		Long:  "List sessions, newest first. The listing lags a moment behind; sessions show does not.",
	}
	c.Flags().StringVar(&filter.Status, "status", "", "only these: "+strings.Join(sessionStatuses, ", ")+" (default all but ended)")
	c.Flags().StringVar(&filter.Owner, "owner", "", "only this owner's")
	c.Flags().IntVar(&filter.Limit, "limit", 0, "at most so many (default all)")
	out.flag(c)
	return operatorCommand{
		timeout: askTimeout,
		check: func(map[string]bool, []string) error {
			if filter.Status != "" && !slices.Contains(sessionStatuses, filter.Status) {
				return usagef("--status: %q is none of %s", filter.Status, strings.Join(sessionStatuses, ", "))
			}
			if filter.Limit < 0 {
				return usagef("--limit: %d is below 0", filter.Limit)
			}
			return checkOwner(filter.Owner)
		},
		do: func(ctx context.Context, admin *session.Admin, _ []string) error {
			found, err := admin.Sessions(ctx, filter)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, s := range found {
				rows = append(rows, []string{s.SessionID, s.Status, s.Owner, s.StartedAt, s.EndedAt, s.Image, s.Name})
			}
			return out.write(p.stdout, sessionList{found}, []string{"SESSION ID", "STATUS", "OWNER", "STARTED", "ENDED", "IMAGE", "NAME"}, rows)
		},
	}.install(p, c)
}

// checkOwner refuses what cannot be an owner; "" is every owner.
func checkOwner(owner string) error {
	if owner == "" {
		return nil
	}
	if err := access.CheckOwner(owner); err != nil {
		return usagef("--owner: %w", err)
	}
	return nil
}

func newSessionsShow(p process) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "show SESSION_ID",
		Short: "Show a session: its state, what runs in it and what it uses",
		Long:  "Show a session: its state, what runs in it and what it uses. The sandbox is asked, which counts as a call: its idle time begins anew.",
		Args:  exactly(1, "one session ID"),
	}
	out.flag(c)
	return operatorCommand{
		timeout: askTimeout,
		do: func(ctx context.Context, admin *session.Admin, args []string) error {
			s, err := admin.Session(ctx, args[0])
			if err != nil {
				return err
			}
			if out.json {
				return writeJSON(p.stdout, s)
			}
			return writeTable(p.stdout, sessionRows(s))
		},
	}.install(p, c)
}

// sessionRows are the lines of sessions show.
func sessionRows(s session.Details) [][]string {
	rows := [][]string{
		{"session", s.SessionID},
		{"name", s.Name},
		{"owner", s.Owner},
		{"status", s.Status},
	}
	if s.Reason != "" {
		rows = append(rows, []string{"reason", s.Reason})
	}
	rows = append(rows, []string{"image", s.Image}, []string{"network", s.Network}, []string{"host", s.Host}, []string{"started", s.StartedAt})
	if s.EndedAt != "" {
		rows = append(rows, []string{"ended", s.EndedAt})
	} else {
		rows = append(rows, []string{"expires", s.ExpiresAt})
	}
	if u := s.Usage; u != nil {
		rows = append(rows,
			[]string{"memory", sizeText(u.MemoryBytes) + " of " + sizeText(u.MemoryLimitBytes)},
			[]string{"cpu", strconv.FormatFloat(u.CPUSeconds, 'f', 1, 64) + " s"},
			[]string{"processes", fmt.Sprintf("%d of %d", u.PIDs, u.PIDsLimit)},
			[]string{"logs and journal", sizeText(u.DiskBytes)},
		)
	}
	rows = append(rows, []string{"workflow", s.WorkflowID}, []string{"run", s.RunID})
	for _, cmd := range s.Commands {
		rows = append(rows, []string{"running", cmd.StartedAt + " " + cell(cmd.Command)})
	}
	return rows
}

// exactly refuses any other number of arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s; %s --help shows its use", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

// sessionOutcome is an entry of the document of sessions end.
type sessionOutcome struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"` // ended, or failed
	Error     string `json:"error,omitempty"`
}

// statusFailed is the status of what could not be ended or deleted.
const statusFailed = "failed"

func newSessionsEnd(p process) *cobra.Command {
	var all bool
	var owner string
	var out output
	c := &cobra.Command{
		Use:   "end SESSION_ID... | --all",
		Short: "End sessions and wait until nothing of their sandboxes is left",
		Long:  "End sessions and wait until nothing of their sandboxes is left. Snapshots stay. A session that has ended already is no error.",
		Args:  cobra.ArbitraryArgs,
	}
	c.Flags().BoolVar(&all, "all", false, "end every session")
	c.Flags().StringVar(&owner, "owner", "", "with --all: this owner's only")
	out.flag(c)
	return operatorCommand{
		timeout: changeTimeout,
		check: func(given map[string]bool, args []string) error {
			all = all && given["all"]
			switch {
			case all && len(args) > 0:
				return usagef("give session IDs or --all, not both")
			case !all && len(args) == 0:
				return usagef("say which sessions to end: their IDs, or --all")
			case !all && given["owner"]:
				return usagef("--owner goes with --all")
			}
			return checkOwner(owner)
		},
		do: func(ctx context.Context, admin *session.Admin, ids []string) error {
			if all {
				live, err := admin.Sessions(ctx, session.Filter{Owner: owner})
				if err != nil {
					return err
				}
				for _, s := range live {
					ids = append(ids, s.SessionID)
				}
			}
			outcomes := forEach(ids, func(id string) error { return admin.EndSession(ctx, id) })
			document := struct {
				Sessions []sessionOutcome `json:"sessions"`
			}{[]sessionOutcome{}}
			var rows [][]string
			for _, o := range outcomes {
				e := sessionOutcome{SessionID: o.id, Status: session.StatusEnded}
				if o.err != nil {
					e.Status, e.Error = statusFailed, o.err.Error()
				}
				document.Sessions = append(document.Sessions, e)
				rows = append(rows, []string{e.SessionID, e.Status})
			}
			if err := out.write(p.stdout, document, []string{"SESSION ID", "STATUS"}, rows); err != nil {
				return err
			}
			return failures(outcomes)
		},
	}.install(p, c)
}
