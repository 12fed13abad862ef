#!/usr/bin/env bash
# Runs targets of the Makefile two at a time: what each says comes as a whole when it has ended. All of them run, whatever fails.
#   judges/two_at_a_time.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
readonly LOGS=target/judges/logs
mkdir -p "$LOGS"
rm -f "$LOGS"/*.failed

run_one() {
  local target=$1 rc=0
  # Not a part of the make that called: it has its own jobs.
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory "$target" >"$LOGS/$target.log" 2>&1 || rc=$?
  [ "$rc" = 0 ] || : >"$LOGS/$target.failed"
  flock "$LOGS/lock" cat "$LOGS/$target.log"
}
export -f run_one
export LOGS
printf '%s\n' "$@" | xargs -P 2 -I TARGET bash -euo pipefail -c 'run_one TARGET'
failed=$(find "$LOGS" -name '*.failed' -printf '%f ' | sed 's/\.failed//g')
[ -z "$failed" ] || { echo "two_at_a_time: failed: $failed" >&2; exit 1; }
