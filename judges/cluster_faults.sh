#!/usr/bin/env bash
# What a host sees of faults below and between the nodes: a guest with open-iscsi, dm-multipath, ext4 and fio with verification, and two
# nodes of one array on RBD images with etcd, all real and started here. Each node is in a network namespace of its own, with one link.
#
#   judges/cluster_faults.sh      (as root)
#
#   cut off     the owner's link goes down: no registry, no store, no hosts, no other node, in both directions. After the other node has
#               taken over, it comes up again: what the woken owner still had to write must not get into the image
#   OSD         the store stands still for 20 s
#   etcd        is killed, and 20 s later begins again with what it had
#
# For each case the longest time between two completions of fio. Judged: fio reads back what it wrote, the file system sees no error, its
# files are intact and fsck is clean; a node that was cut off ends with status 75 or stands by, and the worst fail-over keeps its bar.
# MASU names another binary.
# shellcheck disable=SC2034 # of what this sources
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly TARGET=iqn.2026-11.example.masu:cluster OUT=$PWD/target/judges/cluster_faults WORST_MAX=12000
masu=${MASU:-target/release/masu} kind=rbd
[ -x "$masu" ] || { echo "cluster_faults: $masu is missing; run make build" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "cluster_faults: skipped: network namespaces need root"; exit 0; }
command -v ip >/dev/null || { echo "cluster_faults: skipped: ip is not installed (iproute2)"; exit 0; }
# shellcheck source=judges/guest_load.sh
. judges/guest_load.sh
# shellcheck source=judges/guest_nodes.sh
. judges/guest_nodes.sh
# shellcheck source=judges/ports.sh
. judges/ports.sh
needs_guest

# ------------------------------------------------------------------ the network
readonly NET=masu$(($$ % 10000)) SUBNET=10.213.$(($$ % 256))
home=$SUBNET.1 address=([n1]=$SUBNET.11 [n2]=$SUBNET.12)
export CEPH_ADDRESS=$home CEPH_NETWORK=$SUBNET.0/24
end_network() {
  local node
  for node in n1 n2; do ip netns del "$NET-$node" 2>/dev/null || true; done
  ip link del "$NET" 2>/dev/null || true
}
begin_network() {
  local node
  ip link add "$NET" type bridge
  ip addr add "$home/24" dev "$NET"
  ip link set "$NET" up
  for node in n1 n2; do
    ip netns add "$NET-$node"
    ip link add "$NET$node" type veth peer name eth0 netns "$NET-$node"
    ip link set dev "$NET$node" master "$NET" up
    ip -n "$NET-$node" addr add "${address[$node]}/24" dev eth0
    ip -n "$NET-$node" link set lo up
    ip -n "$NET-$node" link set eth0 up
  done
}
at_node() { local node=$1; shift; exec ip netns exec "$NET-$node" "$@"; }
stop() { stop_nodes; end_network; }
trap end_network EXIT
begin_network
begin_nodes
trap stop EXIT
boot_guest "${address[n1]}" "${address[n2]}"

# ------------------------------------------------------------------ faults
# has_left NODE: its process has ended, or stands by.
has_left() { ! kill -0 "${node_pid[$1]}" 2>/dev/null || stands_by "$1"; }
again() {
  kill -0 "${node_pid[$1]}" 2>/dev/null && return
  local rc=0; wait "${node_pid[$1]}" || rc=$?
  [ "$rc" = 75 ] || fail "node $1 ended with status $rc, not 75"
  node "$1"
}
cut_owner_off() {
  local before; before=$(served "$other")
  ip link set "$NET$owner" down
  taken_over "$before"
  sleep 10
  ip link set "$NET$other" up
  until_holds "$other has left" has_left "$other"
  again "$other"
}
osd() { kill -s "$1" "$(cat "$OUT/ceph/osd.pid")"; }
osd_stands_still() { osd STOP; sleep 20; osd CONT; }
serve_again() { more_than n1 "$1" || more_than n2 "$2"; }
etcd_killed() {
  local one two node; one=$(served n1) two=$(served n2)
  kill -KILL "$etcd_pid"; wait "$etcd_pid" 2>/dev/null || true
  sleep 20
  begin_etcd
  for node in n1 n2; do kill -0 "${node_pid[$node]}" 2>/dev/null || again "$node"; done
  until_holds "a node serves" serve_again "$one" "$two"
  [ "$(served "$owner")" -gt "$([ "$owner" = n1 ] && echo "$one" || echo "$two")" ] || swap
}

told_apart "at first"
run "cut off from all" 50 cut_owner_off; settled; told_apart "cut off"
run "cut off, the other" 50 cut_owner_off; settled; told_apart "cut off"
run "OSD stands still for 20 s" 40 osd_stands_still; told_apart "OSD"
run "etcd killed, 20 s later there" 60 etcd_killed; settled; told_apart "etcd"
finish
worst=$(worst cut)
echo "cluster_faults: cut off twice: worst $worst ms; file system and files intact, fsck clean"
[ "$worst" -le "$WORST_MAX" ] || fail "the worst unplanned fail-over took $worst ms: more than $WORST_MAX ms"
