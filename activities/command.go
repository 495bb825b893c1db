package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (h *Host) runCommand(ctx context.Context, t Task[session.RunCommandIn]) (session.RunCommandOut, error) {
	req := guest.RunRequest{
		CallID: t.CallID, ArgsDigest: t.Digest,
		Command: t.In.Command, Cwd: t.In.Cwd, Env: maps.Clone(t.Env),
		KeepStdin: t.In.Background() && t.In.Stdin == nil,
		TimeoutMS: int64(t.In.Timeout()) * 1000, WaitMS: t.guestWait(ctx, t.In.Wait()),
		MaxOutput: t.In.MaxOutputBytes,
	}
	if req.Env == nil {
		req.Env = map[string]string{}
	}
	maps.Copy(req.Env, t.In.Env)
	if t.In.Stdin != nil {
		req.Stdin = []byte(*t.In.Stdin)
	}
	var details func() any
	progress := &commandProgress{callID: t.CallID}
	tells := t.Progress && t.NearMS == 0 && req.WaitMS > followEvery.Milliseconds()
	if tells {
		details = progress.details
	}
	return onGuestTelling(ctx, h, t.Ref, details, func(ctx context.Context, g guest.API) (session.RunCommandOut, error) {
		if tells {
			followed, stop := context.WithCancel(ctx)
			var following sync.WaitGroup
			following.Go(func() { progress.follow(followed, g) })
			defer following.Wait()
			defer stop()
		}
		c, err := g.Run(ctx, req)
		if err == nil {
			traceCommand(ctx, t, c)
		}
		return commandOut(c, t.MemoryMB), err
	})
}

// commandOut shapes a command for the agent.
func commandOut(c guest.Command, memoryMB int) session.RunCommandOut {
	encoding := encodingOf(c.Stdout, c.Stderr)
	note := notes(c, memoryMB)
	if encoding == session.Base64 {
		note = append(append(note, unshown("stdout", c.Stdout)...), unshown("stderr", c.Stderr)...)
	}
	return session.RunCommandOut{
		CommandID: c.CallID, Status: string(c.Status), ExitCode: c.ExitCode, Signal: c.Signal,
		OOMKilled: c.OOMKilled, OutputHeld: c.OutputHeld,
		Stdout: show("stdout", c.Stdout, encoding), Stderr: show("stderr", c.Stderr, encoding), Encoding: encoding,
		StdoutBytes: c.Stdout.Total, StderrBytes: c.Stderr.Total,
		Truncated:  c.Stdout.Cut() || c.Stderr.Cut(),
		DurationMS: max(0, c.EndedUnixMS-c.StartedUnixMS, c.RunningMS),
		Note:       strings.Join(note, " "),
	}
}

// notes says in words what an agent should know of how a command went.
func notes(c guest.Command, memoryMB int) []string {
	var n []string
	if c.StartError != "" {
		n = append(n, "The command could not be started: "+c.StartError+".")
	}
	if c.OOMKilled {
		n = append(n, fmt.Sprintf("The sandbox's memory limit of %d MiB was reached and a process was killed.", memoryMB))
	}
	if c.Status == guest.StatusLost {
		n = append(n, "The sandbox stopped while the command ran; how far it came cannot be known.")
	}
	return append(n, append(capped("stdout", c.Stdout), capped("stderr", c.Stderr)...)...)
}

// unshown says what of a cut stream is not in an answer in base64, in which no
// marker can stand.
func unshown(name string, s guest.Stream) []string {
	if !s.Cut() {
		return nil
	}
	return []string{fmt.Sprintf("The first %d of %d bytes of %s are shown; read_output stream=%s offset=%d encoding=base64 reads on.",
		len(s.Head), s.Total, name, name, len(s.Head))}
}

// capped says that a stream outgrew its log.
func capped(name string, s guest.Stream) []string {
	if s.Logged >= s.Total {
		return nil
	}
	return []string{fmt.Sprintf("Only the first %d of %d bytes of %s are kept.", s.Logged, s.Total, name)}
}

