package tools

import (
	"fmt"
	"slices"
	"strings"
)

// Table is the list of tools for the README, in Markdown: for each its
// arguments (? is optional), what it does and its toolset.
func Table() string {
	var b strings.Builder
	b.WriteString("| tool | arguments | what it does | toolset |\n| --- | --- | --- | --- |\n")
	for _, s := range Catalog() {
		args := make([]string, len(s.Input.PropertyOrder))
		for i, name := range s.Input.PropertyOrder {
			args[i] = "`" + name + "`"
			if !slices.Contains(s.Input.Required, name) {
				args[i] += "?"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, strings.Join(args, ", "), s.Description, s.Toolset)
	}
	return b.String()
}
