#!/usr/bin/env bash
# iscsi-test-cu over two nodes of one array (file drives, a registry in a directory): paths to one LU through the owner and through the
# standby, reservations and COMPARE AND WRITE through either, and all other tests through the standby. Skips are counted as skips.
#
#   judges/conformance_nodes.sh [short]    short: only what is about paths: MultipathIO, reservations, COMPARE AND WRITE
#
# MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly TARGET=iqn.2026-11.example.masu:nodes OUT=target/judges/conformance_nodes START_TIMEOUT_S=30
readonly PATHS='@(MultipathIO|Prin*|Prout*|Reserve6|CompareAndWrite).*'
masu=${MASU:-target/release/masu}
case ${1:-} in "" | short) ;; *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
[ -x "$masu" ] || { echo "conformance_nodes: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/ports.sh
. judges/ports.sh
rm -rf "$OUT"; mkdir -p "$OUT"
declare -A pid port
stop() {
  trap - EXIT INT TERM
  local node
  for node in "${!pid[@]}"; do { kill -KILL "${pid[$node]}" && wait "${pid[$node]}"; } 2>/dev/null || true; done
  rm -rf "$OUT"/{n1,n2,registry,d0.img}
}
trap stop EXIT
trap 'exit 130' INT TERM

cat >"$OUT/array.toml" <<END
target = "$TARGET"
drive = [{ name = "d0", file = "$PWD/$OUT/d0.img", size = "1GiB" }]
group = [{ name = "g0", level = "raid0", drives = ["d0"] }]
pool = [{ name = "p0", groups = ["g0"] }]
volume = [
  { name = "v0", pool = "p0", size = "512MiB" },
  { name = "v1", pool = "p0", size = "512MiB" },
  { name = "physical512", pool = "p0", size = "64MiB", physical_block = 512 },
  { name = "readonly", pool = "p0", size = "64MiB", read_only = true },
]
host = [{ name = "any", initiator = "*", luns = { 0 = "v0", 1 = "physical512", 2 = "readonly", 3 = "v1" } }]
END
# node NAME LINE: starts it, and waits until it has logged the line.
node() {
  local waited=0
  port[$1]=$(free_port)
  "$masu" serve --node "$1" --listen "127.0.0.1:${port[$1]}" --registry "$OUT/registry" --data "$OUT/$1" --config "$OUT/array.toml" >"$OUT/$1.log" 2>&1 & pid[$1]=$!
  until grep -q "$2" "$OUT/$1.log"; do
    [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || { echo "conformance_nodes: $1 does not start:"; tail -n 3 "$OUT/$1.log"; exit 1; } >&2
    sleep 0.1; waited=$((waited + 1))
  done
}
node n1 'array: serves'; node n2 'standby of n1'
# The owner looks at the registry every 500 ms. Hosts that are logged in when it learns of the standby get a unit attention (2Ah/06h), which
# would come in the middle of a test: it knows the standby's portal, and has looked once more.
for ((waited = 0; ; waited++)); do
  iscsi-ls "iscsi://127.0.0.1:${port[n1]}" 2>/dev/null | grep -q ":${port[n2]}," && break
  [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || { echo "conformance_nodes: the owner does not name the portal of n2" >&2; exit 1; }
  sleep 0.1
done
sleep 1
owner=iscsi://127.0.0.1:${port[n1]}/$TARGET standby=iscsi://127.0.0.1:${port[n2]}/$TARGET
echo "--- the owner's path first, the standby's second"
judges/conformance.sh --logs "$OUT/logs" --only "$PATHS" --second-path "$standby/0" "$owner/0"
echo "--- the standby's path first, the owner's second"
# On a new LU: MultipathIO.CompareAndWrite of release 1.19 takes for granted that block 256 holds zeros.
if [ "${1:-}" = short ]; then
  judges/conformance.sh --logs "$OUT/logs" --only "$PATHS" --second-path "$owner/3" "$standby/3"
else
  judges/conformance.sh --logs "$OUT/logs" --second-path "$owner/3" --lu "GetLBAStatus.UnmapSingle=$standby/1" --lu "ReadOnly.*=$standby/2" "$standby/3"
fi
# Ownership has not changed meanwhile: all of this was one owner and one standby.
! grep -qE 'hands over|ends:|owns the array \(epoch [^1]' "$OUT"/n?.log || { echo "conformance_nodes: the owner has changed meanwhile" >&2; exit 1; }
