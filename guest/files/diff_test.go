//go:build linux

package files_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

// applyDiff is a patch(1) that takes nothing but an exact fit.
func applyDiff(t *testing.T, old, diff string) string {
	t.Helper()
	oldLines := strings.SplitAfter(old, "\n")
	var out strings.Builder
	at, wantNew, newLines := 0, -1, 0
	lines := strings.SplitAfter(diff, "\n")
	for i := 2; i < len(lines) && lines[i] != ""; i++ {
		l := lines[i]
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], `\ No newline`) {
			l = strings.TrimSuffix(l, "\n")
		}
		switch l[0] {
		case '@':
			var os, on, ns, nn int
			_, err := fmt.Sscanf(l, "@@ -%d,%d +%d,%d @@", &os, &on, &ns, &nn)
			require.NoError(t, err)
			for ; at < os-1 || on == 0 && at < os; at++ {
				out.WriteString(oldLines[at])
				newLines++
			}
			if nn > 0 {
				ns--
			}
			require.Equal(t, ns, newLines, "new line number in %q", l)
			wantNew = newLines + nn
		case ' ', '-':
			require.Equal(t, oldLines[at], l[1:])
			at++
			if l[0] == ' ' {
				out.WriteString(l[1:])
				newLines++
			}
		case '+':
			out.WriteString(l[1:])
			newLines++
		case '\\':
		default:
			t.Fatalf("line %q in diff:\n%s", l, diff)
		}
	}
	require.Equal(t, wantNew, newLines)
	return out.String() + strings.Join(oldLines[at:], "")
}

func TestDiff(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	tests := []struct {
		name           string
		file, old, new string
		want           string
	}{
		{"in the middle", ten, "5", "five", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		{"at the begin", ten, "1\n2", "one\n2", "@@ -1,4 +1,4 @@\n-1\n+one\n 2\n 3\n 4\n"},
		{"unchanged lines are context", ten, "4\n5\n6", "4\n6", "@@ -2,7 +2,6 @@\n 2\n 3\n 4\n-5\n 6\n 7\n 8\n"},
		{"lines join", "a\nb\nc\n", "a\n", "a", "@@ -1,3 +1,2 @@\n-a\n-b\n+ab\n c\n"},
		{"all goes", "a\n", "a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		{"no line end", "a\nb", "b", "c", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"},
		{"line end at the end", "a\nb", "b", "b\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"latin-1", "\xfc a\n", "a", "b", "@@ -1,1 +1,1 @@\n-\uFFFD a\n+\uFFFD b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := put(t, filepath.Join(dir, "f"), tt.file, 0o644)
			got, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: tt.old, NewStr: tt.new, ReplaceAll: tt.old == "1"})
			require.NoError(t, err)
			require.Equal(t, "--- "+path+"\n+++ "+path+"\n"+tt.want, got.Diff)
		})
	}
}

func TestDiffOfManyReplacements(t *testing.T) {
	// Near ones share a hunk, far ones do not, and line numbers shift.
	var b strings.Builder
	for i := range 60 {
		if i%12 == 0 || i == 30 {
			b.WriteString("x\n")
		} else {
			fmt.Fprintf(&b, "%d\n", i)
		}
	}
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "f"), b.String(), 0o644)
	got, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: "x\n", NewStr: "y\nz\n", ReplaceAll: true})
	require.NoError(t, err)
	require.Equal(t, 6, got.Replacements)
	require.Equal(t, 4, strings.Count(got.Diff, "@@ -"), got.Diff)
	require.Equal(t, get(t, path), applyDiff(t, b.String(), got.Diff))
}

func TestDiffIsCut(t *testing.T) {
	for name, file := range map[string]string{
		"many lines":   strings.Repeat("xé\n", 100_000),
		"one line":     strings.Repeat("é", 1_000_000) + "x",
		"many hunks":   strings.Repeat("x\n"+strings.Repeat("é\n", 20), 5000),
		"not UTF-8":    strings.Repeat("x\xfc\n", 100_000),
		"long context": strings.Repeat("é", 1_000_000) + "\nx\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "f"), file, 0o644)
			got, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: "x", NewStr: "yy", ReplaceAll: true})
			require.NoError(t, err)
			require.LessOrEqual(t, len(got.Diff), 16<<10)
			require.Greater(t, len(got.Diff), 16<<10-200)
			require.True(t, utf8.ValidString(got.Diff))
			require.True(t, strings.HasSuffix(got.Diff, fmt.Sprintf("\n... diff cut at 16 KiB; %d replacements in all\n", got.Replacements)))
		})
	}
}
