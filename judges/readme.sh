#!/usr/bin/env bash
# Runs every command of README.md as it is written, in order, in one shell, on a fresh directory. The first that fails ends it, with its line.
# Commands are the indented blocks. Not run are blocks after a line that ends with "take minutes:" or begins with "For an installed package":
# judges/package.sh installs the package, and `make verify`, `make test` and the verifications have targets of their own.
#   judges/readme.sh [FILE]
set -euo pipefail
cd "$(dirname "$0")/.."
readme=$(realpath "${1:-README.md}")
masu=$(realpath "${MASU:-target/checked/masu}")
[ -x "$masu" ] || { echo "readme: $masu is missing; run make build" >&2; exit 2; }
command -v qemu-img >/dev/null || { echo "readme: skipped: qemu-img is not installed"; exit 0; }
# shellcheck source=judges/ports.sh
. judges/ports.sh

mkdir -p target/judges
dir=$(realpath "$(mktemp -d target/judges/readme.XXXXXX)")
# shellcheck disable=SC2317 # reached through the trap
stop() {
  local rc=$?
  trap - EXIT INT TERM
  for data in "$dir"/data "$dir"/declared; do [ ! -S "$data/api.sock" ] || "$masu" stop --data "$data" --timeout 20s >/dev/null 2>&1 || true; done
  [ "$rc" = 0 ] || tail -n 5 "$dir/array.log" >&2 2>/dev/null || true
  rm -rf "$dir"
  exit "$rc"
}
trap stop EXIT
trap 'exit 130' INT TERM

# A script with the lines of the page in their places: a failure has the page's line. What is no command is an empty line.
awk '
  /^    / { print skip ? "" : substr($0, 5); if (skip) skipped++; else if (substr($0, 5) != "") commands++; next }
  /^$/ { print ""; next }
  { skip = /take minutes:$/ || /^For an installed package/; print "" }
  END { print commands + 0, skipped + 0 > "/dev/stderr" }
' "$readme" >"$dir/script" 2>"$dir/counts"
read -r commands skipped <"$dir/counts"
[ "$commands" -gt 20 ] || { echo "readme: only $commands lines of commands found in $readme" >&2; exit 1; }

mkdir -p "$dir/target/release"
ln -s "$masu" "$dir/target/release/masu"
# The page uses the port of iSCSI: in a network of its own, where that is allowed.
run=(bash)
if unshare --net true 2>/dev/null; then
  run=(unshare --net bash -c 'ip link set lo up && exec bash "$@"' bash)
elif listens 3260; then
  echo "readme: port 3260 is in use, and this user may not make a network namespace" >&2
  exit 2
fi
{
  # shellcheck disable=SC2016 # expanded by the script
  printf '%s ' 'set -Eeuo pipefail; trap '\''echo "README.md:$LINENO: failed: $BASH_COMMAND" >&2'\'' ERR;'
  cat "$dir/script"
} >"$dir/run"
(cd "$dir" && unset MASU_DATA && timeout 120 "${run[@]}" ./run) >"$dir/said" 2>&1 || { rc=$?; tail -n 15 "$dir/said" >&2; echo "readme: status $rc" >&2; exit 1; }
echo "README.md: $commands lines of commands were run as typed; $skipped lines are not (they take minutes, or are for an installed package)"
