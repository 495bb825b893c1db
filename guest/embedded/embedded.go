// Package embedded carries the built guest binaries inside mcp-sandbox.
//
// `make build` puts them into bin/ before it compiles the server. A fresh clone
// has only a placeholder there: everything compiles, and Binary says what to do.
package embedded

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"sync"
)

//go:embed bin
var files embed.FS

// The architectures a guest is built for, as in GOARCH.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// None is what Version returns when no guest is embedded.
const None = "none"

// Binary returns the guest program for a GOARCH. The error says what to do.
func Binary(arch string) ([]byte, error) {
	if arch != AMD64 && arch != ARM64 {
		return nil, fmt.Errorf("no guest is built for %q, only for %s and %s", arch, AMD64, ARM64)
	}
	data, err := files.ReadFile("bin/sandbox-guest-linux-" + arch)
	if err != nil {
		return nil, fmt.Errorf("this binary carries no guest for linux/%s: run `make build`", arch)
	}
	return data, nil
}

// VersionOf identifies one guest: the first 12 hex digits of the SHA-256 of its
// binary, which the guest itself tells in Hello. None where there is none.
func VersionOf(arch string) string {
	data, err := Binary(arch)
	if err != nil {
		return None
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:12]
}

// Version identifies the embedded guests: the first 12 hex digits of the
// SHA-256 over the binaries of both architectures, or None. Derived images are
// named by it, so another guest makes another image.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	sum, found := sha256.New(), false
	for _, arch := range []string{AMD64, ARM64} {
		data, err := Binary(arch)
		if err != nil {
			continue
		}
		found = true
		_, _ = fmt.Fprintf(sum, "%s %d\n", arch, len(data))
		_, _ = sum.Write(data)
	}
	if !found {
		return None
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
})
