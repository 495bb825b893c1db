package e2e_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are cores, unless -parallel
// says otherwise: most of their time they wait for commands that sleep.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "3")
	}
	os.Exit(m.Run())
}
