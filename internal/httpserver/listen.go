package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// CheckListen refuses an address that would put the server on a network without
// authentication, or with tokens in clear text. insecureHTTP is the user's word
// that something else, such as a proxy, protects them. A name other than
// localhost, and no name at all, count as a network.
func CheckListen(addr string, authEnabled, tls, insecureHTTP bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: write HOST:PORT, such as 127.0.0.1:8765: %w", addr, err)
	}
	if isLoopback(canonicalHost(host)) {
		return nil
	}
	if !authEnabled {
		return fmt.Errorf("listening on %s without authentication would give everybody on that network a computer here; "+
			"leave --no-auth off, or listen on 127.0.0.1", addr)
	}
	if !tls && !insecureHTTP {
		return fmt.Errorf("listening on %s without TLS would send tokens over the network in clear text; "+
			"give --tls-cert and --tls-key, listen on 127.0.0.1 behind a proxy that ends TLS, or say --insecure-http if the network is yours alone", addr)
	}
	return nil
}

// Listen opens addr. If its port is taken, a free one of the same host is taken
// instead where addr is the default; an address that somebody asked for is an
// error. Compare the listener's address to see which.
func Listen(ctx context.Context, addr string, isDefault bool) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	host, port, splitErr := net.SplitHostPort(addr)
	if !isDefault || splitErr != nil {
		return nil, fmt.Errorf("listen on %s: another program has port %s; stop it (ss -ltnp shows which), or give another address: %w", addr, port, err)
	}
	l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: port %s is taken, and no other is free: %w", host, port, err)
	}
	return l, nil
}
