#!/usr/bin/env bash
# Runs libiscsi's iscsi-test-cu against a target, one test per process, and counts honestly:
# the tool itself reports a skipped test as passed, so every "[SKIPPED]" it prints is a skip here.
#
#   judges/conformance.sh [--second-path URL] [--lu PATTERN=URL]... [--only PATTERN] [--logs DIR] URL
#
#   URL                iscsi://[user%password@]host:port/target/lun: IT IS OVERWRITTEN
#   --second-path URL  another path to the same logical unit, for the MultipathIO tests
#   --lu PATTERN=URL   run the tests whose name matches the shell pattern on this logical unit
#                      instead, for tests that presuppose one (write-protected, no physical blocks)
#   --only PATTERN     run only these tests; no verdict about the bar is given
#   --logs DIR         what each test says (default target/judges/conformance)
#
# Exit status 0: no test failed but those that cannot pass (see DEFECTIVE) and more than 213 passed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BAR=213            # of 230: all but removable media and second path
readonly TEST_TIMEOUT_S=30
readonly SANITIZE_TIMEOUT_S=150 # Sanitize.Reset polls once a minute

# Tests of release 1.19 that are wrong, and why. They still count as failed, but alone they do not fail the judge.
declare -A DEFECTIVE=(
  [iSCSITMF.LUNResetSimpleAsync]="asserts, before it has sent anything, a flag that only the answer sets (test_async_lu_reset_simple.c:157; repaired after 1.19 by libiscsi commit 5553d6b); no target can pass it"
  [WriteSame10.UnmapUntilEnd]="writes FFh with UNMAP = 1 and wants zeros back; SBC-4 has reads behave as if the given block had been written (docs/scsi.md); the same test for WRITE SAME(16) clears its buffer first"
)
# Tests that return at once, without a word, where the medium is not removable.
readonly SILENT="NoMedia.NoMediaSBC StartStopUnit.PwrCnd StartStopUnit.NoLoej"

usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2; }

second_path=""; only=""; lus=(); url=""; logs=target/judges/conformance
while [ $# -gt 0 ]; do
  case $1 in
    --second-path) second_path=${2:?}; shift 2 ;;
    --lu) lus+=("${2:?}"); shift 2 ;;
    --only) only=${2:?}; shift 2 ;;
    --logs) logs=${2:?}; shift 2 ;;
    iscsi://*) url=$1; shift ;;
    *) usage ;;
  esac
done
[ -n "$url" ] || usage
command -v iscsi-test-cu >/dev/null || { echo "conformance: iscsi-test-cu is missing (Debian package libiscsi-bin)" >&2; exit 2; }

# The URLs a test runs on, one per line.
urls_for() {
  local pair
  for pair in "${lus[@]+"${lus[@]}"}"; do
    # shellcheck disable=SC2053 # the left side of = is a pattern
    if [[ $1 == ${pair%%=*} ]]; then echo "${pair#*=}"; return; fi
  done
  echo "$url"
  if [[ $1 == MultipathIO.* && -n $second_path ]]; then echo "$second_path"; fi
}

timeout_for() { case $1 in Sanitize.*) echo "$SANITIZE_TIMEOUT_S" ;; *) echo "$TEST_TIMEOUT_S" ;; esac; }

# First thing a failed test complained about.
first_complaint() {
  local log=$1 rc=$2 line
  if [ "$rc" = 124 ]; then echo "no end within the time limit"; return; fi
  line=$(grep -m1 -E '^ +1\. ' "$log" | sed 's/^ *1\. *//' || true)
  line="${line:-$(grep -v '^ *$' "$log" | tail -n 1)}"
  echo "$line $(grep -m1 -F '[FAILED]' "$log" | sed 's/^ *//' || true)"
}

rm -rf "$logs"; mkdir -p "$logs"
pass=0; skip=0; fail=0; beyond=0; silent=(); skipped=(); failed=()
started=$SECONDS
mapfile -t tests < <(iscsi-test-cu --list | sed -n 's/^ALL\.\([^.]*\.[^.]*\)$/\1/p')
[ "${#tests[@]}" -gt 0 ] || { echo "conformance: iscsi-test-cu lists no tests" >&2; exit 2; }
# This one ends without waiting for the reset that it has asked for: hosts of the next test would be told of it, as they must be.
readonly LEAVES_A_RESET=iSCSITMF.LUNResetSimpleAsync
mapfile -t tests < <(printf '%s\n' "${tests[@]}" | awk -v last="$LEAVES_A_RESET" '$0 == last { found = 1; next } { print } END { if (found) print last }')

for test in "${tests[@]}"; do
  # shellcheck disable=SC2053
  if [[ -n $only && $test != $only ]]; then continue; fi
  log=$logs/$test.log
  mapfile -t on < <(urls_for "$test")
  rc=0
  timeout --kill-after=5 "$(timeout_for "$test")" \
    iscsi-test-cu --dataloss --allow-sanitize --normal --test "ALL.$test" "${on[@]}" >"$log" 2>&1 || rc=$?
  if [ "$rc" != 0 ] || ! grep -Eq '^ +tests +1 +1 +1 +0 ' "$log"; then
    fail=$((fail + 1)); failed+=("$test: $(first_complaint "$log" "$rc")")
    [ -n "${DEFECTIVE[$test]:-}" ] || beyond=$((beyond + 1))
  elif grep -qF '[SKIPPED]' "$log"; then
    skip=$((skip + 1)); skipped+=("$test: $(grep -m1 -F '[SKIPPED]' "$log" | sed 's/^ *\[SKIPPED\] *//')")
  else
    pass=$((pass + 1))
    [[ " $SILENT " != *" $test "* ]] || silent+=("$test")
  fi
done

for line in "${skipped[@]+"${skipped[@]}"}"; do echo "skipped $line"; done
for line in "${failed[@]+"${failed[@]}"}"; do
  echo "failed  $line"
  name=${line%%:*}
  [ -z "${DEFECTIVE[$name]:-}" ] || echo "        the test is wrong: ${DEFECTIVE[$name]}"
done
[ "${#silent[@]}" = 0 ] || echo "note    passed by the tool's count, but they test nothing without removable media: ${silent[*]}"
echo "logs in $logs, $((SECONDS - started)) s"
echo "iscsi-test-cu: $pass pass, $skip skip, $fail fail"
[ "$beyond" = 0 ] || exit 1
[ -n "$only" ] || [ "$pass" -gt "$BAR" ]
