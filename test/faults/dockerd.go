package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	docker "github.com/docker/docker/client"
)

// diskMB is the size of the own engine's disk, which is filled now and then.
const diskMB = 1024

// daemon is a second dockerd beside the machine's, on a disk of its own. It
// shares nothing with the other but the kernel.
type daemon struct {
	*process
	dir, data string
	host      string
	api       *docker.Client
}

// openDaemon starts the engine and gives it the image from the shared one.
func openDaemon(ctx context.Context, l *lab, shared *docker.Client) (_ *daemon, err error) {
	d := &daemon{dir: filepath.Join(l.dir, "engine"), data: filepath.Join(l.dir, "engine", "data")}
	d.host = "unix://" + filepath.Join(d.dir, "docker.sock")
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(context.WithoutCancel(ctx)))
		}
	}()
	if err := d.disk(ctx); err != nil {
		return d, fmt.Errorf("a disk for a second dockerd: %w", err)
	}
	if d.api, err = docker.NewClientWithOpts(docker.WithHost(d.host), docker.WithAPIVersionNegotiation()); err != nil {
		return d, err
	}
	if d.process, err = l.newProcess("dockerd", func(ctx context.Context, _ string) bool {
		_, err := d.api.Ping(ctx)
		return err == nil
	}); err != nil {
		return d, err
	}
	if err := d.start(ctx); err != nil {
		return d, err
	}
	saved, err := shared.ImageSave(ctx, []string{l.opts.image})
	if err != nil {
		return d, err
	}
	defer func() { _ = saved.Close() }()
	loaded, err := d.api.ImageLoad(ctx, saved)
	if err != nil {
		return d, err
	}
	defer func() { _ = loaded.Body.Close() }()
	_, err = io.Copy(io.Discard, loaded.Body)
	return d, err
}

// disk makes a file system in a file and mounts it.
func (d *daemon) disk(ctx context.Context) error {
	if err := os.MkdirAll(d.data, 0o700); err != nil {
		return err
	}
	file := filepath.Join(d.dir, "disk")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, diskMB<<20)); err != nil {
		return err
	}
	return firstOf(command(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", file), command(ctx, "mount", "-o", "loop", file, d.data))
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput() //nolint:gosec // words of ours
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// start starts dockerd, more than once if it does not find its containerd: one
// that was killed leaves a pid file and sometimes its containerd.
func (d *daemon) start(ctx context.Context) error {
	var err error
	for range 4 {
		d.killContainerd()
		if err = os.Remove(filepath.Join(d.dir, "pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		err = firstOf(d.launch("dockerd", "--data-root", d.data, "--exec-root", filepath.Join(d.dir, "exec"), "-H", d.host,
			"--pidfile", filepath.Join(d.dir, "pid"), "--bridge", "none", "--iptables=false"), d.await(ctx))
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// killContainerd kills the containerd that this engine started, if it lives.
func (d *daemon) killContainerd() {
	exec := filepath.Join(d.dir, "exec")
	text, err := os.ReadFile(filepath.Join(exec, "containerd", "containerd.pid")) //nolint:gosec // in a folder of ours
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 || !runsFrom(pid, exec) {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for runsFrom(pid, exec) {
		time.Sleep(pollInterval)
	}
}

// runsFrom tells whether a process is one of this engine's: its command line
// names the folder.
func runsFrom(pid int, folder string) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && strings.Contains(string(line), folder)
}

// killEngine kills dockerd. The containers die when it comes back.
func (n *nemesis) killEngine(ctx context.Context, d draw) (time.Time, *record, error) {
	e := n.lab.engine
	e.kill()
	sleep(ctx, d.down)
	err := e.start(ctx) // some 15 s of its own
	return time.Now(), nil, err
}

// fillDisk leaves no space to the engine, and so to the sandboxes, for a while.
func (n *nemesis) fillDisk(ctx context.Context, d draw) (time.Time, *record, error) {
	file := filepath.Join(n.lab.engine.data, "fill")
	defer func() { _ = os.Remove(file) }()
	// fallocate is refused when it does not fit: fill what is left by writing.
	_ = command(ctx, "dd", "if=/dev/zero", "of="+file, "bs=1M")
	sleep(ctx, d.frozen)
	err := os.Remove(file)
	return time.Now(), nil, err
}

// close ends the engine with all that it runs, and frees its disk. What the
// containers need is in its folders alone.
func (d *daemon) close(ctx context.Context) error {
	var errs []error
	if d.process != nil {
		errs = append(errs, d.stop())
		_ = d.log.Close()
	}
	d.killContainerd()
	if d.api != nil {
		_ = d.api.Close()
	}
	d.killShims()
	mounts, _ := os.ReadFile("/proc/self/mounts")
	var ours []string
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], d.dir+"/") {
			ours = append(ours, f[1])
		}
	}
	for _, mount := range slices.Backward(ours) { // what was mounted last goes first
		errs = append(errs, command(ctx, "umount", mount))
	}
	return errors.Join(errs...)
}

// killShims kills what still runs from the engine's folders: shims of containers
// outlive it.
func (d *daemon) killShims() {
	exec := filepath.Join(d.dir, "exec")
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && pid != os.Getpid() && runsFrom(pid, exec) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
