package background

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Version is how old a program is.
type Version struct {
	Number string // v1.2.3, v1.2.3-rc.1, v1.2.3-4-gabcdef0 (git describe) or anything else
	// Build is the time of the commit, RFC 3339; "" when it is not known.
	Build string
}

// Newer tells whether v is known to be newer than other.
func (v Version) Newer(other Version) bool {
	if a, ok := parseNumber(v.Number); ok {
		if b, ok := parseNumber(other.Number); ok {
			if c := a.compare(b); c != 0 {
				return c > 0
			}
		}
	}
	a, aerr := time.Parse(time.RFC3339, v.Build)
	b, berr := time.Parse(time.RFC3339, other.Build)
	return aerr == nil && berr == nil && a.After(b)
}

// number is a semantic version (2.0.0), with the commits that git describe counts
// since its tag.
type number struct {
	core    [3]int
	pre     []string
	commits int
}

var (
	numberPattern   = regexp.MustCompile(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$`)
	describePattern = regexp.MustCompile(`^(?:(.*)-)?(\d{1,9})-g[0-9a-f]{4,40}$`)
)

func parseNumber(text string) (n number, ok bool) {
	m := numberPattern.FindStringSubmatch(strings.TrimSuffix(text, "-dirty"))
	if m == nil {
		return number{}, false
	}
	for i := range n.core {
		n.core[i], _ = strconv.Atoi(m[i+1]) // digits
	}
	pre := m[4]
	if d := describePattern.FindStringSubmatch(pre); d != nil {
		pre = d[1]
		n.commits, _ = strconv.Atoi(d[2]) // digits
	}
	if pre != "" {
		n.pre = strings.Split(pre, ".")
	}
	return n, true
}

func (n number) compare(o number) int {
	for i := range n.core {
		if c := cmp.Compare(n.core[i], o.core[i]); c != 0 {
			return c
		}
	}
	if c := comparePre(n.pre, o.pre); c != 0 {
		return c
	}
	return cmp.Compare(n.commits, o.commits)
}

// comparePre compares pre-releases, as semver.org's item 11 has it.
func comparePre(a, b []string) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return cmp.Compare(min(len(b), 1), min(len(a), 1)) // a release is newer than its pre-releases
	}
	for i := range min(len(a), len(b)) {
		x, xerr := strconv.Atoi(a[i])
		y, yerr := strconv.Atoi(b[i])
		var c int
		switch {
		case xerr == nil && yerr == nil:
			c = cmp.Compare(x, y)
		case xerr == nil:
			c = -1
		case yerr == nil:
			c = 1
		default:
			c = strings.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
