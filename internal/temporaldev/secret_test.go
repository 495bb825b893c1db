package temporaldev_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowservicepb "go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

func TestFrontendAsksForTheSecret(t *testing.T) {
	dir := t.TempDir()
	s := start(t, temporaldev.Options{DataDir: dir})
	info, err := os.Stat(filepath.Join(dir, "temporal.secret"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Len(t, s.Secret(), 64)

	for name, secret := range map[string]string{
		"none": "", "wrong": strings.Repeat("0", 64), "prefix": s.Secret()[:63], "longer": s.Secret() + "0",
	} {
		t.Run(name, func(t *testing.T) {
			opts := s.ClientOptions(nil)
			opts.HeadersProvider = nil
			if secret != "" {
				opts.HeadersProvider = temporaldev.HeadersProvider(secret)
			}
			c, err := client.DialContext(t.Context(), opts)
			require.NoError(t, err, "system info is open")
			defer c.Close()
			_, err = c.WorkflowService().ListNamespaces(t.Context(), &workflowservicepb.ListNamespacesRequest{})
			var denied *serviceerror.PermissionDenied
			require.ErrorAs(t, err, &denied)
			_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "q"}, "W")
			require.ErrorAs(t, err, &denied)
		})
	}
	_, err = dial(t, s).WorkflowService().ListNamespaces(t.Context(), &workflowservicepb.ListNamespacesRequest{})
	require.NoError(t, err)
}

// The services behind the frontend take each caller for an administrator; nobody
// else on the machine may get through to them.
func TestOtherPortsAreShut(t *testing.T) {
	s := start(t, temporaldev.Options{})
	_, frontend, _ := strings.Cut(s.Address(), ":")
	others := 0
	for _, port := range listeningPorts(t) {
		if strconv.Itoa(port) == frontend {
			continue
		}
		others++
		for name, creds := range map[string]credentials.TransportCredentials{
			"plaintext": insecure.NewCredentials(),
			"tls":       credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		} {
			conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(creds))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err = workflowservicepb.NewWorkflowServiceClient(conn).ListNamespaces(ctx, &workflowservicepb.ListNamespacesRequest{})
			cancel()
			require.ErrorContains(t, err, "Unavailable", "port %d with %s", port, name)
			require.NoError(t, conn.Close())
		}
	}
	require.GreaterOrEqual(t, others, 4, "history, matching, internal frontend, worker")
}

// listeningPorts are the TCP ports on which this process listens, from /proc.
func listeningPorts(t *testing.T) []int {
	t.Helper()
	own := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	if len(fds) == 0 {
		t.Skip("needs Linux's /proc to list the listening ports")
	}
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
			own[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
		}
	}
	var ports []int
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue // no IPv6
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			const listen = "0A"
			if len(fields) < 10 || fields[3] != listen || !own[fields[9]] {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseInt(hex, 16, 32)
			require.NoError(t, err)
			ports = append(ports, int(port))
		}
	}
	return ports
}

func TestBrokenSecretFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal.secret"), []byte("short"), 0o644))
	_, err := temporaldev.Start(t.Context(), temporaldev.Options{DataDir: dir})
	require.ErrorContains(t, err, "delete it and start again")
}
