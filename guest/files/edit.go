//go:build linux

package files

import (
	"bytes"
	"io"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// maxEdit is the largest file that is edited, before and after.
const maxEdit = 16 << 20

// Edit replaces OldStr, which must occur once, or with ReplaceAll every
// occurrence, by NewStr, and writes the file in one step as Write does. Both
// are taken literally. In a file with CRLF line ends, LF in OldStr matches CRLF
// and LF in NewStr becomes what it replaces, or else the file's more frequent
// ending; a string with a CR of its own is taken as it is. A UTF-16 file with a
// byte order mark is edited as text, any other as bytes.
//
// On an error the file is untouched. Errors: CodeInvalid (empty or equal
// strings), CodePrecondition (no match, with the most similar lines; several
// matches, with their lines; no regular file), CodeTooLarge (over 16 MiB),
// CodeNotFound, CodePermission, CodeConflict (changed while it was edited),
// CodeExhausted.
func Edit(home string, req guest.EditFileRequest) (guest.EditResult, error) {
	path, err := absolute(home, req.Path)
	if err != nil {
		return guest.EditResult{}, err
	}
	if err := checkEdit(path, req); err != nil {
		return guest.EditResult{}, err
	}
	p, err := openPlace(path, false)
	if err != nil {
		return guest.EditResult{}, explain(doEdit, path, err)
	}
	defer p.close()
	res, err := p.edit(req)
	if err != nil {
		return guest.EditResult{}, explain(doEdit, path, err)
	}
	return res, nil
}

func checkEdit(path string, req guest.EditFileRequest) error {
	switch {
	case req.OldStr == "":
		return guest.Errorf(guest.CodeInvalid,
			"old_str is empty; give the text to replace, or use write_file to create %s or append to it", path)
	case req.OldStr == req.NewStr:
		return guest.Errorf(guest.CodeInvalid, "old_str and new_str are the same; %s would not change", path)
	case len(req.OldStr) > guest.MaxInline || len(req.NewStr) > guest.MaxInline:
		return guest.Errorf(guest.CodeTooLarge,
			"old_str or new_str has more than %d bytes; edit %s in smaller steps", guest.MaxInline, path)
	}
	return nil
}

func (p *place) edit(req guest.EditFileRequest) (guest.EditResult, error) {
	was, err := p.stat()
	if err != nil {
		return guest.EditResult{}, err
	}
	if was == nil {
		return guest.EditResult{}, notFound(p.path)
	}
	if err := p.writable(was); err != nil {
		return guest.EditResult{}, err
	}
	raw, err := p.readForEdit(was)
	if err != nil {
		return guest.EditResult{}, err
	}
	text, enc, err := decode(raw, req)
	if err != nil {
		return guest.EditResult{}, err
	}
	edits, err := find(p.path, text, req)
	if err != nil {
		return guest.EditResult{}, err
	}
	changed, err := p.apply(text, edits)
	if err != nil {
		return guest.EditResult{}, err
	}
	changed = enc.encode(changed)
	if err := p.replace(changed, was.Mode&0o777, was, true); err != nil {
		return guest.EditResult{}, err
	}
	shown := resolved(p.path)
	return guest.EditResult{
		Path:         shown,
		Replacements: len(edits),
		SHA256:       hashOf(changed),
		Diff:         unified(shown, text, edits),
	}, nil
}

// readForEdit reads the file that was describes; replace finds out if it
// changes later.
func (p *place) readForEdit(was *unix.Stat_t) ([]byte, error) {
	f, st, err := openRegular(p.path)
	if err != nil {
		return nil, explain(doRead, p.path, err)
	}
	defer func() { _ = f.Close() }()
	if !same(was, st) {
		return nil, p.raced()
	}
	if st.Size > maxEdit {
		return nil, p.tooLarge()
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxEdit {
		return nil, p.tooLarge()
	}
	return data, nil
}

func (p *place) tooLarge() *guest.Error {
	return guest.Errorf(guest.CodeTooLarge,
		"%s is, or would become, larger than %s, the most that is edited: use sed or a script through run_command", p.path, bytesOf(maxEdit))
}

// apply gives text with the edits carried out.
func (p *place) apply(text []byte, edits []edit) ([]byte, error) {
	size := len(text)
	for _, e := range edits {
		size += len(e.text) - (e.end - e.start)
	}
	if size > maxEdit {
		return nil, p.tooLarge()
	}
	out := make([]byte, 0, size)
	pos := 0
	for _, e := range edits {
		out = append(append(out, text[pos:e.start]...), e.text...)
		pos = e.end
	}
	out = append(out, text[pos:]...)
	if bytes.Equal(out, text) {
		return nil, guest.Errorf(guest.CodePrecondition,
			"%s has new_str there already (old_str and new_str differ in line ends only); nothing was changed", p.path)
	}
	return out, nil
}
