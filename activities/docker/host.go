package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/client"
)

// Host says where an engine listens and how to speak TLS to it. The zero value
// is the local default, unix:///var/run/docker.sock.
type Host struct {
	// Address is a URL: unix://, tcp://, http://, https://, npipe:// or ssh://,
	// which needs the ssh command here and the docker command there.
	Address string
	// CACert, Cert and Key are files in PEM; empty for no TLS of that kind.
	CACert, Cert, Key string
	// Source says where it was found, for messages.
	Source string
}

// defaultContext is the name that stands for "no context".
const defaultContext = "default"

// ResolveHost finds the engine that the docker command would use: DOCKER_HOST
// (with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH), else the context that
// DOCKER_CONTEXT or the configuration names, else the local default. The
// configuration is in DOCKER_CONFIG, or .docker in home. Errors say what to set.
func ResolveHost(getenv func(string) string, home string) (Host, error) {
	dir := getenv("DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(home, ".docker")
	}
	if address := getenv("DOCKER_HOST"); address != "" {
		host := Host{Address: address, Source: "DOCKER_HOST"}
		if getenv("DOCKER_TLS_VERIFY") != "" {
			certs := getenv("DOCKER_CERT_PATH")
			if certs == "" {
				certs = dir
			}
			host.CACert, host.Cert, host.Key = filepath.Join(certs, "ca.pem"), filepath.Join(certs, "cert.pem"), filepath.Join(certs, "key.pem")
		}
		return host, nil
	}
	name, source := getenv("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		source = filepath.Join(dir, "config.json")
		if err := readJSON(source, &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Host{}, err
		}
		name = config.CurrentContext
	}
	if name == "" || name == defaultContext {
		return Host{Address: client.DefaultDockerHost, Source: "the default"}, nil
	}
	return readContext(dir, name, source)
}

// readContext reads a context of the docker command's store, where a folder is
// named by the SHA-256 of the context's name.
func readContext(dir, name, source string) (Host, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	err := readJSON(filepath.Join(dir, "contexts", "meta", id, "meta.json"), &meta)
	if errors.Is(err, fs.ErrNotExist) {
		return Host{}, fmt.Errorf("docker context %q, named by %s, does not exist; `docker context ls` shows those that do", name, source)
	}
	if err != nil {
		return Host{}, err
	}
	endpoint := meta.Endpoints["docker"]
	if endpoint.Host == "" {
		return Host{}, fmt.Errorf("docker context %q has no docker endpoint; choose another with `docker context use`", name)
	}
	if endpoint.SkipTLSVerify {
		return Host{}, fmt.Errorf("docker context %q does not check whom it speaks to (SkipTLSVerify), so that anybody on the way could run sandboxes elsewhere; "+
			"make it again with the engine's CA: docker context create NAME --docker host=...,ca=...,cert=...,key=", name)
	}
	host := Host{Address: endpoint.Host, Source: fmt.Sprintf("docker context %q", name)}
	tls := filepath.Join(dir, "contexts", "tls", id, "docker")
	for file, field := range map[string]*string{"ca.pem": &host.CACert, "cert.pem": &host.Cert, "key.pem": &host.Key} {
		if path := filepath.Join(tls, file); exists(path) {
			*field = path
		}
	}
	return host, nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path) //nolint:gosec // the docker command's own configuration
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// connect makes a client that speaks the newest API both sides know.
func (h Host) connect() (*client.Client, error) {
	opts := []client.Opt{client.WithAPIVersionNegotiation(), traced()}
	switch {
	case strings.HasPrefix(h.Address, "ssh://"):
		argv, err := sshCommand(h.Address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Source, err)
		}
		opts = append(opts, client.WithHost("http://docker.invalid"), client.WithDialContext(
			func(context.Context, string, string) (net.Conn, error) { return dialCommand(argv) })) //nolint:contextcheck // the connection outlives the dialling
	case h.Address != "":
		opts = append(opts, client.WithHost(h.Address))
	}
	if h.CACert != "" || h.Cert != "" {
		opts = append(opts, client.WithTLSClientConfig(h.CACert, h.Cert, h.Key))
	}
	c, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.Source, err)
	}
	return c, nil
}
