package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func newSnapshots(p process) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshots",
		Short: "List, delete and prune the snapshots of all owners",
		Long:  "List, delete and prune the snapshots of all owners. Whoever may read the data dir administers what is in it.",
	}
	c.AddCommand(newSnapshotsList(p), newSnapshotsDelete(p), newSnapshotsPrune(p))
	return c
}

// snapshotList is the document of snapshots list.
type snapshotList struct {
	Snapshots []session.OwnedSnapshot `json:"snapshots"`
}

func newSnapshotsList(p process) *cobra.Command {
	var filter session.SnapshotFilter
	var out output
	c := &cobra.Command{
		Use:   "list",
		Short: "List snapshots, newest first",
		Long:  "List snapshots, newest first. The listing lags a moment behind. A size is that of the whole image, the layers it shares included.",
	}
	c.Flags().StringVar(&filter.SessionID, "session", "", "only those taken of this session")
	c.Flags().StringVar(&filter.Owner, "owner", "", "only this owner's")
	out.flag(c)
	return operatorCommand{
		timeout: askTimeout,
		check: func(map[string]bool, []string) error {
			if filter.SessionID != "" && session.CheckSessionID(filter.SessionID) != nil {
				return usagef("--session: %.80q is no session ID; they begin with s_", filter.SessionID)
			}
			return checkOwner(filter.Owner)
		},
		do: func(ctx context.Context, admin *session.Admin, _ []string) error {
			found, err := admin.Snapshots(ctx, filter)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, s := range found {
				rows = append(rows, []string{s.SnapshotID, s.Owner, s.SessionID, s.CreatedAt, s.ExpiresAt, sizeText(s.SizeBytes), s.Name})
			}
			return out.write(p.stdout, snapshotList{found}, []string{"SNAPSHOT ID", "OWNER", "SESSION ID", "CREATED", "EXPIRES", "SIZE", "NAME"}, rows)
		},
	}.install(p, c)
}

// snapshotOutcome is an entry of the documents of snapshots delete and prune.
type snapshotOutcome struct {
	SnapshotID string `json:"snapshot_id"`
	Status     string `json:"status"` // deleted, failed, or found with --dry-run
	Error      string `json:"error,omitempty"`
}

const (
	statusDeleted = "deleted"
	statusFound   = "found"
)

func newSnapshotsDelete(p process) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "delete SNAPSHOT_ID...",
		Short: "Delete snapshots",
		Args:  cobra.ArbitraryArgs,
	}
	out.flag(c)
	return operatorCommand{
		timeout: changeTimeout,
		check: func(_ map[string]bool, args []string) error {
			if len(args) == 0 {
				return usagef("say which snapshots to delete, by their IDs")
			}
			return nil
		},
		do: func(ctx context.Context, admin *session.Admin, ids []string) error {
			return deleteSnapshots(ctx, admin, ids, &out, p)
		},
	}.install(p, c)
}

func newSnapshotsPrune(p process) *cobra.Command {
	var age time.Duration
	var owner string
	var dryRun bool
	var out output
	c := &cobra.Command{
		Use:   "prune --older-than AGE",
		Short: "Delete the snapshots that are older than an age",
		Long:  "Delete the snapshots that are older than an age, such as 720h, whatever their retention.",
	}
	c.Flags().DurationVar(&age, "older-than", 0, "age, such as 720h for 30 days")
	c.Flags().StringVar(&owner, "owner", "", "only this owner's")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "delete nothing, only show which would be")
	out.flag(c)
	return operatorCommand{
		timeout: changeTimeout,
		check: func(given map[string]bool, _ []string) error {
			switch {
			case !given["older-than"]:
				return usagef("--older-than: say from which age on snapshots are deleted, such as 720h")
			case age < 0:
				return usagef("--older-than: %s is below 0", age)
			}
			return checkOwner(owner)
		},
		do: func(ctx context.Context, admin *session.Admin, _ []string) error {
			found, err := admin.Snapshots(ctx, session.SnapshotFilter{Owner: owner})
			if err != nil {
				return err
			}
			ids := olderThan(found, time.Now().Add(-age))
			if dryRun {
				return writeSnapshotOutcomes(forEach(ids, func(string) error { return nil }), statusFound, &out, p)
			}
			return deleteSnapshots(ctx, admin, ids, &out, p)
		},
	}.install(p, c)
}

// olderThan gives the IDs of the snapshots that were made before limit. One
// without a readable time is not old.
func olderThan(snapshots []session.OwnedSnapshot, limit time.Time) []string {
	var ids []string
	for _, s := range snapshots {
		if made, err := time.Parse(time.RFC3339Nano, s.CreatedAt); err == nil && made.Before(limit) {
			ids = append(ids, s.SnapshotID)
		}
	}
	return ids
}

func deleteSnapshots(ctx context.Context, admin *session.Admin, ids []string, out *output, p process) error {
	outcomes := forEach(ids, func(id string) error { return admin.DeleteSnapshot(ctx, id) })
	if err := writeSnapshotOutcomes(outcomes, statusDeleted, out, p); err != nil {
		return err
	}
	return failures(outcomes)
}

func writeSnapshotOutcomes(outcomes []outcome, done string, out *output, p process) error {
	document := struct {
		Snapshots []snapshotOutcome `json:"snapshots"`
	}{[]snapshotOutcome{}}
	var rows [][]string
	for _, o := range outcomes {
		e := snapshotOutcome{SnapshotID: o.id, Status: done}
		if o.err != nil {
			e.Status, e.Error = statusFailed, o.err.Error()
		}
		document.Snapshots = append(document.Snapshots, e)
		rows = append(rows, []string{e.SnapshotID, e.Status})
	}
	return out.write(p.stdout, document, []string{"SNAPSHOT ID", "STATUS"}, rows)
}
