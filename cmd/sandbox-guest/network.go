package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/egress"
)

// networkFlags are those of init that close what a sandbox with a network must
// not reach.
type networkFlags struct {
	closed bool
	deny   prefixes
	names  words
}

func (f *networkFlags) flags(set *flag.FlagSet) {
	set.BoolVar(&f.closed, "close-network", false, "close the engine's host, its neighbours and metadata services before serving; needs CAP_NET_ADMIN and CAP_SETPCAP")
	set.Var(&f.deny, "deny", "further addresses and networks to close, separated by commas")
	set.Var(&f.names, "deny-name", "names whose addresses are closed too, separated by commas")
}

// apply closes what is to be closed, and gives up the right to. The guest must
// not serve after an error; the reason is left in the state directory.
func (f *networkFlags) apply(ctx context.Context, state string) error {
	if f.closed {
		if err := f.close(ctx); err != nil {
			reason := filepath.Join(state, guest.StartErrorFile)
			return &networkError{errors.Join(err, os.WriteFile(reason, []byte(err.Error()), 0o600))}
		}
	}
	return dropSetup()
}

func (f *networkFlags) close(ctx context.Context) error {
	connected, err := egress.Connected()
	if err != nil {
		return err
	}
	denied, err := egress.Denied(connected, append(egress.LookUp(ctx, f.names), f.deny...))
	if err != nil {
		return err
	}
	if err := egress.Close(denied); err != nil {
		return err
	}
	return egress.Probe(ctx)
}

// networkError is a start refused because the network could not be closed.
type networkError struct{ err error }

func (e *networkError) Error() string { return "close the network: " + e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }

// exitCode tells the host what kind of fault it was.
func exitCode(err error) int {
	if _, ok := err.(*networkError); ok { //nolint:errorlint // runInit gives it unwrapped
		return guest.ExitNetwork
	}
	return 1
}

// runAddresses prints the IPv4 addresses of this network namespace but loopback
// ones, one a line. A container on the host's network tells the host's so.
func runAddresses() error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Addr().IsLoopback() {
			continue
		}
		if _, err := fmt.Fprintln(os.Stdout, p.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// prefixes is a flag of addresses and networks.
type prefixes []netip.Prefix

func (p *prefixes) String() string { return "" }

func (p *prefixes) Set(text string) error {
	for _, s := range splitList(text) {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			address, addressErr := netip.ParseAddr(s)
			if addressErr != nil {
				return err
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		*p = append(*p, prefix)
	}
	return nil
}

// words is a flag of names.
type words []string

func (w *words) String() string { return "" }

func (w *words) Set(text string) error {
	*w = append(*w, splitList(text)...)
	return nil
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}
