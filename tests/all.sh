#!/usr/bin/env bash
# All tests, one step after the other, whatever becomes of the one before; then what was skipped and why, what failed, and a
# line `N passed, N failed, N skipped`. Exit code 1 when something failed. `make test` runs this.
#
# As root what root can have must be there (BULKHEAD_REQUIRE; the names are in CONTRIBUTING.md).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

cargo build --release --quiet --package bulkhead-skips || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
touch "$folder/said" "$folder/skips" "$folder/broken"
export BULKHEAD_SKIPS=$folder/skips

required=
if [ "$(id -u)" -eq 0 ]; then required=root,container,vm,browser,ssh,mpi; fi
export BULKHEAD_REQUIRE=${BULKHEAD_REQUIRE-$required}

step() {
    printf '+ %s\n' "$*"
    "$@" 2>&1 | tee -a "$folder/said" || printf '%s\n' "$*" >>"$folder/broken"
}

if [ $# -gt 0 ]; then
    step cargo test --release --no-fail-fast "$@"
else
    step cargo test --release --no-fail-fast --lib --bins --tests
    step cargo test --release --no-fail-fast --doc
    step cargo test --release --no-fail-fast -p bulkhead-channel
    step cargo test --release --no-fail-fast -p bulkhead-fabric
    step cargo test --release --no-fail-fast -p bulkhead-skips
fi

cargo run --release --quiet --package bulkhead-skips -- "$folder"
status=$?
if [ -s "$folder/broken" ]; then exit 1; fi
exit $status
