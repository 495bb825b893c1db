//go:build linux

package files

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// encoding is how a file's bytes become the text that is edited: nil for as
// they are, else UTF-16 in this byte order behind a byte order mark.
type encoding struct{ order binary.ByteOrder }

const bom = 0xFEFF

// decode gives a file's text. UTF-16 that could not be written back exactly
// (half a pair, an odd byte) is edited as bytes, like any encoding without a
// mark.
func decode(raw []byte, req guest.EditFileRequest) ([]byte, encoding, error) {
	enc := encoding{}
	switch {
	case bytes.HasPrefix(raw, []byte{0xFF, 0xFE, 0, 0}): // UTF-32
		return raw, enc, nil
	case bytes.HasPrefix(raw, []byte{0xFF, 0xFE}):
		enc.order = binary.LittleEndian
	case bytes.HasPrefix(raw, []byte{0xFE, 0xFF}):
		enc.order = binary.BigEndian
	default:
		return raw, enc, nil
	}
	text, ok := enc.text(raw[2:])
	if !ok {
		return raw, encoding{}, nil
	}
	if !utf8.ValidString(req.OldStr) || !utf8.ValidString(req.NewStr) {
		return nil, enc, guest.Errorf(guest.CodeInvalid, "the file is UTF-16, and old_str or new_str is not valid UTF-8; give them as text")
	}
	return text, enc, nil
}

func (e encoding) text(raw []byte) (text []byte, ok bool) {
	if len(raw)%2 != 0 {
		return nil, false
	}
	text = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i += 2 {
		r := rune(e.order.Uint16(raw[i:]))
		if utf16.IsSurrogate(r) {
			if i += 2; i >= len(raw) {
				return nil, false
			}
			if r = utf16.DecodeRune(r, rune(e.order.Uint16(raw[i:]))); r == utf8.RuneError {
				return nil, false
			}
		}
		text = utf8.AppendRune(text, r)
	}
	return text, true
}

// encode is the reverse of decode.
func (e encoding) encode(text []byte) []byte {
	if e.order == nil {
		return text
	}
	out := make([]byte, 0, 2+2*len(text))
	var units [2]uint16
	put := func(r rune) {
		for _, u := range utf16.AppendRune(units[:0], r) {
			out = append(out, 0, 0)
			e.order.PutUint16(out[len(out)-2:], u)
		}
	}
	put(bom)
	for _, r := range string(text) {
		put(r)
	}
	return out
}
