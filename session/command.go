package session

import "regexp"

// The operations on commands.
var (
	RunCommand  = Operation[RunCommandIn, RunCommandOut]{"run_command"}
	ReadOutput  = Operation[ReadOutputIn, ReadOutputOut]{"read_output"}
	SendInput   = Operation[SendInputIn, SendInputOut]{"send_input"}
	StopCommand = Operation[StopCommandIn, StopCommandOut]{"stop_command"}
)

// Encodings of bytes in JSON text.
const (
	UTF8      = "utf-8"
	UTF8Lossy = "utf-8-lossy" // results only: invalid bytes shown as U+FFFD
	Base64    = "base64"
)

// Statuses of a command.
const (
	CommandRunning  = "running"
	CommandExited   = "exited"
	CommandTimedOut = "timed_out"
	CommandStopped  = "stopped"
	CommandLost     = "lost"
)

// Defaults of commands.
const (
	DefaultTimeoutSeconds = 600
	DefaultWaitSeconds    = 45
)

// RunCommandIn starts a command, and waits for its end.
type RunCommandIn struct {
	Command        string            `json:"command" minLength:"1" maxLength:"262144" tooLong:"write a script with write_file and run that" jsonschema:"Shell text, run by bash -c as user sandbox. No terminal; without stdin the command reads end of file."`
	Cwd            string            `json:"cwd,omitempty" maxLength:"4096" jsonschema:"Directory to run in; relative to the working directory."`
	Env            map[string]string `json:"env,omitempty" jsonschema:"Environment variables for this command alone."`
	Stdin          *string           `json:"stdin,omitempty" maxLength:"262144" tooLong:"write a file with write_file and redirect from it" jsonschema:"Text the command reads; its stdin ends after it."`
	TimeoutSeconds *int              `json:"timeout_seconds,omitempty" minimum:"1" maximum:"86400" jsonschema:"Seconds after which the command and all its children are killed. Default 600, none for a background command."`
	WaitSeconds    *int              `json:"wait_seconds,omitempty" minimum:"0" maximum:"50" default:"45" jsonschema:"Seconds to wait for the end; then the command goes on and the answer is its command_id. 0 runs it in the background with stdin open for send_input."`
	MaxOutputBytes int               `json:"max_output_bytes,omitempty" minimum:"2" maximum:"262144" default:"32768" jsonschema:"Bytes of each stream in the answer, half from its start and half from its end. read_output gives the rest."`
}

// Background tells whether the caller does not wait for the command.
func (in RunCommandIn) Background() bool { return in.WaitSeconds != nil && *in.WaitSeconds == 0 }

// Wait is how many seconds the call waits.
func (in RunCommandIn) Wait() int {
	if in.WaitSeconds == nil {
		return DefaultWaitSeconds
	}
	return *in.WaitSeconds
}

// Timeout is after how many seconds the command is killed; 0 is never.
func (in RunCommandIn) Timeout() int {
	switch {
	case in.TimeoutSeconds != nil:
		return *in.TimeoutSeconds
	case in.Background():
		return 0
	default:
		return DefaultTimeoutSeconds
	}
}

// Validate checks what the field tags cannot say.
func (in RunCommandIn) Validate() error {
	if err := noNUL("command", in.Command); err != nil {
		return err
	}
	if err := noNUL("cwd", in.Cwd); err != nil {
		return err
	}
	return checkEnv(in.Env)
}

// RunCommandOut is what has become of the command so far.
type RunCommandOut struct {
	CommandID   string `json:"command_id"`
	Status      string `json:"status" enum:"exited,running,timed_out,stopped,lost"`
	ExitCode    *int   `json:"exit_code,omitempty" jsonschema:"Set when the command ended by itself."`
	Signal      string `json:"signal,omitempty" jsonschema:"The signal that ended it, without SIG."`
	OOMKilled   bool   `json:"oom_killed,omitempty" jsonschema:"The sandbox's memory limit killed it."`
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	StdoutBytes int64  `json:"stdout_bytes" jsonschema:"All bytes written, in the answer or not."`
	StderrBytes int64  `json:"stderr_bytes"`
	Truncated   bool   `json:"truncated" jsonschema:"Output was left out of this answer; a marker line stands in its place."`
	Encoding    string `json:"encoding" enum:"utf-8,utf-8-lossy,base64" jsonschema:"Of stdout and stderr."`
	DurationMS  int64  `json:"duration_ms"`
	OutputHeld  bool   `json:"output_held,omitempty" jsonschema:"A background child of the command lives on and still has its output open."`
	Note        string `json:"note,omitempty" jsonschema:"What else there is to know, such as the limit that was hit."`
}

