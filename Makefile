# The tasks of a developer. .ci/run calls the same targets.

GOLANGCI_LINT_VERSION := v2.15.0
GOTESTSUM_VERSION     := v1.13.0
GOLANGCI_LINT         := $(shell go env GOPATH)/bin/golangci-lint

# BIN is the directory of the built programs.
BIN ?= bin

# gVisor does not run in programs that are linked with the C library.
export CGO_ENABLED := 0

.PHONY: build test lint bench docs

build: ## the four programs, into $(BIN)
	go build -trimpath -o $(BIN)/ ./cmd/...

test: ## go test ./... with a summary of the skipped tests and their reasons
	go run gotest.tools/gotestsum@$(GOTESTSUM_VERSION) --format pkgname -- ./...

lint: ## golangci-lint and go vet
	@"$(GOLANGCI_LINT)" version 2>/dev/null | grep -q "version $(GOLANGCI_LINT_VERSION:v%=%) " || \
		GOBIN="$(dir $(GOLANGCI_LINT))" \
		go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	"$(GOLANGCI_LINT)" run --allow-parallel-runners ./...
	go vet ./...

bench: build ## sb beside the other tools that are installed; needs hyperfine
	docs/bench.sh $(BIN)

docs: build ## docs/cli, from the commands' help
	$(BIN)/sb docs docs/cli
