package temporaldev

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
)

const (
	loopback    = "127.0.0.1"
	clusterName = "active"

	// queuePollRPS lifts the limit of 20 polls a second on the history queues, which
	// adds 50 ms to each activity (measured: an update with an activity takes 50 ms with the limit, 10 without).
	queuePollRPS = 2000
	// maxInFlightUpdates is what a session's calls share: 90 may wait inside updates,
	// the rest is kept for stop, end and reads. The server's default is 10.
	maxInFlightUpdates = 100
	// maxInFlightBytes lets all of them carry the largest body (256 KiB, as base64).
	// The server's default is 20 MiB.
	maxInFlightBytes = 64 << 20
	// timerShift is how late a timer may fire, and a retry with it: history sets none
	// to earlier than that from now, for the clocks of shards that move between hosts,
	// which here is none. The server's default is 1 s (measured: a sleep of 1 ms took
	// 1,000 ms, 14 now).
	timerShift = 10 * time.Millisecond
	// taskRetryMax bounds the back-off of a failing workflow task (default 10 min): a
	// fixed workflow goes on within seconds.
	taskRetryMax = 5 * time.Second
)

// dynamicConfig is what differs from the server's defaults, and why. The total of
// updates per run stays at 2,000; sessions continue-as-new long before. Updates and
// waiting for acceptance are on by default.
func dynamicConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():                queuePollRPS,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():                   queuePollRPS,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key():              queuePollRPS,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key():                queuePollRPS,
		dynamicconfig.WorkflowExecutionMaxInFlightUpdates.Key():        maxInFlightUpdates,
		dynamicconfig.WorkflowExecutionMaxInFlightUpdatePayloads.Key(): maxInFlightBytes,
		dynamicconfig.WorkflowTaskRetryMaxInterval.Key():               taskRetryMax,
		dynamicconfig.TimerProcessorMaxTimeShift.Key():                 timerShift,
		// One partition: nothing is forwarded between four, and the p95 of a call on a
		// host queue falls from 90 to 13 ms.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
	}
}

// ports are the addresses of one start.
type ports map[primitives.ServiceName]*net.TCPAddr

// choosePorts takes the frontend's address as given and free ports for the rest.
// They are free now, not reserved: the server opens its listeners itself.
func choosePorts(frontend *net.TCPAddr) (ports, error) {
	chosen := ports{primitives.FrontendService: frontend}
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // it only held the port while the others were chosen
		}
	}()
	take := func(addr *net.TCPAddr) (*net.TCPAddr, error) {
		l, err := listenFree(addr)
		if err != nil {
			return nil, err
		}
		held = append(held, l)
		return l.Addr().(*net.TCPAddr), nil
	}
	got, err := take(frontend)
	if err != nil {
		return nil, fmt.Errorf("temporal frontend: %w: choose another address to listen on", err)
	}
	chosen[primitives.FrontendService] = &net.TCPAddr{IP: frontend.IP, Port: got.Port}
	for _, name := range []primitives.ServiceName{
		primitives.InternalFrontendService, primitives.HistoryService,
		primitives.MatchingService, primitives.WorkerService,
	} {
		if chosen[name], err = take(&net.TCPAddr{IP: net.ParseIP(loopback)}); err != nil {
			return nil, fmt.Errorf("temporal %s: %w", name, err)
		}
	}
	return chosen, nil
}

// listenFree listens on addr. For port 0 it looks below the range that Linux gives
// to connections, and to whoever else asks for any port: those of that range are
// soon taken again when they are free for a moment.
func listenFree(addr *net.TCPAddr) (*net.TCPListener, error) {
	const first, count, attempts = 18_000, 14_000, 20
	if addr.Port == 0 {
		for range attempts {
			l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: addr.IP, Port: first + rand.IntN(count)}) //nolint:gosec // to meet nobody, not to hide
			if err == nil {
				return l, nil
			}
		}
	}
	return net.ListenTCP("tcp", addr)
}

// dialable is where clients on this machine reach addr.
func dialable(addr *net.TCPAddr) string {
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = loopback
	}
	return net.JoinHostPort(host, strconv.Itoa(addr.Port))
}

// starts makes each start's connection string differ, so that each has its own
// connections: the plugin's pool never closes one, and would hand a database that
// was moved aside to the next start in this process. SQLite ignores the pragma.
var starts atomic.Int64

func storeConfig(databasePath string) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: uriPath(databasePath),
		ConnectAttributes: map[string]string{
			"mode":              "rw",
			"journal_mode":      "wal",
			"synchronous":       "normal",
			"busy_timeout":      "10000",
			"mcp_sandbox_start": strconv.FormatInt(starts.Add(1), 10),
		},
	}
}

func serverConfig(store *config.SQL, at ports) *config.Config {
	services := make(map[string]config.Service, len(at))
	for name, addr := range at {
		services[string(name)] = config.Service{RPC: config.RPC{BindOnIP: addr.IP.String(), GRPCPort: addr.Port}}
	}
	disabled := config.Archival{
		History:    config.HistoryArchival{State: "disabled"},
		Visibility: config.VisibilityArchival{State: "disabled"},
	}
	return &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: 1, // fixed for the life of the database
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: store}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {
					Enabled:                true,
					InitialFailoverVersion: 1,
					RPCAddress:             dialable(at[primitives.FrontendService]),
				},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		Archival:            disabled,
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		// No PublicClient: the system worker then goes to the internal frontend, which
		// needs no secret. No metrics and pprof either: both would listen.
	}
}

func staticHosts(at ports) map[primitives.ServiceName]static.Hosts {
	hosts := make(map[primitives.ServiceName]static.Hosts, len(at))
	for name, addr := range at {
		hosts[name] = static.SingleLocalHost(dialable(addr))
	}
	return hosts
}
