package tools

import (
	"strconv"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// checkText refuses JSON text that Go cannot hold: encoding/json would put
// U+FFFD in the place of half a surrogate pair without a word. Clients send such
// halves when they cut text between the two.
func checkText(name string, raw []byte) error {
	if half := loneSurrogate(raw); half != "" {
		return session.Errorf(session.InvalidArgument, "%s: %s is half a character (a lone UTF-16 surrogate); send the whole one", name, half)
	}
	return nil
}

// loneSurrogate gives the first \uXXXX in raw, which holds valid JSON, that is
// half of a pair, or "". encoding/json would turn it into U+FFFD in silence.
func loneSurrogate(raw []byte) string {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if raw[i+1] != 'u' {
			i++ // skip the escaped character, which may be a backslash
			continue
		}
		r := escaped(raw[i:])
		switch {
		case r >= 0xD800 && r < 0xDC00 && isLow(escaped(raw[i+6:])):
			i += 11
		case r >= 0xD800 && r < 0xE000:
			return string(raw[i : i+6])
		default:
			i += 5
		}
	}
	return ""
}

func isLow(r uint64) bool { return r >= 0xDC00 && r < 0xE000 }

// escaped is the code unit of the \uXXXX that raw starts with, or 0.
func escaped(raw []byte) uint64 {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0
	}
	r, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return r
}
