#!/usr/bin/env bash
# Drives on RBD images of a real Ceph cluster of one node (judges/ceph.sh), which is started here and ended afterwards:
#   the back end: what it keeps, refuses, and does when it is fenced (the tests of world_real)
#   the array: killed under load, every sector compared; an image that holds something else, or that another array has
#   judges/ceph_rbd.sh [ROUNDS]   (kills, default 3)
# Without Ceph it says that it is skipped. MASU and KILL name other binaries than those under target/checked.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly ROUNDS=${1:-3} START_TIMEOUT_S=20
masu=${MASU:-target/checked/masu}
kill_judge=${KILL:-target/checked/examples/kill}
for needed in "$masu" "$kill_judge"; do
  [ -x "$needed" ] || { echo "ceph_rbd: $needed is missing; run make build" >&2; exit 2; }
done
# shellcheck source=judges/ports.sh
. judges/ports.sh
# shellcheck source=judges/own_ceph.sh
. judges/own_ceph.sh

own_ceph ceph
begun=$SECONDS
tell() { echo "ceph_rbd: $1: $((SECONDS - begun)) s"; begun=$SECONDS; }
wrong() { echo "ceph_rbd: $1" >&2; exit 1; }

# One at a time: one of them stops the OSD, one fills a pool. The packages are those of the other tests.
cargo test --profile checked --workspace --test rbd --test allocations --locked --quiet -- --test-threads=1 --nocapture >"$dir/tests" 2>&1 ||
  { cat "$dir/tests" >&2; wrong "tests of the back end failed"; }
grep -q "skipped" "$dir/tests" && wrong "tests of the back end were skipped"
grep -E "fenced and opened|opened after" "$dir/tests" | sed 's/^[.i]*/  /'
tell "tests of the back end, $(sed -n 's/^test result: ok. \([0-9]*\) passed.*/\1/p' "$dir/tests" | paste -sd +) passed"

make_images() { local image; for image in a0 b0 b1 j0; do rbd create "vms/$image" --size 192M; done; }
remove_images() { local image; for image in a0 b0 b1 j0; do rbd rm --no-progress "vms/$image"; done; }
make_images
"$kill_judge" --masu "$masu" --rounds "$ROUNDS" --ceph "$MASU_CEPH_CONF"
tell "killed $ROUNDS times"
# At its end the array released the images.
remove_images; make_images
"$kill_judge" --masu "$masu" --rounds "$ROUNDS" --cached --ceph "$MASU_CEPH_CONF"
tell "killed $ROUNDS times with a cache and a journal on an image"

# An array without drives, which is told of them by command.
start() {
  "$masu" serve --data "$dir/$1" --config "$dir/$1.toml" >>"$dir/$1.log" 2>&1 &
  pid=$!
  local waited=0
  until MASU_DATA=$dir/$1 "$masu" status >/dev/null 2>&1; do
    kill -0 "$pid" 2>/dev/null || wrong "the array does not start: $(tail -n 1 "$dir/$1.log")"
    [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || wrong "the array does not start in $START_TIMEOUT_S s"
    sleep 0.1; waited=$((waited + 1))
  done
}
for array in one two; do
  printf 'target = "iqn.2026-11.example.masu:%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n' "$array" "$(free_port)" >"$dir/$array.toml"
done
create() { MASU_DATA=$dir/$1 "$masu" group create "$2" --level raid0 --drive "$3:conf=$MASU_CEPH_CONF" 2>&1; }
# $1 must be refused with $2 in the words.
refused() {
  local text=$1 expected=$2
  grep -qF -- "$expected" <<<"$text" || wrong "not refused with \"$expected\": $text"
}
start one
first=$pid
# The groups' labels of the array that was killed are on a0.
refused "$(create one g rbd:vms/a0 || true)" "belongs to group ga"
rbd create vms/blank --size 64M
head -c 1M /dev/urandom >"$dir/noise"
rbd import --no-progress "$dir/noise" vms/noise >/dev/null 2>&1
refused "$(create one g rbd:vms/noise || true)" "not blank"
refused "$(create one g rbd:vms/absent || true)" "no such image"
refused "$(create one g rbd:vms || true)" "must be POOL/IMAGE"
create one g rbd:vms/blank >/dev/null
start two
second=$pid
refused "$(create two g rbd:vms/blank || true)" "process $first"
kill -TERM "$second" "$first"
wait "$second" "$first" || wrong "an array did not stop in order"
pid=""
tell "images that hold something else, or that another array has"

# A machine without Ceph's libraries: an error of that drive, and nothing else. Needs a mount of one's own.
library=$(ldconfig -p | sed -n 's/^.*librbd.so.1 .*=> //p' | head -n 1)
if [ -n "$library" ] && unshare -m true 2>/dev/null; then
  cp "$dir/two.toml" "$dir/three.toml"
  printf '[[drive]]\nname = "d0"\nrbd = "vms/b0"\nrbd_conf = "%s"\n[[group]]\nname = "g0"\nlevel = "raid0"\ndrives = ["d0"]\n' "$MASU_CEPH_CONF" >>"$dir/three.toml"
  # shellcheck disable=SC2016 # the inner shell expands them
  text=$(unshare -m bash -c 'mount --bind /dev/null "$0" && exec timeout 30 "$@"' "$(readlink -f "$library")" "$masu" serve --data "$dir/three" --config "$dir/three.toml" 2>&1 || true)
  refused "$text" "install them (Debian: librbd1)"
  tell "without librbd"
else
  echo "ceph_rbd: skipped: no mount namespace, in which librbd could be hidden"
fi
