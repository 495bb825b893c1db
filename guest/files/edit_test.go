//go:build linux

package files_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

func utf16File(order binary.AppendByteOrder, s string) string {
	var b []byte
	for _, u := range append([]uint16{0xFEFF}, utf16.Encode([]rune(s))...) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

func TestEdit(t *testing.T) {
	le, be := binary.LittleEndian, binary.BigEndian
	tests := []struct {
		name           string
		file, old, new string
		all            bool
		want           string
		n              int
	}{
		{"a word", "a b c", "b", "x", false, "a x c", 1},
		{"to nothing", "a\nb\nc\n", "b\n", "", false, "a\nc\n", 1},
		{"several lines", "a\nb\nc\n", "a\nb", "x\ny\nz", false, "x\ny\nz\nc\n", 1},
		{"literal", "a.b", "a.b", `$1 & \0 ${x} \n`, false, `$1 & \0 ${x} \n`, 1},
		{"old is no pattern", "aXb a.b", "a.b", "y", false, "aXb y", 1},
		{"all", "aaa a", "a", "aa", true, "aaaaaa aa", 4},
		{"all, not overlapping", "aaaa", "aa", "b", true, "bb", 2},
		{"CRLF", "a\r\nb\r\nc\r\n", "a\nb", "x\ny", false, "x\r\ny\r\nc\r\n", 1},
		{"CRLF, ends of line", "a\r\nb\r\nc\r\n", "\nb\n", "\n", false, "a\r\nc\r\n", 1},
		{"CRLF, lines in a word's place", "a\r\nb\r\n", "b", "x\ny", false, "a\r\nx\r\ny\r\n", 1},
		{"CRLF, given as such", "a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n", 1},
		{"CRLF, to LF by will", "a\r\nb\r\n", "a\r\nb", "a\nb", false, "a\nb\r\n", 1},
		{"CRLF, all", "a\r\nb\r\na\r\nb", "a\nb", "c\nd", true, "c\r\nd\r\nc\r\nd", 2},
		{"mixed, mostly CRLF", "a\nb\r\nc\r\n", "a\nb\nc", "x\ny", false, "x\r\ny\r\n", 1},
		{"mixed, at the LF", "a\nb\r\nc\r\n", "a\nb", "x\ny", false, "x\ny\r\nc\r\n", 1},
		{"mixed, mostly LF", "a\nb\nc\r\nd", "d", "x\ny", false, "a\nb\nc\r\nx\ny", 1},
		{"a CR alone is a byte", "a\rb\r\nc", "a\rb", "x", false, "x\r\nc", 1},
		{"LF files get no CR", "a\nb\n", "a\nb", "x\ny", false, "x\ny\n", 1},
		{"NUL", "a\x00b", "b", "c", false, "a\x00c", 1},
		{"latin-1 stays", "gr\xfc\xdfe\nab\n", "ab", "x", false, "gr\xfc\xdfe\nx\n", 1},
		{"UTF-8 mark stays", "\xef\xbb\xbfab", "ab", "x", false, "\xef\xbb\xbfx", 1},
		{"UTF-16LE", utf16File(le, "größe 😀\r\nb\r\n"), "😀\nb", "ß\n𝄞", false, utf16File(le, "größe ß\r\n𝄞\r\n"), 1},
		{"UTF-16BE", utf16File(be, "a\nb\n"), "b", "ü", false, utf16File(be, "a\nü\n"), 1},
		{"broken UTF-16 is bytes", "\xff\xfea\x00b", "b", "c", false, "\xff\xfea\x00c", 1},
		{"UTF-32 is bytes", "\xff\xfe\x00\x00a\x00\x00\x00", "a", "c", false, "\xff\xfe\x00\x00c\x00\x00\x00", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			umask(t, 0o077)
			dir := t.TempDir()
			path := put(t, filepath.Join(dir, "f"), tt.file, 0o754)
			got, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: tt.old, NewStr: tt.new, ReplaceAll: tt.all})
			require.NoError(t, err)
			require.Equal(t, tt.want, get(t, path))
			require.Equal(t, os.FileMode(0o754), perm(t, path))
			require.Equal(t, path, got.Path)
			require.Equal(t, tt.n, got.Replacements)
			require.Equal(t, sum(tt.want), got.SHA256)
			require.NotEmpty(t, got.Diff)
			holds(t, dir, "f")
		})
	}
}

