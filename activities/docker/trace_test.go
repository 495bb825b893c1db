package docker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
)

func TestRequestName(t *testing.T) {
	for path, want := range map[string]string{
		"/v1.41/containers/395f88ed6e8e/json":                    "docker GET /containers/{id}/json",
		"/v1.41/containers/json":                                 "docker GET /containers/json",
		"/v1.41/images/mcp-sandbox/snapshot:snap_x5wequziv/json": "docker GET /images/{id}/json",
		"/v1.41/volumes/mcp-sandbox-x":                           "docker GET /volumes/{id}",
		"/v1.41/commit":                                          "docker GET /commit",
		"/_ping":                                                 "docker GET /_ping",
		"/v1.41":                                                 "docker GET",
	} {
		require.Equal(t, want, docker.RequestName("GET", path))
	}
}
