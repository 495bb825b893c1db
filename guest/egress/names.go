package egress

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// lookUpWithin bounds the look-up of all names together.
const lookUpWithin = 2 * time.Second

// LookUp gives the addresses of names by which an engine's virtual machine lets
// containers reach the machine around it, such as host.docker.internal. A name
// that is not known leads nowhere, and is no error.
func LookUp(ctx context.Context, names []string) []netip.Prefix {
	ctx, cancel := context.WithTimeout(ctx, lookUpWithin)
	defer cancel()
	answers := make([][]netip.Addr, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() { answers[i], _ = net.DefaultResolver.LookupNetIP(ctx, "ip4", name) })
	}
	asked.Wait()
	var found []netip.Prefix
	for _, a := range answers {
		for _, address := range a {
			found = append(found, netip.PrefixFrom(address.Unmap(), 32))
		}
	}
	return found
}
