package docker_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/guest/embedded"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func from(ref string) func(*activities.SandboxSpec) {
	return func(s *activities.SandboxSpec) { s.Image = ref }
}

func TestBareImage(t *testing.T) {
	l := newLab(t)
	box, api := create(t, l.Backend, spec(from(bare)))
	require.Equal(t, bare, box.Image)
	require.Equal(t, "/home/sandbox", box.WorkingDir)
	require.Equal(t, "/home/sandbox\n/home/sandbox\n", sh(t, api, "pwd; echo $HOME"))
	require.Equal(t, "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n", sh(t, api, "/bin/busybox cat /etc/passwd"))
	require.Equal(t, "sandbox\n", sh(t, api, "/bin/busybox id -un"))
	sh(t, api, "echo x > file; echo x > /tmp/file")
}

func TestWorkingDir(t *testing.T) {
	l := newLab(t)
	for dir, want := range map[string]string{
		"/bin":          "/home/sandbox", // the sandbox user could not write there
		"/missing":      "/home/sandbox",
		"/home/sandbox": "/home/sandbox",
		"/srv/own":      "/srv/own",
	} {
		box, api := create(t, l.Backend, spec(from(imageOf(t, l, "USER root", "WORKDIR "+dir))))
		require.Equal(t, want, box.WorkingDir)
		require.Equal(t, want+"\n", sh(t, api, "touch file; pwd"))
	}
}

func TestVolumesOfImages(t *testing.T) {
	l := newLab(t)
	ref := imageOf(t, l, "VOLUME /tmp", "VOLUME /data")
	s := spec(from(ref))
	box, api := create(t, l.Backend, s)
	sh(t, api, "echo x > /tmp/file")
	taken := snapshot(t, l.Backend, box.Ref)
	require.Subset(t, taken.Excluded, []string{"/data", "/tmp"})

	s.Incarnation, s.SnapshotID = 2, taken.SnapshotID
	_, api = create(t, l.Backend, s)
	fails(t, api, "test -e /tmp/file")
	require.NoError(t, l.RemoveSession(t.Context(), s.SessionID))
	for _, r := range inventory(t, l.Backend) {
		require.Equal(t, activities.KindImage, r.Kind, "%v", r)
	}

	_, err := l.CreateSandbox(t.Context(), spec(from(imageOf(t, l, "VOLUME /home"))))
	require.Equal(t, session.InvalidArgument, session.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "VOLUME /home")
}

func TestImagesRefused(t *testing.T) { // D9
	l := newLab(t)
	box, _ := create(t, l.Backend, spec())
	taken := snapshot(t, l.Backend, box.Ref)
	base, err := l.api.ImageInspect(t.Context(), busybox)
	require.NoError(t, err)
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[base.Architecture]
	before := inventory(t, l.Backend)
	for name, c := range map[string]struct {
		ref  string
		code session.Code
		says string
	}{
		"no shell":      {loaded(t, l, "file", base.Architecture), session.InvalidArgument, "neither /bin/sh nor /bin/bash"},
		"architecture":  {loaded(t, l, "bin/sh", other), session.InvalidArgument, "linux/" + other},
		"unreachable":   {"127.0.0.1:9/none:latest", session.NotFound, "registry cannot be reached"},
		"no reference":  {"UPPER/case", session.InvalidArgument, "no image reference"},
		"a snapshot":    {"mcp-sandbox/snapshot:" + taken.SnapshotID, session.InvalidArgument, "snapshot_id"},
		"a snapshot ID": {taken.ImageID, session.InvalidArgument, "snapshot_id"},
	} {
		_, err := l.CreateSandbox(t.Context(), spec(from(c.ref)))
		require.Equal(t, c.code, session.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, c.ref)
	}
	require.ElementsMatch(t, before, inventory(t, l.Backend), "nothing is left behind")
}

