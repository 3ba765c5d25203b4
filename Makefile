# Dynamix: the two commands of the README and the rest of the verbs. The build itself is CMake's (CMakePresets.json).
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
# Tests of clusters wait more than they compute.
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
CLUSTER ?= deployments/clusters/local-4.toml
LEADER_KILLS ?= 300
FUZZ_SECONDS ?= 60
NODE := build/release/node/dynamix-node
SOURCES := $(shell git ls-files '*.cpp' '*.hpp' 2>/dev/null)

.PHONY: help setup setup-test node build run test test-torch fuzz fuzz-all test-all soak bench sanitize packages wheel container format lint clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: # install the Debian packages that are missing, and PyTorch where there is none
	@tools/setup
	@tools/setup-torch

build: setup ## build everything into build/release
	@cmake --preset release -Wno-dev >/dev/null
	@cmake --build --preset release -j $(JOBS)

run: node ## train Fashion-MNIST on four unequal local hosts and print the result
	@$(NODE) local --cluster $(CLUSTER)

setup-test: # what only the tests need
	@tools/setup tools/packages-test.txt

node: setup # only the program
	@cmake --preset release -Wno-dev >/dev/null
	@cmake --build --preset release -j $(JOBS) --target dynamix-node

test: setup-test build fuzz ## run all tests but the long ones
	@ctest --preset release -j $(TEST_JOBS) -LE long

test-torch: node # the Python package on VERSION of torch, in a virtual environment of its own
	@cmake --build --preset release -j $(JOBS) --target dynamix_sdk
	@tools/test-torch $(VERSION)

fuzz: setup # a million damaged frames and rows of items under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset sanitize -Wno-dev >/dev/null
	@cmake --build --preset sanitize -j $(JOBS) --target codec_mutation_test items_mutation_test
	@ctest --preset sanitize -j $(JOBS) -R mutation_test

test-all: setup-test build fuzz ## run the long tests too
	@tools/setup tools/packages-long.txt tools/packages-release.txt
	@ctest --preset release -j $(TEST_JOBS)
	@$(MAKE) --no-print-directory fuzz-all

fuzz-all: # everything that reads bytes of others, FUZZ_SECONDS each, by libFuzzer (policies without it) under both sanitizers
	@tools/setup tools/packages-long.txt
	@cmake --preset fuzz -Wno-dev >/dev/null
	@cmake --build --preset fuzz -j $(JOBS) --target fuzz
	@printf '%s\n' $(filter-out policies,$(notdir $(wildcard tests/fuzz/corpus/*))) | xargs -P $(JOBS) -I NAME tools/fuzz build/fuzz NAME $(FUZZ_SECONDS)
	@cmake --preset sanitize -Wno-dev >/dev/null
	@cmake --build --preset sanitize -j $(JOBS) --target corpus_test
	@DYNAMIX_FUZZ_SECONDS=$(FUZZ_SECONDS) UBSAN_OPTIONS=halt_on_error=1 build/sanitize/tests/fuzz/corpus_test --gtest_filter='*Mutated/policies'

soak: node ## break clusters for hours: LEADER_KILLS=300 of leaders, 1,200 of workers, then everything at random
	@$(NODE) faults --plan deployments/faults/leader-kills-soak.toml --repeat $(LEADER_KILLS)
	@$(NODE) faults --plan deployments/faults/worker-kills-soak.toml
	@$(NODE) faults --plan deployments/faults/random-soak.toml

bench: ## measure against the rivals
	@tools/setup
	@cmake --preset bench -Wno-dev >/dev/null
	@cmake --build --preset bench -j $(JOBS)
	@benchmarks/run build/bench

sanitize: setup ## build and test under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset sanitize -Wno-dev >/dev/null
	@cmake --build --preset sanitize -j $(JOBS)
	@ctest --preset sanitize -j $(TEST_JOBS)

wheel: # make a wheel for pip in build/wheels, with all the libraries it needs
	@tools/setup
	@tools/make-wheel

packages: setup ## make Debian packages in build/packages
	@tools/setup tools/packages-release.txt
	@cmake --preset release -Wno-dev >/dev/null
	@cmake --build --preset release -j $(JOBS) --target dynamix-node dynamix_sdk package_documentation
	@tools/make-packages build/release build/packages

container: packages # build the image of deployments/container from the packages
	@tools/setup tools/packages-container.txt
	@tools/make-container build/packages

format: ## format the sources
	@tools/setup tools/packages-lint.txt
	@clang-format -i $(SOURCES)

lint: setup ## check the format and run clang-tidy
	@tools/setup tools/packages-lint.txt
	@clang-format --dry-run --Werror $(SOURCES)
	@cmake --preset release -Wno-dev >/dev/null
	@clang-tidy --quiet -p build/release $(filter %.cpp,$(SOURCES))

clean: ## remove what was built; runs/ stays
	@rm -rf build
