# Two commands are enough for most: `make measure` and `make test`. `make help` lists the rest.
TARGET := $(shell uname -m)-unknown-linux-gnu
BIN := target/$(TARGET)/release/bulkhead
PREFIX ?= /usr/local
# More arguments for the program: make measure ARGS="--quick"
ARGS ?=
# Mutated inputs per parser in `make test`, fewer of slow ones (tests/mutations.rs says how many); with more than these, or without
# the variable, `cargo test --release --test untrusted mutations::` takes as many of each: a million, which takes long.
MUTATIONS ?= 100000

export CARGO_BUILD_TARGET := $(TARGET)

.PHONY: help measure demo setup-demo test setup setup-test setup-fuzz setup-crosscheck build lint doc bench bench-boot bench-channel bench-exec bench-failover bench-figures bench-gap bench-mpi bench-outages bench-partitions-channel bench-plans bench-policy bench-power bench-prediction bench-simulator bench-tcp bench-verifying crosscheck aa fabric fuzz fuzz-channel loom miri install clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

measure: setup build ## set up what is missing, build, measure this machine
	$(BIN) measure $(ARGS)

test: setup-test fabric lint build ## set up what is missing, run all tests, list what was skipped (ARGS="--test partitions exec::" for some)
	BULKHEAD_MUTATIONS=$(MUTATIONS) tests/all.sh $(ARGS)

demo: setup-demo build ## the example of a message switch: measure, plan, up, verify (about 10 minutes; evidence in message-switch-demo/)
	BULKHEAD=$(BIN) examples/message-switch/demo.sh

setup-demo:
	@./setup.sh demo

setup: ## install what measuring needs, fetch a guest kernel into the cache folder
	@./setup.sh measure

setup-test: ## the same and what the tests need besides
	@./setup.sh test

setup-fuzz: ## install nightly Rust and cargo-fuzz
	@./setup.sh fuzz

setup-crosscheck: ## install the tools that crosscheck compares with
	@./setup.sh crosscheck

build: ## release build: one static binary
	cargo build --release

lint: ## formatting and lints, warnings are errors
	cargo fmt --all --check
	cargo clippy --release --workspace --exclude bulkhead-schemas --all-targets -- -D warnings

doc: ## the libraries' documentation
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace

# Each says met, missed or not decided for every figure: 0, 1 or 4 from `cargo bench`, of which make only keeps whether it is 0.
bench: bench-gap bench-boot bench-failover ## the quickest of the figures in docs/figures.md, judged

bench-gap: build ## cost of the gap loop against bare counter reads and oslat
	cargo bench --bench gap_cost

bench-boot: build ## boot to agent against a plain QEMU boot of the same kernel
	cargo bench --bench vm_boot

bench-exec: build ## exec against a plain QEMU boot, a bare port, and itself 10 000 times (ARGS="boot streams starts")
	cargo bench --bench exec -- $(ARGS)

bench-plans: build ## plans brought up with real guests: what their partitions get against what was predicted (ARGS="30")
	cargo bench --bench plans -- $(ARGS)

bench-failover: build ## how long a partition with doubled links is gone when its switch dies
	cargo bench --bench failover

bench-files: build ## files of the host over virtio-fs beside 9P and tmpfs, in one guest (ARGS="--rounds 5")
	cargo bench --bench files -- $(ARGS)

bench-figures: build ## figures that tests state, judged (ARGS="ground-truth ftq"; ARGS=all)
	cargo bench --bench figures -- $(ARGS)

bench-mpi: build fabric ## MPI over channels beside Open MPI's own transports (ARGS="host partitions --rounds 3")
	cargo bench --bench mpi -- $(ARGS)

bench-partitions-channel: build ## what `bulkhead channel bench` measures, judged (ARGS="--quick --rounds 7")
	cargo bench --bench partitions_channel -- $(ARGS)

bench-prediction: build ## how long runs were said to take and took, idle and beside busy loops (ARGS="--passes 6 --pause-s 1800")
	cargo bench --bench prediction -- $(ARGS)

bench-tcp: build ## TCP between VMs over tap and bridge beside our switch and the channel; needs root (ARGS="--rounds 9")
	cargo bench --bench tcp -- $(ARGS)

bench-verifying: build ## how often a verification finds what is missed by 10 %, and says otherwise than usual; what a watch takes (ARGS="20 --busy", ARGS=watch)
	cargo bench --bench verifying -- $(ARGS)

