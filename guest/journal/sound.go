//go:build !plantedfault

package journal

// forgotten is a fault that is planted for a test of the tests (planted.go).
func forgotten(*Entry) bool { return false }
