#!/usr/bin/env bash
# The kernel's loop device and ext4, fsck and QEMU as judges of disks that are attached as files: an image of each format and a LU over
# iSCSI get a file system on a loop device over the file, are detached, looked at, attached again, and have every byte.
#
#   judges/attach.sh
#
# One line per step; exit status 0 when every step passed. Needs root, FUSE and loop devices: where they are missing all of it is
# skipped, and counted so. MASU names another binary than target/release/masu.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
readonly WORK=target/judges/attach STEP_TIMEOUT_S=120 END_TIMEOUT_S=20 SIZE_MIB=300
masu=$PWD/${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "attach: $masu is missing; run make build" >&2; exit 2; }
for tool in mkfs.ext4 e2fsck losetup qemu-img qemu-io; do
  command -v "$tool" >/dev/null || { echo "attach: $tool is missing; run make setup" >&2; exit 2; }
done
missing=""
[ "$(id -u)" = 0 ] || missing="root"
[ -e /dev/fuse ] || missing="${missing:+$missing, }/dev/fuse"
losetup --find >/dev/null 2>&1 || missing="${missing:+$missing, }a free loop device"
if [ -n "$missing" ]; then
  echo "skip  attached files: this machine has not: $missing"
  echo "attach: 0 pass, 0 fail, 1 skipped"
  exit 0
fi

