#!/usr/bin/env bash
# All tests, whatever becomes of the ones before; then what was skipped and why, what failed, and a line `N passed, N failed,
# N skipped`. Exit code 1 when something failed. `make test` runs this.
#
# Three files of tests run at a time (BULKHEAD_TEST_STREAMS), because many of them wait: for guests, deadlines, other processes.
# None may depend on having the machine to itself. Some run first and alone all the same. Those of MPI: ranks that wait spin, in
# guests whose CPUs wait for ours, and beside two others they took 40 times as long (345 s for 9). And `policy_real`, which demands
# that no policy is ever named wrongly: beside others' guests one was (docs/figures.md). What a file says is shown when it has ended.
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

# What makes schemas is compiled apart, so that nothing else has it.
PACKAGES='--workspace --exclude bulkhead-schemas'

step() {
    printf '+ %s\n' "$*"
    "$@" 2>&1 | tee -a "$folder/said" || printf '%s\n' "$*" >>"$folder/broken"
}

# One file of tests, by its words for cargo; what it says goes out in one piece.
one() {
    said=$(mktemp "$folder/one.XXXXXX") || exit 2
    echo "+ cargo test --release $*" >"$said"
    # Where the time of all of them goes.
    TIMEFORMAT='took %R s; CPU time: user %U s, system %S s'
    # shellcheck disable=SC2048,SC2086  # the words of one line
    { time cargo test --release --no-fail-fast $* >>"$said" 2>&1 || echo "cargo test --release $*" >>"$folder/broken"; } 2>>"$said"
    flock "$folder/said" sh -c 'cat "$1"; cat "$1" >>"$2"' - "$said" "$folder/said"
}
export -f one
export folder

# Every file is asked for as a part of the whole workspace: a package alone may want fewer features of a library, which would be
# compiled again with all that needs it. Two programs of one name run together.
files() {
    for program in tests/*.rs crates/*/tests/*.rs; do
        name=$(basename "$program" .rs)
        case $program in
            crates/*) printf -- '--test %s\n' "$name" ;;
            # A program at the root names its files, and helpers, which are folders.
            *) sed -n 's/^mod \([a-z0-9_]*\);$/\1/p' "$program" | while read -r file; do
                if [ -e "tests/$file.rs" ]; then printf -- '--test %s -- %s::\n' "$name" "$file"; fi
            done ;;
        esac
    done | sort -u
}

first_and_alone=' (mpirun_calls|mpirun|mpi_suite|policy_real)::$'
alone() { files | grep -E -- "$first_and_alone" | sed "s/^/$PACKAGES /"; }

# The longest first, so that none is left alone at the end.
in_order() {
    all=$(files | grep -vE -- "$first_and_alone")
    longest=' (verify_outages|pjdfstest|mutations|exec_restored|sets_verify|exec_saved|crash_real|set_care|ground_truth|scenarios|verify_faults)::$'
    {
        echo --lib --bins
        grep -E -- "$longest" <<<"$all"
        grep -vE -- "$longest" <<<"$all"
    } | sed "s/^/$PACKAGES /"
}

if [ $# -gt 0 ]; then
    step cargo test --release --no-fail-fast "$@"
else
    # Examples as well, which tests start.
    # shellcheck disable=SC2086  # words
    step cargo test --release --no-run $PACKAGES
    if [ -s "$folder/broken" ]; then exit 1; fi
    step cargo test --profile schemas --no-fail-fast --package bulkhead-schemas
    alone | xargs -d '\n' -n 1 bash -c 'one "$1"' -
    in_order | xargs -d '\n' -n 1 -P "${BULKHEAD_TEST_STREAMS:-3}" bash -c 'one "$1"' -
    # shellcheck disable=SC2086  # words
    step cargo test --release --no-fail-fast $PACKAGES --doc
fi

cargo run --release --quiet --package bulkhead-skips -- "$folder"
status=$?
if [ -s "$folder/broken" ]; then exit 1; fi
exit $status
