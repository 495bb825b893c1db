// Package backendtest is the conformance suite of activities.Backend: what every
// backend promises, as tests. A backend's own tests call Run; what only that
// backend has (image configs, capabilities) they test themselves.
//
// Only tests import it.
package backendtest
