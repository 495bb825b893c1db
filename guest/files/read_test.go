//go:build linux

package files_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func TestReadLines(t *testing.T) {
	const five = "one\ntwo\nthree\nfour\nfive\n"
	long := strings.Repeat("é", 100)
	tests := []struct {
		name      string
		file      string
		req       guest.ReadFileRequest
		want      string
		total     int
		from, to  int
		truncated bool
		cut       int
	}{
		{name: "all", file: five, want: five, total: 5, from: 1, to: 5},
		{name: "empty", file: "", want: ""},
		{name: "empty from the end", file: "", req: guest.ReadFileRequest{StartLine: -3}, want: ""},
		{name: "one line end", file: "\n", want: "\n", total: 1, from: 1, to: 1},
		{name: "no line end at the end", file: "a\nb", want: "a\nb", total: 2, from: 1, to: 2},
		{name: "CRLF stays", file: "a\r\nb\r\n", want: "a\r\nb\r\n", total: 2, from: 1, to: 2},
		{name: "bytes stay", file: "\xff\xfea\x00\n\x00", want: "\xff\xfea\x00\n\x00", total: 2, from: 1, to: 2},
		{name: "from the middle", file: five, req: guest.ReadFileRequest{StartLine: 2, MaxLines: 2}, want: "two\nthree\n", total: 5, from: 2, to: 3, truncated: true},
		{name: "to the end", file: five, req: guest.ReadFileRequest{StartLine: 4}, want: "four\nfive\n", total: 5, from: 4, to: 5},
		{name: "the last line", file: "a\nb", req: guest.ReadFileRequest{StartLine: 2}, want: "b", total: 2, from: 2, to: 2},
		{name: "tail", file: five, req: guest.ReadFileRequest{StartLine: -2}, want: "four\nfive\n", total: 5, from: 4, to: 5},
		{name: "tail without line end", file: "a\nb\nc", req: guest.ReadFileRequest{StartLine: -2}, want: "b\nc", total: 3, from: 2, to: 3},
		{name: "tail, some of it", file: five, req: guest.ReadFileRequest{StartLine: -3, MaxLines: 1}, want: "three\n", total: 5, from: 3, to: 3, truncated: true},
		{name: "tail of all", file: five, req: guest.ReadFileRequest{StartLine: -5}, want: five, total: 5, from: 1, to: 5},
		{name: "tail of more", file: five, req: guest.ReadFileRequest{StartLine: -50}, want: five, total: 5, from: 1, to: 5},
		{name: "whole lines only", file: five, req: guest.ReadFileRequest{MaxBytes: 9}, want: "one\ntwo\n", total: 5, from: 1, to: 2, truncated: true},
		{name: "exactly fits", file: five, req: guest.ReadFileRequest{MaxBytes: 8}, want: "one\ntwo\n", total: 5, from: 1, to: 2, truncated: true},
		{name: "a first line that does not fit", file: "0123456789\nx\n", req: guest.ReadFileRequest{MaxBytes: 5}, want: "0123\n", total: 2, from: 1, to: 1, truncated: true, cut: 1},
		{name: "one byte", file: "é\r\nx\n", req: guest.ReadFileRequest{MaxBytes: 1}, want: "", total: 2, from: 1, to: 1, truncated: true, cut: 1},
		{name: "long lines are cut", file: "0123456789\nx\n0123456\r\n", req: guest.ReadFileRequest{MaxLineBytes: 4}, want: "0123\nx\n0123\r\n", total: 3, from: 1, to: 3, truncated: true, cut: 2},
		{name: "a line just as long", file: "0123\n", req: guest.ReadFileRequest{MaxLineBytes: 4}, want: "0123\n", total: 1, from: 1, to: 1},
		{name: "cut between runes", file: long + "\nx", req: guest.ReadFileRequest{MaxLineBytes: 5}, want: "éé\nx", total: 2, from: 1, to: 2, truncated: true, cut: 1},
		{name: "whole", file: "a\nb", req: guest.ReadFileRequest{Whole: true}, want: "a\nb", total: 2, from: 1, to: 2},
		{name: "whole, empty", file: "", req: guest.ReadFileRequest{Whole: true, StartLine: 1}, want: ""},
		{name: "whole cuts nothing", file: long, req: guest.ReadFileRequest{Whole: true, MaxLineBytes: 4}, want: long, total: 1, from: 1, to: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "f"), tt.file, 0o640)
			tt.req.Path = "f"
			got, err := files.Read(dir, tt.req)
			require.NoError(t, err)
			require.Equal(t, guest.File{
				Path: filepath.Join(dir, "f"), Content: []byte(tt.want), Size: int64(len(tt.file)),
				TotalLines: tt.total, StartLine: tt.from, EndLine: tt.to, Truncated: tt.truncated, LinesCut: tt.cut,
				SHA256: sum(tt.file), Mode: 0o640,
			}, got)
		})
	}
}

