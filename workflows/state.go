package workflows

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// state is all that a session remembers. It is plain data: continue-as-new
// carries it, and a query shows it.
type state struct {
	Status  string           `json:"status"`
	Reason  string           `json:"reason,omitempty"`
	Failure *session.Failure `json:"failure,omitempty"` // why it could not start
	// Place is zero until the session is placed.
	Place   activities.Place   `json:"place"`
	Sandbox activities.Sandbox `json:"sandbox"`
	// Incarnation is the newest that was asked for, whether it came up or not.
	Incarnation int `json:"incarnation"`
	// Started is the digest of start_session's arguments as they came.
	Started string `json:"started,omitempty"`
	// Parent is the snapshot the files came from, Latest the newest one taken.
	Parent string `json:"parent,omitempty"`
	Latest string `json:"latest,omitempty"`
	// Notice is told with the next result: what a recovery changed.
	Notice       string    `json:"notice,omitempty"`
	LastActivity time.Time `json:"last_activity"`
	ExpiresAt    time.Time `json:"expires_at"`
	// Interrupted are calls to be interrupted that are not known to have
	// ended, for the next run to go on with; the newest maxInterrupted.
	Interrupted []string `json:"interrupted,omitempty"`
	// Look is that the sandbox is to be looked at, Looked when it last was, for a
	// death that the session was told of.
	Look   bool      `json:"look,omitempty"`
	Looked time.Time `json:"looked,omitzero"`
	// Done are the lifecycle calls that took effect; the newest maxDone.
	Done []doneCall `json:"done,omitempty"`
}

const maxInterrupted = 200

// run is one run of a session's workflow.
type run struct {
	in   session.WorkflowInput
	o    Options
	st   state
	info *workflow.Info

	breakers []*breaker // in order of making, so that replay breaks them in it

	draining  bool
	ending    bool // the end was asked for
	busy      bool // the sandbox is being changed: calls wait
	changes   int  // how often it was changed
	pending   int  // interrupts and looks at work
	looking   bool
	calls     int  // handlers at work on a call
	nearSick  bool // the last near call got no answer
	lifecycle workflow.Mutex
	pace      *pace
}

func newRun(ctx workflow.Context, in session.WorkflowInput, o Options) (*run, error) {
	r := &run{in: in, o: o, info: workflow.GetInfo(ctx), lifecycle: workflow.NewMutex(ctx), pace: newPace(ctx)}
	if in.State != nil {
		return r, json.Unmarshal(in.State, &r.st) //workflowcheck:ignore its result depends on the state alone
	}
	now := workflow.Now(ctx)
	started, err := session.Digest(session.StartSession.Name, in.Start) //workflowcheck:ignore a hash
	if err != nil {
		return nil, err
	}
	r.st = state{
		Status:       session.StatusStarting,
		Started:      started,
		Parent:       in.Start.SnapshotID,
		LastActivity: now,
		ExpiresAt:    now.Add(time.Duration(in.Start.MaxLifetimeSeconds) * time.Second),
	}
	return r, nil
}

// carry gives the input of the next run.
func (r *run) carry() (session.WorkflowInput, error) {
	b, err := json.Marshal(r.st) //workflowcheck:ignore as above
	next := r.in
	next.State = b
	return next, err
}

// describe answers the status query.
func (r *run) describe(asker session.Asker) (session.Description, error) {
	if asker.Owner != r.in.Owner {
		return session.Description{}, nil
	}
	return session.Description{
		Found: true, Failure: r.st.Failure, Start: r.startOut(), Session: r.sessionOut(),
	}, nil
}

// describeByUpdate is describe for a caller whose query gets no turn. It is no
// use of the session, and answered at any time.
func (r *run) describeByUpdate(_ workflow.Context, req session.Request[session.Asker]) (session.Response[session.Description], error) {
	d, err := r.describe(req.In)
	return session.Response[session.Description]{Digest: req.Digest, Out: d}, err
}

func (r *run) startOut() session.StartSessionOut {
	s := r.in.Start
	return session.StartSessionOut{
		SessionID: r.in.SessionID, Status: r.st.Status, Image: r.image(), WorkingDir: r.st.Sandbox.WorkingDir,
		Network: s.Network, MemoryMB: s.MemoryMB, CPUs: s.CPUs, ExpiresAt: session.Time(r.st.ExpiresAt),
	}
}

func (r *run) sessionOut() session.GetSessionOut {
	return session.GetSessionOut{
		SessionID: r.in.SessionID, Name: r.in.Start.Name, Status: r.st.Status, Reason: r.st.Reason,
		Image: r.image(), Network: r.in.Start.Network, Commands: []session.RunningCommand{},
		ExpiresAt: session.Time(r.st.ExpiresAt), WorkflowID: r.info.WorkflowExecution.ID, RunID: r.info.WorkflowExecution.RunID,
	}
}

func (r *run) image() string {
	if r.st.Sandbox.Image != "" {
		return r.st.Sandbox.Image
	}
	return r.in.Start.Image
}
