package activities

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// reaperConfig is what activity Reap needs beside the backend.
type reaperConfig struct {
	executions Executions
	options    ReapOptions
}

// UseReaper lets the host reap; without it activity Reap fails.
func (h *Host) UseReaper(e Executions, o ReapOptions) {
	h.reaper = reaperConfig{executions: e, options: o.withDefaults()}
}

// reap looks once through everything of this installation at the engine and
// removes what nobody owns any more. It lists, asks and removes in one go: what
// it carries over Temporal is the bounded report alone. Repeated, it finds what
// is left to do.
func (h *Host) reap(ctx context.Context, in session.ReapInput) (session.ReapReport, error) {
	if h.reaper.executions == nil {
		return session.ReapReport{}, temporal.NewNonRetryableApplicationError("this worker does not reap", "", nil)
	}
	ctx, stop := heartbeat(ctx)
	defer stop()
	all, err := h.backend.Inventory(ctx)
	if err != nil {
		return session.ReapReport{}, report(err)
	}
	w := &witness{executions: h.reaper.executions, own: activity.GetInfo(ctx).WorkflowExecution}
	r := reaping{
		backend: h.backend, log: h.log, dryRun: in.DryRun,
		rules: rules{
			ReapOptions: h.reaper.options, now: time.Now(),
			life: func(workflowID string) (session.Life, error) { return w.life(ctx, workflowID) },
		},
	}
	for _, held := range holdings(all) {
		r.look(ctx, held)
		if ctx.Err() != nil { // the next worker goes on
			r.count(context.WithoutCancel(ctx))
			return session.ReapReport{}, context.Cause(ctx)
		}
	}
	r.confirm(ctx)
	r.count(ctx)
	if !in.DryRun {
		if err := h.reaper.executions.ForgetReaps(ctx, activity.GetInfo(ctx).Namespace, in.HostID); err != nil {
			h.log.DebugContext(ctx, "reaper's runs of before not deleted; the next one tries again", "error", err)
		}
	}
	return reapReport(in, r.results), nil
}

// reaping is one look of a reaper.
type reaping struct {
	backend Backend
	log     *slog.Logger
	rules   rules
	dryRun  bool
	results []reaped
}

type reaped struct {
	Resource

	outcome, reason string
}

// look judges a holding and removes at once what is to go: between the question
// to Temporal and the removal nothing else is done.
func (r *reaping) look(ctx context.Context, h holding) {
	verdicts, whole := r.rules.judge(h)
	var err error
	if whole && !r.dryRun {
		err = r.backend.RemoveSession(ctx, h.sessionID)
	}
	for i, t := range h.things {
		result := reaped{t, session.ReapLeft, verdicts[i].reason}
		if verdicts[i].remove {
			if !whole && !r.dryRun {
				err = r.backend.RemoveResource(ctx, t)
			}
			result.outcome = r.outcome(err)
			if err != nil {
				result.reason += "; " + clipped(err)
			}
		}
		r.results = append(r.results, result)
	}
}

func (r *reaping) outcome(err error) string {
	switch {
	case r.dryRun:
		return session.ReapFound
	case err != nil:
		return session.ReapFailed
	}
	return session.ReapRemoved
}

// confirm looks again whether what was removed is gone: an engine keeps what
// something uses.
func (r *reaping) confirm(ctx context.Context) {
	removed := map[string]*reaped{}
	for i, t := range r.results {
		if t.outcome == session.ReapRemoved {
			removed[string(t.Kind)+t.ID] = &r.results[i]
		}
	}
	if len(removed) == 0 {
		return
	}
	all, err := r.backend.Inventory(ctx)
	if err != nil {
		r.log.WarnContext(ctx, "not known whether what was reaped is gone", "error", err)
		return
	}
	for _, t := range all {
		if kept := removed[string(t.Kind)+t.ID]; kept != nil {
			kept.outcome = session.ReapLeft
			kept.reason += ", but the engine keeps it, as something uses it"
		}
	}
}

// count tells the log and the metrics.
func (r *reaping) count(ctx context.Context) {
	counter, err := otel.Meter(tracerName).Int64Counter("mcp_sandbox.reaped",
		metric.WithDescription("Things at the engine that the reaper removed."), metric.WithUnit("{thing}"))
	for _, t := range r.results {
		fields := []any{"kind", t.Kind, "id", t.ID, session.KeySession, t.SessionID, "reason", t.reason}
		switch t.outcome {
		case session.ReapRemoved:
			r.log.InfoContext(ctx, "reaped", fields...)
			if err == nil {
				counter.Add(ctx, 1, metric.WithAttributes(attribute.String(session.KeyKind, string(t.Kind))))
			}
		case session.ReapFailed:
			r.log.WarnContext(ctx, "not reaped", fields...)
		}
	}
}

// reapReport makes the report, which stays small whatever there is.
func reapReport(in session.ReapInput, results []reaped) session.ReapReport {
	rep := session.ReapReport{HostID: in.HostID, DryRun: in.DryRun, Things: []session.ReapedThing{}}
	counts := map[string]int{}
	order := []string{session.ReapFailed, session.ReapRemoved, session.ReapFound, session.ReapLeft}
	for _, outcome := range order {
		for _, t := range results {
			if t.outcome != outcome {
				continue
			}
			counts[outcome]++
			switch {
			case outcome == session.ReapLeft && !in.ListLeft:
			case len(rep.Things) == session.MaxReaped:
				rep.Unlisted++
			default:
				rep.Things = append(rep.Things, session.ReapedThing{
					Kind: string(t.Kind), ID: t.ID, SessionID: t.SessionID, SnapshotID: t.SnapshotID,
					CreatedAt: session.Time(t.Created), Outcome: outcome, Reason: t.reason,
				})
			}
		}
	}
	rep.Failed, rep.Left = counts[session.ReapFailed], counts[session.ReapLeft]
	rep.Removed = counts[session.ReapRemoved] + counts[session.ReapFound]
	return rep
}

// clipped bounds what a report says of an error.
func clipped(err error) string {
	const most = 200
	text := []rune(err.Error())
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}
