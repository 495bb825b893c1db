package session

// Workflow types and the IDs of their executions.
const (
	// WorkflowType is the session workflow's; its ID is WorkflowIDPrefix + session ID.
	WorkflowType     = "Session"
	WorkflowIDPrefix = "session/"
	// SnapshotWorkflowType is a snapshot's entity workflow's; its ID is
	// SnapshotIDPrefix + snapshot ID.
	SnapshotWorkflowType     = "Snapshot"
	SnapshotWorkflowIDPrefix = "snapshot/"
	// ReaperWorkflowType is the reaper's. ReaperIDPrefix + host ID is the ID of a
	// host's schedule, and starts the IDs of its runs.
	ReaperWorkflowType = "Reaper"
	ReaperIDPrefix     = "reaper/"
)

// Task queues.
const (
	// TaskQueue is shared by every worker: workflows and placement.
	TaskQueue = "mcp-sandbox"
	// HostQueuePrefix starts the name of a host's own queue.
	HostQueuePrefix = "mcp-sandbox/host/"
)

// Signals of the session workflow.
const (
	// SignalInterrupt stops the command of a call; argument Interrupt.
	SignalInterrupt = "interrupt"
	// SignalTouch counts as activity; no argument.
	SignalTouch = "touch"
	// SignalEnd ends the session; argument End.
	SignalEnd = "end"
	// SignalLook has the session look whether its sandbox still runs, as the host's
	// worker saw it die; argument Look.
	SignalLook = "look"
)

// Queries of the session and snapshot workflows.
const (
	// QueryStatus takes an Asker and answers a Description; on a snapshot, a
	// SnapshotInfo. On a session it is an update as well, with the same argument and
	// answer: under a constant stream of calls a query does not get its turn.
	QueryStatus = "status"
)

// Search attributes (keywords) of session and snapshot workflows.
const (
	AttrStatus  = "McpSandboxStatus"
	AttrOwner   = "McpSandboxOwner"
	AttrImage   = "McpSandboxImage"
	AttrHost    = "McpSandboxHost"
	AttrName    = "McpSandboxName"
	AttrSession = "McpSandboxSession"
)

// MemoStartedAt is a field of a session workflow's memo: when its first run
// started. Listings show the newest run alone.
const MemoStartedAt = "mcp-sandbox.started_at"

// Internal failure types between workflow and client. They never reach a caller.
const (
	// FailureDraining rejects an update while the run prepares to continue as
	// new, or has taken as much as goes into one workflow task: send it again.
	FailureDraining = "draining"
	// FailureReattach ends the wait of an update whose run continues as new:
	// send it again, it goes on where it was.
	FailureReattach = "reattach"
	// FailureSandboxGone is an activity's word that the container is not there
	// any more, from the worker of its host.
	FailureSandboxGone = "sandbox_gone"
)

// Keys of `_meta` in MCP requests and results.
const (
	MetaCallID     = "mcp-sandbox/call_id"
	MetaWorkflowID = "mcp-sandbox/workflow_id"
	MetaRunID      = "mcp-sandbox/run_id"
	MetaTraceID    = "mcp-sandbox/trace_id"
	MetaError      = "mcp-sandbox/error"
	// MetaSessionID is in results only: the session that the call went to.
	MetaSessionID = "mcp-sandbox/session_id"
	// MetaResent marks a request that was sent before, on a connection that broke
	// without an answer. It is true, or absent.
	MetaResent = "mcp-sandbox/resent"
	// MetaWaitedMS is how long a request was on its way before it came here, in
	// whole milliseconds: its caller's patience has shrunk by it.
	MetaWaitedMS = "mcp-sandbox/waited_ms"
)

// Attribute names of spans, metrics and log lines.
const (
	KeySession  = "mcp_sandbox.session_id"
	KeyCall     = "mcp_sandbox.call_id"
	KeyWorkflow = "mcp_sandbox.workflow_id"
	KeyRun      = "mcp_sandbox.run_id"
	KeyUpdate   = "mcp_sandbox.update_id"
	KeyOwner    = "mcp_sandbox.owner"
	// KeyOutcome is OutcomeOK, the code of an error, FailureReattach for a handler
	// whose call the next run goes on with, or OutcomeBrokenOff.
	KeyOutcome = "mcp_sandbox.outcome"
	// KeyTool names the tool on metrics of ours.
	KeyTool = "mcp_sandbox.tool"
	// KeyAttempt counts the attempts of an activity, from 1; KeyQueue is the queue
	// it was on.
	KeyAttempt = "mcp_sandbox.attempt"
	KeyQueue   = "mcp_sandbox.task_queue"
	// Of a command: its status (CommandExited and so on), how its first process
	// ended, and the bytes it wrote.
	KeyCommandStatus = "mcp_sandbox.command.status"
	KeyExitCode      = "process.exit.code"
	KeySignal        = "mcp_sandbox.command.signal"
	KeyOOMKilled     = "mcp_sandbox.command.oom_killed"
	KeyStdoutBytes   = "mcp_sandbox.command.stdout_bytes"
	KeyStderrBytes   = "mcp_sandbox.command.stderr_bytes"
	// KeyKind is the kind of an object at the engine that the reaper removed.
	KeyKind = "mcp_sandbox.kind"
)

// Names of log fields that join a line to its trace.
const (
	LogTraceID = "trace_id"
	LogSpanID  = "span_id"
)

// Outcomes (KeyOutcome) that are no error's code.
const (
	OutcomeOK = "ok"
	// OutcomeBrokenOff is an activity's that was told to stop: somebody else goes
	// on with its work, or it is not wanted any more.
	OutcomeBrokenOff = "broken_off"
)

// TraceHeader is the field of Temporal's headers that carries a trace context, as
// JSON {"traceparent": ..., "tracestate": ...}. Temporal's own OpenTelemetry
// integrations use the same, so that their clients' traces go on here.
const TraceHeader = "_tracer-data"

// Labels that every container, volume, network and image of ours carries.
const (
	LabelInstallation = "mcp-sandbox.installation"
	LabelSession      = "mcp-sandbox.session"
	LabelIncarnation  = "mcp-sandbox.incarnation"
	LabelOwner        = "mcp-sandbox.owner"
	LabelCreated      = "mcp-sandbox.created"
	LabelKind         = "mcp-sandbox.kind"
	// LabelCall is the call that made it, LabelSnapshot the snapshot it holds.
	LabelCall     = "mcp-sandbox.call"
	LabelSnapshot = "mcp-sandbox.snapshot"
)
