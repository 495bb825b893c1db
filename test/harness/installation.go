package harness

import (
	"strings"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// Installation is the ID that labels everything of this server's at the engine.
func (s *Server) Installation() string { return s.installation() }

// installation reads the ID that the server says at its start.
func (s *Server) installation() string {
	line := s.find("Installation ")
	if line == "" {
		return s.lastInstallation
	}
	s.lastInstallation = strings.Fields(line)[1]
	return s.lastInstallation
}

func volumeFilter(f filters.Args) volume.ListOptions { return volume.ListOptions{Filters: f} }
