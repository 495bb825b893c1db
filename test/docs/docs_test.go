// Package docs_test keeps the documents in step with the code: what is generated
// in the README, and every file and test that a document names.
package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

//go:generate go test -count=1 -run ^TestGeneratedParts$ . -update

var update = flag.Bool("update", false, "rewrite the generated parts of the README")

const root = "../.."

// The help is a golden file of the command's own test, as building the command
// takes a while.
func TestGeneratedParts(t *testing.T) {
	path := filepath.Join(root, "README.md")
	got := read(t, path)
	help := read(t, filepath.Join(root, "cmd", "mcp-sandbox", "testdata", "help", "mcp-sandbox-serve.txt"))
	want := replace(t, got, "tools", tools.Table())
	want = replace(t, want, "help serve", "```text\n"+help+"```\n")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, got, "README.md is out of date; make generate rewrites it")
}

// replace puts text between the markers of a name.
func replace(t *testing.T, doc, name, text string) string {
	t.Helper()
	start, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(doc, start)
	require.True(t, ok, "no marker %q", start)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "no marker %q", end)
	return before + start + text + end + after
}

var (
	quoted  = regexp.MustCompile("`([^`\n]+)`")
	asFile  = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*(\.(go|md|sh|json|mod)|/)$`)
	asTest  = regexp.MustCompile(`^Test[A-Z][A-Za-z0-9]*$`)
	link    = regexp.MustCompile(`\]\(([^)#:]+)\)`)
	defined = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]*)\(`)
)

// A document names no file and no test that is not there.
func TestNamesInDocuments(t *testing.T) {
	tests := definedTests(t)
	for _, doc := range documents(t) {
		text := read(t, doc)
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			switch name := m[1]; {
			case asTest.MatchString(name):
				require.True(t, tests[name], "%s: there is no test %s", doc, name)
			case strings.Contains(name, "/") && asFile.MatchString(name):
				require.FileExistsf(t, existing(name), "%s: there is no %s", doc, name)
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1]))
			require.NoError(t, err, "%s: a link leads nowhere", doc)
		}
	}
}

// existing gives a file that is there if name is: a folder stands for its
// first file.
func existing(name string) string {
	if strings.HasPrefix(name, "bin/") {
		return filepath.Join(root, "go.mod") // what make builds, and a checkout has not
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if entries, err := os.ReadDir(path); err == nil {
		for _, e := range entries {
			if !e.IsDir() {
				return filepath.Join(path, e.Name())
			}
		}
		return filepath.Join(root, "go.mod") // a folder of folders
	}
	return path
}

func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		all = append(all, found...)
	}
	require.NotEmpty(t, all)
	return all
}

func definedTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		for _, m := range defined.FindAllStringSubmatch(read(t, path), -1) {
			names[m[1]] = true
		}
		return nil
	})
	require.NoError(t, err)
	return names
}

func TestDecisionsHaveTheirParts(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(root, "docs", "adr", "*.md"))
	require.NoError(t, err)
	for i, path := range found {
		require.Regexp(t, fmt.Sprintf(`^%03d-[a-z0-9-]+\.md$`, i+1), filepath.Base(path), "numbers have no gaps")
		text := read(t, path)
		for _, part := range []string{"# ", "Status: ", "## Context\n", "## Decision\n", "## Consequences\n"} {
			require.Contains(t, text, part, path)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}