// ReadOutputIn reads a command's output.
type ReadOutputIn struct {
	CommandID   string `json:"command_id" minLength:"1" maxLength:"128" jsonschema:"From run_command."`
	Stream      string `json:"stream,omitempty" enum:"stdout,stderr" default:"stdout"`
	Offset      int64  `json:"offset,omitempty" jsonschema:"First byte, from 0; negative counts from the end."`
	MaxBytes    int    `json:"max_bytes,omitempty" minimum:"4" maximum:"262144" default:"32768"`
	Encoding    string `json:"encoding,omitempty" enum:"utf-8,base64" jsonschema:"base64 gives the exact bytes. Default: utf-8, lossy where the bytes are not."`
	WaitSeconds int    `json:"wait_seconds,omitempty" minimum:"0" maximum:"50" jsonschema:"Seconds to wait for bytes past offset or the command's end."`
}

// ReadOutputOut is a slice of a command's output.
type ReadOutputOut struct {
	CommandID  string `json:"command_id"`
	Status     string `json:"status" enum:"exited,running,timed_out,stopped,lost"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	Data       string `json:"data"`
	Encoding   string `json:"encoding" enum:"utf-8,utf-8-lossy,base64"`
	Offset     int64  `json:"offset" jsonschema:"First byte of data in the stream."`
	NextOffset int64  `json:"next_offset" jsonschema:"Where to read on."`
	EOF        bool   `json:"eof" jsonschema:"The command has ended and data reaches the end."`
	Note       string `json:"note,omitempty"`
}

// SendInputIn writes to a running command's stdin.
type SendInputIn struct {
	CommandID string `json:"command_id" minLength:"1" maxLength:"128" jsonschema:"From run_command with wait_seconds 0."`
	Data      string `json:"data,omitempty" maxLength:"349528" tooLong:"send it in parts" jsonschema:"What to write; add the newline yourself."`
	Encoding  string `json:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	Close     bool   `json:"close,omitempty" jsonschema:"End the command's stdin after data."`
}

// Validate checks what the field tags cannot say.
func (in SendInputIn) Validate() error {
	if in.Data == "" && !in.Close {
		return Errorf(InvalidArgument, "data: give data to write, or close: true to end the input")
	}
	_, err := Decode("data", in.Data, in.Encoding)
	return err
}

// SendInputOut tells how much was written.
type SendInputOut struct {
	CommandID    string `json:"command_id"`
	BytesWritten int    `json:"bytes_written"`
}

// StopCommandIn ends a command and all its children.
type StopCommandIn struct {
	CommandID string `json:"command_id" minLength:"1" maxLength:"128" jsonschema:"From run_command."`
	Signal    string `json:"signal,omitempty" enum:"TERM,KILL,INT,HUP,QUIT,USR1,USR2,CONT,STOP,WINCH" default:"TERM" jsonschema:"TERM is followed by KILL after 2 seconds; others are only sent."`
}

// StopCommandOut is what has become of the command.
type StopCommandOut struct {
	CommandID string `json:"command_id"`
	Status    string `json:"status" enum:"exited,running,timed_out,stopped,lost"`
	ExitCode  *int   `json:"exit_code,omitempty"`
	Signal    string `json:"signal,omitempty"`
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxEnvBytes bounds all names and values together, far below what execve takes.
const maxEnvBytes = 64 << 10

func checkEnv(env map[string]string) error {
	size := 0
	for k, v := range env {
		if !envName.MatchString(k) {
			return Errorf(InvalidArgument, "env: %q is no variable name; use letters, digits and _", clip(k, 64))
		}
		if err := noNUL("env."+clip(k, 64), v); err != nil {
			return err
		}
		size += len(k) + len(v) + 2
	}
	if size > maxEnvBytes {
		return Errorf(InvalidArgument, "env: %d bytes in all; at most %d fit, put larger values into a file", size, maxEnvBytes)
	}
	return nil
}
