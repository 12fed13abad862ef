#!/usr/bin/env bash
# QEMU's block layer and libvhdi as judges of virtual disks: images of masu are read by them, theirs by masu, and an image is served
# over NBD and over iSCSI to QEMU. Needs the release binary, qemu-utils with qemu-block-extra, and libvhdi-utils for its steps.
#
#   judges/vdisk.sh
#
# One line per step; exit status 0 when every step passed. MASU names another binary than target/release/masu.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=judges/ports.sh
. judges/ports.sh
readonly WORK=target/judges/vdisk STEP_TIMEOUT_S=120 SIZE_MIB=200
masu=$PWD/${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "vdisk: $masu is missing; run make build" >&2; exit 2; }
for tool in qemu-img qemu-io; do
  command -v "$tool" >/dev/null || { echo "vdisk: $tool is missing (Debian package qemu-utils)" >&2; exit 2; }
done
export masu
rm -rf "$WORK"; mkdir -p "$WORK"
cd "$WORK"
passed=0; failed=0; skipped=0

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
# The disk that every image must hold: data at the beginning, over block borders, and at the end; holes between.
pattern() {
  qemu-io -f "$2" -c "write -P 0x11 0 1M" -c "write -P 0x22 30M 5M" -c "write -P 0x33 67000k 3k" \
    -c "write -P 0x44 $((SIZE_MIB - 1))M 1M" "$1"
}
same() { qemu-img compare -f raw -F "$2" source.raw "$1"; }
is_dynamic() { [ "$(stat -c %s "$1")" -lt $((SIZE_MIB << 20)) ]; }
# Both of QEMU's ways to look: VHDX can be checked, VHD is read as a whole.
opens() { qemu-img info -f "$2" "$1"; qemu-img map --output=json -f "$2" "$1" >/dev/null; [ "$2" != vhdx ] || qemu-img check -f vhdx "$1"; }
child_of() { "$masu" vdisk create "$2" --parent "$1"; }
# A server for the time of one command, which finds its address in NBD.
over_nbd() {
  local image=$1 port pid rc=0; shift
  port=$(free_port)
  "$masu" vdisk serve "$image" --nbd "127.0.0.1:$port" & pid=$!
  for _ in $(seq 100); do listens "$port" && break; sleep 0.1; done
  NBD="nbd://127.0.0.1:$port" "$@" || rc=$?
  kill -TERM "$pid"; wait "$pid" || rc=$?
  return "$rc"
}
over_socket() {
  local image=$1 pid rc=0; shift
  "$masu" vdisk serve "$image" --unix nbd.socket & pid=$!
  for _ in $(seq 100); do [ -S nbd.socket ] && break; sleep 0.1; done
  NBD="nbd+unix:///?socket=$PWD/nbd.socket" "$@" || rc=$?
  kill -TERM "$pid"; wait "$pid" || rc=$?
  [ ! -e nbd.socket ] || rc=1
  return "$rc"
}
# An array for the time of one command. It serves the images given as LUNs from 0 on, read-only those that are said so; the command finds
# LUN 0 in MASU_URL, and `masu` the array in MASU_DATA.
as_lus() {
  local luns="" n=0
  : >lus.toml
  while [ "$1" != -- ]; do
    printf '[[image]]\nname = "i%s"\nfile = "%s"\nread_only = %s\n' "$n" "$PWD/${1#ro:}" "$([ "$1" = "${1#ro:}" ] && echo false || echo true)" >>lus.toml
    luns="$luns${luns:+, }$n = \"i$n\""; n=$((n + 1)); shift
  done
  shift
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { %s }\n' "$luns" >>lus.toml
  # shellcheck disable=SC2016 # expanded by the inner shell
  (cd ../../.. && MASU=$masu judges/with_masu.sh --with target/judges/vdisk/lus.toml bash -euo pipefail -c 'cd target/judges/vdisk; MASU_DATA=../../../$MASU_DATA "$@"' _ "$@")
}
lu() { echo "${MASU_URL%0}$1"; }
lus_are_written() {
  local n
  for n in 0 1; do
    qemu-img convert -n -f raw -O raw source.raw "$(lu $n)"
    qemu-img compare -f raw -F raw source.raw "$(lu $n)"
    qemu-io -f raw -d unmap -c "write -P 0x66 64M 32M" -c flush -c "discard 64M 32M" -c "read -P 0 64M 32M" -c "write -z -u 96M 32M" "$(lu $n)"
    qemu-img map -f raw --output=json --start-offset=$((64 << 20)) --max-length=65536 "$(lu $n)" | grep '"zero": true, "data": false'
    qemu-img convert -n -f raw -O raw source.raw "$(lu $n)"
  done
}
child_is_written() {
  qemu-io -f raw -d unmap -c "write -P 0x55 10M 3M" -c "write -z 11M 1M" -c "write -f -P 4 60M 64k" -c "discard 20M 1M" -c "read -P 0x22 32M 1M" -c flush "$(lu 2)"
}
served_image_is_locked() {
  "$masu" image list | grep "i1 .*served"
  fails "$masu" vdisk compact "$1" 2>&1 | grep "in use"
  fails "$masu" image add again "$PWD/$1" 2>&1 | grep "another image's already"
}
read_only_stays() { fails qemu-io -f raw -c "write 0 64k" "$(lu 3)"; qemu-img compare -f raw -F raw source.raw "$(lu 3)"; }
# One of an array's two images is damaged: the other one is served, and the status says why this one is not.
damage_is_told() {
  qemu-io -f raw -r -c "read 0 64k" "$(lu 0)"
  fails qemu-io -f raw -r -c "read 0 64k" "$(lu 1)"
  "$masu" status | grep "is not served: "
  fails "$masu" image add more "$PWD/$1" 2>&1 | grep 'image "more": '
}
lu_compare() { qemu-img compare -f raw -F raw "$1" "$(lu 0)"; }
nbd_patterns() {
  qemu-io -f raw -c "write -P 0x55 10M 3M" -c "aio_write -P 1 50M 1M" -c "aio_write -P 2 51M 1M" -c "aio_write -P 3 52M 1M" \
    -c aio_flush -c "write -f -P 4 60M 64k" -c "write -z 11M 1M" -c "discard 50M 1M" -c flush \
    -c "read -P 0x55 10M 1M" -c "read -P 0 11M 1M" -c "read -P 0x55 12M 1M" -c "read -P 0 50M 1M" -c "read -P 2 51M 1M" "$NBD"
}
nbd_compare() { qemu-img compare -f raw -F raw source.raw "$NBD"; }
export -f fails pattern same is_dynamic opens child_of over_nbd listens free_port over_socket nbd_patterns nbd_compare
export -f as_lus lu lus_are_written child_is_written served_image_is_locked read_only_stays damage_is_told lu_compare
export SIZE_MIB

qemu-img create -q -f raw source.raw "${SIZE_MIB}M"
step "the source" pattern source.raw raw

for format in vhd vhdx; do
  name=$format; [ "$format" = vhdx ] || name=vpc
  for kind in dynamic fixed; do
    fixed=(); [ "$kind" = dynamic ] || fixed=(--fixed)
    label="$format, $kind"; mine=mine_$kind.$format
    step "$label: converted by masu" "$masu" vdisk convert source.raw "$mine" --raw "${fixed[@]+"${fixed[@]}"}"
    step "$label: opens in QEMU" opens "$mine" "$name"
    step "$label: the same disk to QEMU" same "$mine" "$name"
    [ "$kind" = fixed ] || step "$label: holes take no space" is_dynamic "$mine"
    step "$label: QEMU writes to it" qemu-io -f "$name" -c "write -P 0x77 100M 3M" "$mine"
    step "$label: clean to masu afterwards" "$masu" vdisk check "$mine"
    step "$label: back to raw" "$masu" vdisk convert "$mine" back_"$kind"_"$format".raw
    step "$label: what QEMU wrote is there" qemu-img compare -f raw -F "$name" back_"$kind"_"$format".raw "$mine"
    theirs=theirs_$kind.$format
    step "$label: converted by QEMU" qemu-img convert -f raw -O "$name" -o subformat="$kind" source.raw "$theirs"
    step "$label: of QEMU, clean to masu" "$masu" vdisk check "$theirs"
    step "$label: of QEMU, read by masu" "$masu" vdisk convert "$theirs" theirs_"$kind"_"$format".raw
    step "$label: of QEMU, the same disk" qemu-img compare -f raw -F "$name" theirs_"$kind"_"$format".raw "$theirs"
  done
  step "$format: resized" "$masu" vdisk resize mine_dynamic.$format --size 400GiB
  step "$format: resized, opens in QEMU" opens mine_dynamic.$format "$name"
  step "$format: resized, has its data" qemu-io -f "$name" -c "read -P 0x77 100M 3M" -c "write -P 0x88 300G 1M" -c "read -P 0x11 0 1M" mine_dynamic.$format
  step "$format: clean afterwards" "$masu" vdisk check mine_dynamic.$format
  cp theirs_dynamic.$format compact.$format
  step "$format: zeros written by QEMU" qemu-io -f "$name" -c "write -P 0 0 64M" compact.$format
  step "$format: compacted" "$masu" vdisk compact compact.$format
  step "$format: compacted, opens in QEMU" opens compact.$format "$name"
  step "$format: compacted, has its data" qemu-io -f "$name" -c "read -P 0 0 64M" -c "read -P 0x44 $((SIZE_MIB - 1))M 1M" compact.$format
  step "$format: a child" child_of theirs_dynamic.$format child.$format
  step "$format: a child is served, and written" over_nbd child.$format nbd_patterns
  step "$format: a child joined" "$masu" vdisk convert child.$format joined.raw
  step "$format: a child has what was written" qemu-io -f raw -c "read -P 0x55 10M 1M" -c "read -P 0 11M 1M" \
    -c "read -P 0x11 0 1M" -c "read -P 0x22 30M 5M" -c "read -P 4 60M 64k" joined.raw
  rm -f joined.raw
  step "$format: served, the same disk over NBD" over_nbd theirs_fixed.$format nbd_compare
  step "$format: served, patterns over NBD" over_nbd mine_fixed.$format nbd_patterns
  step "$format: served, clean afterwards" "$masu" vdisk check mine_fixed.$format
  head -c 100000 theirs_dynamic.$format >cut.$format
  step "$format: a file that was cut is refused" fails "$masu" vdisk compact cut.$format
  step "$format: served at a socket, the same disk" over_socket theirs_fixed.$format nbd_compare
  step "$format: served at a socket, patterns" over_socket mine_dynamic.$format nbd_patterns
  size=(); [ "$format" = vhdx ] || size=(-o force_size=on)
  step "$format: LUs, an image of QEMU" qemu-img create -f "$name" "${size[@]+"${size[@]}"}" lu_theirs.$format "${SIZE_MIB}M"
  step "$format: LUs, an image of masu" "$masu" vdisk create lu_mine.$format --size "${SIZE_MIB}MiB"
  qemu-img convert -f raw -O "$name" source.raw lu_base.$format
  step "$format: LUs, a child" child_of lu_base.$format lu_child.$format
  cp source.raw lu_fixed.raw
  step "$format: LUs, one to read" "$masu" vdisk convert lu_fixed.raw lu_fixed.$format --raw --fixed
  lus=("lu_theirs.$format" "lu_mine.$format" "lu_child.$format" "ro:lu_fixed.$format")
  step "$format: LUs are written, trimmed, and the same disk" as_lus "${lus[@]}" -- lus_are_written
  for image in lu_theirs lu_mine; do
    step "$format: $image afterwards, opens in QEMU" opens $image.$format "$name"
    step "$format: $image afterwards, the same disk to QEMU" same $image.$format "$name"
    step "$format: $image afterwards, clean" "$masu" vdisk check $image.$format
  done
  step "$format: a child is written as a LU" as_lus "${lus[@]}" -- child_is_written
  step "$format: a child afterwards, clean" "$masu" vdisk check lu_child.$format
  step "$format: a child afterwards, joined" "$masu" vdisk convert lu_child.$format lu_joined.raw
  step "$format: a child afterwards, has what was written" qemu-io -f raw -c "read -P 0x55 10M 1M" -c "read -P 0 11M 1M" -c "read -P 0x55 12M 1M" \
    -c "read -P 4 60M 64k" -c "read -P 0 20M 1M" -c "read -P 0x11 0 1M" -c "read -P 0x22 30M 5M" lu_joined.raw
  step "$format: a child as a LU, the same disk" as_lus lu_child.$format -- lu_compare lu_joined.raw
  step "$format: its parent is as it was" same lu_base.$format "$name"
  step "$format: a LU that is to be read is" as_lus "${lus[@]}" -- read_only_stays
  step "$format: a served image is nobody else's" as_lus "${lus[@]}" -- served_image_is_locked lu_theirs.$format
  step "$format: a damaged image is told, and no other suffers" as_lus lu_mine.$format cut.$format -- damage_is_told cut.$format
  rm -f lu_joined.raw lu_fixed.raw
  if command -v vhdiinfo >/dev/null; then
    for image in mine_dynamic mine_fixed child compact; do
      step "$format: $image, libvhdi" vhdiinfo "$image.$format"
    done
  else
    skipped=$((skipped + 1)); echo "skip  $format, libvhdi: vhdiinfo is missing (Debian package libvhdi-utils)"
  fi
done

step "qcow2 of QEMU" qemu-img convert -f raw -O qcow2 source.raw plain.qcow2
step "qcow2 of QEMU, compressed" qemu-img convert -c -f raw -O qcow2 source.raw packed.qcow2
step "qcow2 of QEMU, version 2" qemu-img convert -f raw -O qcow2 -o compat=0.10 source.raw old.qcow2
for subformat in monolithicSparse monolithicFlat twoGbMaxExtentSparse streamOptimized; do
  step "vmdk of QEMU, $subformat" qemu-img convert -f raw -O vmdk -o subformat=$subformat source.raw $subformat.vmdk
done
for foreign in plain.qcow2 packed.qcow2 old.qcow2 monolithicSparse.vmdk monolithicFlat.vmdk twoGbMaxExtentSparse.vmdk streamOptimized.vmdk; do
  step "$foreign: converted to VHDX" "$masu" vdisk convert "$foreign" "from_$foreign.vhdx"
  step "$foreign: the same disk" same "from_$foreign.vhdx" vhdx
done
# A disk that is no multiple of a grain: QEMU compresses the bytes of the disk only.
head -c 201216 source.raw >short.raw
step "short.vmdk of QEMU" qemu-img convert -f raw -O vmdk -o subformat=streamOptimized short.raw short.vmdk
step "short.vmdk: converted to raw" "$masu" vdisk convert short.vmdk short_back.raw
step "short.vmdk: the same disk" cmp short.raw short_back.raw
qemu-img create -q -f qcow2 sparse.qcow2 16T
step "a sparse qcow2 of 16 TiB in a few seconds" timeout 20 "$masu" vdisk convert sparse.qcow2 sparse.vhdx
qemu-img create -q -f qcow2 -b plain.qcow2 -F qcow2 over.qcow2
step "a qcow2 over another is refused" fails "$masu" vdisk convert over.qcow2 over.vhdx

echo "vdisk: $passed pass, $failed fail, $skipped skipped"
[ "$failed" = 0 ]
