#!/usr/bin/env bash
# The thesis' case from end to end: measure this machine, plan the message switch on it, bring it up, verify every requirement.
#
#   examples/message-switch/demo.sh [FOLDER]     FOLDER, message-switch-demo unless said otherwise, gets run, plan and evidence
#
# BULKHEAD names the program. Ends with what verify ends with; whatever happens, nothing is left running.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-message-switch-demo}
bulkhead=${BULKHEAD:-bulkhead}
cache=${BULKHEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead}
broker=$(command -v beanstalkd || echo "$cache/beanstalkd/usr/bin/beanstalkd")

say() { printf '\n== %s\n' "$*" >&2; }
if [ ! -x "$broker" ]; then say "no beanstalkd: ./setup.sh demo fetches it"; exit 3; fi
mkdir -p "$out"
run=run-$(date +%Y%m%d-%H%M%S)
for file in message-switch.toml requirements.toml; do
    sed -e "s|/HERE|$here|g" -e "s|/BROKER|$(dirname "$broker")|g" -e "s|^# run = .*|run = \"$run\"|" "$here/$file" >"$out/$file"
done

volumes=(message-switch-a message-switch-b message-switch-database-a message-switch-database-b)
leave() {
    "$bulkhead" down message-switch >/dev/null 2>&1 || true
    "$bulkhead" volume rm "${volumes[@]}" >/dev/null 2>&1 || true
}
if "$bulkhead" ps --json | grep -q '"set": *"message-switch"'; then
    say "a set \"message-switch\" is up, whose name this one has: bulkhead down message-switch"
    exit 2
fi
trap leave EXIT
trap 'exit 130' INT TERM

say "what does this machine give?"
"$bulkhead" measure native vm --quick --out "$out/$run"
say "where does everything go?"
"$bulkhead" plan "$out/message-switch.toml" --out "$out/plan"
say "up"
"$bulkhead" up "$out/plan/plan.json"
say "does every requirement hold? parts are made to fail for that, and run again"
code=0
"$bulkhead" verify "$out/requirements.toml" --failures --out "$out/evidence" || code=$?
if [ "$code" -eq 2 ] || [ "$code" -eq 3 ]; then exit "$code"; fi
page=$out/evidence/verify.html
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && command -v xdg-open >/dev/null; then xdg-open "$page" >/dev/null 2>&1 & fi
say "the evidence: $page"
exit "$code"
