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
set -euo pipefail
cd "$(dirname "$0")/.."
readonly TARGET=iqn.2026-11.example.masu:cluster OUT=$PWD/target/judges/cluster_guest
# In milliseconds. The bars hold on a machine of its own: the guest is emulated, on the cores of the nodes.
readonly MEDIAN_MAX=8000 WORST_MAX=12000 PLANNED_MAX=1000
masu=${MASU:-target/release/masu}
kind=${1:-rbd}
case $kind in rbd | short) drains=0 ;; drains) drains=${DRAINS:-10}; kind=rbd ;; *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
[ -x "$masu" ] || { echo "cluster_guest: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/guest_load.sh
. judges/guest_load.sh
# shellcheck source=judges/guest_nodes.sh
. judges/guest_nodes.sh
# shellcheck source=judges/ports.sh
. judges/ports.sh
needs_guest
begin_nodes
boot_guest "$GATEWAY" "$GATEWAY"

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
