# Every target may be run again without harm. `make quickstart` and `make test` start from a bare Debian 12 with git, make and
# Python 3, and do all the set-up themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python
CMAKE := cmake -G Ninja -S .
export MODEL ?=
BENCH ?=
FUZZ_SECONDS ?= 600
HISTORIES ?= 500
SEED ?= 1
VERBOSE ?=

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## install what is missing: Debian packages (packages.apt) and .venv (requirements-dev.txt)
	@tools/setup

build: setup ## the program, as released: build/bin/steelyard; and the Python package, editable in .venv
	@mkdir -p build && $(CMAKE) -B build -DSY_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON) >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@ninja -C build -j $(JOBS) steelyard steelyard_python
	@tools/install_editable

quickstart: build ## import, list, inspect, verify and materialise a real checkpoint (MODEL=DIR: your own)
	@tools/quickstart "$$MODEL"

test-programs: build
	@ninja -C build -j $(JOBS)

fuzz-programs: setup
	@$(CMAKE) -B build/fuzz -DSY_FUZZ=ON -DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 >/dev/null
	@ninja -C build/fuzz -j $(JOBS) fuzz-programs

setup-tests: setup
	@tools/setup requirements-tests.txt

test: setup-tests ## everything: lint, unit, conformance, scenario, crash, command-line and Python tests, simulation, brief fuzzing
	@$(PYTHON) tools/run_tests.py

lint: setup ## the rules of docs/architecture.md and CONTRIBUTING.md, and formatting
	@$(PYTHON) tools/tidy.py

format: setup ## clang-format on every C++ file
	@git ls-files -co --exclude-standard '*.cc' '*.h' | xargs -r clang-format -i

asan: setup ## unit and command-line tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(CMAKE) -B build/asan -DSY_SANITIZE=address >/dev/null
	@ninja -C build/asan -j $(JOBS)
	@ASAN_OPTIONS=allocator_may_return_null=1 ctest --test-dir build/asan --output-on-failure -j $(JOBS)
	@STEELYARD_BIN=build/asan/bin/steelyard $(PYTHON) -m pytest -q tests/cli

tsan: setup ## unit tests under ThreadSanitizer
	@$(CMAKE) -B build/tsan -DSY_SANITIZE=thread >/dev/null
	@ninja -C build/tsan -j $(JOBS)
	@TSAN_OPTIONS=allocator_may_return_null=1 ctest --test-dir build/tsan --output-on-failure -j $(JOBS)

fuzz: fuzz-programs ## every fuzz target for FUZZ_SECONDS (600) each
	@STEELYARD_FUZZ_SECONDS=$(FUZZ_SECONDS) $(PYTHON) -m pytest -q -s tests/fuzz

sim: build ## HISTORIES (500) random histories from SEED (1); VERBOSE=1 prints what happens in them
	@ninja -C build -j $(JOBS) steelyard_simulate
	@build/bin/steelyard_sim --seed $(SEED) --histories $(HISTORIES) $(if $(VERBOSE),--verbose)

bench: build ## the figures of docs/performance.md; BENCH='--only import' for single rows of the store
	@$(PYTHON) bench/run.py $(BENCH)
	@$(if $(BENCH),,$(PYTHON) bench/reshard.py)

bench-reshard: build ## the planner's figures alone; BENCH='--only execute' for single rows
	@$(PYTHON) bench/reshard.py $(BENCH)

clean: ## remove what was built (not .venv)
	@rm -rf build

.PHONY: help setup setup-tests build quickstart test-programs fuzz-programs test lint format asan tsan fuzz sim bench bench-reshard clean
