package docker_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
)

// A context's certificates are used both ways: the engine is checked, and lets
// in nobody else.
func TestContextWithTLS(t *testing.T) {
	info, version := answers(t, "ubuntu-cgroup-v2")
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info") {
			_ = json.NewEncoder(w).Encode(info)
			return
		}
		_ = json.NewEncoder(w).Encode(version)
	}))
	engine.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	engine.StartTLS()
	t.Cleanup(engine.Close)

	home := t.TempDir()
	sum := sha256.Sum256([]byte("far"))
	id := hex.EncodeToString(sum[:])
	write := func(name string, text []byte) {
		path := filepath.Join(home, ".docker", "contexts", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	write("meta/"+id+"/meta.json", []byte(`{"Name":"far","Endpoints":{"docker":{"Host":"tcp://`+engine.Listener.Addr().String()+`"}}}`))
	connect := func() error {
		host, err := docker.ResolveHost(func(key string) string { return map[string]string{"DOCKER_CONTEXT": "far"}[key] }, home)
		require.NoError(t, err)
		opts := pretended(t, nil)
		opts.Client, opts.Host = nil, host
		b, err := docker.New(t.Context(), opts)
		if err == nil {
			require.Equal(t, docker.Supported, b.Platform().Support())
			require.NoError(t, b.Close())
		}
		return err
	}
	require.Error(t, connect(), "in clear text")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: engine.Certificate().Raw})
	write("tls/"+id+"/docker/ca.pem", certificate)
	require.Error(t, connect(), "without a certificate of its own")
	key, err := x509.MarshalPKCS8PrivateKey(engine.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	write("tls/"+id+"/docker/cert.pem", certificate)
	write("tls/"+id+"/docker/key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	require.NoError(t, connect())
	require.NoError(t, os.Remove(filepath.Join(home, ".docker", "contexts", "tls", id, "docker", "ca.pem")))
	require.ErrorContains(t, connect(), "certificate", "an engine that cannot be checked")
}
