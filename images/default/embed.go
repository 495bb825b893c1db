// Package defaultimage carries the recipe of the default sandbox image, so that an installed binary can build it without
// a checkout: write Script to a file and run it by bash, with the arguments that its --help lists.
//
// Anyone may import it. It only holds bytes: it runs nothing and reads nothing.
package defaultimage

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"
	"strings"
)

// Ref is the image a session gets that asks for none. Its label RecipeLabel tells the recipe it was built from.
const Ref = "mcp-sandbox/default:latest"

// RecipeLabel is the image label whose value is Recipe's digest.
const RecipeLabel = "mcp-sandbox.recipe"

// Script is build.sh. It must be run from a file, as its own text is part of the digest it puts on the image.
//
//go:embed build.sh
var Script []byte

// Recipe is the digest, in hex, that an image built by Script with these added packages carries. Order and repetition of
// packages do not matter; their names must be valid ones, which only Script checks.
func Recipe(packages ...string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(packages)))
	digest := sha256.New()
	digest.Write(Script)
	digest.Write([]byte("\npackages=" + strings.Join(sorted, ",") + "\n"))
	return hex.EncodeToString(digest.Sum(nil))
}
