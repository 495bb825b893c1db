package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/embedded"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	busybox = "mcp-sandbox/test-busybox:latest"
	bare    = "mcp-sandbox/test-bare:latest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine gives a client of the engine that tests use, or skips.
func engine(t testing.TB) *client.Client {
	t.Helper()
	host, err := docker.ResolveHost(os.Getenv, os.Getenv("HOME"))
	require.NoError(t, err)
	api, err := client.NewClientWithOpts(client.WithHost(host.Address), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Close() })
	for _, ref := range []string{busybox, bare} {
		_, err = api.ImageInspect(t.Context(), ref)
		need(t, err)
	}
	_, err = embedded.Binary(embedded.AMD64)
	need(t, err)
	return api
}

func need(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("MCP_SANDBOX_REQUIRE") == "docker" {
		require.NoError(t, err, "run `make setup guest && images/test/build.sh`")
	}
	t.Skipf("needs a Docker Engine, the test images and a guest; run `make test`, or `make setup guest && images/test/build.sh`: %v", err)
}

// lab is one installation of its own on the engine, removed after the test
// whatever happened in it.
type lab struct {
	*docker.Backend
	api          *client.Client
	installation string
	opts         docker.Options
}

func newLab(t testing.TB, change ...func(*docker.Options)) lab {
	t.Helper()
	api := engine(t)
	l := lab{api: api, installation: "test-" + strings.ToLower(rand.Text())}
	t.Cleanup(func() { sweep(t, api, l.installation) })
	opts := docker.Options{
		Client: api, InstallationID: l.installation, HostID: "host", DefaultImage: busybox, Guest: embedded.Binary,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&opts)
	}
	l.opts = opts
	l.Backend = l.reopen(t)
	return l
}

// sweep removes by label all that a test made.
func sweep(t testing.TB, api *client.Client, installation string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ours := filters.NewArgs(filters.Arg("label", session.LabelInstallation+"="+installation))
	containers, err := api.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	require.NoError(t, err)
	for _, c := range containers {
		_ = api.ContainerUnpause(ctx, c.ID)
		_ = api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	volumes, err := api.VolumeList(ctx, volume.ListOptions{Filters: ours})
	require.NoError(t, err)
	for _, v := range volumes.Volumes {
		_ = api.VolumeRemove(ctx, v.Name, true)
	}
	networks, err := api.NetworkList(ctx, network.ListOptions{Filters: ours})
	require.NoError(t, err)
	for _, n := range networks {
		_ = api.NetworkRemove(ctx, n.ID)
	}
	for range 3 { // children before parents
		images, err := api.ImageList(ctx, image.ListOptions{All: true, Filters: ours})
		require.NoError(t, err)
		for _, i := range images {
			_, _ = api.ImageRemove(ctx, i.ID, image.RemoveOptions{Force: true, PruneChildren: true})
		}
	}
}

// spec describes a sandbox of a session of its own.
func spec(change ...func(*activities.SandboxSpec)) activities.SandboxSpec {
	s := activities.SandboxSpec{
		SessionID: session.MakeSessionID([]byte(rand.Text()), "owner", "call"), Incarnation: 1, Owner: "owner", CallID: session.NewCallID(),
		Network: session.NetworkNone, MemoryMB: 128, CPUs: 1, ExpiresAt: time.Now().Add(time.Hour),
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func create(t testing.TB, b *docker.Backend, s activities.SandboxSpec) (activities.Sandbox, guest.API) {
	t.Helper()
	box, err := b.CreateSandbox(t.Context(), s)
	require.NoError(t, err)
	api, err := b.Guest(t.Context(), box.Ref)
	require.NoError(t, err)
	return box, api
}

func snapshot(t testing.TB, b *docker.Backend, ref activities.SandboxRef) activities.SnapshotImage {
	t.Helper()
	call := session.NewCallID()
	taken, err := b.TakeSnapshot(t.Context(), activities.SnapshotSpec{
		Sandbox: ref, SnapshotID: session.MakeSnapshotID(ref.SessionID, call), CallID: call, Owner: "owner",
	})
	require.NoError(t, err)
	return taken
}

func request(command string) guest.RunRequest {
	return guest.RunRequest{CallID: session.NewCallID(), Command: command, WaitMS: 20_000, MaxOutput: 64 << 10, ArgsDigest: command}
}

// sh runs a command that must succeed and gives its stdout.
func sh(t testing.TB, api guest.API, command string) string {
	t.Helper()
	c, err := api.Run(t.Context(), request(command))
	require.NoError(t, err)
	require.NotNil(t, c.ExitCode)
	require.Zero(t, *c.ExitCode, "%s: %s%s", command, c.Stdout.Head, c.Stderr.Head)
	return string(c.Stdout.Head) + string(c.Stdout.Tail)
}

// fails runs a command that must end, and not well.
func fails(t testing.TB, api guest.API, command string) {
	t.Helper()
	c, err := api.Run(t.Context(), request(command))
	require.NoError(t, err)
	require.Equal(t, guest.StatusExited, c.Status)
	require.False(t, c.ExitCode != nil && *c.ExitCode == 0, "%s: %s%s", command, c.Stdout.Head, c.Stderr.Head)
}

// imageOf makes an image of busybox with changes as in a Dockerfile.
func imageOf(t testing.TB, l lab, changes ...string) string {
	t.Helper()
	ref := "mcp-sandbox/" + l.installation + ":" + strings.ToLower(rand.Text())
	made, err := l.api.ContainerCreate(t.Context(), &container.Config{Image: busybox}, nil, nil, nil, "")
	require.NoError(t, err)
	remove := container.RemoveOptions{Force: true, RemoveVolumes: true}
	t.Cleanup(func() { _ = l.api.ContainerRemove(context.WithoutCancel(t.Context()), made.ID, remove) })
	var own bytes.Buffer // a folder of the sandbox user's
	w := tar.NewWriter(&own)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "srv/own/", Mode: 0o755, Uid: 1000, Gid: 1000}))
	require.NoError(t, w.Close())
	require.NoError(t, l.api.CopyToContainer(t.Context(), made.ID, "/", &own, container.CopyToContainerOptions{}))
	_, err = l.api.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: ref, Changes: changes})
	require.NoError(t, err)
	require.NoError(t, l.api.ContainerRemove(t.Context(), made.ID, remove))
	forget(t, l, ref)
	return ref
}

// imported makes an image of a single file.
func imported(t testing.TB, l lab, name, platform string) string {
	t.Helper()
	ref := "mcp-sandbox/" + l.installation + ":" + strings.ToLower(rand.Text())
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}))
	require.NoError(t, w.Close())
	body, err := l.api.ImageImport(t.Context(), image.ImportSource{Source: &archive, SourceName: "-"}, ref, image.ImportOptions{Platform: platform})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, body)
	require.NoError(t, errors.Join(err, body.Close()))
	forget(t, l, ref)
	return ref
}

// forget removes an image that carries none of our labels, after those that do.
func forget(t testing.TB, l lab, ref string) {
	t.Cleanup(func() {
		sweep(t, l.api, l.installation)
		_, err := l.api.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{Force: true, PruneChildren: true})
		require.NoError(t, err)
	})
}
