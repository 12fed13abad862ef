#!/usr/bin/env bash
# QEMU's block layer as a client: qemu-io and qemu-img over iscsi://, on a logical unit that IS OVERWRITTEN.
#
#   judges/qemu.sh [--chap URL] [URL]
#
#   URL         iscsi://host:port/target/lun, at least 64 MiB
#   --chap URL  iscsi://user%password@host:port/target/lun: a logical unit that asks for CHAP; everything is
#               done there too, and a wrong password and none at all must be refused
#
# One line per step; exit status 0 when every step passed.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly WORK=target/judges/qemu
readonly STEP_TIMEOUT_S=60

chap=""; url=""
while [ $# -gt 0 ]; do
  case $1 in
    --chap) chap=${2:?}; shift 2 ;;
    iscsi://*) url=$1; shift ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ -n "$url$chap" ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
for tool in qemu-img qemu-io; do
  command -v "$tool" >/dev/null || { echo "qemu: $tool is missing (Debian packages qemu-utils and qemu-block-extra)" >&2; exit 2; }
done

rm -rf "$WORK"; mkdir -p "$WORK"
passed=0; failed=0; label=""

# step NAME COMMAND...: passes when the command does.
step() {
  local name=$1 log; shift
  log=$WORK/$(echo "$label$name" | tr -c 'a-zA-Z0-9\n' _).log
  # shellcheck disable=SC2016 # expanded by the inner shell
  if timeout "$STEP_TIMEOUT_S" bash -euo pipefail -c '"$@"' _ "$@" >"$log" 2>&1; then
    passed=$((passed + 1)); echo "pass  $label$name"
  else
    failed=$((failed + 1)); echo "FAIL  $label$name: $(grep -v '^ *$' "$log" | tail -n 1) ($log)"
  fi
}

# fails COMMAND...: succeeds when the command does not, for another reason than a signal or a missing tool.
fails() {
  local rc=0
  "$@" || rc=$?
  [ "$rc" -ne 0 ] && [ "$rc" -lt 124 ]
}

# io URL COMMAND...: qemu-io with discard enabled; each argument is one of its commands.
io() {
  local on=$1 args=() c; shift
  for c in "$@"; do args+=(-c "$c"); done
  qemu-io -f raw -d unmap "${args[@]}" "$on"
}

# is_hole URL OFFSET: the target reports the block at this offset as not allocated and zero.
is_hole() {
  qemu-img map -f raw --output=json --start-offset="$2" --max-length=65536 "$1" | tee /dev/stderr |
    grep -q "\"start\": $2,.*\"zero\": true, \"data\": false"
}
is_data() {
  qemu-img map -f raw --output=json --start-offset="$2" --max-length=65536 "$1" | tee /dev/stderr |
    grep -q "\"start\": $2,.*\"data\": true"
}
export -f fails io is_hole is_data

judge() {
  local on=$1 size last image=$WORK/image.qcow2 back=$WORK/back.qcow2
  step "information" qemu-img info -f raw "$on"
  size=$(qemu-img info -f raw --output=json "$on" 2>/dev/null | sed -n 's/.*"virtual-size": \([0-9]*\).*/\1/p' | head -n 1)
  [ -n "$size" ] || { echo "FAIL  ${label}size: the target does not tell it, the rest cannot run"; failed=$((failed + 1)); return; }
  last=$((size - 1048576))

  step "pattern at start, middle and end" io "$on" \
    "write -P 0xa5 0 1M" "write -P 0x5a 20M 3M" "write -P 0x3c $last 1M" \
    "read -P 0xa5 0 1M" "read -P 0x5a 20M 3M" "read -P 0x3c $last 1M"
  step "a wrong pattern is noticed" fails io "$on" "read -P 0xa4 0 1M"
  step "unaligned write and read" io "$on" "write -P 0x77 5000 7000" "read -P 0x77 5000 7000" \
    "read -P 0xa5 0 5000" "read -P 0xa5 12000 4000"
  step "eight writes in flight" io "$on" "aio_write -P 1 32M 1M" "aio_write -P 2 33M 1M" "aio_write -P 3 34M 1M" \
    "aio_write -P 4 35M 1M" "aio_write -P 5 36M 1M" "aio_write -P 6 37M 1M" "aio_write -P 7 38M 1M" "aio_write -P 8 39M 1M" \
    "aio_flush" "read -P 1 32M 1M" "read -P 5 36M 1M" "read -P 8 39M 1M"
  step "one write of 16 MiB" io "$on" "write -P 0xee 40M 16M" "read -P 0xee 40M 16M"
  step "flush" io "$on" "write -P 0x99 16M 64k" "flush" "read -P 0x99 16M 64k"
  step "write through" io "$on" "write -f -P 0x98 16M 64k" "read -P 0x98 16M 64k"
  step "write zeroes" io "$on" "write -z 20M 1M" "read -P 0 20M 1M" "read -P 0x5a 21M 2M"
  step "write zeroes and unmap" io "$on" "write -z -u 40M 4M" "read -P 0 40M 4M" "read -P 0xee 44M 12M"
  step "unmapped zeroes are a hole" is_hole "$on" $((40 << 20))
  step "discard" io "$on" "discard 48M 4M" "read -P 0 48M 4M" "read -P 0xee 44M 4M" "read -P 0xee 52M 4M"
  step "what was discarded is a hole" is_hole "$on" $((48 << 20))
  step "its neighbour is not" is_data "$on" $((44 << 20))

  qemu-img create -q -f qcow2 "$image" "$size"
  qemu-io -f qcow2 -c "write -P 0x11 0 3M" -c "write -P 0x22 17M 5M" -c "write -P 0x33 $last 1M" "$image" >/dev/null
  step "convert an image onto it" qemu-img convert -n -f qcow2 -O raw "$image" "$on"
  step "compare with the image" qemu-img compare -f qcow2 -F raw "$image" "$on"
  step "convert it into an image" qemu-img convert -f raw -O qcow2 "$on" "$back"
  step "compare with that image" qemu-img compare -f qcow2 -F raw "$back" "$on"
  step "change one sector" io "$on" "write -P 0x44 18M 512"
  step "the change is noticed" fails qemu-img compare -f qcow2 -F raw "$image" "$on"
}

[ -z "$url" ] || judge "$url"
if [ -n "$chap" ]; then
  label="chap: "
  bare=iscsi://${chap#*@}; user=${chap#iscsi://}; user=${user%%%*}
  step "no password is refused" fails qemu-img info -f raw "$bare"
  step "a wrong password is refused" fails qemu-img info -f raw "iscsi://$user%notthepassword@${chap#*@}"
  judge "$chap"
fi
echo "qemu: $passed pass, $failed fail"
[ "$failed" = 0 ]
