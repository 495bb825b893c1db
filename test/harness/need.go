package harness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
)

// TestImage is a small image with a shell, made by images/test/build.sh.
const TestImage = "mcp-sandbox/test-busybox:latest"

// missing skips the test, or fails it where everything must be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if strings.Contains(os.Getenv("MCP_SANDBOX_REQUIRE"), "docker") {
		t.Fatalf("%s; MCP_SANDBOX_REQUIRE=docker forbids to skip", what)
	}
	t.Skipf("%s; `make test` brings everything that is needed", what)
}

// Missing skips the test, or fails it with MCP_SANDBOX_REQUIRE=docker.
func Missing(t *testing.T, what string) {
	t.Helper()
	missing(t, what)
}

// Binary gives the path of the built binary: MCP_SANDBOX_BINARY, else
// bin/mcp-sandbox of this checkout.
func Binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("MCP_SANDBOX_BINARY")
	if path == "" {
		path = filepath.Join(root(t), "bin", "mcp-sandbox")
	}
	if _, err := os.Stat(path); err != nil {
		missing(t, "no binary at "+path+" (make build)")
	}
	return path
}

// root is the checkout's top: the nearest folder above with a go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod in this folder or above")
	return ""
}

// Docker gives a client of the engine that tests use.
func Docker(t *testing.T) *client.Client {
	t.Helper()
	home, _ := os.UserHomeDir()
	host, err := docker.ResolveHost(os.Getenv, home)
	if err != nil {
		t.Fatal(err)
	}
	opts := []client.Opt{client.WithAPIVersionNegotiation()}
	if host.Address != "" {
		opts = append(opts, client.WithHost(host.Address))
	}
	c, err := client.NewClientWithOpts(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := c.Ping(ctx); err != nil {
		missing(t, "no Docker Engine answers (scripts/setup.sh): "+err.Error())
	}
	return c
}
