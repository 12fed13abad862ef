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

# Status 2: it cannot be run. Others are verdicts.
verify() { local rc=0; "$masu" verify fileserver --world real --quick --repeats 2 "$@" >"$out/log" 2>&1 || rc=$?; [ "$rc" != 2 ] || { cat "$out/log"; exit 1; }; }
nothing_left() {
  if grep -q "$out" /proc/mounts || losetup --noheadings --output BACK-FILE | grep -q "$out" || [ -e "$1" ]; then
    echo "fileserver_real: something is left behind" >&2; exit 1
  fi
}
check() {
  python3 - "$1/results.json" "$2" <<'PYTHON'
import json, sys

record, runs = json.load(open(sys.argv[1])), int(sys.argv[2])
metrics = [(m["id"], m["dimensions"]["configuration"], m["samples"]) for m in record["metrics"]]
tool = [(configuration, mb) for id, configuration, samples in metrics if id == "tool" for mb in samples]
assert len(tool) == runs, tool
for id, configuration, samples in metrics:
    assert id not in ("tool", "files", "array_reads", "array_writes") or min(samples) > 0, (id, configuration, samples)
    assert id != "mismatches" or max(samples) == 0, (configuration, samples)
speeds = ", ".join(f"{configuration} {mb:.1f}" for configuration, mb in tool)
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
