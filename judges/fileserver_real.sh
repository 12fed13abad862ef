#!/usr/bin/env bash
# The real file-server verification in its shortest form: every run is there, files are as they were created, and nothing is left behind, neither at its end
# nor when it is stopped in the middle. What its claims come to is not judged here: the machine is whatever it is.
#   judges/fileserver_real.sh
# Needs root, FUSE and loop devices for its stack: where they are missing that part is skipped, and said so.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "fileserver_real: $masu is missing; run make build" >&2; exit 2; }
out=target/judges/fileserver_real
rm -rf "$out"; mkdir -p "$out"

# Claims that do not hold are status 1, what cannot be run is 2.
verify() { local rc=0; "$masu" verify fileserver --world real --quick --repeats 2 "$@" >"$out/log" 2>&1 || rc=$?; [ "$rc" -le 1 ] || { cat "$out/log"; exit 1; }; }
nothing_left() {
  if grep -q "$out" /proc/mounts || losetup --noheadings --output BACK-FILE | grep -q "$out" || [ -e "$1" ]; then
    echo "fileserver_real: something is left behind" >&2; exit 1
  fi
}
check() {
  python3 - "$1/results.json" "$2" <<'PYTHON'
import json, sys

results, runs = json.load(open(sys.argv[1])), int(sys.argv[2])
assert len(results["runs"]) == runs, results["runs"]
for run in results["runs"]:
    assert run["files"] > 0 and run["tool_mb_per_s"] > 0 and run["mismatches"] == 0, run
    assert run["array"] is None or run["array"]["read_iops"] > 0 < run["array"]["write_iops"], run
speeds = ", ".join(f"{run['configuration']} {run['tool_mb_per_s']:.1f}" for run in results["runs"])
print(f"fileserver_real: {speeds} MB/s")
PYTHON
}

mkdir "$out/share"
verify --directory "$out/share" --out "$out/directory"
check "$out/directory" 2
nothing_left "$out/share/masu-fileserver"
if [ "$(id -u)" != 0 ] || [ ! -e /dev/fuse ] || ! losetup --find >/dev/null 2>&1; then
  echo "skip  the stack: this machine has not root, /dev/fuse or a free loop device"
  exit 0
fi
verify --out "$out/stack"
check "$out/stack" 4
nothing_left "$out/stack/mounts"

# Stopped with a server and a half made.
"$masu" verify fileserver --world real --quick --out "$out/stopped" >"$out/log" 2>&1 & pid=$!
for _ in $(seq 300); do
  if grep -q "stopped/mounts/.*server" /proc/mounts; then break; fi
  sleep 0.1
done
kill -INT "$pid"
wait "$pid" || true
nothing_left "$out/stopped/mounts"
echo "fileserver_real: stopped, and nothing is left"
