package docker_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestCommandsHaveNoPrivileges(t *testing.T) { // F2
	l := newLab(t)
	box, api := create(t, l.Backend, spec())
	status := sh(t, api, "cat /proc/self/status")
	for _, line := range []string{
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t1000\t1000\t1000\t1000", "Gid:\t1000\t1000\t1000\t1000",
	} {
		require.Contains(t, status, line+"\n")
	}
	for _, command := range []string{
		"mount -t tmpfs none /mnt", "unshare -m true", "chroot / true", "touch /file", "touch /etc/file", "ls /.sandbox",
		"ls -l /var/run/docker.sock /run/docker.sock", "cat /proc/1/environ", "ls /proc/1/fd", "kill -0 1", "mknod /tmp/sda b 8 0",
		"dmesg", "hostname other", "cp /bin/busybox /tmp/su && chmod u+s /tmp/su && chown 0 /tmp/su",
	} {
		fails(t, api, command)
	}
	info, err := l.api.ContainerInspect(t.Context(), box.Ref.ContainerID)
	require.NoError(t, err)
	require.Empty(t, info.HostConfig.Binds)
	require.False(t, info.HostConfig.Privileged)
	require.Empty(t, info.HostConfig.Devices)
	require.Equal(t, []string{"no-new-privileges"}, info.HostConfig.SecurityOpt)
	require.Equal(t, "none", info.HostConfig.LogConfig.Type)
	require.Equal(t, info.HostConfig.Memory, info.HostConfig.MemorySwap)
	require.Len(t, info.Mounts, 1)
	require.Equal(t, "/.sandbox/state", info.Mounts[0].Destination)
}

func TestNetworkNone(t *testing.T) { // F1
	l := newLab(t)
	_, api := create(t, l.Backend, spec())
	require.Equal(t, "lo\n", sh(t, api, "ls /sys/class/net"))
	for _, command := range []string{
		"nslookup example.com 8.8.8.8", "wget -T 2 -O - http://1.1.1.1", "wget -T 2 -O - http://169.254.169.254",
		"ping -c 1 -W 1 172.17.0.1", "echo x | nc -u -w 1 8.8.8.8 53 | grep .",
	} {
		fails(t, api, command)
	}
}

func TestNetworkFull(t *testing.T) { // F4
	l := newLab(t)
	full := func(s *activities.SandboxSpec) { s.Network = session.NetworkFull }
	first, second := spec(full), spec(full)
	_, one := create(t, l.Backend, first)
	box, two := create(t, l.Backend, second)
	address := strings.TrimSpace(sh(t, one, "ip -4 addr show eth0 | awk '/inet/ {sub(\"/.*\", \"\", $2); print $2}'"))
	require.NotEmpty(t, address)
	_, err := one.Run(t.Context(), guest.RunRequest{CallID: "listen", Command: "nc -l -p 7777", KeepStdin: true, MaxOutput: 100})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(sh(t, one, "netstat -ltn"), ":7777") }, 5*time.Second, 20*time.Millisecond)
	fails(t, two, "nc -w 2 "+address+" 7777 < /dev/null")
	status := sh(t, one, "grep -hE 'Cap(Inh|Prm|Bnd)' /proc/1/status /proc/1/task/*/status | sort -u")
	require.Equal(t, "CapBnd:\t00000000000000e1\nCapInh:\t0000000000000000\nCapPrm:\t00000000000000e1\n", status,
		"CHOWN, KILL, SETGID and SETUID alone are left, in every thread")

	// The engine's name server knows the neighbours; it must not tell who they are.
	c, err := two.Run(t.Context(), request("nslookup "+address+" 127.0.0.11"))
	require.NoError(t, err)
	require.Contains(t, string(c.Stdout.Head), "mcp-sandbox-", "%s", c.Stderr.Head)
	require.NotContains(t, string(c.Stdout.Head), strings.TrimPrefix(first.SessionID, "s_"))
	require.NotContains(t, string(c.Stdout.Head), l.installation)

	// What is closed is closed again when the container starts again.
	const metadata = "nc -w 5 169.254.169.254 80 </dev/null 2>&1 | grep refused"
	require.Contains(t, sh(t, two, metadata), "refused")
	require.NoError(t, l.api.ContainerStop(t.Context(), box.Ref.ContainerID, container.StopOptions{}))
	_, err = l.ReviveSandbox(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Contains(t, sh(t, two, metadata), "refused")

	require.NoError(t, l.RemoveSession(t.Context(), second.SessionID))
	_, three := create(t, l.Backend, spec(full))
	require.Contains(t, sh(t, three, "ls /sys/class/net"), "eth0", "the bridge is shared, and stays")
}

// Every address of the engine's host is closed, not only those that its bridges
// show; what else is there is not.
func TestNetworkFullClosesTheHost(t *testing.T) { // F4
	l := newLab(t)
	box, _ := create(t, l.Backend, spec(func(s *activities.SandboxSpec) { s.Network = session.NetworkFull }))
	info, err := l.api.ContainerInspect(t.Context(), box.Ref.ContainerID)
	require.NoError(t, err)
	i := slices.Index(info.Config.Cmd, "--deny")
	require.Positive(t, i)
	denied := strings.Split(info.Config.Cmd[i+1], ",")
	host, err := net.InterfaceAddrs() // the test runs on the engine's host
	require.NoError(t, err)
	for _, a := range host {
		if p := netip.MustParsePrefix(a.String()); p.Addr().Is4() && !p.Addr().IsLoopback() {
			require.Contains(t, denied, p.Addr().String()+"/32")
		}
	}
	left, err := l.api.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", session.LabelInstallation+"="+l.installation), filters.Arg("label", session.LabelKind+"=build"))})
	require.NoError(t, err)
	require.Empty(t, left, "the container that told the addresses is gone")
}

