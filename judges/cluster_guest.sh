#!/usr/bin/env bash
# Fail-over as a host sees it: a guest with open-iscsi, dm-multipath, ext4 and fio with verification, and two nodes of one array.
#
#   judges/cluster_guest.sh          on RBD images with etcd, both real and started here (as root): the owner is killed KILLS (3) times, stopped
#                                    and continued, ended in order and drained; etcd stands still
#   judges/cluster_guest.sh short    on file drives with a registry directory: killed once, drained once
#   judges/cluster_guest.sh drains   on RBD images with etcd: drained DRAINS (10) times and nothing else; each gap over 300 ms, with what the
#                                    guest's kernel, initiator and multipathd logged
#
# After each, the kernel (ALUA) and multipathd prefer the path to the owner. For each case the longest time between two completions of fio. Judged: fio reads back what it wrote, the file system sees no error, its
# files are intact and fsck is clean; the bars of unplanned (median and worst) and planned moves. MASU names another binary.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly TARGET=iqn.2026-11.example.masu:cluster OUT=$PWD/target/judges/cluster_guest
# In milliseconds. The bars hold on a machine of its own: the guest is emulated, on the cores of the nodes.
readonly MEDIAN_MAX=8000 WORST_MAX=12000 PLANNED_MAX=1000
masu=${MASU:-target/release/masu}
kind=${1:-rbd}
fail() { echo "cluster_guest: FAIL $*; the guest's console is $OUT/console" >&2; exit 1; }
case $kind in rbd | short) drains=0 ;; drains) drains=${DRAINS:-10}; kind=rbd ;; *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
[ -x "$masu" ] || { echo "cluster_guest: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/guest_load.sh
. judges/guest_load.sh
needs_guest
# shellcheck source=judges/ports.sh
. judges/ports.sh
rm -rf "$OUT"; mkdir -p "$OUT"

etcd_pid=""
declare -A node_pid
stop() {
  trap - EXIT INT TERM
  local pid
  for pid in $guest "${node_pid[@]}" $etcd_pid; do { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true; done
  [ "$kind" != rbd ] || judges/ceph.sh stop "$OUT/ceph"
  rm -rf "$OUT"/{n1,n2,registry,etcd,ceph,d0.img}
}
if [ "$kind" = rbd ]; then
  command -v etcd >/dev/null || { echo "cluster_guest: skipped: etcd is not installed; run judges/setup.sh"; exit 0; }
  rc=0; judges/ceph.sh start "$OUT/ceph" || rc=$?
  [ "$rc" != 77 ] || exit 0
  [ "$rc" = 0 ] || exit "$rc"
fi
trap stop EXIT
trap 'exit 130' INT TERM

port[n1]=$(free_port); port[n2]=$((port[n1] + 1))
drive=$(printf 'file = "%s"\nsize = "192MiB"' "$OUT/d0.img"); registry=$OUT/registry
if [ "$kind" = rbd ]; then
  export CEPH_CONF=$OUT/ceph/ceph.conf
  rbd create vms/cluster --size 192M
  client=$(free_port); peer=$((client + 1))
  etcd --name m --data-dir "$OUT/etcd" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "m=http://127.0.0.1:$peer" >"$OUT/etcd.log" 2>&1 & etcd_pid=$!
  drive=$(printf 'rbd = "vms/cluster"\nrbd_conf = "%s"' "$CEPH_CONF"); registry=etcd://127.0.0.1:$client
fi
printf 'target = "%s"\n[[drive]]\nname = "d0"\n%s\n[[group]]\nname = "g0"\nlevel = "raid0"\ndrives = ["d0"]\n[[pool]]\nname = "p0"\ngroups = ["g0"]\n[[volume]]\nname = "v0"\npool = "p0"\nsize = "64MiB"\n[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0" }\n' \
  "$TARGET" "$drive" >"$OUT/array.toml"

node() {
  "$masu" serve --node "$1" --listen "127.0.0.1:${port[$1]}" --registry "$registry" --data "$OUT/$1" --config "$OUT/array.toml" >>"$OUT/$1.log" 2>&1 &
  node_pid[$1]=$!
}
# How often a node has begun to serve.
served() { grep -c 'array: serves' "$OUT/$1.log" || true; }
stands_by() { tail -n 3 "$OUT/$1.log" | grep -q 'standby of'; }
node n1; until_holds "n1 serves" grep -q 'array: serves' "$OUT/n1.log"
node n2; until_holds "n2 stands by" stands_by n2
owner=n1; other=n2

boot "${port[n1]},${port[n2]}"
for tag in 1 65; do
  grep -qaE "^guest: +127.0.0.1:[0-9]+,$tag " "$OUT/console" || fail "a discovery does not name the portals of both nodes, each with a tag of its own"
done

taken_over() { local before=$1; until_holds "$other serves" more_than "$other" "$before"; swap; }
more_than() { [ "$(served "$1")" -gt "$2" ]; }
kill_owner() {
  local before; before=$(served "$other")
  kill -KILL "${node_pid[$owner]}"; wait "${node_pid[$owner]}" 2>/dev/null || true
  taken_over "$before"
  sleep 1; node "$other"
}
stop_and_continue() {
  local before; before=$(served "$other")
  kill -STOP "${node_pid[$owner]}"
  taken_over "$before"
  kill -CONT "${node_pid[$other]}"; wait "${node_pid[$other]}" || [ $? = 75 ] || fail "the stopped owner ended with another status than 75"
  node "$other"
}
end_owner() {
  local before; before=$(served "$other")
  kill -TERM "${node_pid[$owner]}"; wait "${node_pid[$owner]}" || fail "the owner did not end in order"
  taken_over "$before"
  node "$other"
}
drain_owner() {
  local before; before=$(served "$other")
  "$masu" node drain "$owner" --registry "$registry" >>"$OUT/masu.log" 2>&1 || fail "drain: $(tail -n 1 "$OUT/masu.log")"
  taken_over "$before"
}
stop_etcd() { kill -STOP "$etcd_pid"; sleep 3; kill -CONT "$etcd_pid"; }
settled() { until_holds "$other stands by" stands_by "$other"; sleep 2; }

kills=${KILLS:-3}
[ "$kind" = rbd ] || kills=1
told_apart "at first"
# The longest of each move, and the logs of the guest.
if [ "$drains" -gt 0 ]; then
  for n in $(seq "$drains"); do run "drained $n" 12 drain_owner; settled; done
  echo log >&4; until_holds "the logs are shown" said '^guest: done log' 1
  finish
  planned=$(worst drained)
  echo "cluster_guest: drained $drains times: $(echo "${gaps[drained]}" | sorted | tr '\n' ' ')ms"
  [ "$planned" -le "$PLANNED_MAX" ] || fail "a planned move took $planned ms: more than $PLANNED_MAX ms"
  exit 0
fi
for n in $(seq "$kills"); do
  run "killed $n" 22 kill_owner
  # A lease ends after 6 s, and counts from the last renewal.
  [ "${gaps[killed]##* }" -ge 4000 ] || fail "killed $n: fio did not run while nobody owned the array"
  settled; told_apart "after $n"
done
run "drained" 12 drain_owner; settled; told_apart "drained"
if [ "$kind" = rbd ]; then
  run "drained again" 12 drain_owner; settled
  run "ended" 14 end_owner; settled
  run "stopped" 28 stop_and_continue; settled
  run "etcd stands still for 3 s" 10 stop_etcd
fi
finish

median=$(echo "${gaps[killed]}" | sorted | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }')
worst=$(worst killed)
planned=$(worst drained)
echo "cluster_guest: killed $kills times: median $median ms, worst $worst ms; drained: worst $planned ms; file system and files intact, fsck clean"
[ "$median" -le "$MEDIAN_MAX" ] || fail "the median of unplanned fail-overs is $median ms: more than $MEDIAN_MAX ms"
[ "$worst" -le "$WORST_MAX" ] || fail "the worst unplanned fail-over took $worst ms: more than $WORST_MAX ms"
[ "$planned" -le "$PLANNED_MAX" ] || fail "a planned move took $planned ms: more than $PLANNED_MAX ms"
