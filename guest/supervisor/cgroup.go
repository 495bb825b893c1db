package supervisor

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// cgroup reads the sandbox's own control group, version 1 or 2, as the engine
// mounts it into the container. What cannot be read counts as 0.
type cgroup struct {
	root string
	v2   bool
	// oom stays open: it is read before and after every command.
	oom *os.File
}

func openCgroup(root string) *cgroup {
	c := &cgroup{root: root}
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	c.v2 = err == nil
	name := "memory/memory.oom_control"
	if c.v2 {
		name = "memory.events"
	}
	c.oom, _ = os.Open(filepath.Join(root, name))
	return c
}

func (c *cgroup) close() {
	if c.oom != nil {
		_ = c.oom.Close()
	}
}

// oomKills counts the processes of the sandbox that the OOM killer took.
func (c *cgroup) oomKills() uint64 {
	if c.oom == nil {
		return 0
	}
	buf := make([]byte, 512)
	n, _ := c.oom.ReadAt(buf, 0)
	return keyed(buf[:n], "oom_kill")
}

func (c *cgroup) usage() guest.Usage {
	if c.v2 {
		return guest.Usage{
			MemoryBytes:      c.number("memory.current"),
			MemoryLimitBytes: c.number("memory.max"),
			CPUSeconds:       float64(keyed(c.file("cpu.stat"), "usage_usec")) / 1e6,
			PIDs:             int(c.number("pids.current")),
			PIDsLimit:        int(c.number("pids.max")),
		}
	}
	cpu := c.number("cpuacct/cpuacct.usage")
	if cpu == 0 {
		cpu = c.number("cpu,cpuacct/cpuacct.usage")
	}
	return guest.Usage{
		MemoryBytes:      c.number("memory/memory.usage_in_bytes"),
		MemoryLimitBytes: c.number("memory/memory.limit_in_bytes"),
		CPUSeconds:       time.Duration(cpu).Seconds(),
		PIDs:             int(c.number("pids/pids.current")),
		PIDsLimit:        int(c.number("pids/pids.max")),
	}
}

func (c *cgroup) file(name string) []byte {
	data, _ := os.ReadFile(filepath.Join(c.root, name))
	return data
}

// unlimited is what version 1 shows for no limit: the largest number of pages.
const unlimited = math.MaxInt64 &^ 0xffff

// number reads one number; "max" and version 1's way of saying it are 0.
func (c *cgroup) number(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(string(c.file(name))), 10, 64)
	if err != nil || n >= unlimited {
		return 0
	}
	return n
}

// keyed finds the value of a key in "key value" lines.
func keyed(data []byte, key string) uint64 {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) == 2 && string(fields[0]) == key {
			n, _ := strconv.ParseUint(string(fields[1]), 10, 64)
			return n
		}
	}
	return 0
}
