package defaultimage_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	defaultimage "github.com/mcp-sandbox/mcp-sandbox/images/default"
)

// script writes the carried recipe to a file, as a user of the package does.
func script(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash on the PATH")
	}
	path := filepath.Join(t.TempDir(), "build.sh")
	require.NoError(t, os.WriteFile(path, defaultimage.Script, 0o600))
	return path
}

func TestRecipeIsTheScripts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args     []string
		packages []string
	}{
		"plain":             {},
		"packages":          {args: []string{"--packages", "make,g++,gcc,make"}, packages: []string{"gcc", "make", "g++", "gcc"}},
		"repeated argument": {args: []string{"--packages=make", "--packages", "gcc"}, packages: []string{"make", "gcc"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{script(t), "--recipe"}, c.args...)
			out, err := exec.CommandContext(t.Context(), "bash", args...).Output()
			require.NoError(t, err)
			require.Equal(t, defaultimage.Recipe(c.packages...), strings.TrimSpace(string(out)))
		})
	}
}

func TestScriptRefusesBadArguments(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args    []string
		message string
	}{
		"package with a shell in it":  {[]string{"--packages", "git;reboot", "--tag", "x"}, "not a Debian package name: git;reboot"},
		"package that is an option":   {[]string{"--packages", "-y", "--tag", "x"}, "not a Debian package name: -y"},
		"package with a substitution": {[]string{"--packages", "$(id)", "--tag", "x"}, "not a Debian package name: $(id)"},
		"packages without a tag":      {[]string{"--packages", "make"}, "--packages needs --tag"},
		"tag with blanks":             {[]string{"--tag", "a b"}, "not an image reference: a b"},
		"missing value":               {[]string{"--tag"}, "--tag needs a value"},
		"unknown option":              {[]string{"--frobnicate"}, "usage:"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), "bash", append([]string{script(t)}, c.args...)...).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), c.message)
		})
	}
}
