#!/usr/bin/env bash
# Two nodes of one array over a real Ceph (judges/ceph.sh) and a real etcd of one member, both started here and ended afterwards:
# the owner is killed, stopped and continued, ended in order, and etcd stands still; a host writes to whichever node serves.
# For each case a line with the longest time between two acknowledged writes; what was acknowledged is read back from the new owner.
#   [KILLS=20] judges/cluster.sh
#   judges/cluster.sh CASE        one of them, by the name of its test
#   judges/cluster.sh trusted     three nodes with an etcd of three members, TLS and users: members and their leader killed, no quorum,
#                                 password and certificates exchanged
#   judges/cluster.sh short       one cluster of three nodes, each case once, and `trusted`: a part of `make test`
# Without Ceph or etcd it says that it is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly START_TIMEOUT_S=20
case "${1:-}" in
  "") which=(rbd_and_etcd:: --skip rbd_and_etcd::in_short) ;;
  trusted) which=(--exact trusted_etcd::in_short) ;;
  short) which=(--exact rbd_and_etcd::in_short trusted_etcd::in_short) ;;
  [a-z]*) which=(--exact "rbd_and_etcd::$1") ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
# shellcheck source=judges/ports.sh
. judges/ports.sh
# shellcheck source=judges/own_ceph.sh
. judges/own_ceph.sh
{ command -v etcd && command -v etcdctl; } >/dev/null || { echo "cluster: skipped: etcd or etcdctl is not installed; run judges/setup.sh"; exit 0; }

own_ceph cluster
# Its data in memory: its durability is not judged, and the disk has Ceph's and other work.
scratch=$(mktemp -d "/dev/shm/masu-cluster.XXXXXX" 2>/dev/null || mktemp -d "$dir/etcd.XXXXXX")
client=$(free_port); peer=$(free_port)
etcd --name m --data-dir "$scratch" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "m=http://127.0.0.1:$peer" >"$dir/etcd.log" 2>&1 &
pid=$!
waited=0
until (exec 3<>"/dev/tcp/127.0.0.1/$client") 2>/dev/null; do
  kill -0 "$pid" 2>/dev/null || { tail -n 3 "$dir/etcd.log" >&2; echo "cluster: etcd does not start" >&2; exit 1; }
  [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || { echo "cluster: etcd does not start in $START_TIMEOUT_S s" >&2; exit 1; }
  sleep 0.1; waited=$((waited + 1))
done

export MASU_ETCD=127.0.0.1:$client MASU_ETCD_PID=$pid
# One at a time: one of them stops etcd. Of the whole workspace, as `make unit` has built it.
cargo test --profile checked --workspace --locked --quiet --test nodes -- --ignored --test-threads=1 --nocapture "${which[@]}" >"$dir/tests" 2>&1 ||
  { cat "$dir/tests" >&2; tail -n 20 "$dir/etcd.log" >&2; echo "cluster: a case failed" >&2; exit 1; }
grep -E " gap +[0-9]+ ms" "$dir/tests" | sed 's/^[.i]*/  /' || { echo "cluster: no case has run" >&2; exit 1; }
