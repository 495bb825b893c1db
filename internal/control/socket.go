package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// Listen makes the socket of a data dir, in the place of one that a killed server
// left. The caller holds the data dir's lock exclusively. Connections of other
// users than its own and root are closed. Close removes the socket.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket of a server before: %w", err)
	}
	short, release, err := shorten(dir)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer release()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", filepath.Join(short, SocketFile))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it knows the short name only
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a socket's x bit means nothing; r and w are the owner's
		_ = l.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return &ownListener{Listener: l, path: path}, nil
}

// ownListener accepts connections of this user and of root.
type ownListener struct {
	net.Listener
	path  string
	close sync.Once
	err   error
}

func (l *ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(conn.(*net.UnixConn))
		if err == nil && (uid == os.Geteuid() || uid == 0) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// Close removes the socket first, so that nobody finds it who would not be
// served.
func (l *ownListener) Close() error {
	l.close.Do(func() {
		err := os.Remove(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the data dir was removed
		}
		l.err = errors.Join(err, l.Listener.Close())
	})
	return l.err
}

// dial connects to the socket of a data dir.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	short, release, err := shorten(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(short, SocketFile))
}