func TestEditThroughLink(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "f"), "a", 0o644)
	require.NoError(t, os.Symlink("f", filepath.Join(dir, "link")))
	got, err := files.Edit(dir, guest.EditFileRequest{Path: "link", OldStr: "a", NewStr: "b"})
	require.NoError(t, err)
	require.Equal(t, path, got.Path)
	require.Equal(t, "b", get(t, path))
	_, err = os.Readlink(filepath.Join(dir, "link"))
	require.NoError(t, err)
}

func TestEditErrors(t *testing.T) {
	const src = "package a\n\nfunc first() {\n\treturn 1\n}\n\nfunc second() {\n\treturn 2\n}\n"
	tests := []struct {
		name  string
		req   guest.EditFileRequest
		code  guest.Code
		parts []string
	}{
		{"empty old_str", guest.EditFileRequest{Path: "f", NewStr: "x"}, guest.CodeInvalid, []string{"old_str is empty", "write_file"}},
		{"no change", guest.EditFileRequest{Path: "f", OldStr: "x", NewStr: "x"}, guest.CodeInvalid, []string{"the same"}},
		{"too long", guest.EditFileRequest{Path: "f", OldStr: "x", NewStr: strings.Repeat("x", guest.MaxInline+1)}, guest.CodeTooLarge, []string{"smaller steps"}},
		{"two matches", guest.EditFileRequest{Path: "f", OldStr: "\treturn"}, guest.CodePrecondition, []string{"2 times", "lines 4, 8;", "replace_all"}},
		{"overlapping", guest.EditFileRequest{Path: "aaa", OldStr: "aa"}, guest.CodePrecondition, []string{"2 times"}},
		{"many matches", guest.EditFileRequest{Path: "many", OldStr: "x"}, guest.CodePrecondition, []string{"more than 1000 times", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."}},
		{
			"white space",
			guest.EditFileRequest{Path: "f", OldStr: "func second() {\n    return 2\n}"},
			guest.CodePrecondition,
			[]string{"     7: \"func second() {\"", "difference on line 8", `file:    "\treturn 2"`, `old_str: "    return 2"`},
		},
		{"similar", guest.EditFileRequest{Path: "f", OldStr: "func secnod() {"}, guest.CodePrecondition, []string{"     7: \"func second() {\"", "read the file again"}},
		{"past the end", guest.EditFileRequest{Path: "f", OldStr: "\treturn 2\n}\n\nfunc third"}, guest.CodePrecondition, []string{`the file ends before this of old_str: "\nfunc third"`}},
		{"made before", guest.EditFileRequest{Path: "f", OldStr: "return 3", NewStr: "func second()"}, guest.CodePrecondition, []string{"new_str is there already, on line 7"}},
		{"CRLF for an LF file", guest.EditFileRequest{Path: "f", OldStr: "func first() {\r\n\treturn 1"}, guest.CodePrecondition, []string{`old_str: "func first() {\r"`}},
		{"nothing similar", guest.EditFileRequest{Path: "f", OldStr: "zzzz"}, guest.CodePrecondition, []string{"is not in"}},
		{"empty file", guest.EditFileRequest{Path: "empty", OldStr: "a"}, guest.CodePrecondition, []string{"empty: use write_file"}},
		{"latin-1", guest.EditFileRequest{Path: "latin", OldStr: "grüße"}, guest.CodePrecondition, []string{"not UTF-8"}},
		{"not UTF-8 for UTF-16", guest.EditFileRequest{Path: "utf16", OldStr: "\xff"}, guest.CodeInvalid, []string{"UTF-16"}},
		{"line ends only", guest.EditFileRequest{Path: "crlf", OldStr: "a\nb", NewStr: "a\r\nb"}, guest.CodePrecondition, []string{"line ends only"}},
		{"missing", guest.EditFileRequest{Path: "ff", OldStr: "a"}, guest.CodeNotFound, []string{"has no \"ff\""}},
		{"missing directory", guest.EditFileRequest{Path: "no/f", OldStr: "a"}, guest.CodeNotFound, []string{"has no \"no\""}},
		{"dangling link", guest.EditFileRequest{Path: "dangling", OldStr: "a"}, guest.CodeNotFound, []string{"nowhere"}},
		{"directory", guest.EditFileRequest{Path: "dir", OldStr: "a"}, guest.CodePrecondition, []string{"is a directory"}},
		{"FIFO", guest.EditFileRequest{Path: "fifo", OldStr: "a"}, guest.CodePrecondition, []string{"is a FIFO"}},
		{"large file", guest.EditFileRequest{Path: "large", OldStr: "a"}, guest.CodeTooLarge, []string{"16 MiB", "sed"}},
		{"large result", guest.EditFileRequest{Path: "many", OldStr: "x", NewStr: strings.Repeat("y", 20_000), ReplaceAll: true}, guest.CodeTooLarge, []string{"would become"}},
		{"too many", guest.EditFileRequest{Path: "zeros", OldStr: "\x00", NewStr: "", ReplaceAll: true}, guest.CodeTooLarge, []string{"1048576 times"}},
		{"empty path", guest.EditFileRequest{OldStr: "a"}, guest.CodeInvalid, []string{"empty"}},
	}
	dir := t.TempDir()
	contents := map[string]string{
		"f": src, "aaa": "aaa", "many": strings.Repeat("x\n", 2000), "empty": "", "latin": "gr\xfc\xdfe",
		"utf16": utf16File(binary.LittleEndian, "a"), "crlf": "a\r\nb", "zeros": strings.Repeat("\x00", 1<<20+1),
	}
	for name, content := range contents {
		put(t, filepath.Join(dir, name), content, 0o644)
	}
	put(t, filepath.Join(dir, "large"), "", 0o644)
	require.NoError(t, os.Truncate(filepath.Join(dir, "large"), 16<<20+1))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := files.Edit(dir, tt.req)
			fails(t, err, tt.code, tt.parts...)
		})
	}
	for name, content := range contents {
		require.Equal(t, content, get(t, filepath.Join(dir, name)))
	}
	holds(t, dir, "f", "aaa", "many", "empty", "latin", "utf16", "crlf", "zeros", "large", "dir", "dangling", "fifo")
}

