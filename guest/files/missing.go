//go:build linux

package files

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// maxSiblings bounds how many names of a directory are looked at for similar
// ones.
const maxSiblings = 10_000

// notFound says that nothing is at path, and what is there instead: similar
// names, or the last part of the path that exists.
func notFound(path string) *guest.Error {
	for at := path; ; {
		if link, err := os.Readlink(at); err == nil {
			return guest.Errorf(guest.CodeNotFound,
				"%s does not exist: %s is a link to %s, where nothing is", path, at, link)
		}
		dir, name := split(at)
		st, err := os.Stat(dir)
		switch {
		case err == nil && !st.IsDir():
			return guest.Errorf(guest.CodeNotFound, "%s does not exist: %s is a file, not a directory", path, dir)
		case err == nil || dir == "/":
			return guest.Errorf(guest.CodeNotFound, "%s does not exist: %s", path, instead(dir, name))
		}
		at = dir
	}
}

// instead words what is in dir where name is not.
func instead(dir, name string) string {
	similar := similarNames(dir, name)
	if len(similar) == 0 {
		return fmt.Sprintf("%s has no %q; list it with `ls -la` through run_command", dir, name)
	}
	return fmt.Sprintf("%s has no %q, but has %s", dir, name, strings.Join(similar, ", "))
}

// similarNames gives up to three names in dir that look like name, quoted, the
// most similar first.
func similarNames(dir, name string) []string {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), dir)
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(maxSiblings) // its error only means fewer hints

	like := newLikeness(strings.ToLower(name))
	var best ranking
	for i, n := range names {
		best.add(i, like.score([]byte(strings.ToLower(n))))
	}
	quoted := make([]string, 0, len(best))
	for _, c := range best {
		quoted = append(quoted, fmt.Sprintf("%q", names[c.index]))
	}
	return quoted
}