func TestNetworkNoneGivesNoRights(t *testing.T) {
	l := newLab(t)
	box, _ := create(t, l.Backend, spec())
	info, err := l.api.ContainerInspect(t.Context(), box.Ref.ContainerID)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"SETUID", "SETGID", "KILL", "CHOWN"}, trimCaps(info.HostConfig.CapAdd))
	require.NotContains(t, info.Config.Cmd, "--close-network")
}

// trimCaps takes off what newer engines put before a capability's name.
func trimCaps(caps []string) []string {
	trimmed := make([]string, len(caps))
	for i, c := range caps {
		trimmed[i] = strings.TrimPrefix(c, "CAP_")
	}
	return trimmed
}

// A guest that cannot close what must be closed does not serve, and the start
// says why. More than goes into one filter stands in for a kernel without one.
func TestNetworkThatStaysOpen(t *testing.T) {
	l := newLab(t, func(o *docker.Options) {
		for i := range 600 {
			o.DenyAddresses = append(o.DenyAddresses, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32))
		}
	})
	_, err := l.CreateSandbox(t.Context(), spec(func(s *activities.SandboxSpec) { s.Network = session.NetworkFull }))
	require.Equal(t, session.FailedPrecondition, session.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "at most 512 can be")
	require.ErrorContains(t, err, `start the session with network "none"`)
}

func TestForkBomb(t *testing.T) { // A12
	for name, command := range map[string]string{
		"bomb": "b() { b | b & }; b; sleep 1000",
		"full": "while true; do (sleep 1000 &); done",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			box, api := create(t, l.Backend, spec())
			var lit []string
			require.Eventually(t, func() bool {
				usage, err := api.Usage(t.Context())
				if err == nil && usage.PIDs < usage.PIDsLimit/2 { // a bomb may burn out before it is seen: light the next
					id := fmt.Sprintf("bomb-%d", len(lit))
					if _, err := api.Run(t.Context(), guest.RunRequest{CallID: id, Command: command, MaxOutput: 100}); err == nil {
						lit = append(lit, id)
					}
				}
				return err == nil && usage.PIDs >= usage.PIDsLimit-3
			}, 20*time.Second, 20*time.Millisecond)

			// A process that has no stream yet gets one.
			fresh, err := l.reopen(t).Guest(t.Context(), box.Ref)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				_, err := fresh.Usage(t.Context())
				return err == nil
			}, 30*time.Second, 20*time.Millisecond)

			for _, id := range lit {
				_, err = api.Stop(t.Context(), guest.StopRequest{CallID: "stop-" + id, CommandID: id, GraceMS: 1})
				require.NoError(t, err)
			}
			require.Equal(t, "works\n", sh(t, api, "echo works"))
			require.Eventually(t, func() bool {
				info, err := l.api.ContainerInspect(t.Context(), box.Ref.ContainerID)
				return err == nil && *info.HostConfig.PidsLimit == docker.DefaultPidsLimit
			}, 10*time.Second, 20*time.Millisecond, "the limit is as it was")
		})
	}
}

func TestOutOfMemory(t *testing.T) { // B13
	l := newLab(t)
	_, api := create(t, l.Backend, spec(func(s *activities.SandboxSpec) { s.MemoryMB = 64 }))
	c, err := api.Run(t.Context(), request("tail /dev/zero"))
	require.NoError(t, err)
	require.True(t, c.OOMKilled)
	require.Equal(t, "KILL", c.Signal)
	require.Equal(t, "lives\n", sh(t, api, "echo lives"))
}

func TestSnapshotHoldsNoSecrets(t *testing.T) { // F6
	l := newLab(t)
	box, api := create(t, l.Backend, spec())
	const secret = "hunter2-in-env"
	run := request("test -n \"$SECRET\"")
	run.Env = map[string]string{"SECRET": secret}
	c, err := api.Run(t.Context(), run)
	require.NoError(t, err)
	require.Zero(t, *c.ExitCode)
	taken := snapshot(t, l.Backend, box.Ref)

	found, err := l.api.ImageInspect(t.Context(), taken.ImageID)
	require.NoError(t, err)
	history, err := l.api.ImageHistory(t.Context(), taken.ImageID)
	require.NoError(t, err)
	text, err := json.Marshal([]any{found.Config, history})
	require.NoError(t, err)
	require.NotContains(t, string(text), secret)
	require.Empty(t, found.Config.Cmd, "it names the session")

	_, forked := create(t, l.Backend, spec(func(s *activities.SandboxSpec) { s.SnapshotID = taken.SnapshotID }))
	require.Empty(t, sh(t, forked, "grep -rl "+secret+" /etc /home /tmp /root 2>/dev/null || true"))
}
