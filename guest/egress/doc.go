// Package egress closes the engine's host, its neighbours and cloud metadata
// services to a sandbox that has a network. PID 1 does it in the sandbox's own
// network namespace at every start, before it serves.
//
// Entry points: Denied says which addresses, Close makes the kernel refuse them
// by a packet filter (nf_tables), Probe checks that it does. All three need no
// program and no file of the image. Close needs CAP_NET_ADMIN over the namespace;
// whoever calls it drops that right afterwards (cmd/sandbox-guest).
//
// It is a filter and not a set of unreachable routes, since routes do not hold:
// a socket bound to an interface, which needs no right, goes around them
// (docs/adr/015-network-full.md). Only package guest's programs import it.
package egress
