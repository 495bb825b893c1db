package filetree

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrManifest is wrapped by every error that a manifest itself is the reason of.
var ErrManifest = errors.New("bad manifest")

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ValidDigest tells whether s is a SHA-256 in lower-case hex.
func ValidDigest(s string) bool { return digestPattern.MatchString(s) }

// checker checks the entries of a manifest one after the other. The order is
// the rule that makes it cheap: the root first, a folder's children sorted by
// the bytes of their names, all that is in a child before the next one. So
// nothing comes twice, and nothing lies below a file or a link.
type checker struct {
	entries int
	bytes   int64
	open    []level // the folders on the way to the last entry
	begun   bool
}

// level is a folder and the last of its children so far.
type level struct{ path, last string }

func (c *checker) header(h Header) error {
	if h.Version != 1 {
		return fmt.Errorf("%w: version %d, this program knows 1 alone", ErrManifest, h.Version)
	}
	if h.Name != "" && !validName(string(h.Name)) {
		return fmt.Errorf("%w: %q is no name for a tree", ErrManifest, h.Name)
	}
	return nil
}

func (c *checker) entry(e Entry) error {
	if c.entries++; c.entries > MaxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrManifest, MaxEntries)
	}
	if e.Note() {
		return c.note(e)
	}
	if err := c.fields(e); err != nil {
		return fmt.Errorf("%w: %.200q: %w", ErrManifest, e.Path, err)
	}
	if err := c.place(e); err != nil {
		return fmt.Errorf("%w: %.200q: %w", ErrManifest, e.Path, err)
	}
	return nil
}

func (c *checker) note(e Entry) error {
	if e.Path == "" || len(e.Path) > MaxPath || len(e.Reason) > maxReason || e.Size != 0 || e.SHA256 != "" || e.Target != "" {
		return fmt.Errorf("%w: a note that is none", ErrManifest)
	}
	return nil
}

// maxReason bounds a note's reason, in bytes.
const maxReason = 512

func (c *checker) fields(e Entry) error {
	if e.Mode&^0o777 != 0 {
		return fmt.Errorf("mode %#o is more than permission bits", e.Mode)
	}
	if e.Reason != "" {
		return errors.New("a reason without a note")
	}
	switch e.Type {
	case File:
		if c.bytes += e.Size; e.Size < 0 || e.Size > MaxBytes || c.bytes > MaxBytes {
			return fmt.Errorf("more than %d GiB of content", MaxBytes>>30)
		}
		if !ValidDigest(e.SHA256) || e.Target != "" {
			return errors.New("a file has a SHA-256 and no target")
		}
	case Dir:
		if e.Size != 0 || e.SHA256 != "" || e.Target != "" {
			return errors.New("a folder has no content and no target")
		}
	case Link:
		if e.Size != 0 || e.SHA256 != "" || e.Mode != 0 || e.MTime != 0 {
			return errors.New("a link has nothing but a target")
		}
		if e.Target == "" || len(e.Target) > MaxPath || strings.ContainsRune(string(e.Target), 0) {
			return errors.New("no link leads there")
		}
	default:
		return fmt.Errorf("unknown type %.20q", e.Type)
	}
	return nil
}

// place checks the path against those of the entries before.
func (c *checker) place(e Entry) error {
	path := string(e.Path)
	if !c.begun {
		if path != "." {
			return errors.New("the root comes first")
		}
		c.begun = true
		if e.Type == Dir {
			c.open = []level{{path: "."}}
		}
		return nil
	}
	if len(path) > MaxPath {
		return errors.New("the path is too long")
	}
	parent, name := ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	if !validName(name) || strings.HasPrefix(path, "./") {
		return errors.New("not a path within the tree")
	}
	for len(c.open) > 0 && c.open[len(c.open)-1].path != parent {
		c.open = c.open[:len(c.open)-1]
	}
	if len(c.open) == 0 {
		return errors.New("its folder is not the one at hand")
	}
	up := &c.open[len(c.open)-1]
	if name <= up.last {
		return errors.New("out of order, or twice")
	}
	up.last = name
	if e.Type == Dir {
		if len(c.open) > MaxDepth {
			return fmt.Errorf("more than %d folders in each other", MaxDepth)
		}
		c.open = append(c.open, level{path: path})
	}
	return nil
}

// validName tells whether s is the name of something in a folder. As every
// folder on the way to an entry is an entry itself, this is all there is to
// check of a path.
func validName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= MaxName && !strings.ContainsAny(s, "/\x00")
}

// leaves tells whether a link at path may lead out of the tree. A folder on the
// way to the link is a real one, so that the first ".." of a target are exact;
// one that comes later may stand behind another link, and counts as leaving.
func leaves(path, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	depth := strings.Count(path, "/")
	down := false
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if depth--; depth < 0 || down {
				return true
			}
		default:
			down = true
		}
	}
	return false
}
