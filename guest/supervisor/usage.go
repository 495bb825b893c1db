package supervisor

import (
	"cmp"
	"context"
	"slices"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// Usage implements guest.API.
func (s *Supervisor) Usage(context.Context) (guest.Usage, error) {
	u := s.cgroup.usage()
	u.DiskBytes = s.journal.Size() + s.logs.bytes()
	s.mu.Lock()
	var running []*command
	for _, c := range s.commands {
		if c.child != nil {
			running = append(running, c)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(running, func(a, b *command) int { return cmp.Compare(a.seq, b.seq) })
	u.Running = []guest.CommandInfo{}
	for _, c := range running {
		if info := c.info(); info.Status == guest.StatusRunning {
			u.Running = append(u.Running, info)
		}
	}
	return u, nil
}

// Refuse implements guest.API.
func (s *Supervisor) Refuse(_ context.Context, req guest.RefuseRequest) (guest.RefuseResult, error) {
	if !guest.ValidCallID(req.CallID) {
		return guest.RefuseResult{}, invalidID(req.CallID)
	}
	refused, err := s.journal.Refuse(req.CallID)
	if err != nil {
		return guest.RefuseResult{}, beginError(err)
	}
	return guest.RefuseResult{Refused: refused}, nil
}
