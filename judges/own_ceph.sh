#!/usr/bin/env bash
# A Ceph cluster of a judge's own (judges/ceph.sh): . judges/own_ceph.sh, then own_ceph NAME.
# Without Ceph the judge ends with 0: judges/ceph.sh has said that it is skipped.
# shellcheck disable=SC2317 # end_own_ceph is reached through the trap

# Sets dir, a directory that is removed at the end, exports the cluster's configuration, and ends both when the judge ends,
# with the process pid and the directory scratch if they are set.
own_ceph() {
  mkdir -p target/judges
  dir=$(mktemp -d "$PWD/target/judges/$1.XXXXXX")
  pid="" scratch=""
  trap end_own_ceph EXIT
  trap 'exit 130' INT TERM
  local rc=0
  judges/ceph.sh start "$dir/ceph" || rc=$?
  [ "$rc" != 77 ] || exit 0
  [ "$rc" = 0 ] || exit "$rc"
  export MASU_CEPH_CONF=$dir/ceph/ceph.conf CEPH_CONF=$dir/ceph/ceph.conf
}

end_own_ceph() {
  trap - EXIT INT TERM
  [ -z "$pid" ] || { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
  judges/ceph.sh stop "$dir/ceph"
  rm -rf "$dir" ${scratch:+"$scratch"}
}
