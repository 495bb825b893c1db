package harness

import (
	"net"
	"testing"
)

// SilentCollectors gives the environments of a collector whose port refuses, and
// of one that takes connections and never answers.
func SilentCollectors(t *testing.T) (refusing, silent []string) {
	t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + taken.Addr().String()}
	_ = taken.Close()
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn // the goroutine's until done is closed
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := hole.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
		}
	}()
	t.Cleanup(func() {
		_ = hole.Close()
		<-done
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return refusing, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + hole.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=100"}
}
