package docker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
)

func TestResolveHost(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(home, ".docker", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	context := func(name, meta string) string {
		sum := sha256.Sum256([]byte(name))
		id := hex.EncodeToString(sum[:])
		write("contexts/meta/"+id+"/meta.json", meta)
		return id
	}
	context("desktop", `{"Name":"desktop","Endpoints":{"docker":{"Host":"unix:///desktop.sock"}}}`)
	remote := context("remote", `{"Name":"remote","Endpoints":{"docker":{"Host":"tcp://remote:2376"}}}`)
	write("contexts/tls/"+remote+"/docker/ca.pem", "ca")
	context("kube", `{"Name":"kube","Endpoints":{}}`)
	context("far", `{"Name":"far","Endpoints":{"docker":{"Host":"ssh://me@far"}}}`)
	context("blind", `{"Name":"blind","Endpoints":{"docker":{"Host":"tcp://blind:2376","SkipTLSVerify":true}}}`)
	write("config.json", `{"currentContext":"desktop"}`)
	empty := t.TempDir()

	for name, c := range map[string]struct {
		env     map[string]string
		address string
		fails   string
	}{
		"current context":       {nil, "unix:///desktop.sock", ""},
		"DOCKER_HOST wins":      {map[string]string{"DOCKER_HOST": "tcp://h:1", "DOCKER_CONTEXT": "remote"}, "tcp://h:1", ""},
		"DOCKER_CONTEXT":        {map[string]string{"DOCKER_CONTEXT": "remote"}, "tcp://remote:2376", ""},
		"the default context":   {map[string]string{"DOCKER_CONTEXT": "default"}, client.DefaultDockerHost, ""},
		"another config":        {map[string]string{"DOCKER_CONFIG": empty}, client.DefaultDockerHost, ""},
		"unknown context":       {map[string]string{"DOCKER_CONTEXT": "none"}, "", "docker context ls"},
		"no docker endpoint":    {map[string]string{"DOCKER_CONTEXT": "kube"}, "", "docker context use"},
		"TLS without a check":   {map[string]string{"DOCKER_CONTEXT": "blind"}, "", "SkipTLSVerify"},
		"DOCKER_HOST over that": {map[string]string{"DOCKER_CONTEXT": "blind", "DOCKER_HOST": "unix:///s"}, "unix:///s", ""},
		"ssh":                   {map[string]string{"DOCKER_CONTEXT": "far"}, "ssh://me@far", ""},
	} {
		t.Run(name, func(t *testing.T) {
			host, err := docker.ResolveHost(func(key string) string { return c.env[key] }, home)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.address, host.Address)
		})
	}

	host, err := docker.ResolveHost(func(key string) string { return map[string]string{"DOCKER_CONTEXT": "remote"}[key] }, home)
	require.NoError(t, err)
	require.FileExists(t, host.CACert)
	require.Empty(t, host.Cert)
	host, err = docker.ResolveHost(func(key string) string {
		return map[string]string{"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"}[key]
	}, home)
	require.NoError(t, err)
	require.Equal(t, "/certs/key.pem", host.Key)
}

// A stand-in for ssh runs the remote command here.
func TestEngineOverSSH(t *testing.T) {
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("needs the docker command; run `make setup`")
	}
	engine(t)
	bin := t.TempDir()
	script := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift; test \"$1\" = far || { echo \"unknown host $1\" >&2; exit 255; }\nshift; exec \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	l := newLab(t, func(o *docker.Options) {
		o.Client, o.Host = nil, docker.Host{Address: "ssh://me@far:22", Source: "test"}
	})
	_, api := create(t, l.Backend, spec())
	require.Equal(t, "far\n", sh(t, api, "echo far"))

	opts := l.opts
	opts.Host.Address = "ssh://nowhere"
	_, err := docker.New(t.Context(), opts)
	require.ErrorContains(t, err, "unknown host nowhere")
}
