# The commands a person types. Each installs what it needs (packages.txt), configures, builds, runs.
# CMake does the building; this file only spares you its options.

.DEFAULT_GOAL := help
.PHONY: help demo test build bench proof lint style format asan tsan clean

JOBS ?= $(shell nproc)
SEEDS ?= 20000
BUILD = cmake --build --preset $(1) --parallel $(JOBS)
CONFIGURE = cmake --preset $(1) $(if $(V),,--log-level=NOTICE)
SOURCES = $(shell git ls-files '*.h' '*.cpp')

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: build  ## see it work: outbox, writer, relay and a receiver that you can break
	@build/release/outbox-relay demo

build:  ## the program: build/release/outbox-relay
	@tools/install-packages build
	@$(call CONFIGURE,release)
	@$(call BUILD,release) --target outbox-relay

test:  ## every test; the last line is the count
	@tools/install-packages build test
	@$(call CONFIGURE,dev)
	@$(call BUILD,dev)
	@tests/run

proof:  ## what `make test` samples, at length: more seeds, sanitizers
	@tools/install-packages build test lint
	@$(call CONFIGURE,dev)
	@$(call BUILD,dev)
	@OUTBOX_PROOF=1 tests/run
	@build/dev/tests/outbox-sim --seed $$(date +%s) --count $(SEEDS)
	@$(MAKE) --no-print-directory asan tsan lint

bench:  ## measure; what it prints is what docs/benchmarks.md quotes
	@tools/install-packages build test
	@tests/bench/run

asan:  ## unit, conformance and simulator tests with address and undefined-behaviour sanitizers
	@tools/install-packages build test
	@$(call CONFIGURE,asan)
	@$(call BUILD,asan)
	@tests/run --build build/asan --programs

tsan:  ## the same with the thread sanitizer
	@tools/install-packages build test
	@$(call CONFIGURE,tsan)
	@$(call BUILD,tsan)
	@tests/run --build build/tsan --programs

lint:  ## format, clang-tidy, shellcheck, house rules
	@tools/install-packages build test lint
	@$(call CONFIGURE,dev)
	@tools/lint --jobs $(JOBS)

style:  ## the part of lint that needs no build: format, shellcheck, house rules
	@tools/install-packages lint
	@tools/lint --quick

format:  ## rewrite the sources as .clang-format says
	@tools/install-packages lint
	@clang-format-14 -i $(SOURCES)

clean:  ## remove what was built
	@rm -rf build
