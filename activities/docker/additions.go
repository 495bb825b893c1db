package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"time"
)

// additions is what a derived image gets beside the guest.
type additions struct {
	workingDir string
	// dirs are missing directories, parents first.
	dirs []tar.Header
	// passwd and group are whole new contents; nil leaves the file alone.
	passwd, group []byte
}

// place adds the home directory. A directory that exists is left alone (an
// archive would change its owner and mode), unless it is the home and not the
// sandbox user's.
func (a *additions) place(ctx context.Context, files tree) error {
	for _, dir := range []struct {
		name string
		uid  int
		mode int64
	}{{"/etc", 0, 0o755}, {"/home", 0, 0o755}, {homeDir, sandboxUID, 0o755}, {"/tmp", 0, 0o1777}} {
		uid, ok, err := files.directory(ctx, dir.name)
		if err != nil {
			return err
		}
		if !ok || (dir.uid != 0 && uid != dir.uid) {
			a.dirs = append(a.dirs, directoryHeader(dir.name, dir.uid, dir.mode))
		}
	}
	return nil
}

// accounts gives uid and gid 1000 a name, so that programs that ask who they are
// get an answer.
func (a *additions) accounts(ctx context.Context, files tree) error {
	passwd, err := files.text(ctx, "/etc/passwd")
	if err != nil {
		return err
	}
	group, err := files.text(ctx, "/etc/group")
	if err != nil {
		return err
	}
	a.passwd = withAccount(passwd, "root:x:0:0:root:/root:/bin/sh", ":x:1000:1000:sandbox:"+homeDir+":/bin/sh")
	a.group = withAccount(group, "root:x:0:", ":x:1000:")
	return nil
}

// withAccount adds a line for ID 1000 under a free name; nil when there is one.
func withAccount(text []byte, root, rest string) []byte {
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 2 && fields[2] == strconv.Itoa(sandboxUID) {
			return nil
		}
		names[fields[0]] = true
	}
	name := "sandbox"
	for names[name] {
		name += "_"
	}
	out := bytes.Clone(text)
	if len(out) == 0 {
		out = append(out, root+"\n"...)
	}
	if out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, name+rest+"\n"...)
}

// archive is what is extracted at the root of the image.
func (a *additions) archive(guest []byte) (io.Reader, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	headers := append(a.dirs, directoryHeader(guestDir, 0, 0o700), directoryHeader(stateDir, 0, 0o700))
	for i := range headers {
		if err := w.WriteHeader(&headers[i]); err != nil {
			return nil, err
		}
	}
	for _, file := range []struct {
		name string
		mode int64
		data []byte
	}{{guestPath, 0o700, guest}, {"/etc/passwd", 0o644, a.passwd}, {"/etc/group", 0o644, a.group}} {
		if file.data == nil {
			continue
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(file.name, "/"), Mode: file.mode, Size: int64(len(file.data)), ModTime: epoch}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.data); err != nil {
			return nil, err
		}
	}
	return &buffer, w.Close()
}

// epoch is the time of what is added, so that it does not depend on when.
var epoch = time.Unix(0, 0)

func directoryHeader(name string, uid int, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(name, "/") + "/", Uid: uid, Gid: uid, Mode: mode, ModTime: epoch}
}