func (h *Host) readOutput(ctx context.Context, t Task[session.ReadOutputIn]) (session.ReadOutputOut, error) {
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (session.ReadOutputOut, error) {
		read := g.Output
		if t.In.Encoding != session.Base64 {
			read = func(ctx context.Context, req guest.OutputRequest) (guest.OutputChunk, error) {
				return readText(ctx, g, req)
			}
		}
		c, err := read(ctx, guest.OutputRequest{
			CallID: t.In.CommandID, Stream: guest.StreamName(t.In.Stream), Offset: t.In.Offset,
			MaxBytes: t.In.MaxBytes, WaitMS: t.guestWait(ctx, t.In.WaitSeconds),
		})
		if err != nil {
			return session.ReadOutputOut{}, err
		}
		out := session.ReadOutputOut{
			CommandID: t.In.CommandID, Status: string(c.Command.Status), ExitCode: c.Command.ExitCode,
			Offset: c.Offset, Note: strings.Join(notes(c.Command, t.MemoryMB), " "),
		}
		var used int
		out.Data, out.Encoding, used = shapeChunk(c.Data, t.In.Encoding, c.EOF)
		out.NextOffset = c.Offset + int64(used)
		out.EOF = c.EOF && used == len(c.Data)
		return out, nil
	})
}

func (h *Host) sendInput(ctx context.Context, t Task[session.SendInputIn]) (session.SendInputOut, error) {
	data, err := session.Decode("data", t.In.Data, t.In.Encoding)
	if err != nil {
		return session.SendInputOut{}, report(err)
	}
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (session.SendInputOut, error) {
		r, err := g.Input(ctx, guest.InputRequest{
			CallID: t.CallID, CommandID: t.In.CommandID, Data: data, Close: t.In.Close, ArgsDigest: t.Digest,
		})
		return session.SendInputOut{CommandID: t.In.CommandID, BytesWritten: r.Written}, err
	})
}

func (h *Host) stopCommand(ctx context.Context, t Task[session.StopCommandIn]) (session.StopCommandOut, error) {
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (session.StopCommandOut, error) {
		c, err := g.Stop(ctx, guest.StopRequest{
			CallID: t.CallID, CommandID: t.In.CommandID, Signal: t.In.Signal, ArgsDigest: t.Digest,
		})
		return session.StopCommandOut{
			CommandID: t.In.CommandID, Status: string(c.Status), ExitCode: c.ExitCode, Signal: c.Signal,
		}, err
	})
}

// interrupt ends what a call began, or makes sure that it never begins. It is
// not the sandbox's caller that asks but the session, so an unknown command is
// no error.
func (h *Host) interrupt(ctx context.Context, t Task[None]) (None, error) {
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (None, error) {
		r, err := g.Refuse(ctx, guest.RefuseRequest{CallID: t.CallID})
		if err != nil || r.Refused {
			return None{}, err
		}
		_, err = g.Stop(ctx, guest.StopRequest{CallID: interruptID(t.CallID), CommandID: t.CallID})
		switch guest.CodeOf(err) {
		case guest.CodeNotFound, guest.CodeInvalid: // the call was no run_command
			return None{}, nil
		case guest.CodeLost: // the guest died meanwhile, and the command with it
			return None{}, nil
		default:
			return None{}, err
		}
	})
}

// interruptID is the call ID of the stop that interrupts a call, no longer than
// a call ID may be.
func interruptID(callID string) string {
	sum := sha256.Sum256([]byte(callID))
	return "interrupt-" + hex.EncodeToString(sum[:16])
}

// refuseCall makes sure that a call which could not be delivered never takes
// effect. The answer tells whether that holds; if not, the call had begun.
func (h *Host) refuseCall(ctx context.Context, t Task[None]) (Refusal, error) {
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (Refusal, error) {
		r, err := g.Refuse(ctx, guest.RefuseRequest{CallID: t.CallID})
		return Refusal{Refused: r.Refused}, err
	})
}