// FuzzEdit holds Edit against bytes.Replace, and its diff against what applying
// it gives.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), "b\n", "", false)
	f.Add([]byte("a\nb\nc"), "\n", "", true)
	f.Add([]byte("a\r\nb\r\nc"), "a\nb", "$1\n&", false)
	f.Add([]byte("1\n2\n3\n4\n5\n6\n7\n8\n9\nx\n1\n2"), "1\n2", "1\nnew\n2", true)
	f.Add([]byte("\xff\xfea\x00"), "a", "b\n", true)
	f.Fuzz(func(t *testing.T, data []byte, old, replacement string, all bool) {
		if len(data) > 2000 || len(old) > 100 || len(replacement) > 100 {
			t.Skip() // so that no diff is cut
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		got, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: old, NewStr: replacement, ReplaceAll: all})
		after := get(t, path)
		if err != nil {
			require.NotEqual(t, guest.CodeInternal, guest.CodeOf(err), "%v", err)
			require.Equal(t, string(data), after)
			return
		}
		require.Equal(t, sum(after), got.SHA256)
		if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
			return // perhaps UTF-16: the diff is of its text
		}
		if !bytes.Contains(data, []byte("\r\n")) {
			n := 1
			if all {
				n = -1
			}
			require.Equal(t, strings.Replace(string(data), old, replacement, n), after)
		}
		if s := string(data); len(got.Diff) < 16<<10 && strings.ToValidUTF8(s, "") == s && strings.ToValidUTF8(after, "") == after {
			require.Equal(t, after, applyDiff(t, s, got.Diff))
		}
	})
}
