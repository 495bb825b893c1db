package main

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
)

// Slots for the calls of one session that wait inside Temporal: of the server's
// limit of updates in flight some are kept free for stop, end and reads.
const (
	embeddedSlots = 90 // of the 100 that the embedded server allows
	clusterSlots  = 7  // of a cluster's default of 10
)

// searchAttributes are those of session and snapshot workflows.
func searchAttributes() map[string]enumspb.IndexedValueType {
	m := map[string]enumspb.IndexedValueType{}
	for _, name := range []string{
		session.AttrStatus, session.AttrOwner, session.AttrImage, session.AttrHost, session.AttrName, session.AttrSession,
	} {
		m[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return m
}

// temporalConfig are the flags that choose a Temporal.
type temporalConfig struct {
	address   string
	namespace string
	listen    string // of the embedded server
}

func (t *temporalConfig) flags(f *pflag.FlagSet, embedded bool) {
	if embedded {
		f.StringVar(&t.listen, "temporal-listen", temporaldev.DefaultListen, "address of the embedded Temporal's frontend")
	}
	f.StringVar(&t.address, "temporal-address", "", "HOST:PORT of a Temporal to use instead of the embedded one; TLS, API key and namespace by Temporal's own environment variables (TEMPORAL_*)")
	f.StringVar(&t.namespace, "temporal-namespace", "", "Temporal namespace (default \"default\")")
}

// check refuses an address that is none, and one that would send the secret in
// clear text over a network.
func (t *temporalConfig) check(insecure bool) error {
	if _, _, err := net.SplitHostPort(t.listen); err != nil {
		return usagef("--temporal-listen: %q: write HOST:PORT, such as %s: %w", t.listen, temporaldev.DefaultListen, err)
	}
	return clearText("--temporal-listen", t.listen, insecure)
}

// clearText refuses an address beyond loopback for what speaks no TLS.
func clearText(flag, address string, insecure bool) error {
	if httpserver.CheckListen(address, true, false, insecure) == nil {
		return nil
	}
	return usagef("%s: %s is beyond loopback, where its secret would go in clear text; "+
		"listen on 127.0.0.1 and forward the port, or say --insecure-http if the network is yours alone", flag, address)
}

// temporalConn is a connection to a Temporal, embedded or not. After it is
// dialled nothing differs any more but UpdateSlots.
type temporalConn struct {
	client.Client
	// installation names what is ours at an engine: a Temporal namespace is an
	// installation.
	installation string
	updateSlots  int
	embedded     *temporaldev.Server // nil for an external one
}

// openTemporal connects to the Temporal that the flags choose, starting the
// embedded one in the data dir if they name none.
func openTemporal(ctx context.Context, cfg temporalConfig, dir *datadir.Dir, log *slog.Logger) (*temporalConn, error) {
	if cfg.address != "" {
		return dialCluster(ctx, cfg, log)
	}
	server, err := startEmbedded(ctx, cfg, dir, log)
	if err != nil {
		return nil, err
	}
	o := server.ClientOptions(log)
	o.DataConverter = session.DataConverter()
	telemetry.Instrument(&o)
	c, err := client.DialContext(ctx, o)
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("dial the embedded Temporal: %w", err)
	}
	conn := &temporalConn{Client: c, updateSlots: embeddedSlots, embedded: server}
	if conn.installation, err = installationID(ctx, c, server.Namespace()); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func startEmbedded(ctx context.Context, cfg temporalConfig, dir *datadir.Dir, log *slog.Logger) (*temporaldev.Server, error) {
	server, err := temporaldev.Start(ctx, temporaldev.Options{
		DataDir: dir.Path(), Listen: cfg.listen, Namespace: cfg.namespace,
		SearchAttributes: searchAttributes(), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	err = temporaldev.WriteProfile(dir.Path(temporaldev.ProfileFile), server.Address(), server.Namespace(), server.Secret())
	if err != nil {
		server.Stop()
		return nil, err
	}
	return server, nil
}

// Close closes the connection, and then the embedded server.
func (c *temporalConn) Close() {
	c.Client.Close()
	if c.embedded != nil {
		c.embedded.Stop()
	}
}

func dialCluster(ctx context.Context, cfg temporalConfig, log *slog.Logger) (*temporalConn, error) {
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, usagef("Temporal's environment configuration: %w", err)
	}
	o.HostPort = cfg.address
	if cfg.namespace != "" {
		o.Namespace = cfg.namespace
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	o.Logger, o.DataConverter = sdklog.NewStructuredLogger(log), session.DataConverter()
	telemetry.Instrument(&o)
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("cannot reach Temporal at %s (is the address right, and do TEMPORAL_* variables give what it asks for?): %w", cfg.address, err)
	}
	conn := &temporalConn{Client: c, updateSlots: clusterSlots}
	if conn.installation, err = installationID(ctx, c, o.Namespace); err == nil {
		err = registerSearchAttributes(ctx, c, o.Namespace)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return conn, nil
}

// installationID derives the installation's ID from the namespace's, which is
// unique: every server and worker of the namespace has the same.
func installationID(ctx context.Context, c client.Client, namespace string) (string, error) {
	resp, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return "", fmt.Errorf("describe Temporal namespace %q: %w", namespace, err)
	}
	sum := sha256.Sum256([]byte("installation\x00" + resp.GetNamespaceInfo().GetId()))
	return "i-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])), nil
}

// registerSearchAttributes makes the search attributes that a cluster lacks.
func registerSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	missing := searchAttributes()
	if err == nil {
		maps.DeleteFunc(missing, func(name string, _ enumspb.IndexedValueType) bool {
			_, ok := have.GetCustomAttributes()[name]
			return ok
		})
		if len(missing) == 0 {
			return nil
		}
		_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: missing,
		})
	}
	if err != nil {
		names := slices.Sorted(maps.Keys(missing))
		return errors.Join(fmt.Errorf("namespace %q lacks search attributes; make them once with: temporal operator search-attribute create --namespace %s --type Keyword --name %s",
			namespace, namespace, strings.Join(names, " --name ")), err)
	}
	return nil
}
