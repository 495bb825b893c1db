package httpserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
)

func TestCheckListen(t *testing.T) {
	tests := []struct {
		addr                string
		auth, tls, insecure bool
		want                string
	}{
		{"127.0.0.1:8765", true, false, false, ""},
		{"127.0.0.1:8765", false, false, false, ""},
		{"localhost:0", false, false, false, ""},
		{"[::1]:8765", false, false, false, ""},
		{"0.0.0.0:8765", true, true, false, ""},
		{":8765", true, false, true, ""},
		{"0.0.0.0:8765", true, false, false, "--tls-cert"},
		{":8765", true, false, false, "in clear text"},
		{"[::]:8765", true, false, false, "in clear text"},
		{"192.0.2.1:8765", false, true, false, "without authentication"},
		{"0.0.0.0:8765", false, true, true, "without authentication"},
		{"localhost.example.com:1", false, true, true, "without authentication"},
		{"8765", true, true, true, "HOST:PORT"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s auth=%t tls=%t insecure=%t", tt.addr, tt.auth, tt.tls, tt.insecure), func(t *testing.T) {
			err := httpserver.CheckListen(tt.addr, tt.auth, tt.tls, tt.insecure)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestListen(t *testing.T) {
	first, err := httpserver.Listen(t.Context(), "127.0.0.1:0", false)
	require.NoError(t, err)
	defer first.Close()
	taken := first.Addr().String()

	_, err = httpserver.Listen(t.Context(), taken, false)
	require.ErrorContains(t, err, "another program has port")
	require.ErrorContains(t, err, "give another address")

	other, err := httpserver.Listen(t.Context(), taken, true)
	require.NoError(t, err)
	defer other.Close()
	require.NotEqual(t, taken, other.Addr().String())

	_, err = httpserver.Listen(t.Context(), "192.0.2.1:8765", true)
	require.ErrorContains(t, err, "listen on 192.0.2.1:8765", "an address that is not ours has no substitute")
}

func TestClientConfig(t *testing.T) {
	url := httpserver.URL(&net.TCPAddr{IP: net.IPv4zero, Port: 8765}, false)
	require.Equal(t, "http://127.0.0.1:8765/mcp", url)
	require.Equal(t, "https://[::1]:1/mcp", httpserver.URL(&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, true))
	require.JSONEq(t, `{"mcpServers": {"mcp-sandbox": {"type": "http", "url": "http://127.0.0.1:8765/mcp",
		"headers": {"Authorization": "Bearer a-b_c"}}}}`, httpserver.ClientConfig(url, "a-b_c"))
	without := httpserver.ClientConfig(url, "")
	require.True(t, json.Valid([]byte(without)))
	require.NotContains(t, without, "headers")
}

func TestReadyz(t *testing.T) {
	state := make(chan error, 1) // what the next check finds
	f := newFixture(t, func(o *httpserver.Options) { o.Ready = func(context.Context) error { return <-state } })
	get := func() reply { return f.do(call{method: http.MethodGet, path: "/readyz", token: "-"}) }
	state <- nil
	require.Equal(t, http.StatusOK, get().status)

	state <- fmt.Errorf("start: %w", errors.Join(
		&httpserver.PartError{Part: "temporal", Err: errors.New("dial /secret/path")},
		&httpserver.PartError{Part: "engine", Err: errors.New("x")}))
	r := get()
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Equal(t, "not ready: engine, temporal\n", r.body)

	state <- errors.New("detail")
	require.Equal(t, "not ready\n", get().body)
}

func TestReadyzIsBounded(t *testing.T) {
	stuck := make(chan struct{})
	f := newFixture(t, func(o *httpserver.Options) {
		o.Ready = func(context.Context) error { <-stuck; return nil } // heeds no context
	})
	defer close(stuck)
	start := time.Now()
	p := f.begin(call{method: http.MethodGet, path: "/readyz", token: "-"})
	r := f.do(call{method: http.MethodGet, path: "/readyz", token: "-"})
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Contains(t, r.body, "no answer within 2s")
	require.Equal(t, http.StatusServiceUnavailable, receive(t, p.reply).status)
	require.Less(t, time.Since(start), 5*time.Second)
}

// selfSigned writes a certificate for loopback and its key.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile
}
