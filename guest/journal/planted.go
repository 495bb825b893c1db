//go:build plantedfault

package journal

import "hash/fnv"

// forgotten has the journal forget every other call ID, for `make faults-planted`:
// the fault harness must find that such calls take effect again. A call that
// begins anew has an end anew, too.
func forgotten(e *Entry) bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(e.ID))
	return e.State == Ended && sum.Sum32()%2 == 0
}
