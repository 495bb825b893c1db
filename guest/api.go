package guest

import (
	"context"
	"io"
)

// API is what a guest does. Client implements it over a connection; a backend
// that needs no container may implement it itself.
//
// Every method that takes a CallID is idempotent by it: the same ID again gives
// the recorded answer (Run: re-attaches), in every later incarnation of the
// session too. Reading methods have no ID and change nothing.
//
// Errors are *Error where the guest answered; any other error means that no
// answer came, and nothing is known of what the guest did (Unreachable).
type API interface {
	// Run starts a command once and waits for it up to WaitMS. The guest goes
	// on with the command when ctx ends.
	Run(ctx context.Context, req RunRequest) (Command, error)
	// Output reads a command's output. CodeNotFound for an unknown command.
	Output(ctx context.Context, req OutputRequest) (OutputChunk, error)
	// Input writes to stdin. CodePrecondition when it is closed.
	Input(ctx context.Context, req InputRequest) (InputResult, error)
	// Stop ends a command's tree and answers when it is gone. A command that
	// has ended already is no error: its state is the answer.
	Stop(ctx context.Context, req StopRequest) (Command, error)
	// Refuse journals that a call ID must never be carried out.
	Refuse(ctx context.Context, req RefuseRequest) (RefuseResult, error)
	ReadFile(ctx context.Context, req ReadFileRequest) (File, error)
	WriteFile(ctx context.Context, req WriteFileRequest) (WriteResult, error)
	EditFile(ctx context.Context, req EditFileRequest) (EditResult, error)
	Usage(ctx context.Context) (Usage, error)

	// Missing tells which contents are not staged for a CopyIn.
	Missing(ctx context.Context, req MissingRequest) (MissingResult, error)
	// Stage takes contents: for each a filetree.FrameBlob with its name, then the
	// content; FrameDone at the end. Each that arrived whole stays for some hours,
	// also when the stream breaks later.
	Stage(ctx context.Context, body io.Reader) (StageResult, error)
	// CopyIn makes a tree of what was staged. CodeUnstaged when something of it
	// was not, and nothing was done or journalled: stage it and ask again.
	CopyIn(ctx context.Context, req CopyInRequest) (CopyInResult, error)
	// CopyOut reads a tree: a filetree.FrameHeader, then the entries of a manifest
	// as FrameEntry, each file's content before its entry (the last one counts,
	// where there are several), then FrameDone, or FrameFail with an Error. The
	// caller closes the stream, which ends the reading.
	CopyOut(ctx context.Context, req CopyOutRequest) (io.ReadCloser, error)
}
