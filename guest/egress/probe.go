package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// probeWithin is how soon a refusal must be there; it takes well under 1 ms.
const probeWithin = time.Second

// probed is an address that is always closed, and a port where a metadata
// service would answer.
var probed = netip.MustParseAddrPort("169.254.169.254:80")

// Probe checks that the filter works and not only that the kernel took it: a
// connection must be refused at once, and not by silence.
func Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", probed.String())
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("%s answers in spite of the packet filter", probed)
	case errors.Is(err, unix.ECONNREFUSED):
		return nil
	}
	return fmt.Errorf("the packet filter does not refuse %s: %w", probed, err)
}
