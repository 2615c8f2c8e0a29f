# The short way to everything. Each target installs, configures and builds what it needs first; all of that is instant
# when nothing is missing. CMake and ctest do the work: docs/building.md says how to call them directly.
#
#   JOBS=4                       parallel jobs of builds (default: one per processor)
#   TEST_JOBS=6                  parallel jobs of tests (default: half as many again, since tests of the program also wait)
#   CMAKE_FLAGS='-DX=Y ...'      more CMake options, for example -DKVKEEP_LLAMA=fetch
#   CTEST_FLAGS='-R store ...'   more ctest options
#   VARIANT=haswell              tests run with this CPU backend of libggml instead of the best (scripts/with-cpu-variant)
#   SUITES='everyday|slow'       what `make test` runs: the label or labels of the tests (default: everyday)
#   FUZZ_SECONDS=600             how long `make fuzz` runs each target (default: 60); FUZZ='built_state gbnf': only these
#   KVKEEP_SKIP_SETUP=1          the libraries were installed by hand
#   PREFIX=/usr DESTDIR=...      where `make install` puts the program (default: /usr/local), and a folder above that
#   LLAMA_SERVER=1               `make install` also puts a link named llama-server next to it

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= $(shell expr \( $(JOBS) \* 3 + 1 \) / 2)
CMAKE_FLAGS ?=
CTEST_FLAGS ?=
VARIANT ?=
SUITES ?= everyday
FUZZ ?=
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
# $(call run_tests,build folder,labels)
run_tests = $(if $(VARIANT),scripts/with-cpu-variant $(VARIANT)) ctest --output-on-failure --no-label-summary -j $(TEST_JOBS) $(CTEST_FLAGS) --test-dir $(1) -L '$(2)' || \
	  { scripts/why-failed $(1); exit 1; }
# The presets name clang 19; where only another version is installed, that one is used.
CLANGXX := $(notdir $(shell for c in clang++-19 clang++-22 clang++-21 clang++; do command -v $$c && break; done))
clang_flags = $(if $(CLANGXX),-DCMAKE_CXX_COMPILER=$(CLANGXX) -DCMAKE_C_COMPILER=$(subst clang++,clang,$(CLANGXX)))

.DEFAULT_GOAL := help
.PHONY: help setup setup-program build install deb all test test-slow test-long test-clang test-asan test-tsan fuzz demo demo-share bench bench-check bench-keep \
        format format-check tidy clean FORCE

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: setup-program ## install the compilers and libraries (Debian 12 and newer)
	@scripts/setup

# Less to install: what the program is built from, without what tests, benchmarks and sanitizers need.
setup-program:
	@scripts/setup program

# Configured once; the build system reconfigures itself when a CMakeLists.txt changes. A new folder is configured for the
# program only, whose libraries are all that is installed by then; `make all` adds the rest.
build/build.ninja: CMakePresets.json $(if $(strip $(CMAKE_FLAGS)),FORCE) | setup-program
	cmake --preset release $(if $(wildcard build/CMakeCache.txt),,$(call tests_and_benchmarks,OFF)) $(CMAKE_FLAGS)
tests_and_benchmarks = -DKVKEEP_BUILD_TESTS=$(1) -DKVKEEP_BUILD_BENCH=$(1)

build: build/build.ninja ## the program, build/kvkeep
	cmake --build build --target kvkeep -j $(JOBS)

# No build: as root it would leave files that the user's next build cannot replace.
install: ## the program, its man page, docs and services into PREFIX (default: /usr/local), below DESTDIR if that is set
	@test -x build/kvkeep || { echo "run make build first"; exit 1; }
	DESTDIR='$(DESTDIR)' LLAMA_SERVER='$(LLAMA_SERVER)' cmake --install build --prefix '$(PREFIX)'
	@rm -f build/install_manifest.txt

