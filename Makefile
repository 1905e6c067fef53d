# make help lists what there is. Every target runs on one or two cores; only
# test-system needs more than Go, and it installs that itself.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash -o pipefail

GO        ?= go
FUZZTIME  ?= 10s
BENCH     ?= .

# The files behind these build tags are ours too: they are vetted with the rest.
TAGS := system,long

# buf and staticcheck have a go.mod of their own: in ours, their requirements
# would move the versions that the programs are built with.
TOOL        := $(GO) tool -modfile=tools/go.mod
BUF         := $(TOOL) buf
STATICCHECK := $(TOOL) staticcheck

# What the tests tagged "system" need: real pages that others wrote, and programs.
SYSTEM_PACKAGES := cppreference-doc-en-html libxml2-utils nginx git chromium systemd curl openssl prometheus

# Pages that are only unpacked, below DEBIAN_DOCS: their packages may be in
# conflict with what is installed.
UNPACKED    := nodejs-doc
DEBIAN_DOCS ?= $(CURDIR)/bin/docs

# All is built and tested as it is distributed, and so compiled once: with cgo, the
# store's memory is the C library's, which keeps a good hundred MiB of what it was
# given back.
export CGO_ENABLED := 0

export GO BUF

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build publisherd, indexerd and auditor into bin/ (the first build takes minutes)
	$(GO) build -o bin/ ./publisherd ./indexerd ./auditor
	@ls bin

.PHONY: test
test: ## run the whole suite; needs nothing but Go
	@echo "Building and testing; each package prints a line when it is done."
	$(GO) test -timeout 15m -parallel 4 ./...
	@if [ -e testdata/thirdparty/go.mod ]; then $(MAKE) --no-print-directory testthird; fi
	@if [ -e bench/go.mod ]; then $(MAKE) --no-print-directory testbench; fi

.PHONY: testthird
testthird: ## check the log with libraries that others wrote, and the examples (part of test)
	GOWORK=off $(GO) -C testdata/thirdparty test -mod=readonly -timeout 10m ./...
	GOWORK=off $(GO) -C testdata/thirdparty/witnesses test -mod=readonly -timeout 10m ./...
	GOWORK=off $(GO) -C examples/consumer test -mod=readonly -timeout 10m ./...

.PHONY: testbench
testbench: ## check the tools that measure (part of test)
	GOWORK=off $(GO) -C bench test -mod=readonly -timeout 10m ./...

.PHONY: test-system
test-system: ## run the tests that need Debian packages: real pages, nginx, chromium, promtool (root)
	tools/debian-packages.sh $(SYSTEM_PACKAGES)
	tools/debian-docs.sh $(DEBIAN_DOCS) $(UNPACKED)
	DEBIAN_DOCS=$(DEBIAN_DOCS) $(GO) test -tags system -timeout 20m -run 'TestRealPages|OnCppreference|ForXmllint|ByNginx|ByGit|ByPromtool|InChromium|WithoutANetwork|UnderSystemd|TestDisk' ./internal/e2e ./content/site ./content/scp ./content/rbt/gitroot ./publisherd/publisher ./internal/house

.PHONY: test-long
test-long: ## run the soak and crash tests, for up to three hours
	$(GO) test -tags long -timeout 3h ./...
	GOWORK=off $(GO) -C testdata/thirdparty test -mod=readonly -tags long -timeout 1h ./...

.PHONY: race
race: ## run the suite under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 60m ./...

.PHONY: lint
lint: lint-go lint-proto lint-modules ## check formatting, vet, staticcheck, protocol, modules, generated code
	@echo "lint: all is well"

.PHONY: lint-go
lint-go:
	@unformatted=$$(gofmt -l .) && { [ -z "$$unformatted" ] || \
		{ echo "gofmt would change these files; run gofmt -w on them:"; echo "$$unformatted"; exit 1; }; }
	$(GO) vet ./...
	$(GO) vet -tags $(TAGS) ./...
	@for module in bench testdata/thirdparty testdata/thirdparty/witnesses examples/consumer; do \
		[ ! -e $$module/go.mod ] || { echo "$(GO) -C $$module vet ./..."; GOWORK=off $(GO) -C $$module vet ./... || exit 1; }; done
	$(STATICCHECK) -tests ./...
	$(STATICCHECK) -tests -tags $(TAGS) ./...

.PHONY: lint-proto
lint-proto:
	tools/lint-proto.sh

.PHONY: lint-modules
lint-modules:
	$(GO) mod tidy -diff
	$(GO) mod verify
	$(GO) -C tools mod tidy -diff
	$(GO) -C tools mod verify
	GOWORK=off $(GO) -C tools/dist mod tidy -diff
	GOWORK=off $(GO) -C tools/dist mod verify

.PHONY: gen
gen: ## regenerate the Go code of proto/
	$(BUF) generate

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (default 10s)
	tools/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build ## measure the whole way of a page beside what it can not go below and rsync, then the log (half an hour)
	tools/debian-packages.sh cppreference-doc-en-html rsync
	GOWORK=off $(GO) -C bench run ./speed --bin $(CURDIR)/bin $(BENCHFLAGS)
	GOWORK=off $(GO) -C bench run ./log

.PHONY: bench-go
bench-go: ## run the benchmarks of the packages that match BENCH
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 1h ./...

.PHONY: bench-log
bench-log: ## measure the log beside Tessera and Pebble, in turn, on one disk (5 minutes)
	GOWORK=off $(GO) -C bench run ./log $(BENCHFLAGS)

.PHONY: bench-sync
bench-sync: build ## measure what keeping indexers up to date moves, beside rsync, to a million pages (an hour)
	tools/debian-packages.sh cppreference-doc-en-html rsync
	GOWORK=off $(GO) -C bench run ./sync --bin $(CURDIR)/bin $(BENCHFLAGS)

.PHONY: bench-audit
bench-audit: ## lint a log of a million entries beside Ed25519 alone (10 minutes), and size evidence and memory
	$(GO) test -run '^$$' -bench BenchmarkEvidence -benchtime 10x ./internal/evaluate
	$(GO) test -run '^$$' -bench 'BenchmarkLint|BenchmarkMemory' -benchtime 1x -timeout 1h ./auditor -entries $(or $(ENTRIES),1000000)

.PHONY: soak
soak: build ## work for an hour with real programs, and fail if anything that they hold grows
	GOWORK=off $(GO) -C bench run ./soak --bin $(CURDIR)/bin $(SOAKFLAGS)

.PHONY: demo
demo: build ## show it all: two identities, a push, a receipt, its audit, an edit
	bash testdata/demo.sh

.PHONY: dist
dist: ## archives and Debian packages of this commit, into dist/ (amd64 and arm64)
	tools/dist.sh dist

.PHONY: dist-check
dist-check: ## build them twice, in two clones, and compare the octets
	tools/dist-check.sh

.PHONY: clean
clean: ## remove what build, demo and the tests left behind
	rm -rf bin demo dist coverage.*
	find . -name '*.test' -not -path './.git/*' -not -path '*/testdata/*' -type f -delete