func TestReadLargeLinesOnDisk(t *testing.T) {
	// Over the size that is read at once: 1 MB lines, so that they are skipped,
	// not held, and chunks end in mid-line.
	dir := t.TempDir()
	line := strings.Repeat("x", 1_000_000)
	content := strings.Repeat(line+"\r\n", 6) + "last"
	put(t, filepath.Join(dir, "f"), content, 0o600)

	got, err := files.Read(dir, guest.ReadFileRequest{Path: "f", StartLine: 2, MaxLineBytes: 3})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("xxx\r\n", 5)+"las", string(got.Content))
	require.Equal(t, []int{7, 2, 7, 6}, []int{got.TotalLines, got.StartLine, got.EndLine, got.LinesCut})
	require.Equal(t, sum(content), got.SHA256)

	got, err = files.Read(dir, guest.ReadFileRequest{Path: "f", StartLine: -2})
	require.NoError(t, err)
	require.Len(t, got.Content, guest.MaxInline)
	require.Equal(t, []int{7, 6, 6, 1}, []int{got.TotalLines, got.StartLine, got.EndLine, got.LinesCut})
}

func TestReadProc(t *testing.T) {
	// Sizes in /proc are 0: the content counts.
	got, err := files.Read("/", guest.ReadFileRequest{Path: "/proc/self/status", MaxLines: 1})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(got.Content), "Name:"))
	require.Greater(t, got.TotalLines, 10)
	require.Positive(t, got.Size)
}

func TestReadFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "real", "sub"), 0o755))
	put(t, filepath.Join(dir, "real", "f"), "x", 0o644)
	require.NoError(t, os.Symlink("real/sub", filepath.Join(dir, "link")))
	// ".." after a link is the target's parent, as in a shell.
	got, err := files.Read(dir, guest.ReadFileRequest{Path: "link/../f"})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "real", "f"), got.Path)
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "main.go"), "a\nb\nc\n", 0o644)
	put(t, filepath.Join(dir, "big"), strings.Repeat("x", guest.MaxInline+1), 0o644)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "sock"))
	require.NoError(t, err)
	defer l.Close()

	tests := []struct {
		name  string
		req   guest.ReadFileRequest
		code  guest.Code
		parts []string
	}{
		{"missing", guest.ReadFileRequest{Path: "mian.go"}, guest.CodeNotFound, []string{dir + "/mian.go", `has "main.go"`}},
		{"missing, nothing similar", guest.ReadFileRequest{Path: "zzz"}, guest.CodeNotFound, []string{dir + ` has no "zzz"`, "ls -la"}},
		{"missing parents", guest.ReadFileRequest{Path: "no/such/file"}, guest.CodeNotFound, []string{dir + ` has no "no"`}},
		{"file as directory", guest.ReadFileRequest{Path: "main.go/x"}, guest.CodeNotFound, []string{"main.go is a file"}},
		{"dangling link", guest.ReadFileRequest{Path: "dangling"}, guest.CodeNotFound, []string{"is a link to nowhere"}},
		{"circular link", guest.ReadFileRequest{Path: "loop"}, guest.CodePrecondition, []string{"circle"}},
		{"directory", guest.ReadFileRequest{Path: "."}, guest.CodePrecondition, []string{"is a directory", "ls -la"}},
		{"FIFO", guest.ReadFileRequest{Path: "fifo"}, guest.CodePrecondition, []string{"is a FIFO"}},
		{"socket", guest.ReadFileRequest{Path: "sock"}, guest.CodePrecondition, []string{"is a socket"}},
		{"device", guest.ReadFileRequest{Path: "/dev/zero"}, guest.CodePrecondition, []string{"is a character device"}},
		{"process memory", guest.ReadFileRequest{Path: "/proc/self/mem"}, guest.CodePrecondition, []string{"run_command"}},
		{"long name", guest.ReadFileRequest{Path: strings.Repeat("x", 256)}, guest.CodeInvalid, []string{"too long"}},
		{"empty path", guest.ReadFileRequest{}, guest.CodeInvalid, []string{"empty"}},
		{"NUL in path", guest.ReadFileRequest{Path: "a\x00b"}, guest.CodeInvalid, []string{"NUL"}},
		{"tilde", guest.ReadFileRequest{Path: "~/x"}, guest.CodeInvalid, []string{"not expanded", dir}},
		{"past the end", guest.ReadFileRequest{Path: "main.go", StartLine: 4}, guest.CodeInvalid, []string{"has 3 lines"}},
		{"far past the end", guest.ReadFileRequest{Path: "main.go", StartLine: 400}, guest.CodeInvalid, []string{"has 3 lines"}},
		{"whole, too large", guest.ReadFileRequest{Path: "big", Whole: true}, guest.CodeTooLarge, []string{"262145 bytes", "offset and limit"}},
		{"whole, over the bound", guest.ReadFileRequest{Path: "main.go", Whole: true, MaxBytes: 5}, guest.CodeTooLarge, []string{"6 bytes"}},
		{"whole and lines", guest.ReadFileRequest{Path: "main.go", Whole: true, MaxLines: 5}, guest.CodeInvalid, nil},
		{"max_bytes", guest.ReadFileRequest{Path: "main.go", MaxBytes: guest.MaxInline + 1}, guest.CodeInvalid, []string{"max_bytes"}},
		{"max_lines", guest.ReadFileRequest{Path: "main.go", MaxLines: -1}, guest.CodeInvalid, []string{"max_lines"}},
		{"max_line_bytes", guest.ReadFileRequest{Path: "main.go", MaxLineBytes: -1}, guest.CodeInvalid, []string{"max_line_bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := files.Read(dir, tt.req)
			fails(t, err, tt.code, tt.parts...)
		})
	}
	_, err = files.Read("", guest.ReadFileRequest{Path: "x"})
	fails(t, err, guest.CodeInvalid, "no working directory")
}

// FuzzReadLines holds a window against the plain definition of it.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\nbé\r\nc"), 2, 3, 4)
	f.Add([]byte("\xff\xff\xff\xff\n\n"), -1, 0, 1)
	f.Fuzz(func(t *testing.T, data []byte, start, maxLines, maxLine int) {
		if start < -1000 || start > 1000 || maxLines < 0 || maxLine < 0 || len(data) > 10_000 {
			t.Skip()
		}
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		all := strings.SplitAfter(string(data), "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		got, err := files.Read("/", guest.ReadFileRequest{Path: path, StartLine: start, MaxLines: maxLines, MaxLineBytes: maxLine})
		first := max(start, 1) - 1
		if start < 0 {
			first = max(0, len(all)+start)
		}
		if first > 0 && first >= len(all) {
			fails(t, err, guest.CodeInvalid, fmt.Sprintf("has %d lines", len(all)))
			return
		}
		require.NoError(t, err)
		last := len(all)
		if maxLines > 0 {
			last = min(last, first+maxLines)
		}
		require.Equal(t, len(all), got.TotalLines)
		require.Equal(t, last, got.EndLine)
		rest := string(got.Content)
		for _, l := range all[first:last] {
			text := strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "\r")
			if !strings.HasSuffix(l, "\n") {
				text = l
			}
			if maxLine == 0 || len(text) <= maxLine {
				require.True(t, strings.HasPrefix(rest, l))
				rest = rest[len(l):]
				continue
			}
			n := 0
			for n < len(rest) && n < len(text) && rest[n] == text[n] && n < maxLine {
				n++
			}
			require.Greater(t, n+4, maxLine, "cut by more than a rune")
			ending := l[len(text):]
			for !strings.HasPrefix(rest[n:], ending) { // text may look like an ending
				n--
			}
			rest = rest[n+len(ending):]
		}
		require.Empty(t, rest)
	})
}
