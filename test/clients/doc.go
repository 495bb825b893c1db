// Package clients runs MCP clients that others wrote against the built binary:
// the MCP Inspector's command line, and an agent of the Claude Agent SDK whose
// model is a script. They come from npm (package.json pins them), so the tests
// have the build tag clients; `make test-clients` installs and runs them.
package clients
