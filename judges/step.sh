#!/usr/bin/env bash
# Runs one step of the Makefile: a line before it with its name, a line after it with its time, and with the processor time of its
# processes: what waits can run beside what computes.
#   judges/step.sh NAME COMMAND...
set -uo pipefail
name=$1; shift
echo "==> $name"
started=$SECONDS
"$@"
rc=$?
# proc(5): cutime and cstime, in clock ticks.
read -r -a stat <"/proc/$$/stat"
computed=$(((stat[15] + stat[16]) / $(getconf CLK_TCK)))
if [ "$rc" = 0 ]; then echo "<== $name: $((SECONDS - started)) s, $computed s of processors"; else echo "<== $name: FAILED (status $rc) after $((SECONDS - started)) s" >&2; fi
exit "$rc"
