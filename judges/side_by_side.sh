#!/usr/bin/env bash
# Runs targets of the Makefile side by side, LANES of them at a time, in the order given. It names each when it begins; what each says
# comes as a whole when it has ended. All of them run, whatever fails.
#   judges/side_by_side.sh LANES TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
readonly LANES=$1; shift
readonly LOGS=target/judges/logs
mkdir -p "$LOGS"
for target; do rm -f "$LOGS/$target.failed"; done

run_one() {
  local target=$1 rc=0
  flock "$LOGS/lock" echo "--> $target begins"
  # Not a part of the make that called: it has its own jobs.
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory "$target" >"$LOGS/$target.log" 2>&1 || rc=$?
  [ "$rc" = 0 ] || : >"$LOGS/$target.failed"
  flock "$LOGS/lock" cat "$LOGS/$target.log"
}
export -f run_one
export LOGS
printf '%s\n' "$@" | xargs -P "$LANES" -I TARGET bash -euo pipefail -c 'run_one TARGET'
failed=""
for target; do [ ! -e "$LOGS/$target.failed" ] || failed+=" $target"; done
[ -z "$failed" ] || { echo "side_by_side: failed:$failed" >&2; exit 1; }
