package harness

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Holdings counts what an installation has at the engine.
type Holdings struct {
	Containers, Volumes, Networks, Images int
	Execs                                 int // open in running containers
}

// Holdings looks at the engine. label and value narrow it down further, such as
// session.LabelSession; "" is everything of this server's.
func (s *Server) Holdings(t *testing.T, label, value string) Holdings {
	t.Helper()
	ctx := t.Context()
	args := []filters.KeyValuePair{filters.Arg("label", session.LabelInstallation+"="+s.Installation())}
	if label != "" {
		args = append(args, filters.Arg("label", label+"="+value))
	}
	ours := filters.NewArgs(args...)
	containers, err := s.docker.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	require.NoError(t, err)
	volumes, err := s.docker.VolumeList(ctx, volumeFilter(ours))
	require.NoError(t, err)
	networks, err := s.docker.NetworkList(ctx, network.ListOptions{Filters: ours})
	require.NoError(t, err)
	images, err := s.docker.ImageList(ctx, image.ListOptions{Filters: ours})
	require.NoError(t, err)
	h := Holdings{Containers: len(containers), Volumes: len(volumes.Volumes), Networks: len(networks), Images: len(images)}
	for _, c := range containers {
		if info, err := s.docker.ContainerInspect(ctx, c.ID); err == nil {
			h.Execs += len(info.ExecIDs)
		}
	}
	return h
}

// Container inspects a session's one container.
func (s *Server) Container(t *testing.T, sessionID string) container.InspectResponse {
	t.Helper()
	list := s.Containers(sessionID)
	require.Len(t, list, 1, "containers of session %s", sessionID)
	info, err := s.docker.ContainerInspect(t.Context(), list[0].ID)
	require.NoError(t, err)
	return info
}

// Copy gives a folder of a container, as a tar, with the engine's rights.
func (s *Server) Copy(t *testing.T, containerID, path string) []byte {
	t.Helper()
	body, _, err := s.docker.CopyFromContainer(t.Context(), containerID, path)
	require.NoError(t, err)
	defer func() { _ = body.Close() }()
	b, err := io.ReadAll(body)
	require.NoError(t, err)
	return b
}

// SnapshotImage gives a snapshot's image: its configuration, history and layers
// as one text to search.
func (s *Server) SnapshotImage(t *testing.T, snapshotID string) []byte {
	t.Helper()
	ctx := t.Context()
	list, err := s.docker.ImageList(ctx, image.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", session.LabelSnapshot+"="+snapshotID)),
	})
	require.NoError(t, err)
	require.Len(t, list, 1, "images of snapshot %s", snapshotID)
	var text bytes.Buffer
	_, err = s.docker.ImageInspect(ctx, list[0].ID, client.ImageInspectWithRawResponse(&text))
	require.NoError(t, err)
	saved, err := s.docker.ImageSave(ctx, []string{list[0].ID})
	require.NoError(t, err)
	defer func() { _ = saved.Close() }()
	_, err = io.Copy(&text, saved)
	require.NoError(t, err)
	return text.Bytes()
}

// ForeignContainer makes a container of an image by hand, which hands its labels
// on, and removes it after the test. exists tells whether it is still there.
func (s *Server) ForeignContainer(t *testing.T, image string) (exists func() bool) {
	t.Helper()
	created, err := s.docker.ContainerCreate(t.Context(), &container.Config{Image: image}, nil, nil, nil, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = s.docker.ContainerRemove(context.WithoutCancel(t.Context()), created.ID, container.RemoveOptions{Force: true})
	})
	return func() bool {
		_, err := s.docker.ContainerInspect(t.Context(), created.ID)
		return err == nil
	}
}
