#!/usr/bin/env bash
# The processor time that an I/O takes: an array of one node, and one of three, each of which runs a controller with a LU on files in
# memory. Random reads of 4 KiB at the ports of the node that has the LU, at one node after the other: on two cores three nodes
# cannot work at once. If processors are what is scarce, three nodes do 3 x (time of one node / time of three) times the work of one;
# the time of all processes counts, the idle ones too. And the same through a node that does not have the LU.
#   MASU=target/release/masu judges/nodes_bench.sh [SECONDS [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
readonly SECONDS_EACH=${1:-4} ROUNDS=${2:-3}
readonly MASU=${MASU:-target/release/masu}
readonly START_TIMEOUT_S=20
# shellcheck source=judges/ports.sh
. judges/ports.sh
for tool in iscsi-perf qemu-io; do
  command -v "$tool" >/dev/null || { echo "nodes: skipped: $tool is not installed; run judges/setup.sh"; exit 0; }
done

dir=$(mktemp -d /dev/shm/masu-nodes.XXXXXX)
trap '{ kill $(jobs -p) && wait; } 2>/dev/null || true; rm -rf "$dir"' EXIT

# declare_array CONTROLLERS NODES: three LUs, of as many controllers as there are.
declare_array() {
  printf 'target = "iqn.2026-11.net.example:array"\ncontrollers = %s\n%s\n' "$1" "$2"
  for i in 0 1 2; do
    printf '[[drive]]\nname = "d%s"\nfile = "%s/d%s.img"\nsize = "256MiB"\n' "$i" "$dir" "$i"
    printf '[[group]]\nname = "g%s"\nlevel = "raid0"\ndrives = ["d%s"]\n' "$i" "$i"
    printf '[[pool]]\nname = "p%s"\ngroups = ["g%s"]\ncontroller = %s\n' "$i" "$i" $((i % $1))
    printf '[[volume]]\nname = "v%s"\npool = "p%s"\nsize = "64MiB"\n' "$i" "$i"
  done
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0", 1 = "v1", 2 = "v2" }\n'
}

# says LOG TEXT: waits until a node has said it.
says() {
  local waited=0
  until grep -q "$2" "$1" 2>/dev/null; do
    [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || { tail -n 5 "$1" >&2; echo "nodes: $1: no \"$2\"" >&2; exit 1; }
    sleep 0.1; waited=$((waited + 1))
  done
}

# Processor time of all nodes, in clock ticks.
ticks() { local sum=0 pid; for pid in "${pids[@]}"; do sum=$((sum + $(awk '{print $14 + $15}' "/proc/$pid/stat"))); done; echo "$sum"; }

# fill PORT LUN: otherwise reads find pages without data.
fill() { qemu-io -f raw -c 'write -P 7 0 64M' "iscsi://127.0.0.1:$1/iqn.2026-11.net.example:array/$2" >"$dir/fill" 2>&1 || { cat "$dir/fill" >&2; exit 1; }; }

# per_io PORT LUN: microseconds of processor time for each read.
per_io() {
  local before after ios
  before=$(ticks)
  ios=$(iscsi-perf -t "$SECONDS_EACH" -m 16 -b 8 -r "iscsi://127.0.0.1:$1/iqn.2026-11.net.example:array/$2" 2>/dev/null |
    tr '\r' '\n' | sed -n 's/.*iops average \([0-9]*\).*/\1/p' | tail -n 1)
  after=$(ticks)
  awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" -v ios="${ios:-0}" -v time="$SECONDS_EACH" \
    'BEGIN { if (!ios) exit 1; printf "%.2f\n", ticks / hz * 1e6 / (ios * time) }'
}

median() { sort -n | awk '{ all[NR] = $1 } END { printf "%.2f", all[int((NR + 1) / 2)] }'; }

pids=()
# start NAME PORT DIR: a node.
start() {
  "$MASU" serve --data "$dir/$3/$1" --config "$dir/$3.toml" --registry "$dir/$3/registry" --node "$1" --listen "127.0.0.1:$2" \
    2>"$dir/$1.log" &
  pids+=($!)
}
stop() { kill "${pids[@]}"; wait "${pids[@]}" 2>/dev/null || true; pids=(); rm -f "$dir"/*.img; }

ports=("$(free_port)" "$(free_port)" "$(free_port)")
: >"$dir/one"; : >"$dir/three"; : >"$dir/crossing"
for ((round = 0; round < ROUNDS; round++)); do
  rm -rf "$dir"/[ab] "$dir"/[ab].toml* "$dir"/*.log
  mkdir "$dir/a" "$dir/b"
  declare_array 1 '' >"$dir/a.toml"
  start n1 "${ports[0]}" a
  says "$dir/n1.log" 'array: serves'
  fill "${ports[0]}" 0
  per_io "${ports[0]}" 0 >>"$dir/one"
  stop
  declare_array 3 'controller_nodes = ["n1", "n2", "n3"]' >"$dir/b.toml"
  start n1 "${ports[0]}" b
  says "$dir/n1.log" 'array: serves'
  start n2 "${ports[1]}" b; start n3 "${ports[2]}" b
  says "$dir/n1.log" 'controller 1 runs at node n2'
  says "$dir/n1.log" 'controller 2 runs at node n3'
  for at in 0 1 2; do fill "${ports[$at]}" "$at"; done
  for at in 0 1 2; do per_io "${ports[$at]}" "$at" >>"$dir/three"; done
  per_io "${ports[0]}" 1 >>"$dir/crossing"
  stop
done
one=$(median <"$dir/one"); three=$(median <"$dir/three"); crossing=$(median <"$dir/crossing")
awk -v one="$one" -v three="$three" -v crossing="$crossing" 'BEGIN {
  printf "processor time of a 4 KiB read: one node %.2f us, three nodes %.2f us, through another node %.2f us\n", one, three, crossing
  ratio = 3 * one / three
  printf "three nodes against one: %.2f x, bar 2.8 %s\n", ratio, (ratio >= 2.8 ? "held" : "not held")
}'
