#!/usr/bin/env bash
# Runs a verification and passes when no promise is refuted: all are held (0), or some are undecided or in doubt (3). Says which.
#
#   judges/verdict.sh MASU verify ...
set -uo pipefail
"$@"
rc=$?
case $rc in
  0) echo "verify: every promise that was judged is held" ;;
  3) echo "verify: no promise is refuted; some are undecided or in doubt"; rc=0 ;;
  1) echo "verify: a promise is not held" >&2 ;;
esac
exit $rc