# The tools come first: without them, minutes of building would end in nothing.
deb: ## a Debian package, in build/packages
	@scripts/setup package
	@for tool in dpkg-shlibdeps file; do command -v $$tool >/dev/null || \
	  { echo "make deb needs $$tool, to find what the package depends on: install dpkg-dev and file"; exit 1; }; done
	@$(MAKE) --no-print-directory build
	cpack --config build/CPackConfig.cmake

all: setup build/build.ninja ## the program and all tests
	@grep -qs KVKEEP_BUILD_TESTS:BOOL=ON build/CMakeCache.txt || \
	  cmake --preset release $(call tests_and_benchmarks,ON) $(CMAKE_FLAGS)
	@python3 -B tests/build_cost/build_cost.py build build $(JOBS)
	cmake --build build -j $(JOBS)

test: all ## the everyday tests (SUITES='everyday|slow': with the slow ones, as continuous integration does)
	@$(call run_tests,build,$(SUITES))

test-slow: all ## the slow tests: kill loops, flags that take many starts, workloads of each class of memory (minutes)
	@$(call run_tests,build,slow)

test-long: all ## what neither runs: thousands of random histories, every mutant, clang-tidy, every workload in every variant (most of an hour)
	@scripts/setup-s3-gateway && cmake build >/dev/null
	@$(call run_tests,build,long)

# $(call test_in,preset): configures, builds and runs the everyday tests of another preset in build/<preset>.
define test_in
	cmake --preset $(1) $(clang_flags) $(CMAKE_FLAGS)
	cmake --build build/$(1) -j $(JOBS)
	@$(call run_tests,build/$(1),everyday)
endef

test-clang: setup ## the everyday tests, built by clang with thread-safety analysis
	$(call test_in,clang)

test-asan: setup ## the everyday tests under AddressSanitizer and UBSan
	$(call test_in,asan-ubsan)

test-tsan: setup ## the everyday tests under ThreadSanitizer
	$(call test_in,tsan)

fuzz: setup ## each fuzz target for FUZZ_SECONDS: inputs of libFuzzer's making for everything that reads (docs/fuzzing.md)
	cmake --preset fuzz $(clang_flags) $(CMAKE_FLAGS)
	cmake --build build/fuzz --target fuzz_targets -j $(JOBS)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz $(FUZZ)

demo: build ## a 12-turn agent conversation with a crash in the middle, with and without the cache
	@build/kvkeep demo

demo-share: build ## a conversation that moves between two servers, with a crash in the middle
	@scripts/demo-share

bench: all ## the benchmarks of docs/benchmarks.md
	@scripts/bench

# One kept file for each class of memory; the default architecture's has no name.
kept_architectures = gemma3 qwen35 mamba2 deepseek4
kept_loads = herd,agents,clients

bench-check: build ## ratios and counts of the workloads, compared with the kept ones, each class of memory (minutes)
	@build/kvkeep bench --quick --check bench/expected_quick.json
	@build/kvkeep bench --quick --no-workloads --load --scenarios $(kept_loads) --check bench/expected_load.json
	@for a in $(kept_architectures); do \
	  build/kvkeep bench --quick --arch $$a --check bench/expected_quick_$$a.json || exit 1; done

bench-keep: build ## keep the counts of today for bench-check, where they are meant to differ
	@build/kvkeep bench --quick --keep bench/expected_quick.json
	@build/kvkeep bench --quick --no-workloads --load --scenarios $(kept_loads) --keep bench/expected_load.json
	@for a in $(kept_architectures); do \
	  build/kvkeep bench --quick --arch $$a --keep bench/expected_quick_$$a.json || exit 1; done

format: setup ## rewrite the sources as .clang-format says
	@scripts/check-format --fix

format-check: setup ## say which sources are not formatted
	@scripts/check-format

tidy: setup ## clang-tidy over all sources (minutes)
	@JOBS=$(JOBS) scripts/check-tidy

clean: ## remove everything that was built
	rm -rf build