rm -rf "$WORK"; mkdir -p "$WORK"
cd "$WORK"
mkdir -p point files
passed=0; failed=0
# shellcheck disable=SC2317 # reached through the trap
stop() {
  trap - EXIT INT TERM
  umount files 2>/dev/null || true
  for loop in $(losetup --noheadings --output NAME --associated point/disk 2>/dev/null); do losetup --detach "$loop" || true; done
  umount --lazy point 2>/dev/null || true
  [ ! -f pid ] || kill -TERM "$(cat pid)" 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT TERM

# step NAME COMMAND...: passes when the command does.
step() {
  local name=$1 log; shift
  log=$(echo "$name" | tr -c 'a-zA-Z0-9\n' _).log
  # shellcheck disable=SC2016 # expanded by the inner shell
  if timeout "$STEP_TIMEOUT_S" bash -euo pipefail -c '"$@"' _ "$@" >"$log" 2>&1; then
    passed=$((passed + 1)); echo "pass  $name"
  else
    failed=$((failed + 1)); echo "FAIL  $name: $(grep -v '^ *$' "$log" | tail -n 1) ($WORK/$log)"
  fi
}
fails() { local rc=0; "$@" || rc=$?; [ "$rc" -ne 0 ] && [ "$rc" -lt 124 ]; }
# An attachment in the background; it is there when its file is.
attach() {
  "$masu" vdisk attach "$1" point "${@:2}" >attach.log 2>&1 & echo $! >pid
  for _ in $(seq 100); do
    [ ! -f point/disk ] || return 0
    kill -0 "$(cat pid)" 2>/dev/null || { cat attach.log; return 1; }
    sleep 0.1
  done
  return 1
}
# Waits for its end, which must be a good one.
ended() {
  local waited=0
  while kill -0 "$(cat pid)" 2>/dev/null; do
    [ "$waited" -lt $((END_TIMEOUT_S * 10)) ] || { echo "it is there still"; return 1; }
    sleep 0.1; waited=$((waited + 1))
  done
  rm pid
  fails mountpoint -q point
  fails grep -v ": .*point/disk$" attach.log
}
detach() { kill -TERM "$(cat pid)"; ended; }
mounted() { mount -o loop point/disk files; }
unmounted() { umount files; [ -z "$(losetup --noheadings --associated point/disk)" ]; }
sums() { (cd files && find . -type f ! -path './lost+found/*' -print0 | sort -z | xargs -0 sha256sum); }

# The kernel closes the file below a loop device some time after the device is gone: until then the mount is busy.
unmount_attached() {
  for _ in $(seq 100); do
    umount point 2>umount.log && return
    sleep 0.1
  done
  cat umount.log; return 1
}

# An attachment for the time of a command; then it is detached by a signal, or unmounted from outside.
attached() {
  local how=$1 source=$2 rc=0; shift 2
  attach "$source"
  "$@" || rc=$?
  if [ "$how" = signal ]; then detach || rc=$?; else unmount_attached || rc=$?; ended || rc=$?; fi
  return "$rc"
}
new_files() {
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 point/disk
  mounted
  for n in 1 2 3; do head -c $((n * 7000003)) /dev/urandom >"files/random.$n"; done
  mkdir files/source; cp -r ../../../crates ../../../judges files/source
  # Deleted and trimmed: space goes back.
  head -c 100M /dev/urandom >files/large; sync; rm files/large; sync
  fstrim files
  sums >sums.txt
  [ "$(wc -l <sums.txt)" -gt 300 ]
  unmounted
  e2fsck -f -n point/disk
}
same_files() { mounted; sums | cmp - sums.txt; unmounted; e2fsck -f -n point/disk; }
# The same through a loop device that has no pages of its own either, and many operations in flight.
same_files_direct() {
  local loop rc=0
  loop=$(losetup --find --show --direct-io=on point/disk)
  mount "$loop" files || rc=$?
  { sums | cmp - sums.txt && cp -r files/source files/again && diff -r files/source files/again && rm -r files/again; } || rc=$?
  umount files; losetup --detach "$loop"
  e2fsck -f -n point/disk || rc=$?
  return "$rc"
}
# What is written with no regard to sectors, and where the disk ends.
bytes() {
  local end=$((SIZE_MIB << 20))
  [ "$(stat -c %s point/disk)" = "$end" ]
  printf 'three' | dd of=point/disk bs=1 seek=1000 conv=notrunc status=none
  [ "$(dd if=point/disk bs=1 skip=1000 count=5 status=none)" = three ]
  fails dd if=/dev/zero of=point/disk bs=1M seek=$((SIZE_MIB - 1)) count=2 conv=notrunc
  [ "$(dd if=point/disk bs=1M skip=$((SIZE_MIB - 1)) status=none | wc -c)" = 1048576 ]
  fails truncate -s 1M point/disk
  qemu-io -f raw -d unmap -c "write -P 5 1M 3M" -c "discard 2M 1M" -c "write -z 3M 64k" -c flush \
    -c "read -P 5 1M 1M" -c "read -P 0 2M 1M" -c "read -P 0 3M 64k" -c "read -P 5 3136k 960k" point/disk
  [ "$(stat -c %s point/disk)" = "$end" ]
}
# Stopped while a file system is on it: it is served until that is unmounted.
in_use() {
  attach "$1"; mounted
  kill -TERM "$(cat pid)"
  for _ in $(seq 50); do ! grep -q "is in use" attach.log || break; sleep 0.1; done
  grep -q "is in use" attach.log; sed -i '/is in use/d' attach.log
  sums | cmp - sums.txt
  umount files
  ended
}
refusals() {
  touch plain
  fails "$masu" vdisk attach "$1" plain 2>&1 | grep "not a directory"
  fails "$masu" vdisk attach "$1" nowhere 2>&1 | grep "No such file"
  attach "$1" --read-only
  fails dd if=/dev/zero of=point/disk bs=512 count=1 conv=notrunc
  fails "$masu" vdisk compact "$1" 2>&1 | grep "in use"
  detach
}
# What was deleted was random: only what was trimmed can be left out of a compact copy.
compact_is_small() {
  cp "$1" "compact.$1"
  "$masu" vdisk compact "compact.$1"
  stat -c %s "compact.$1"
  [ "$(stat -c %s "compact.$1")" -lt $((120 << 20)) ]
}
compare() { qemu-img compare -f raw -F "$2" point/disk "$1"; }
export masu SIZE_MIB END_TIMEOUT_S
export -f fails attach ended detach mounted unmounted sums unmount_attached attached new_files same_files same_files_direct bytes in_use refusals compact_is_small compare

for format in vhdx vhd; do
  name=$format; [ "$format" = vhdx ] || name=vpc
  image=disk.$format
  step "$format: a dynamic image" "$masu" vdisk create "$image" --size "${SIZE_MIB}MiB" --block 2MiB
  step "$format: attached, any bytes are written" attached signal "$image" bytes
  step "$format: ext4 on a loop device, files are copied" attached signal "$image" new_files
  step "$format: clean afterwards" "$masu" vdisk check "$image"
  [ "$name" = vpc ] || step "$format: clean to QEMU" qemu-img check -f "$name" "$image"
  step "$format: what was trimmed takes no space in a compact copy" compact_is_small "$image"
  step "$format: attached again, every file is there; unmounted from outside" attached umount "$image" same_files
  step "$format: with a loop device that has many operations in flight" attached signal "$image" same_files_direct
  cp "$image" "copy.$format"
  step "$format: the same disk to QEMU" attached signal "$image" compare "copy.$format" "$name"
  step "$format: stopped while in use, it ends with its use" in_use "$image"
  step "$format: clean after that" "$masu" vdisk check "$image"
  step "$format: refusals say why" refusals "$image"
done

# An array for the time of a command, which finds its LU in MASU_URL.
with_lu() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  (cd ../../.. && MASU=$masu judges/with_masu.sh --chap --size "${SIZE_MIB}MiB" bash -euo pipefail -c 'cd target/judges/attach; "$@"' _ "$@")
}
lu_has_files() {
  attached signal "$MASU_URL" bytes
  attached signal "$MASU_URL" new_files
  attached umount "$MASU_URL" same_files
  attached signal "$MASU_URL" same_files_direct
  qemu-img convert -f raw -O raw "$MASU_URL" lu.raw
  attached signal "$MASU_URL" compare lu.raw raw
  in_use "$MASU_URL"
}
# What is attached twice is two initiator ports: neither ends the other's session.
lu_attached_twice() {
  attach "$MASU_URL" --read-only
  mkdir -p second
  "$masu" vdisk attach "$MASU_URL" second >second.log 2>&1 & local second=$!
  for _ in $(seq 100); do [ ! -f second/disk ] || break; sleep 0.1; done
  printf 'seen by both' | dd of=second/disk bs=1 conv=notrunc status=none
  [ "$(dd if=point/disk bs=12 count=1 status=none)" = "seen by both" ]
  kill -TERM "$second"; wait "$second"
  detach
  fails grep -q "$(echo "$MASU_LOGIN" | cut -d' ' -f2)" attach.log second.log
}
lu_is_read_only() {
  attach "$MASU_URL_RO"
  fails dd if=/dev/zero of=point/disk bs=512 count=1 conv=notrunc
  detach
}
nobody_there() { fails "$masu" vdisk attach iscsi://127.0.0.1:1/iqn.2026-11.example.masu:none/0 point; }
export -f with_lu lu_has_files lu_attached_twice lu_is_read_only nobody_there
step "LU: ext4 on a loop device, files are copied, and there again" with_lu lu_has_files
step "LU: attached twice" with_lu lu_attached_twice
step "LU: one that is to be read is" with_lu lu_is_read_only
step "LU: nobody there" nobody_there

echo "attach: $passed pass, $failed fail, 0 skipped"
[ "$failed" = 0 ]
