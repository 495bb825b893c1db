package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
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
func engine(tb testing.TB) *client.Client {
	tb.Helper()
	host, err := docker.ResolveHost(os.Getenv, os.Getenv("HOME"))
	require.NoError(tb, err)
	api, err := client.NewClientWithOpts(client.WithHost(host.Address), client.WithAPIVersionNegotiation())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = api.Close() })
	for _, ref := range []string{busybox, bare} {
		_, err = api.ImageInspect(tb.Context(), ref)
		need(tb, err)
	}
	_, err = embedded.Binary(embedded.AMD64)
	need(tb, err)
	return api
}

func need(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	if os.Getenv("MCP_SANDBOX_REQUIRE") == "docker" {
		require.NoError(tb, err, "run `make setup guest && images/test/build.sh`")
	}
	tb.Skipf("needs a Docker Engine, the test images and a guest; run `make test`, or `make setup guest && images/test/build.sh`: %v", err)
}

// lab is one installation of its own on the engine, removed after the test
// whatever happened in it.
type lab struct {
	*docker.Backend
	api          *client.Client
	installation string
	opts         docker.Options
}

func newLab(tb testing.TB, change ...func(*docker.Options)) lab {
	tb.Helper()
	api := engine(tb)
	l := lab{api: api, installation: "test-" + strings.ToLower(rand.Text())}
	tb.Cleanup(func() { sweep(tb, api, l.installation) })
	opts := docker.Options{
		Client: api, InstallationID: l.installation, HostID: "host", DefaultImage: busybox, Guest: embedded.Binary,
		Logger: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&opts)
	}
	l.opts = opts
	l.Backend = l.reopen(tb)
	return l
}

// sweep removes by label all that a test made.
func sweep(tb testing.TB, api *client.Client, installation string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ours := filters.NewArgs(filters.Arg("label", session.LabelInstallation+"="+installation))
	containers, err := api.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	require.NoError(tb, err)
	for _, c := range containers {
		_ = api.ContainerUnpause(ctx, c.ID)
		_ = api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	volumes, err := api.VolumeList(ctx, volume.ListOptions{Filters: ours})
	require.NoError(tb, err)
	for _, v := range volumes.Volumes {
		_ = api.VolumeRemove(ctx, v.Name, true)
	}
	networks, err := api.NetworkList(ctx, network.ListOptions{Filters: ours})
	require.NoError(tb, err)
	for _, n := range networks {
		_ = api.NetworkRemove(ctx, n.ID)
	}
	for range 3 { // children before parents
		images, err := api.ImageList(ctx, image.ListOptions{All: true, Filters: ours})
		require.NoError(tb, err)
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

func create(tb testing.TB, b *docker.Backend, s activities.SandboxSpec) (activities.Sandbox, guest.API) {
	tb.Helper()
	box, err := b.CreateSandbox(tb.Context(), s)
	require.NoError(tb, err)
	api, err := b.Guest(tb.Context(), box.Ref)
	require.NoError(tb, err)
	return box, api
}

func snapshot(tb testing.TB, b *docker.Backend, ref activities.SandboxRef) activities.SnapshotImage {
	tb.Helper()
	call := session.NewCallID()
	taken, err := b.TakeSnapshot(tb.Context(), activities.SnapshotSpec{
		Sandbox: ref, SnapshotID: session.MakeSnapshotID(ref.SessionID, call), CallID: call, Owner: "owner",
	})
	require.NoError(tb, err)
	return taken
}

func request(command string) guest.RunRequest {
	return guest.RunRequest{CallID: session.NewCallID(), Command: command, WaitMS: 20_000, MaxOutput: 64 << 10, ArgsDigest: command}
}

// sh runs a command that must succeed and gives its stdout.
func sh(tb testing.TB, api guest.API, command string) string {
	tb.Helper()
	c, err := api.Run(tb.Context(), request(command))
	require.NoError(tb, err)
	require.NotNil(tb, c.ExitCode)
	require.Zero(tb, *c.ExitCode, "%s: %s%s", command, c.Stdout.Head, c.Stderr.Head)
	return string(c.Stdout.Head) + string(c.Stdout.Tail)
}

// fails runs a command that must end, and not well.
func fails(tb testing.TB, api guest.API, command string) {
	tb.Helper()
	c, err := api.Run(tb.Context(), request(command))
	require.NoError(tb, err)
	require.Equal(tb, guest.StatusExited, c.Status)
	require.False(tb, c.ExitCode != nil && *c.ExitCode == 0, "%s: %s%s", command, c.Stdout.Head, c.Stderr.Head)
}

// imageOf makes an image of busybox with changes as in a Dockerfile.
func imageOf(tb testing.TB, l lab, changes ...string) string {
	tb.Helper()
	ref := "mcp-sandbox/" + l.installation + ":" + strings.ToLower(rand.Text())
	made, err := l.api.ContainerCreate(tb.Context(), &container.Config{Image: busybox}, nil, nil, nil, "")
	require.NoError(tb, err)
	remove := container.RemoveOptions{Force: true, RemoveVolumes: true}
	tb.Cleanup(func() { _ = l.api.ContainerRemove(context.WithoutCancel(tb.Context()), made.ID, remove) })
	var own bytes.Buffer // a folder of the sandbox user's
	w := tar.NewWriter(&own)
	require.NoError(tb, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "srv/own/", Mode: 0o755, Uid: 1000, Gid: 1000}))
	require.NoError(tb, w.Close())
	require.NoError(tb, l.api.CopyToContainer(tb.Context(), made.ID, "/", &own, container.CopyToContainerOptions{}))
	_, err = l.api.ContainerCommit(tb.Context(), made.ID, container.CommitOptions{Reference: ref, Changes: changes})
	require.NoError(tb, err)
	require.NoError(tb, l.api.ContainerRemove(tb.Context(), made.ID, remove))
	forget(tb, l, ref)
	return ref
}

// loaded makes an image of a single file, for any architecture.
func loaded(tb testing.TB, l lab, name, arch string) string {
	tb.Helper()
	ref := "mcp-sandbox/" + l.installation + ":" + strings.ToLower(rand.Text())
	layer := archive(tb, map[string]string{name: "#!"})
	config := fmt.Sprintf(`{"architecture":%q,"os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, arch, sha256.Sum256([]byte(layer)))
	whole := archive(tb, map[string]string{
		"config.json": config, "layer.tar": layer,
		"manifest.json": fmt.Sprintf(`[{"Config":"config.json","RepoTags":[%q],"Layers":["layer.tar"]}]`, ref),
	})
	answer, err := l.api.ImageLoad(tb.Context(), strings.NewReader(whole))
	require.NoError(tb, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(tb, errors.Join(err, answer.Body.Close()))
	forget(tb, l, ref)
	return ref
}

func archive(tb testing.TB, files map[string]string) string {
	tb.Helper()
	var out strings.Builder
	w := tar.NewWriter(&out)
	for name, text := range files {
		require.NoError(tb, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(text))}))
		_, err := io.WriteString(w, text)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	return out.String()
}

// forget removes an image that carries none of our labels, after those that do.
func forget(tb testing.TB, l lab, ref string) {
	tb.Helper()
	tb.Cleanup(func() {
		sweep(tb, l.api, l.installation)
		_, err := l.api.ImageRemove(context.WithoutCancel(tb.Context()), ref, image.RemoveOptions{Force: true, PruneChildren: true})
		require.NoError(tb, err)
	})
}
