// Package docker provides sandboxes as containers of a Docker Engine, 20.10 or
// newer: it implements activities.Backend.
//
// Entry points: ResolveHost finds the engine that the docker command would use,
// New connects to it, and the Backend's methods do the rest.
//
// How it works. An image gets our guest by a derived image, committed once per
// base image and guest version. A sandbox is one container of it per
// incarnation, its journal in a volume per session. Requests reach the guest
// over one `docker exec` stream per sandbox. A snapshot is a commit.
//
// With a network, a sandbox is on one bridge per installation, and its guest
// closes the engine's host and more to it before it serves: networkArgs says what.
// Platform says what an engine is and how far it is supported.
//
// Every object carries the labels of package session, and what does not carry
// this installation's is never touched. All state is in the engine: two
// processes may work on one installation at the same time, and one that dies
// in mid-step leaves nothing that the next call does not find and finish.
//
// Only cmd and tests import it. It reads no environment, writes no files, and
// promises no isolation beyond that of the engine's runtime.
package docker
