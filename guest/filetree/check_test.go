package filetree_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

const head = `{"version":1,"name":"src"}` + "\n"

var digest = strings.Repeat("a", 64)

func readAll(text string) error {
	r, err := filetree.NewManifestReader(strings.NewReader(text))
	for err == nil {
		_, err = r.Next()
	}
	return err
}

const root = `{"path":".","type":"dir"}`

func TestManifestsThatAreNone(t *testing.T) {
	file := func(path string) string { return fmt.Sprintf(`{"path":%q,"type":"file","sha256":%q}`, path, digest) }
	dir := func(path string) string { return fmt.Sprintf(`{"path":%q,"type":"dir"}`, path) }
	for name, lines := range map[string][]string{
		"no root":                 {},
		"root is not first":       {file("a")},
		"two roots":               {root, root},
		"absolute":                {root, file("/etc/passwd")},
		"parent":                  {root, file("..")},
		"parent within":           {root, dir("a"), file("a/../b")},
		"out by parents":          {root, file("../b")},
		"dot":                     {root, file("./a")},
		"empty name":              {root, dir("a"), file("a//b")},
		"slash at the end":        {root, dir("a/")},
		"no path":                 {root, file("")},
		"NUL":                     {root, `{"path":"a\u0000b","type":"dir"}`},
		"twice":                   {root, file("a"), file("a")},
		"twice, folder and file":  {root, dir("a"), file("a")},
		"out of order":            {root, file("b"), file("a")},
		"back to a folder":        {root, dir("a"), dir("b"), file("a/f")},
		"below a file":            {root, file("a"), file("a/b")},
		"below a link":            {root, `{"path":"a","type":"symlink","target":"/etc"}`, file("a/passwd")},
		"below nothing":           {root, file("a/b")},
		"below a file as root":    {file("."), file("a")},
		"long name":               {root, file(strings.Repeat("n", 256))},
		"setuid":                  {root, `{"path":"a","type":"dir","mode":2541}`},
		"negative size":           {root, `{"path":"a","type":"file","size":-1,"sha256":"` + digest + `"}`},
		"too large":               {root, `{"path":"a","type":"file","size":17179869185,"sha256":"` + digest + `"}`},
		"too large together":      {root, `{"path":"a","type":"file","size":17179869184,"sha256":"` + digest + `"}`, `{"path":"b","type":"file","size":1,"sha256":"` + digest + `"}`},
		"no digest":               {root, `{"path":"a","type":"file"}`},
		"digest that is a path":   {root, `{"path":"a","type":"file","sha256":"` + strings.Repeat("../", 21) + `x"}`},
		"digest in capitals":      {root, `{"path":"a","type":"file","sha256":"` + strings.Repeat("A", 64) + `"}`},
		"link without target":     {root, `{"path":"a","type":"symlink"}`},
		"folder with content":     {root, `{"path":"a","type":"dir","size":1}`},
		"device":                  {root, `{"path":"a","type":"device"}`},
		"unknown field":           {root, `{"path":"a","type":"dir","owner":0}`},
		"two values":              {root + root},
		"no JSON":                 {root, "a"},
		"base64 of text":          {root, `{"path":{"base64":"Li4="},"type":"dir"}`},
		"base64 of nothing":       {root, `{"path":{},"type":"dir"}`},
		"note with a long reason": {root, `{"path":"a","type":"skipped","reason":"` + strings.Repeat("x", 600) + `"}`},
		"long line":               {root, `{"path":"` + strings.Repeat("x", 70_000) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, readAll(head+strings.Join(lines, "\n")+"\n"), filetree.ErrManifest)
		})
	}
	for name, header := range map[string]string{
		"version":        `{"version":2}`,
		"name with path": `{"version":1,"name":"../x"}`,
		"name is parent": `{"version":1,"name":".."}`,
		"no header":      root,
		"empty":          "",
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, readAll(header+"\n"+root+"\n"), filetree.ErrManifest)
		})
	}
	require.ErrorIs(t, readAll(head+root+"\n"+dir("a")+"\n"+file("a/f")+"\n"+dir("a.b")+"\n"+file("b")), io.EOF)
	var many strings.Builder
	many.WriteString(head + root + "\n")
	for i := range filetree.MaxEntries {
		many.WriteString(dir(fmt.Sprintf("%06d", i)) + "\n")
	}
	require.ErrorIs(t, readAll(many.String()), filetree.ErrManifest)
}

// Whatever a manifest says, no entry that is passed on lies outside the tree,
// and each has a folder above it.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(head + `{"path":".","type":"dir"}` + "\n" + `{"path":"a","type":"dir"}` + "\n" + `{"path":{"base64":"YS//"},"type":"symlink","target":"x"}` + "\n"))
	f.Add([]byte(head + `{"path":".","type":"file","sha256":"` + digest + `","mode":420}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := filetree.NewManifestReader(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		dirs := map[string]bool{}
		seen := map[string]bool{}
		for {
			e, err := r.Next()
			if err != nil {
				return
			}
			if e.Note() {
				continue
			}
			path := string(e.Path)
			require.False(t, seen[path])
			seen[path] = true
			if path != "." {
				parent := "."
				if i := strings.LastIndexByte(path, '/'); i >= 0 {
					parent = path[:i]
				}
				require.True(t, dirs[parent], path)
				for name := range strings.SplitSeq(path, "/") {
					require.NotContains(t, []string{"", ".", ".."}, name)
				}
			}
			dirs[path] = e.Type == filetree.Dir
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("D\x00\x00\x00\x01aX\x00\x00\x00\x00"))
	f.Add([]byte("E\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, _ := io.Copy(io.Discard, filetree.NewFrameReader(strings.NewReader(string(b))).Content())
		require.LessOrEqual(t, n, int64(len(b)))
		r := filetree.NewFrameReader(strings.NewReader(string(b)))
		for range len(b) + 1 {
			if _, _, err := r.Next(); err != nil {
				return
			}
		}
		t.Fatal("it does not end")
	})
}
