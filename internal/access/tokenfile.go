package access

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxTokenFile bounds what is read, in bytes: some 40,000 tokens.
const maxTokenFile = 4 << 20

// OpenTokenFile takes callers for the owners that the file at path names. Each
// line is "owner:hash", the hash being the SHA-256 of the token in hex, as
// NewToken makes it; blank lines and lines that start with # are skipped. An
// owner may have several tokens, a token one owner.
//
// Others may read the file, as Kubernetes mounts secrets so and hashes give no
// access, but only root or this user may write it. It is read again within a
// second of a change. A version that is broken or gone is logged, and the last
// good one stays in force; one without any token is no error and shuts
// everybody out.
func OpenTokenFile(path string, opts Options) (Authenticator, error) {
	f := &tokenFile{path: path}
	s := &source{opts: opts.withDefaults(), load: f.load}
	if err := s.open(); err != nil {
		return nil, err
	}
	if len(s.entries) == 0 {
		return nil, fmt.Errorf("%s has no token in it, so nobody could use the server; add a line with: mcp-sandbox token new OWNER", path)
	}
	return s, nil
}

type tokenFile struct {
	path string
	last version
}

// version tells one content of a file from another. The change time is in it
// because a program can set the modification time back.
type version struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

func (f *tokenFile) load() (entries []entry, changed bool, err error) {
	// Without O_NONBLOCK the opening of a pipe would wait for ever.
	file, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, fmt.Errorf("token file: %w", err)
	}
	defer func() { _ = file.Close() }()
	v, err := f.check(file)
	if err != nil {
		return nil, false, err
	}
	if v == f.last {
		return nil, false, nil
	}
	text, err := io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	if err != nil {
		return nil, false, fmt.Errorf("token file: %w", err)
	}
	if len(text) > maxTokenFile {
		return nil, false, fmt.Errorf("token file %s is over %d bytes", f.path, maxTokenFile)
	}
	if entries, err = parseTokens(f.path, text); err != nil {
		return nil, false, err
	}
	f.last = v // of good versions only: a bad one is looked at again
	return entries, true, nil
}

// check refuses a file that others could put a token of their own into.
func (f *tokenFile) check(file *os.File) (version, error) {
	info, err := file.Stat()
	if err != nil {
		return version{}, fmt.Errorf("token file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return version{}, fmt.Errorf("token file %s is no regular file", f.path)
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return version{}, fmt.Errorf("token file %s has mode %#o, so that others can write it; run: chmod go-w %s", f.path, perm, f.path)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return version{}, fmt.Errorf("token file: %w", err)
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return version{}, fmt.Errorf("token file %s belongs to uid %d, who is neither root nor this user (uid %d); run: chown %d %s",
			f.path, st.Uid, os.Geteuid(), os.Geteuid(), f.path)
	}
	return version{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}, nil //nolint:gosec,unconvert,nolintlint // Dev is signed on some systems
}

// parseTokens reads the lines of a token file; path is for the messages, which
// quote no line, as someone may have put a token in clear text there.
func parseTokens(path string, text []byte) ([]entry, error) {
	var entries []entry
	seen := make(map[[sha256.Size]byte]int)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseToken(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if first, dup := seen[e.hash]; dup {
			return nil, fmt.Errorf("%s:%d: this token is on line %d already; remove one, a token has one owner", path, n, first)
		}
		seen[e.hash] = n
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	return entries, nil
}

func parseToken(line string) (entry, error) {
	owner, hashHex, ok := strings.Cut(line, ":")
	if !ok {
		return entry{}, errors.New("a line is owner:hash; make one with: mcp-sandbox token new OWNER")
	}
	if !ownerPattern.MatchString(owner) {
		return entry{}, errors.New("the owner, before the colon, is 1 to 64 characters of A-Z a-z 0-9 . _ @ -")
	}
	hash, err := hex.DecodeString(hashHex)
	if err != nil || len(hash) != sha256.Size {
		return entry{}, errors.New("after the colon comes the token's SHA-256, 64 hexadecimal digits, and not the token itself; " +
			"make a line with: mcp-sandbox token new OWNER")
	}
	return entry{hash: [sha256.Size]byte(hash), owner: owner}, nil
}
