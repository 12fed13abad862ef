#!/usr/bin/env bash
# Sourced by judges whose steps are functions of their own: counts those that pass in `passed` and `failed`. What a step says is in
# $WORK/step, and its end is shown when it fails. In a step `set -e` is not in force: its commands are joined by &&.
passed=0; failed=0

# step NAME COMMAND...: passes when the command does.
step() {
  local name=$1; shift
  if "$@" >"$WORK/step" 2>&1; then
    passed=$((passed + 1)); echo "pass  $name"
  else
    failed=$((failed + 1)); echo "FAIL  $name:"; tail -n 60 "$WORK/step" | sed 's/^/      /'
  fi
}