bench-outages: build ## outages of ten kinds of failures, held against a second client (ARGS="20"); kill -9 of verify (ARGS="kill 100")
	cargo bench --bench outages -- $(ARGS)

bench-policy: build ## how often the policy by which CPUs are shared is named right (ARGS="processes machines --runs 8")
	cargo bench --bench policy -- $(ARGS)

bench-simulator: build ## the simulator beside SimPy, SimGrid and nexosim (ARGS="--rounds 3")
	@./setup.sh bench-simulator
	cargo bench --bench simulator -- $(ARGS)

crosscheck: setup-crosscheck build ## well-known tools beside our probes, as ratios (ARGS="--rounds 3 disk hpcc")
	cargo bench --bench crosscheck -- $(ARGS)

aa: build ## A/A: how often does native against native find a difference? (ARGS=40: rounds recorded; ARGS=carriers: does how agents are started show?)
	cargo bench --bench a_a -- $(ARGS)

bench-power: build ## how often are 5 % found by default and quick runs, and how often a difference where there is none? (ARGS="10 quick --busy")
	cargo bench --bench power -- $(ARGS)

# The targets are what fuzz/Cargo.toml lists. Seeds are the good inputs of tests/mutations.rs.
FUZZ_RUNS ?= 1000000
# None of these parsers has unsafe code, and without a sanitizer they run several times faster; address looks behind libraries.
FUZZ_SANITIZER ?= none
fuzz: setup-fuzz ## a million inputs, guided by coverage, into all that reads what a guest, a peer or a user wrote (needs nightly and cargo-fuzz)
	BULKHEAD_WRITE_SEEDS=$(CURDIR)/fuzz/corpus BULKHEAD_MUTATIONS=2000 cargo test --release --test untrusted mutations::
	cd fuzz && for target in $$(sed -n 's/^name = "\([a-z_]*\)"$$/\1/p' Cargo.toml); do \
	  CARGO_BUILD_TARGET= cargo +nightly fuzz run -s $(FUZZ_SANITIZER) $$target -- -runs=$(FUZZ_RUNS) -max_len=16384 -len_control=0 -print_final_stats=1 || exit 1; done

fuzz-channel: ## a hostile peer under AddressSanitizer: ten million random steps, then what the fuzzer finds (needs nightly and cargo-fuzz)
	RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/asan cargo +nightly test --release -p bulkhead-channel --test hostile
	cd crates/channel && CARGO_BUILD_TARGET= cargo +nightly fuzz run --target-dir ../../target/fuzz-channel hostile -- -runs=10000 -max_len=65536 -len_control=0

loom: ## the channel's rings under every interleaving and memory order
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --release -p bulkhead-channel --lib loom

miri: ## the channel's rings under the interpreter that sees undefined behaviour (needs nightly with miri)
	CARGO_TARGET_DIR=target/miri cargo +nightly miri test -p bulkhead-channel --lib -- ring

bench-channel: ## round trips and bandwidth of the channel beside socket pair, pipe and copy, between two processes
	cargo bench -p bulkhead-channel --bench ring -- $(ARGS)

# Put in its place in one step: programs that have the old one loaded go on, and none finds half of the new one.
# A shared library that stays once it is loaded, because a section's heart beats in a thread of its own.
FABRIC := target/fabric/$(TARGET)/release
fabric: ## the libfabric provider: target/fabric/…/release/libbulkhead-fi.so, for FI_PROVIDER_PATH
	RUSTFLAGS= CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 cargo rustc --release -p bulkhead-fabric --lib --crate-type cdylib --target-dir target/fabric -- -C link-arg=-Wl,-z,nodelete
	install -m755 $(FABRIC)/libbulkhead_fi.so $(FABRIC)/libbulkhead-fi.so.$$$$ && mv -f $(FABRIC)/libbulkhead-fi.so.$$$$ $(FABRIC)/libbulkhead-fi.so

install: build fabric ## install binary, library for MPI, man pages and shell completions below PREFIX
	install -Dm755 $(BIN) $(DESTDIR)$(PREFIX)/bin/bulkhead
	install -Dm755 $(FABRIC)/libbulkhead-fi.so $(DESTDIR)$(PREFIX)/lib/bulkhead/libbulkhead-fi.so
	$(BIN) man --out $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
	  $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BIN) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/bulkhead
	$(BIN) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_bulkhead
	$(BIN) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/bulkhead.fish

clean: ## remove what was built
	cargo clean
