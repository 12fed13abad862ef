#!/usr/bin/env bash
# A Ceph cluster of one node for tests: a monitor, a manager and one OSD (a file), without systemd, replicas, keys or
# anything outside of its directory.
#   judges/ceph.sh start DIR    starts it with the pool `vms`, prints how long it took; clients take DIR/ceph.conf
#   judges/ceph.sh stop DIR     ends its daemons, also those that were sent SIGSTOP
# Needs ceph-mon, ceph-mgr, ceph-osd and rbd (judges/setup.sh --ceph), and root or the owner of DIR. Without them it ends with 77: skipped.
# The daemons' numbers are in DIR/mon.pid, mgr.pid and osd.pid. OSD_BYTES is the size of the OSD's file (8 GiB, sparse). CEPH_NETWORK is
# the network of the daemons (127.0.0.0/8), CEPH_ADDRESS the monitor's address in it.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly POOL=vms WAIT_S=60 OSD_BYTES=${OSD_BYTES:-8589934592}
readonly DAEMONS="mgr osd mon"

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
readonly ACTION=$1
mkdir -p "$2"
DIR=$(cd "$2" && pwd)
readonly DIR

# Without the variable, a configuration of this machine could be read.
export CEPH_CONF=$DIR/ceph.conf
now_ms() { echo $(($(date +%s%N) / 1000000)); }
is_alive() { [ -d "/proc/$1" ] && [ "$(awk '/^State:/ { print $2 }' "/proc/$1/status" 2>/dev/null)" != Z ]; }

# Whether the process of this number is the daemon: numbers are used again.
is_daemon() { is_alive "$1" && tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -q -- "$DIR/ceph.conf"; }

stop() {
  local daemon pid waited
  for daemon in $DAEMONS; do
    [ -s "$DIR/$daemon.pid" ] || continue
    pid=$(cat "$DIR/$daemon.pid")
    if is_daemon "$pid"; then
      kill -KILL "$pid" 2>/dev/null || true
      waited=0
      while is_daemon "$pid" && [ "$waited" -lt 100 ]; do sleep 0.1; waited=$((waited + 1)); done
      is_daemon "$pid" && { echo "ceph: the $daemon of $DIR (process $pid) does not end" >&2; exit 1; }
    fi
    rm -f "$DIR/$daemon.pid"
  done
}

fail() {
  echo "ceph: $1; the logs are in $DIR" >&2
  tail -n 5 "$DIR/start.log" >&2 || true
  stop
  exit 1
}

configure() {
  # shellcheck source=judges/ports.sh
  . judges/ports.sh
  local v2 v1
  v2=$(free_port); v1=$(free_port)
  local address=${CEPH_ADDRESS:-127.0.0.1}
  MON="[v2:$address:$v2,v1:$address:$v1]"
  cat >"$DIR/ceph.conf" <<CONF
[global]
fsid = $FSID
mon host = $MON
auth cluster required = none
auth service required = none
auth client required = none
public network = ${CEPH_NETWORK:-127.0.0.0/8}
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon warn on pool no redundancy = false
run dir = $DIR
admin socket =
log file = $DIR/\$name.log
mon cluster log file = $DIR/cluster.log
keyring = $DIR/keyring
[mon]
mon data = $DIR/mon
mon data avail warn = 1
mon data avail crit = 1
[mgr]
mgr data = $DIR/mgr
[osd]
osd data = $DIR/osd
bluestore block size = $OSD_BYTES
osd memory target = 1073741824
CONF
}

# Starts a daemon in the foreground form, so that its number is known.
run() {
  local daemon=$1; shift
  "$@" -c "$DIR/ceph.conf" --setuser root --setgroup root -f >>"$DIR/start.log" 2>&1 </dev/null &
  echo $! >"$DIR/$daemon.pid"
  disown
}

quietly() { timeout "$WAIT_S" "$@" >>"$DIR/start.log" 2>&1 || fail "failed: $*"; }

until_up() {
  local end=$(($(now_ms) + WAIT_S * 1000))
  until timeout 10 ceph osd stat 2>/dev/null | grep -q "1 up"; do
    [ "$(now_ms)" -lt "$end" ] || fail "the OSD is not up after $WAIT_S s"
    sleep 0.2
  done
}

start() {
  local needed begun
  for needed in ceph ceph-mon ceph-mgr ceph-osd monmaptool rbd; do
    command -v "$needed" >/dev/null || { echo "ceph: skipped: $needed is not installed; run judges/setup.sh --ceph" >&2; exit 77; }
  done
  stop
  begun=$(now_ms)
  rm -rf "$DIR/mon" "$DIR/mgr" "$DIR/osd"
  mkdir -p "$DIR/mon" "$DIR/mgr" "$DIR/osd"
  : >"$DIR/keyring"; : >"$DIR/start.log"
  FSID=$(cat /proc/sys/kernel/random/uuid)
  configure
  quietly monmaptool --create --clobber --addv a "$MON" --fsid "$FSID" "$DIR/monmap"
  quietly ceph-mon --mkfs -i a --monmap "$DIR/monmap" -c "$DIR/ceph.conf" --setuser root --setgroup root
  run mon ceph-mon -i a
  local osd
  osd=$(cat /proc/sys/kernel/random/uuid)
  quietly ceph osd new "$osd"
  quietly ceph-osd -i 0 --mkfs --osd-uuid "$osd" -c "$DIR/ceph.conf" --setuser root --setgroup root
  run osd ceph-osd -i 0
  run mgr ceph-mgr -i x
  until_up
  quietly ceph osd pool create "$POOL" 32
  quietly rbd pool init "$POOL"
  echo "ceph: started in $(($(now_ms) - begun)) ms: $DIR/ceph.conf, pool $POOL"
}

case $ACTION in
  start) start ;;
  stop) stop ;;
  *) usage ;;
esac
