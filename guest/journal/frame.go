package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
)

// A frame is one line: the payload's length and CRC-32C in hex, then the
// payload, which is JSON and so holds no newline.
//
//	0000002f 8d1c03aa {"k":"begin",...}
const prefix = 8 + 1 + 8 + 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is one line of the journal.
type record struct {
	Kind        string          `json:"k"`
	ID          string          `json:"id,omitempty"`
	Op          string          `json:"op,omitempty"`
	Digest      string          `json:"digest,omitempty"`
	Seq         uint64          `json:"seq,omitempty"`
	Incarnation int             `json:"inc,omitempty"`
	UnixMS      int64           `json:"ms,omitempty"`
	Session     string          `json:"session,omitempty"`
	Boot        string          `json:"boot,omitempty"`
	Dropped     bool            `json:"dropped,omitempty"`
	Detail      json.RawMessage `json:"detail,omitempty"`
}

// The kinds of records.
const (
	kindBoot   = "boot"
	kindBegin  = "begin"
	kindEnd    = "end"
	kindRefuse = "refuse"
)

func encode(r record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	line := make([]byte, 0, prefix+len(body)+1)
	line = fmt.Appendf(line, "%08x %08x ", len(body), crc32.Checksum(body, castagnoli))
	line = append(line, body...)
	return append(line, '\n'), nil
}

// decode reads the frame at the start of data. It returns the frame's length,
// or ok false when no whole and sound frame stands there.
func decode(data []byte) (r record, size int, ok bool) {
	if len(data) < prefix || data[8] != ' ' || data[17] != ' ' {
		return r, 0, false
	}
	length, err := strconv.ParseUint(string(data[:8]), 16, 32)
	if err != nil {
		return r, 0, false
	}
	sum, err := strconv.ParseUint(string(data[9:17]), 16, 32)
	if err != nil {
		return r, 0, false
	}
	size = prefix + int(length) + 1
	if len(data) < size || data[size-1] != '\n' {
		return r, 0, false
	}
	body := data[prefix : size-1]
	if uint64(crc32.Checksum(body, castagnoli)) != sum || json.Unmarshal(body, &r) != nil {
		return record{}, 0, false
	}
	return r, size, true
}

// decodeAll reads frames up to the first that is not sound. It returns how many
// bytes are sound, and whether a sound frame stands after the bad one: then the
// file was damaged in its middle, which no torn write explains.
func decodeAll(data []byte, apply func(record, int)) (sound int, damaged bool) {
	for sound < len(data) {
		r, size, ok := decode(data[sound:])
		if !ok {
			return sound, soundAfter(data[sound:])
		}
		apply(r, size)
		sound += size
	}
	return sound, false
}

func soundAfter(data []byte) bool {
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return false
		}
		data = data[i+1:]
		if _, _, ok := decode(data); ok {
			return true
		}
	}
}
