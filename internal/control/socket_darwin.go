package control

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// shorten gives another name of a directory: a socket's path has room for 103
// bytes only, whatever the data dir's is. It is a link in a directory of this
// user's alone.
func shorten(dir string) (short string, release func(), err error) {
	sum := sha256.Sum256([]byte(dir))
	own := filepath.Join(os.TempDir(), "mcp-sandbox-"+strconv.Itoa(os.Geteuid()))
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(own)
	if err != nil {
		return "", nil, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(st.Uid) != os.Geteuid() {
		return "", nil, fmt.Errorf("%s must be a directory of this user with mode 0700; remove it", own)
	}
	link := filepath.Join(own, hex.EncodeToString(sum[:4]))
	if target, err := os.Readlink(link); err != nil || target != dir {
		_ = os.Remove(link)
		if err := os.Symlink(dir, link); err != nil && !os.IsExist(err) {
			return "", nil, err
		}
	}
	return link, func() {}, nil
}

// peerUID is who is at the other end.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, fmt.Errorf("peer of the socket: %w", credErr)
	}
	return int(cred.Uid), nil
}