func TestDerivedOnce(t *testing.T) {
	l := newLab(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		b := l.reopen(t)
		wg.Go(func() { _, errs[i] = b.CreateSandbox(t.Context(), spec()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	tagged := 0
	for _, i := range images(t, l, session.LabelKind+"=derived") {
		if len(i.RepoTags) > 0 && i.RepoTags[0] != "<none>:<none>" {
			tagged++
		}
	}
	require.Equal(t, 1, tagged)
}

func TestNewerGuest(t *testing.T) {
	l := newLab(t)
	s := spec()
	box, api := create(t, l.Backend, s)
	sh(t, api, "echo kept > file")
	taken := snapshot(t, l.Backend, box.Ref)

	newer := l.reopen(t, func(o *docker.Options) {
		o.Guest = func(arch string) ([]byte, error) {
			binary, err := embedded.Binary(arch)
			return append(slices.Clone(binary), "newer"...), err
		}
	})
	api, err := newer.Guest(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, "kept\n", sh(t, api, "cat file"), "the older guest still serves")
	s.Incarnation, s.SnapshotID = 2, taken.SnapshotID
	restored, api := create(t, newer, s)
	require.Equal(t, "kept\n", sh(t, api, "cat file"))
	require.Equal(t, busybox, restored.Image)
	info, err := l.api.ContainerInspect(t.Context(), restored.Ref.ContainerID)
	require.NoError(t, err)
	require.NotEqual(t, taken.ImageID, info.Image)

	require.NoError(t, newer.RemoveSnapshot(t.Context(), taken.SnapshotID))
	require.NoError(t, newer.RemoveSession(t.Context(), s.SessionID))
	require.Empty(t, images(t, l, session.LabelSnapshot+"="+taken.SnapshotID), "its files are in no derived image either")
}

// A snapshot of a sandbox that was restored stands on the one before, which is
// deleted first and cannot go then.
func TestSnapshotsOnSnapshots(t *testing.T) {
	for _, ended := range []bool{false, true} {
		l := newLab(t)
		s := spec()
		box, api := create(t, l.Backend, s)
		var taken []string
		for i := range 3 {
			sh(t, api, fmt.Sprintf("echo %d > file", i))
			taken = append(taken, snapshot(t, l.Backend, box.Ref).SnapshotID)
			s.Incarnation, s.SnapshotID = i+2, taken[i]
			box, api = create(t, l.Backend, s)
		}
		if ended {
			require.NoError(t, l.RemoveSession(t.Context(), s.SessionID))
		}
		for _, id := range taken {
			require.NoError(t, l.RemoveSnapshot(t.Context(), id))
		}
		if !ended {
			require.Equal(t, "2\n", sh(t, api, "cat file"))
			require.NoError(t, l.RemoveSession(t.Context(), s.SessionID))
		}
		require.Empty(t, images(t, l, session.LabelKind+"=image"), "ended before: %t", ended)
	}
}

func TestPlacesOutsideSnapshots(t *testing.T) { // D6
	l := newLab(t)
	box, api := create(t, l.Backend, spec())
	taken := snapshot(t, l.Backend, box.Ref)
	mounts := map[string]string{} // by place: the type
	for line := range strings.Lines(sh(t, api, "cat /proc/mounts")) {
		fields := strings.Fields(line)
		mounts[fields[1]] = fields[2]
		if strings.HasPrefix(fields[3], "ro,") {
			mounts[fields[1]] = "read-only"
		}
	}
	writable := strings.Fields(sh(t, api, "find / -type d -exec test -w {} \\; -print 2>/dev/null || true"))
	require.Contains(t, writable, "/tmp")
	for _, dir := range writable {
		mount := dir
		for mounts[mount] == "" {
			mount = mount[:max(1, strings.LastIndexByte(mount, '/'))]
		}
		switch mounts[mount] {
		case "overlay", "read-only", "proc": // a process's own folders in /proc hold no files
		default:
			require.Contains(t, taken.Excluded, mount, dir)
		}
	}
}

func inventory(tb testing.TB, b *docker.Backend) []activities.Resource {
	tb.Helper()
	all, err := b.Inventory(tb.Context())
	require.NoError(tb, err)
	return all
}

func images(tb testing.TB, l lab, label string) []image.Summary {
	tb.Helper()
	filter := filters.NewArgs(filters.Arg("label", session.LabelInstallation+"="+l.installation), filters.Arg("label", label))
	all, err := l.api.ImageList(tb.Context(), image.ListOptions{All: true, Filters: filter})
	require.NoError(tb, err)
	return all
}
