# `make help` lists the targets. Everything they need and cannot find they install, where scripts/setup.sh may.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO ?= go
TOOL := $(GO) tool -modfile=go.tool.mod
COMMIT_TIME := $(shell git log -1 --format=%cI 2>/dev/null)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Build, tests and linters share these, so that the many dependencies are compiled once and not twice.
export CGO_ENABLED ?= 0
export GOFLAGS ?= -trimpath

# ./... and what to add for go test: make test TEST_FLAGS='-run TestSnapshot' TEST_PACKAGES=./session/...
TEST_FLAGS ?=
TEST_PACKAGES ?= ./...
TEST_TIMEOUT ?= 15m
SERVE_FLAGS ?=
DEMO_FLAGS ?=
BENCH_FLAGS ?=
FAULTS_FLAGS ?=

GUEST_DIR := guest/embedded/bin
GUESTS := $(GUEST_DIR)/sandbox-guest-linux-amd64 $(GUEST_DIR)/sandbox-guest-linux-arm64
SCRIPTS := .ci/run $(wildcard scripts/*.sh images/*/*.sh)

##@ Use

.PHONY: setup
setup: ## Docker Engine and default image; no-op when they are there
	@scripts/setup.sh

.PHONY: build
build: guest ## bin/mcp-sandbox, with the guest in it
	@$(GO) build -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION) -X main.commitTime=$(COMMIT_TIME)' -o bin/mcp-sandbox ./cmd/mcp-sandbox

.PHONY: run
run: setup build ## install what is missing, build, serve (SERVE_FLAGS='--listen ...')
	@exec bin/mcp-sandbox serve $(SERVE_FLAGS)

.PHONY: demo
demo: setup build ## a scripted agent works in a sandbox of its own server (DEMO_FLAGS=--keep)
	@$(GO) build -o bin/scripted-agent ./examples/agents/scripted
	@exec bin/scripted-agent $(DEMO_FLAGS)

##@ Develop

# -count=1: a result from the cache says nothing about the engine that is here now.
# One package at a time: they share an engine, and some hold what they do to a time.
.PHONY: test
test: setup build ## all tests, set-up included (TEST_FLAGS, TEST_PACKAGES, TEST_TIMEOUT)
	@images/test/build.sh
	@MCP_SANDBOX_REQUIRE=docker MCP_SANDBOX_BINARY='$(CURDIR)/bin/mcp-sandbox' \
		$(TOOL) gotestsum --format pkgname --format-hide-empty-pkg -- -p 1 -count=1 -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(TEST_PACKAGES)

.PHONY: test-clients
test-clients: setup build ## MCP clients of others against the built binary (needs Node 20 and npm)
	@cd test/clients && npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error
	@MCP_SANDBOX_REQUIRE=docker MCP_SANDBOX_BINARY='$(CURDIR)/bin/mcp-sandbox' \
		$(TOOL) gotestsum --format pkgname -- -tags clients -count=1 -timeout $(TEST_TIMEOUT) ./test/clients

.PHONY: bench
bench: setup build ## what calls cost, against the raw Docker Engine (BENCH_FLAGS='--quick --json --out FILE --calls 5000')
	@$(GO) build -o bin/bench ./test/bench
	@exec bin/bench $(BENCH_FLAGS)

.PHONY: faults
faults: setup build ## kill every part at random under load (FAULTS_FLAGS='--seed 7 --rounds 5 --for 60s --dockerd --json')
	@images/test/build.sh
	@$(GO) build -o bin/faults ./test/faults
	@exec bin/faults $(FAULTS_FLAGS)

# A guest that forgets call IDs goes into a binary beside the real one.
.PHONY: faults-planted
faults-planted: setup guest ## make faults must find a fault that is there
	@images/test/build.sh
	@mkdir -p bin/planted
	@GOOS=linux CGO_ENABLED=0 $(GO) build -trimpath -tags plantedfault -ldflags '-s -w' -o bin/planted/guest ./cmd/sandbox-guest
	@printf '{"Replace":{"%s":"%s"}}\n' '$(CURDIR)/$(GUEST_DIR)/sandbox-guest-linux-'"$$($(GO) env GOARCH)" '$(CURDIR)/bin/planted/guest' >bin/planted/overlay.json
	@$(GO) build -buildvcs=false -overlay bin/planted/overlay.json -o bin/planted/mcp-sandbox ./cmd/mcp-sandbox
	@MCP_SANDBOX_REQUIRE=docker MCP_SANDBOX_PLANTED='$(CURDIR)/bin/planted/mcp-sandbox' \
		$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run '^TestFindsPlantedFault$$' -v ./test/faults

.PHONY: check
check: guest check-scripts check-modules check-generated check-format lint ## format, lint, vet, generated files up to date

.PHONY: generate
generate: ## rewrite generated files
	@$(GO) generate ./...

.PHONY: format
format: ## rewrite Go files as check-format wants them
	@$(TOOL) golangci-lint fmt

.PHONY: clean
clean: ## remove what build made; images and the engine stay
	@rm -rf bin $(GUESTS)

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- parts of the above -------------------------------------------------------------------------------------------------

# A guest file is replaced only when its bytes change: it is embedded into the binary, and sandboxes are tied to its digest.
# Hence no version and no VCS stamp in it. The go command knows best when its sources changed, so it is asked every time.
.PHONY: guest $(GUESTS)
guest: $(GUESTS)
$(GUESTS): $(GUEST_DIR)/sandbox-guest-linux-%:
	@mkdir -p bin
	@GOOS=linux GOARCH=$* CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o bin/sandbox-guest-linux-$* ./cmd/sandbox-guest
	@cmp -s bin/sandbox-guest-linux-$* $@ || { mkdir -p $(@D) && cp bin/sandbox-guest-linux-$* $@; }

.PHONY: check-scripts
check-scripts:
	@for script in $(SCRIPTS); do bash -n "$$script" || exit 1; done
	@if command -v shellcheck >/dev/null; then shellcheck --severity=warning $(SCRIPTS); fi

.PHONY: check-modules
check-modules:
	@$(GO) mod tidy -diff

# Also right in a tree with uncommitted work: only what `generate` itself changes counts.
.PHONY: check-generated
check-generated:
	@state() { git status --porcelain && git diff; }; \
	before=$$(state); \
	$(MAKE) generate || exit 1; \
	if [ "$$before" != "$$(state)" ]; then \
		echo "generated files were out of date; commit what 'make generate' made of them:" >&2; \
		git status --short >&2; exit 1; \
	fi

.PHONY: check-format
check-format:
	@$(TOOL) golangci-lint fmt --diff

# workflowcheck finds what would break a replay: clocks, randomness, map order, goroutines, I/O.
.PHONY: lint
lint:
	@$(GO) vet ./...
	@$(TOOL) golangci-lint run --allow-parallel-runners
	@$(TOOL) workflowcheck ./workflows/...
