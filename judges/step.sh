#!/usr/bin/env bash
# Runs one step of the Makefile: a line before it with its name, a line after it with its time.
#   judges/step.sh NAME COMMAND...
set -uo pipefail
name=$1; shift
echo "==> $name"
started=$SECONDS
"$@"
rc=$?
if [ "$rc" = 0 ]; then echo "<== $name: $((SECONDS - started)) s"; else echo "<== $name: FAILED (status $rc) after $((SECONDS - started)) s" >&2; fi
exit "$rc"
