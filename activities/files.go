package activities

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (h *Host) readFile(ctx context.Context, t Task[session.ReadFileIn]) (session.ReadFileOut, error) {
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (session.ReadFileOut, error) {
		f, err := g.ReadFile(ctx, guest.ReadFileRequest{
			Path: t.In.Path, StartLine: t.In.Offset, MaxLines: t.In.Limit,
			MaxBytes: session.MaxInlineBytes, MaxLineBytes: session.MaxLineBytes,
		})
		if err != nil {
			return session.ReadFileOut{}, err
		}
		if !isText(f.Content) || t.In.Encoding == session.Base64 {
			return h.readBytes(ctx, g, t.In, f)
		}
		out := fileOut(f)
		out.Content, out.Encoding = string(f.Content), session.UTF8
		return out, nil
	})
}

// readBytes answers with exact bytes, uncut lines included, where the lines'
// content cannot be shown as text.
func (h *Host) readBytes(ctx context.Context, g guest.API, in session.ReadFileIn, f guest.File) (session.ReadFileOut, error) {
	if f.LinesCut > 0 || f.Truncated {
		exact, err := g.ReadFile(ctx, guest.ReadFileRequest{
			Path: in.Path, StartLine: in.Offset, MaxLines: in.Limit, MaxBytes: session.MaxInlineBytes,
		})
		if err != nil {
			return session.ReadFileOut{}, err
		}
		f = exact
	}
	if in.Encoding == session.UTF8 {
		return session.ReadFileOut{}, guest.Errorf(guest.CodePrecondition,
			"%s is not UTF-8 text; read it with encoding base64", f.Path)
	}
	out := fileOut(f)
	out.Content, out.Encoding = base64.StdEncoding.EncodeToString(f.Content), session.Base64
	return out, nil
}

func fileOut(f guest.File) session.ReadFileOut {
	return session.ReadFileOut{
		Path: f.Path, Size: f.Size, TotalLines: f.TotalLines, StartLine: f.StartLine, EndLine: f.EndLine,
		Truncated: f.Truncated || f.LinesCut > 0, SHA256: f.SHA256, Mode: fmt.Sprintf("%04o", f.Mode),
	}
}

// isText tells whether bytes can be shown as text without loss.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsRune(b, 0)
}

func (h *Host) writeFile(ctx context.Context, t Task[session.WriteFileIn]) (session.WriteFileOut, error) {
	content, err := session.Decode("content", t.In.Content, t.In.Encoding)
	if err != nil {
		return session.WriteFileOut{}, report(err)
	}
	mode, err := parseMode(t.In.Mode)
	if err != nil {
		return session.WriteFileOut{}, report(err)
	}
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (session.WriteFileOut, error) {
		r, err := g.WriteFile(ctx, guest.WriteFileRequest{
			CallID: t.CallID, Path: t.In.Path, Content: content, Mode: mode, Append: t.In.Append,
			ExpectedSHA256: t.In.ExpectedSHA256, ArgsDigest: t.Digest,
		})
		return session.WriteFileOut{Path: r.Path, Size: r.Size, SHA256: r.SHA256, Created: r.Created}, err
	})
}

// parseMode reads three octal digits; "" is 0, which the guest takes as "keep".
func parseMode(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0, session.Errorf(session.InvalidArgument, "mode: %q is not octal digits such as 0644", text)
	}
	return uint32(n), nil
}

func (h *Host) editFile(ctx context.Context, t Task[session.EditFileIn]) (session.EditFileOut, error) {
	return onGuest(ctx, h, t.Ref, func(ctx context.Context, g guest.API) (session.EditFileOut, error) {
		r, err := g.EditFile(ctx, guest.EditFileRequest{
			CallID: t.CallID, Path: t.In.Path, OldStr: t.In.OldStr, NewStr: t.In.NewStr,
			ReplaceAll: t.In.ReplaceAll, ArgsDigest: t.Digest,
		})
		return session.EditFileOut{Path: r.Path, Replacements: r.Replacements, SHA256: r.SHA256, Diff: r.Diff}, err
	})
}
