package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"
)

const (
	// reapWorkerSeconds is how soon a host's worker must take up what an operator
	// asked for.
	reapWorkerSeconds = 15
	// reapHosts is how many hosts look at once.
	reapHosts = 8
)

// Reap lets every host look now for what no session owns any more, and tells
// what it found there. A dry run removes nothing. Hosts are those whose workers
// made a schedule (ReaperIDPrefix); one that gives no report has Error set.
func (a *Admin) Reap(ctx context.Context, dryRun bool) ([]ReapReport, error) {
	hosts, err := a.reaperHosts(ctx)
	if err != nil {
		return nil, a.explain(ctx, err)
	}
	if len(hosts) == 0 {
		return nil, Errorf(FailedPrecondition, "no worker of this version has run here yet: start one with mcp-sandbox serve or worker")
	}
	reports := make([]ReapReport, len(hosts))
	var g errgroup.Group
	g.SetLimit(reapHosts)
	for i, host := range hosts {
		g.Go(func() error {
			reports[i] = a.reapHost(ctx, host, dryRun)
			return nil
		})
	}
	_ = g.Wait()
	return reports, nil
}

// reaperHosts lists the hosts that have a schedule, sorted.
func (a *Admin) reaperHosts(ctx context.Context) ([]string, error) {
	list, err := a.client.temporal.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return nil, err
	}
	var hosts []string
	for list.HasNext() {
		e, err := list.Next()
		if err != nil {
			return nil, err
		}
		if host, ok := strings.CutPrefix(e.ID, ReaperIDPrefix); ok {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts, nil
}

func (a *Admin) reapHost(ctx context.Context, host string, dryRun bool) ReapReport {
	failed := func(err error) ReapReport {
		r := ReapReport{HostID: host, DryRun: dryRun, Things: []ReapedThing{}}
		var timeout *temporal.TimeoutError
		if errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
			r.Error = "no worker of this host took it up: start one there, or delete its schedule " + ReaperIDPrefix + host + " in Temporal if the host is gone for good"
			return r
		}
		r.Error = a.explain(ctx, err).Message
		return r
	}
	run, err := a.client.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: ReaperIDPrefix + host + "/asked/" + NewCallID(), TaskQueue: TaskQueue,
		WorkflowTaskTimeout: WorkflowTaskTimeout, WorkflowExecutionTimeout: time.Hour,
	}, ReaperWorkflowType, ReapInput{HostID: host, DryRun: dryRun, ListLeft: true, WorkerWithinSeconds: reapWorkerSeconds})
	if err != nil {
		return failed(err)
	}
	if err := a.client.awaitEnd(ctx, run.GetID()); err != nil { // Get alone may miss the end
		return failed(err)
	}
	var rep ReapReport
	if err := run.Get(ctx, &rep); err != nil {
		return failed(err)
	}
	return rep
}
