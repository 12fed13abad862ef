#!/usr/bin/env bash
# The array beside those who mean it ill, or know no better: real files, file systems and loop devices, one array for each case. A case holds when
# nothing that was there is lost, the rest is served, and what was refused says so.
#
#   judges/hostile.sh [CASE...]   all cases when none is named
#
# One line for each case: `ok NAME`, `FAILED NAME: why`, or `not yet NAME: why` for what is known not to hold; exit status 1 when one failed. MASU names another binary than target/checked/masu. Needs qemu-io; what needs root or loop devices is skipped without.
# shellcheck disable=SC2317,SC2329 # cases are called by their names
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
PATH=$PATH:/usr/sbin:/sbin
masu=$PWD/${MASU:-target/checked/masu}
case ${MASU:-} in /*) masu=$MASU ;; esac
[ -x "$masu" ] || { echo "hostile: $masu is missing; run make build" >&2; exit 2; }
command -v qemu-io >/dev/null || { echo "hostile: qemu-io is missing (Debian package qemu-utils)" >&2; exit 2; }
readonly WORK=$PWD/target/judges/hostile CASE_TIMEOUT_S=60 START_TIMEOUT_S=20
readonly TARGET=iqn.2026-11.example.masu:hostile HOST=iqn.2026-11.example.masu:host
# shellcheck source=judges/ports.sh
. judges/ports.sh

# Known not to hold: NAME and why, a line each.
readonly NOT_YET=""

# ---- an array of this case's own: all of these run in the directory of the case

fail() { echo "$*" >why; exit 1; }
skip() { echo "$*" >skipped; exit 0; }

# declare_array LEVEL DRIVES [LINES]: file drives d0.img… as group g0 below pool p0 with volume v0, which any host sees as LUN 0.
declare_array() {
  local i names=""
  port=$(free_port)
  {
    printf 'target = "%s"\n%s\n[[portal]]\nlisten = "127.0.0.1:%s"\n' "$TARGET" "${top:-}" "$port"
    for ((i = 0; i < $2; i++)); do
      printf '[[drive]]\nname = "d%s"\nfile = "%s/d%s.img"\nsize = "64MiB"\n' "$i" "$PWD" "$i"
      names+="\"d$i\", "
    done
    printf '[[group]]\nname = "g0"\nlevel = "%s"\ndrives = [%s]\n' "$1" "${names%, }"
    printf '[[pool]]\nname = "p0"\ngroups = ["g0"]\n[[volume]]\nname = "v0"\npool = "p0"\nsize = "16MiB"\n'
    printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0" }\n%s\n' "${3:-}"
  } >array.toml
}
# Starts it; fails unless it listens.
start() { try_start || fail "the array did not start: $(tail -n 1 log)"; }
try_start() {
  local waited=0
  rm -f data/api.sock
  "$masu" serve --data data --config array.toml >>log 2>&1 &
  pid=$!; echo "$pid" >>pids
  until listens "$port" && [ -e data/api.sock ]; do
    kill -0 "$pid" 2>/dev/null || return 1
    [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || return 1
    sleep 0.1; waited=$((waited + 1))
  done
}
stop() { kill -TERM "$pid" 2>/dev/null; wait "$pid"; }
# The kernel closes the ports of a killed process late: who came then would wait for one that is gone.
kill9() {
  kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null
  while listens "$port"; do sleep 0.05; done
}
alive() { kill -0 "$pid" 2>/dev/null || fail "the array is gone: $(tail -n 1 log)"; }
m() { "$masu" "$@" --data data </dev/null >out 2>&1; }
must() { m "$@" || fail "masu $*: $(tail -n 1 out)"; }
# must_refuse WORD COMMAND...: with an error that has the word.
must_refuse() {
  local word=$1; shift
  if m "$@"; then fail "masu $*: was not refused"; fi
  grep -qi -- "$word" out || fail "masu $*: does not say $word: $(tail -n 1 out)"
}
says() { must status; grep -qi -- "$1" out || fail "status does not say $1"; }
lu() { lu_to io "$@"; }
lu_to() { # FILE LUN COMMAND...: what is said goes to FILE
  timeout 30 qemu-io -f raw -t none "${@:3}" "iscsi://127.0.0.1:$port/$TARGET/$2" >"$1" 2>&1 && ! grep -qi 'failed\|error' "$1"
}
put() { lu 0 -c "write -P $1 0 1M" -c flush || fail "a write failed: $(tail -n 1 io)"; }
has() { lu 0 -c "read -P $1 0 1M" || fail "what was flushed is not there: $(tail -n 1 io)"; }
sums() { sha256sum "$@" >sums; }
unchanged() { sha256sum --quiet --check sums >/dev/null 2>&1 || fail "something was written on $(sha256sum --quiet --check sums 2>/dev/null | head -n 1)"; }
# Labels lie at 0 and at 512 KiB of each drive, the format at byte 8, the checksum at byte 12.
poke() { printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# ---- creation is an act, opening is another

# labels HOW: done to all drives of an array with data; it starts, serves nothing of them, and changes nothing on them.
labels() {
  declare_array "$1" "$2"; start; put 0x5a; stop
  "$3"
  sums ./*.img; cp sums before
  if try_start; then
    m status; cp out status
    if lu 0 -c "read 0 4k"; then fail "a group without labels is served"; fi
    kill9
  fi
  cp before sums; unchanged
}
damage_all() { local d; for d in *.img; do poke "$d" 100 '\xff'; poke "$d" $((100 + 524288)) '\xff'; done; }
newer_all() {
  local d
  for d in *.img; do poke "$d" 8 '\x63'; poke "$d" $((8 + 524288)) '\x63'; done
}
wipe_all() { local d; for d in *.img; do dd if=/dev/zero of="$d" bs=1M count=1 conv=notrunc status=none; done; }
case_labels_damaged_on_all_drives() { labels raid5 3 damage_all; }
case_labels_newer_on_all_drives() { labels raid1 2 newer_all; }
case_labels_wiped_on_all_drives() { labels raid10 4 wipe_all; }
case_labels_wiped_on_the_only_drive() { labels raid0 1 wipe_all; }

# The start-up matrix with files (crates/array/src/tests/starting.rs has all of it): what becomes of drives between two lives of an array. After each
# fate it serves what was flushed, or nothing has changed on any of them.
fate() { # FATE NUMBER
  local d=d$2.img next=d$((($2 + 1) % 3)).img
  case $1 in
    none) ;;
    missing) rm "$d" ;;
    blank) truncate -s 0 "$d"; truncate -s 64M "$d" ;;
    file_system) truncate -s 0 "$d"; truncate -s 64M "$d"; mkfs.ext4 -q -F "$d" ;;
    other_array) cp "other/$d" "$d" ;;
    older) cp "older/$d" "$d" ;;
    newer) poke "$d" 8 '\x63'; poke "$d" $((8 + 524288)) '\x63' ;;
    damaged) poke "$d" 100 '\xff'; poke "$d" $((100 + 524288)) '\xff' ;;
    swapped) cp "kept/$next" "$d" ;;
    smaller) truncate -s 32M "$d" ;;
  esac
}
# begin_again: restart, with what was kept, or import of what was exported into an array with nothing.
begin_again() {
  rm -rf data array.toml.applied
  if [ "$1" = restart ]; then cp -r kept/data data; cp kept/array.toml .; try_start; return; fi
  printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n' "$TARGET" "$port" >array.toml
  start
  m config import export.toml --yes || true
}
# fates_of NEXT DRIVES...: each fate to these of three drives.
fates_of() {
  local next=$1 fate d served; shift
  command -v mkfs.ext4 >/dev/null || skip "mkfs.ext4 is missing"
  mkdir other older kept
  (cd other && declare_array raid5 3 && start && put 0x11 && stop) || fail "the other array: $(cat other/why)"
  declare_array raid5 3; start; put 0x22; stop; cp ./*.img older/
  start; put 0x5a; must config export; cp out export.toml; stop; cp -r ./*.img data array.toml kept/
  for fate in none missing blank file_system other_array older newer damaged swapped smaller; do
    cp kept/*.img .; for d in "$@"; do fate "$fate" "$d"; done
    # All drives as they were earlier: nobody can tell.
    [ "$fate/$#" != older/3 ] || continue
    sums ./*.img; served=no
    if begin_again "$next"; then
      if lu 0 -c "read 0 4k"; then served=yes; lu 0 -c "read -P 0x5a 0 1M" || fail "$next, $fate, drives $*: other data are served"; fi
      kill9
    fi
    case $fate in none | swapped) [ $served = yes ] || fail "$next, $fate, drives $*: nothing is lost, and it is not served: $(tail -n 1 log)" ;; esac
    [ $served = yes ] || [ "$fate/$#" = missing/3 ] || (unchanged) || fail "$next, $fate, drives $*: $(cat why)"
    [ $fate != missing ] || [ ! -e "d$1.img" ] || fail "$next: a file that was missing was made"
  done
}
case_fates_of_one_drive() { fates_of restart 0; }
case_fates_of_all_drives() { fates_of restart 0 1 2; }
case_fates_of_one_drive_before_an_import() { fates_of import 0; }
case_fates_of_all_drives_before_an_import() { fates_of import 0 1 2; }

case_missing_files_are_not_made_again() {
  declare_array raid1 2; start; put 0x5a; stop
  mkdir away; mv ./*.img away/
  if try_start; then kill9; fi
  if ls ./*.img >/dev/null 2>&1; then fail "a file that was missing was made"; fi
  mv away/*.img .; start; has 0x5a
}

case_a_data_directory_that_is_empty_is_no_reason_to_create() {
  declare_array raid1 2; start; put 0x5a; stop
  mv data away; sums ./*.img; cp sums before
  if try_start; then kill9; fi
  cp before sums; unchanged
  rm -rf data; mv away data; start; has 0x5a
}

case_a_file_system_is_not_overwritten() {
  command -v mkfs.ext4 >/dev/null || skip "mkfs.ext4 is missing"
  declare_array raid1 2; start; put 0x5a
  truncate -s 64M other.img third.img; mkfs.ext4 -q -F other.img; mkfs.ext4 -q -F third.img
  sums other.img third.img
  must_refuse overwrite group create g1 --level 1 --drive "$PWD/other.img" --drive "$PWD/third.img"
  must_refuse overwrite group replace g0 d0 "$PWD/other.img"
  must_refuse overwrite drive spare s0 "$PWD/third.img"
  unchanged; has 0x5a
  must group create g1 --level 1 --drive "$PWD/other.img" --drive "$PWD/third.img" --overwrite
}

case_what_is_on_a_drive_is_named() {
  command -v mkfs.ext4 >/dev/null || skip "mkfs.ext4 is missing"
  declare_array raid1 2; start
  truncate -s 64M other.img third.img; mkfs.ext4 -q -F other.img
  must_refuse ext4 group create g1 --level 1 --drive "$PWD/other.img" --drive "$PWD/third.img"
}

case_a_declaration_does_not_overwrite_a_file_system() {
  command -v mkfs.ext4 >/dev/null || skip "mkfs.ext4 is missing"
  declare_array raid1 2; truncate -s 64M d0.img d1.img; mkfs.ext4 -q -F d0.img
  sums d0.img d1.img
  if try_start; then kill9; fi
  unchanged
}

case_a_wrong_path_once_is_the_right_one_the_next_time() {
  declare_array raid0 1; start
  truncate -s 64M right.img; truncate -s 1M wrong.img
  if m group create g1 --level 0 --drive "$PWD/wrong.img"; then fail "a drive of 1 MiB was taken"; fi
  must group create g1 --level 0 --drive "$PWD/right.img"
  must pool create p1 --group g1; must volume create v1 --size 8MiB --pool p1; must host map any v1 --lun 1
  lu 1 -c "write -P 0x77 0 1M" -c flush || fail "a write failed"
  kill9; start
  lu 1 -c "read -P 0x77 0 1M" || fail "after a restart it is not there"
}

case_a_declared_volume_that_was_grown_starts() {
  declare_array raid0 1; start; put 0x5a
  must volume grow v0 --size 32MiB
  kill9; start; has 0x5a
  lu 0 -c "write -P 1 30M 1M" || fail "it has its old size"
}

case_kill_9_and_start_again_and_again() {
  local i
  declare_array raid5 3; start
  for i in 1 2 3; do put "0x1$i"; kill9; start; has "0x1$i"; done
}

# ---- what is declared is looked at

case_a_spare_that_is_not_there() { declare_array raid1 2; start; must_refuse "sdzz" drive spare s9 /dev/sdzz; says "No problems"; }
case_a_volume_is_mapped_once() {
  declare_array raid0 1; start; must host set h "$HOST"; must host map h v0
  m host map h v0
  must host list --output json
  [ "$(grep -c '"volume": "v0"' out)" = 2 ] || fail "v0 is not mapped once to each of the two hosts"
}
case_a_name_that_is_no_iqn() { declare_array raid0 1; start; must_refuse "kvm1" host set h kvm1; }
case_a_secret_stays_where_it_is_not_named() {
  declare_array raid0 1; start
  MASU_CHAP="h:a-secret-of-twelve" must host set h "$HOST"
  m host set h "$HOST"
  must host list --output json
  grep -q '"authentication": "chap"' out || fail "the secret is gone"
}
case_a_snapshot_is_deleted_a_volume_is_not() {
  declare_array raid0 1; start; must volume create v1 --size 8MiB
  must_refuse "v1" snapshot delete v1
  must volume list; grep -q v1 out || fail "the volume is gone"
}
case_a_port_that_is_taken() {
  declare_array raid0 1
  local taken
  "${PYTHON:-python3}" -c "
import socket, time
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
print(s.getsockname()[1], file=open('taken.new', 'w')); time.sleep(30)" &
  echo $! >>pids
  until [ -s taken.new ]; do sleep 0.1; done
  taken=$(cat taken.new); sed -i "s/:$port\"/:$taken\"/" array.toml
  timeout 15 "$masu" serve --data data --config array.toml >log 2>&1
  [ $? = 2 ] || fail "it did not exit with 2: $(tail -n 1 log)"
  grep -q "$taken" log || fail "it does not say which port: $(tail -n 1 log)"
}
case_an_api_port_that_is_taken() {
  declare_array raid0 1; start
  local other=$port first=$pid
  mkdir second; cd second || exit 1; declare_array raid0 1
  MASU_TOKEN=a-token-that-is-long-enough-to-be-taken timeout 15 "$masu" serve --data data --config array.toml --api "127.0.0.1:$other" >log 2>&1
  [ $? = 2 ] || { cp log ..; cd ..; fail "it did not exit with 2: $(tail -n 1 log)"; }
  cd ..; kill -0 "$first" || fail "the first array is gone"
}

# ---- signals, full and hung file systems

case_sighup_ends_nothing() { declare_array raid1 2; start; put 0x5a; kill -HUP "$pid"; sleep 1; alive; has 0x5a; put 0x11; }
case_sigterm_is_orderly() { declare_array raid1 2; start; put 0x5a; stop || fail "it ended with status $?"; start; has 0x5a; }

loop_mount() { # SIZE: an ext4 of its own below ./mnt
  [ "$(id -u)" = 0 ] || skip "needs root"
  truncate -s "$1" fs.img; mkfs.ext4 -q -F fs.img; mkdir mnt
  mount -o loop fs.img mnt 2>/dev/null || skip "no loop device is free"
  echo "$PWD/mnt" >>mounts
}

case_a_full_file_system_has_room_again() {
  loop_mount 96M
  declare_array raid0 1; sed -i "s|$PWD/d0.img|$PWD/mnt/d0.img|" array.toml; start; put 0x5a
  dd if=/dev/zero of=mnt/filler bs=1M status=none 2>/dev/null || true
  lu 0 -c "write -P 0x66 0 16M" -c flush || true
  alive; has_or_new
  rm -f mnt/filler; sync
  put 0x33; has 0x33
}
has_or_new() { lu 0 -c "read 0 1M" || fail "reads fail while the file system is full: $(tail -n 1 io)"; }

# hung_mirror PATH: mirror g0 has PATH, a file or a device, as d1, which `hang` makes hang and `let_go` answer again; g1 with LU 1 lies elsewhere.
hung_mirror() {
  declare_array raid1 2 '[[drive]]
name = "x0"
file = "'"$PWD"'/x0.img"
size = "64MiB"
[[group]]
name = "g1"
level = "raid0"
drives = ["x0"]
[[pool]]
name = "p1"
groups = ["g1"]
[[volume]]
name = "other"
pool = "p1"
size = "8MiB"'
  if [ -b "$1" ]; then sed -i "/name = \"d1\"/,/size/{s|file = .*|device = \"$1\"|;/size/d}" array.toml; fi
  sed -i "s|$PWD/d1.img|$PWD/$1|; s|luns = { 0 = \"v0\" }|luns = { 0 = \"v0\", 1 = \"other\" }|" array.toml
  start; put 0x5a; lu 0 -c "write -P 0x5a 8M 1M" -c flush || fail "a write failed: $(tail -n 1 io)"
  hang
  local begun=$SECONDS writer at
  lu_to written 0 -c "write -P 0x66 0 1M" & writer=$!
  lu_to beside 1 -c "write -P 0x44 0 1M" -c "read -P 0x44 0 1M" || fail "another group stands still: $(tail -n 1 beside)"
  [ $((SECONDS - begun)) -le 3 ] || fail "another group took $((SECONDS - begun)) s"
  for at in 8M 8256k 8704k; do
    local read=$SECONDS
    lu_to read 0 -c "read -P 0x5a $at 64k" || fail "a read of the mirror at $at failed: $(tail -n 1 read)"
    [ $((SECONDS - read)) -le 4 ] || fail "a read of the mirror took $((SECONDS - read)) s"
  done
  wait "$writer" || fail "the write to the mirror failed: $(tail -n 1 written)"
  [ $((SECONDS - begun)) -le 13 ] || fail "the write to the mirror took $((SECONDS - begun)) s"
  alive; must status; grep -q 'd1 is failed' out || fail "status does not tell of the drive"
  let_go
  for _ in $(seq 200); do m status; ! grep -q 'No problems' out || break; sleep 0.1; done
  grep -q 'No problems' out || fail "the drive answers again and does not come back: $(head -n 5 out)"
  must events; grep -q 'bytes that changed meanwhile' out || fail "it was not filled with what changed"
  has 0x66; stop || fail "it ended with status $?"
  # Behind the labels mirrors are equal.
  cmp -n $((48 << 20)) -i 1048576 d0.img "$1" || fail "the drive that came back differs from the other one"
}
case_a_frozen_file_system_holds_up_nobody_else() {
  command -v fsfreeze >/dev/null || skip "fsfreeze is missing"
  loop_mount 160M
  hang() { fsfreeze -f mnt; echo "$PWD/mnt" >frozen; }
  let_go() { fsfreeze -u mnt; rm frozen; }
  hung_mirror mnt/d1.img
}
# The file of an attached image: it lies on FUSE, and stands still when the process that serves it does.
on_fuse() {
  [ -e /dev/fuse ] || skip "no /dev/fuse"
  [ "$(id -u)" = 0 ] || skip "needs root"
  mkdir mnt; "$masu" vdisk create below.vhdx --size 64MiB >out 2>&1 || fail "vdisk create: $(tail -n 1 out)"
  "$masu" vdisk attach below.vhdx mnt >attach.log 2>&1 & server=$!
  echo "$server" >>pids; echo "$PWD/mnt" >>mounts
  for _ in $(seq 100); do [ ! -e mnt/disk ] || break; sleep 0.1; done
  [ -e mnt/disk ] || skip "it cannot be attached: $(tail -n 1 attach.log)"
  hang() { kill -STOP "$server"; }
  let_go() { kill -CONT "$server"; }
}
case_a_stopped_fuse_server_holds_up_nobody_else() { on_fuse; hung_mirror mnt/disk; }
case_a_loop_device_over_a_stopped_fuse_server() {
  on_fuse
  local loop; loop=$(losetup --find --show mnt/disk) || skip "no loop device is free"
  # shellcheck disable=SC2064 # now
  trap "kill -CONT $server; losetup -d $loop" EXIT
  hung_mirror "$loop"
}

# ---- clients

case_clients_that_say_nothing() {
  declare_array raid0 1; start
  "${PYTHON:-python3}" -c "
import socket, time
held = [socket.create_connection(('127.0.0.1', $port)) for _ in range(300)]
time.sleep(20)" 2>/dev/null &
  echo $! >>pids; sleep 1
  local begun=$SECONDS
  put 0x5a; [ $((SECONDS - begun)) -le 5 ] || fail "a host waited $((SECONDS - begun)) s"
  alive
}
case_noise_on_the_port() {
  declare_array raid0 1; start
  "${PYTHON:-python3}" -c "
import random, socket
random.seed(1)
for i in range(200):
    s = socket.create_connection(('127.0.0.1', $port)); s.settimeout(1)
    try: s.sendall(random.randbytes(random.randrange(1, 4000)))
    except OSError: pass
    s.close()"
  alive; put 0x5a; has 0x5a
}
# orderly WHAT COMMAND...: an answer or an error, in bounded time.
orderly() {
  local rc=0
  timeout 10 "$masu" "${@:2}" >out 2>&1 || rc=$?
  [ "$rc" -le 2 ] || fail "$1: status $rc: $(tail -n 1 out)"
}
case_a_pipe_as_an_image() {
  mkfifo pipe.vhdx
  timeout 10 "$masu" vdisk info pipe.vhdx >out 2>&1
  case $? in 124) fail "it waits for the pipe for ever" ;; 0) fail "a pipe was taken for an image" ;; esac
}
case_an_image_cut_short() {
  local i
  "$masu" vdisk create a.vhdx --size 64MiB >out 2>&1 || "$masu" vdisk create a.vhdx 64MiB >out 2>&1 || fail "vdisk create: $(tail -n 1 out)"
  for i in 0 1 511 65536 200000 1048577; do
    cp a.vhdx cut.vhdx; truncate -s "$i" cut.vhdx
    orderly "cut at $i" vdisk check cut.vhdx
  done
}
case_an_image_of_noise() {
  local i
  "$masu" vdisk create a.vhdx --size 64MiB >out 2>&1 || "$masu" vdisk create a.vhdx 64MiB >out 2>&1 || fail "vdisk create: $(tail -n 1 out)"
  for i in $(seq 20); do
    cp a.vhdx bad.vhdx
    head -c 64 /dev/urandom | dd of=bad.vhdx bs=1 seek=$((RANDOM * 120)) conv=notrunc status=none
    orderly "try $i" vdisk info bad.vhdx
    orderly "try $i" vdisk check bad.vhdx
  done
}

# ---- all of them

run_case() { # NAME: two at a time
  local name=$1 rc dir reason
  dir=$WORK/$name; mkdir -p "$dir"
  (cd "$dir" && timeout --foreground "$CASE_TIMEOUT_S" bash -c "set -uo pipefail; case_$name") </dev/null >"$dir/output" 2>&1
  rc=$?
  [ ! -e "$dir/frozen" ] || fsfreeze -u "$(cat "$dir/frozen")" 2>/dev/null
  cat "$dir/pids" "$dir"/*/pids 2>/dev/null | xargs -r kill -KILL 2>/dev/null
  if [ -e "$dir/mounts" ]; then while read -r mounted; do for _ in $(seq 50); do umount "$mounted" 2>/dev/null && break; sleep 0.1; done; done <"$dir/mounts"; fi
  reason=$(cat "$dir/why" 2>/dev/null || tail -n 1 "$dir/output")
  [ "$rc" != 124 ] || reason="not done after $CASE_TIMEOUT_S s"
  if [ "$rc" = 0 ] && [ -e "$dir/skipped" ]; then echo "skip $name: $(cat "$dir/skipped")"; rm -rf "$dir"; return; fi
  known=$(sed -n "s/^$name *//p" <<<"$NOT_YET")
  case $rc/$known in
    0/) echo "ok $name"; rm -rf "$dir" ;;
    0/*) echo "ok $name, which NOT_YET names"; rm -rf "$dir" ;;
    */) echo "FAILED $name: $reason ($dir)" ;;
    *) echo "not yet $name: $known" ;;
  esac
}
rm -rf "$WORK"; mkdir -p "$WORK"
while read -r function; do export -f "${function?}"; done < <(declare -F | sed 's/declare -f //')
export masu WORK CASE_TIMEOUT_S START_TIMEOUT_S TARGET HOST NOT_YET
cases=("$@")
[ $# -gt 0 ] || mapfile -t cases < <(sed -n 's/^case_\([a-z0-9_]*\)().*/\1/p' "$0")
printf '%s\n' "${cases[@]}" | xargs -P 2 -I CASE bash -c 'run_case CASE' | tee "$WORK/results"
count() { grep -c "^$1 " "$WORK/results" || true; }
echo "hostile: $(count ok) ok, $(count FAILED) failed, $(count 'not yet') not yet, $(count skip) skipped"
[ "$(count FAILED)" = 0 ]
