package temporaldev

import (
	"context"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	operatorservicepb "go.temporal.io/api/operatorservice/v1"
	workflowservicepb "go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/config"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// settlePoll is how often a server that is coming up is asked again.
const settlePoll = 20 * time.Millisecond

// createNamespace writes the namespace into the database before the server runs: it
// is then there at once, search attributes included, where registering one takes the
// server some seconds. A namespace that exists is left as it is.
func createNamespace(store *config.SQL, opts Options) error {
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, opts.Namespace, false, opts.SearchAttributes)
	if err != nil {
		return fmt.Errorf("temporal namespace %s: %w", opts.Namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(opts.Retention)
	if err := sqliteschema.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("temporal namespace %s: %w", opts.Namespace, err)
	}
	return nil
}

// settleNamespace waits until the frontend serves and brings a namespace from an
// earlier start up to opts.
func (s *Server) settleNamespace(ctx context.Context, opts Options) error {
	c, err := client.DialContext(ctx, s.ClientOptions(nil))
	if err != nil {
		return fmt.Errorf("temporal server: %w", err)
	}
	defer c.Close()
	var described *workflowservicepb.DescribeNamespaceResponse
	err = s.retry(ctx, func() (err error) {
		described, err = c.WorkflowService().DescribeNamespace(ctx,
			&workflowservicepb.DescribeNamespaceRequest{Namespace: opts.Namespace})
		return err
	})
	if err != nil {
		return fmt.Errorf("temporal namespace %s: %w", opts.Namespace, err)
	}
	if described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration() != opts.Retention {
		_, err := c.WorkflowService().UpdateNamespace(ctx, &workflowservicepb.UpdateNamespaceRequest{
			Namespace: opts.Namespace,
			Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(opts.Retention)},
		})
		if err != nil {
			return fmt.Errorf("temporal retention: %w", err)
		}
	}
	if err := addSearchAttributes(ctx, c, opts); err != nil {
		return fmt.Errorf("temporal search attributes: %w", err)
	}
	return s.retry(ctx, func() error { return trySearchAttributes(ctx, c, opts) })
}

func addSearchAttributes(ctx context.Context, c client.Client, opts Options) error {
	have, err := c.OperatorService().ListSearchAttributes(ctx,
		&operatorservicepb.ListSearchAttributesRequest{Namespace: opts.Namespace})
	if err != nil {
		return err
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, want := range opts.SearchAttributes {
		got, ok := have.GetCustomAttributes()[name]
		if !ok {
			missing[name] = want
		} else if got != want {
			return fmt.Errorf("%s is %s in this database and should be %s: remove it with the temporal command, or use another data dir", name, got, want)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx,
		&operatorservicepb.AddSearchAttributesRequest{Namespace: opts.Namespace, SearchAttributes: missing})
	return err
}

// trySearchAttributes uses all of them in a query, which fails until the server has
// read its namespaces again (every 2 s).
func trySearchAttributes(ctx context.Context, c client.Client, opts Options) error {
	names := make([]string, 0, len(opts.SearchAttributes))
	for name := range opts.SearchAttributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_, err := c.CountWorkflow(ctx, &workflowservicepb.CountWorkflowExecutionsRequest{
			Namespace: opts.Namespace, Query: name + " IS NULL",
		})
		if err != nil {
			return fmt.Errorf("temporal search attribute %s: %w", name, err)
		}
	}
	return nil
}

// retry calls do until it succeeds, the server reports its end or ctx is over.
func (s *Server) retry(ctx context.Context, do func() error) error {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case fatal := <-s.log.state.fatal:
			return fatal
		case <-ctx.Done():
			return fmt.Errorf("%w: last answer: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
