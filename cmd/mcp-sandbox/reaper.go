package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// reapCatchUp is how late a look may begin that was due while Temporal was
	// down; the next one makes up for those that are left out.
	reapCatchUp = time.Minute
	// scheduleWithin bounds the setting up of a host's schedule.
	scheduleWithin = time.Minute
)

// reaperConfig are a worker's flags of its reaper.
type reaperConfig struct {
	every   time.Duration
	options activities.ReapOptions
}

func (r *reaperConfig) flags(f *pflag.FlagSet) {
	f.DurationVar(&r.every, "reap-every", 5*time.Minute, "how often this host looks for what no session owns any more, and removes it (0: never)")
	f.DurationVar(&r.options.MinAge, "reap-min-age", 10*time.Minute, "age below which what Temporal knows nothing of is left alone")
	f.DurationVar(&r.options.UnusedFor, "reap-unused-for", 7*24*time.Hour, "how long nothing was made of a derived image that is removed")
	_ = f.MarkHidden("reap-min-age")
	_ = f.MarkHidden("reap-unused-for")
}

func (r *reaperConfig) check() error {
	switch {
	case r.every != 0 && r.every < time.Second:
		return usagef("--reap-every: %s is below a second; 0 is never", r.every)
	case r.options.MinAge <= 0:
		return usagef("--reap-min-age: %s is no age", r.options.MinAge)
	case r.options.UnusedFor <= 0:
		return usagef("--reap-unused-for: %s is no time at all", r.options.UnusedFor)
	}
	return nil
}

// reaperSchedule keeps a host's schedule as its worker wants it.
type reaperSchedule struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// keepSchedule sets up the schedule of a host beside the start of its worker,
// which does not wait for it. Without one the worker works, and says that nothing
// reaps.
func keepSchedule(ctx context.Context, c client.Client, hostID string, every time.Duration, log *slog.Logger) *reaperSchedule {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scheduleWithin)
	s := &reaperSchedule{cancel, make(chan struct{})}
	go func() {
		defer close(s.done)
		defer cancel()
		if err := setSchedule(ctx, c.ScheduleClient(), hostID, every); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			log.ErrorContext(ctx, "the reaper's schedule could not be set up; what terminated sessions leave stays until the worker starts again", "host", hostID, "error", err)
		}
	}()
	return s
}

func (s *reaperSchedule) stop() {
	s.cancel()
	<-s.done
}

// setSchedule makes a host's schedule, or changes it to what the worker that
// starts wants, and has it run once now. With never it is paused: it is also how
// mcp-sandbox reap finds the host.
func setSchedule(ctx context.Context, c client.ScheduleClient, hostID string, every time.Duration) error {
	id := session.ReaperIDPrefix + hostID
	want := schedule(hostID, every)
	_, err := c.Create(ctx, client.ScheduleOptions{
		ID: id, Spec: *want.Spec, Action: want.Action, Overlap: want.Policy.Overlap, CatchupWindow: want.Policy.CatchupWindow,
		Paused: want.State.Paused, Note: want.State.Note, TriggerImmediately: !want.State.Paused,
	})
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	handle := c.GetHandle(ctx, id)
	err = handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			return &client.ScheduleUpdate{Schedule: &want}, nil
		},
	})
	if err != nil {
		return fmt.Errorf("update schedule %s: %w", id, err)
	}
	if want.State.Paused {
		return nil
	}
	return handle.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP})
}

func schedule(hostID string, every time.Duration) client.Schedule {
	s := client.Schedule{
		Spec: &client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}},
		Action: &client.ScheduleWorkflowAction{
			ID: session.ReaperIDPrefix + hostID, Workflow: session.ReaperWorkflowType, TaskQueue: session.TaskQueue,
			Args: []any{session.ReapInput{HostID: hostID}}, WorkflowTaskTimeout: session.WorkflowTaskTimeout,
			TypedSearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword(session.AttrHost).ValueSet(hostID)),
		},
		Policy: &client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: reapCatchUp},
		State:  &client.ScheduleState{Note: "mcp-sandbox: removes what no session on this host owns any more"},
	}
	if every == 0 {
		s.Spec.Intervals[0].Every = 24 * time.Hour // a schedule has to have some
		s.State.Paused, s.State.Note = true, "mcp-sandbox: the host's worker was started with --reap-every 0"
	}
	return s
}
