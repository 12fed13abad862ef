#!/usr/bin/env bash
# A block device that two machines share: each is a guest of its own, with the kernel's initiator and one node of an array. The device is
# a LU of a third masu, the registry an etcd, both on this machine. A host writes to whichever node serves.
#
#   judges/shared_device.sh
#
# 1. the machine of the owner is killed: the other node preempts its registration and takes over
# 2. the machine of the owner is paused, so that even its clock stands still, with a write under way in a session; the other node takes
#    over, and the host overwrites that block; the paused machine goes on, while the registry is silent: its node believes that it is the
#    owner, its write is refused by the device, and it ends without an answer
#
# Judged: who has the reservation, as sg_persist sees it; the owner's kernel sends flushes; the woken node ends because its write was refused; each block is as written last.
# MASU names another binary.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly TARGET=iqn.2026-11.example.masu:shared SAN=iqn.2026-11.example.masu:san OUT=$PWD/target/judges/shared_device STEP_TIMEOUT_S=180 BLOCKS=64
masu=${MASU:-target/release/masu}
fail() { echo "shared_device: FAIL $*; see $OUT" >&2; exit 1; }
[ $# = 0 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ -x "$masu" ] || { echo "shared_device: $masu is missing; run make build" >&2; exit 2; }
for needed in qemu-system-x86_64 qemu-io etcd sg_persist strip iscsistart; do
  command -v "$needed" >/dev/null || { echo "shared_device: skipped: $needed is not installed; run judges/setup.sh"; exit 0; }
done
# shellcheck source=judges/ports.sh
. judges/ports.sh
# shellcheck source=judges/guest/parts.sh
. judges/guest/parts.sh
judges/guest/build.sh
rm -rf "$OUT"; mkdir -p "$OUT/root" "$OUT/bin"
guest_tree "$OUT/root"
strip -o "$OUT/bin/masu" "$masu"
PATH=$OUT/bin:$PATH guest_tools "$OUT/root" masu sg_persist
guest_initramfs "$OUT/root" "$OUT/tools"
# The kernel unpacks one archive after the other.
cat target/judges/guest/initramfs "$OUT/tools" >"$OUT/initramfs"
rm -rf "${OUT:?}"/{root,bin,tools}

san="" etcd="" session=""
declare -A machine port
stop() {
  trap - EXIT INT TERM
  local pid
  for pid in $san $etcd $session "${machine[@]}"; do { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true; done
  rm -rf "$OUT"/{san,etcd,initramfs}
}
trap stop EXIT
trap 'exit 130' INT TERM

until_holds() {
  local what=$1 waited=0; shift
  until "$@"; do
    [ "$waited" -lt $((STEP_TIMEOUT_S * 5)) ] || fail "$what: not after $STEP_TIMEOUT_S s"
    sleep 0.2; waited=$((waited + 1))
  done
}
says() {
  ! grep -aqE 'guest: FAIL' "$OUT/$1.console" || fail "$1: $(grep -aE -m 1 'guest: FAIL' "$OUT/$1.console" | tr -d '\r')"
  [ "$(grep -acE "$2" "$OUT/$1.console" || true)" -ge "${3:-1}" ]
}

san_port=$(free_port)
printf 'target = "%s"\n[[drive]]\nname = "d0"\nfile = "d0.img"\nsize = "192MiB"\n[[group]]\nname = "g0"\nlevel = "raid0"\ndrives = ["d0"]\n[[pool]]\nname = "p0"\ngroups = ["g0"]\n[[volume]]\nname = "shared"\npool = "p0"\nsize = "128MiB"\n[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "shared" }\n' \
  "$SAN" >"$OUT/san.toml"
"$masu" serve --data "$OUT/san" --config "$OUT/san.toml" --listen "127.0.0.1:$san_port" >"$OUT/san.log" 2>&1 & san=$!
"$masu" wait --data "$OUT/san" >/dev/null
client=$(free_port); peer=$(free_port)
etcd --name m --data-dir "$OUT/etcd" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "m=http://127.0.0.1:$peer" >"$OUT/etcd.log" 2>&1 & etcd=$!

# machine_starts NAME: a guest with the node; the monitor takes orders from a pipe.
machine_starts() {
  local name=$1
  rm -f "$OUT/$name".{orders,monitor.in,monitor.out}
  mkfifo "$OUT/$name.orders" "$OUT/$name.monitor.in" "$OUT/$name.monitor.out"
  : >"$OUT/$name.console"
  qemu-system-x86_64 -accel tcg -cpu max -m 512 -display none -no-reboot -kernel target/judges/guest/vmlinuz -initrd "$OUT/initramfs" \
    -append "console=ttyS0 quiet panic=-1 rdinit=/node judge.name=$name judge.port=$san_port judge.target=$SAN judge.initiator=iqn.2026-11.example.judge:$name judge.registry=etcd://10.0.2.2:$client" \
    -netdev "user,id=n,hostfwd=tcp:127.0.0.1:${port[$name]}-10.0.2.15:3260" -device virtio-net-pci,netdev=n,romfile= \
    -serial stdio -chardev "pipe,id=m,path=$OUT/$name.monitor" -mon chardev=m,mode=readline \
    <>"$OUT/$name.orders" >>"$OUT/$name.console" 2>&1 & machine[$name]=$!
  cat "$OUT/$name.monitor.out" >"$OUT/$name.monitor.log" &
}
order() { echo "$2" >"$OUT/$1.orders"; }
monitor() { echo "$2" >"$OUT/$1.monitor.in"; }

# The host: put BLOCK NUMBER writes a byte to a block, durable when it is acknowledged, through whichever node answers.
declare -A last
url() { echo "iscsi://127.0.0.1:${port[$1]}/$TARGET/0"; }
write_at() { timeout 20 qemu-io -f raw -c "write -f -P $3 $(($2 * 4096)) 4096" "$(url "$1")" 2>&1 | grep -q '^wrote 4096/4096'; }
put() {
  local name tried
  for tried in $(seq 60); do
    for name in n1 n2; do
      if [ -n "${machine[$name]:-}" ] && write_at "$name" "$1" "$2"; then last[$1]=$2; return 0; fi
    done
    sleep 0.5
  done
  fail "no node takes a write after $tried attempts"
}
read_all() {
  local block commands=()
  for block in "${!last[@]}"; do commands+=(-c "read -P ${last[$block]} $((block * 4096)) 4096"); done
  timeout 60 qemu-io -f raw "${commands[@]}" "$(url "$1")" >"$OUT/read.log" 2>&1 || fail "the blocks cannot be read through $1"
  ! grep -q 'Pattern verification failed' "$OUT/read.log" || fail "$(grep -c 'Pattern verification failed' "$OUT/read.log") blocks are not as written last"
  [ "$(grep -c '^read 4096/4096' "$OUT/read.log")" = "${#last[@]}" ] || fail "not all blocks were read"
}
declare -A asked
# held_by NAME: one key is registered, and has the reservation, as sg_persist says on that machine; prints it.
held_by() {
  asked[$1]=$((${asked[$1]:-0} + 1))
  order "$1" keys
  until_holds "$1 lists the keys" says "$1" '^guest: keys end' "${asked[$1]}"
  tr -d '\r' <"$OUT/$1.console" | grep -a -A 8 '^guest: keys 0x' | tail -n 9 >"$OUT/keys"
  local keys; keys=$(grep -aE '^guest: keys 0x' "$OUT/keys" | tail -n 1 | cut -d ' ' -f 3-)
  [ "$(echo "$keys" | wc -w)" = 1 ] || fail "$1 sees these keys, where one should be: $keys"
  grep -aqiE "key *= *${keys% }" "$OUT/keys" || fail "the reservation is not of the registered key ${keys% }"
  grep -aqi 'write exclusive, registrants only' "$OUT/keys" || fail "the reservation is of another type"
  # A machine that found the device while another one had it reserved was refused the mode page that says so: it would send no flush.
  grep -aq 'write cache: write back' "$OUT/keys" || fail "the kernel of $1 sends no flush to the device"
  echo "${keys% }"
}

port[n1]=$(free_port); port[n2]=$(free_port)
machine_starts n1
until_holds "n1 serves" says n1 'array: serves'
machine_starts n2
until_holds "n2 stands by" says n2 'node n2: standby of n1'
for block in $(seq 0 $((BLOCKS / 4 - 1))); do put "$block" $((1 + block)); done
first=$(held_by n1)
echo "shared_device: n1 serves; the reservation has the key $first"

# 1. The machine of the owner is killed.
killed_at=$(date +%s%3N)
kill -KILL "${machine[n1]}"; wait "${machine[n1]}" 2>/dev/null || true
machine[n1]=""
put 0 101
took=$(($(date +%s%3N) - killed_at))
says n2 "fenced the owner with the key $first" || fail "n2 does not say whom it fenced"
second=$(held_by n2)
[ "$second" != "$first" ] || fail "the reservation is still of the key $first"
read_all n2
for block in $(seq 1 $((BLOCKS / 2 - 1))); do put "$block" $((100 + block)); done
echo "shared_device: n1's machine was killed: n2 took over after $took ms, with the key $second; what was written is there"

# 2. The machine of the owner is paused with a session that writes.
machine_starts n1
until_holds "n1 stands by" says n1 'node n1: standby of n2'
mkfifo "$OUT/session.in"
# libiscsi begins a session anew when it is broken; that is another one, which is not what is judged.
timeout 300 stdbuf -oL qemu-io -f raw "$(url n2)" <>"$OUT/session.in" >"$OUT/session.log" 2>&1 & session=$!
echo "write -f -P 77 0 4096" >"$OUT/session.in"; last[0]=77
until_holds "the session writes" grep -q 'wrote 4096/4096' "$OUT/session.log"
monitor n2 stop; sleep 0.5
for block in 0 1 2 3; do echo "aio_write -f -P 250 $((block * 4096)) 4096" >"$OUT/session.in"; done
until_holds "n1 serves" says n1 'array: serves'
for block in $(seq 0 $((BLOCKS - 1))); do put "$block" $((150 + block)); done
third=$(held_by n1)
# The registry would tell n2 that it has lost the array, a moment before or after the device does: it is silent for that moment.
kill -STOP "$etcd"; monitor n2 cont
for _ in $(seq 30); do ! says n2 '^guest: masu ended with' || break; sleep 0.1; done
kill -CONT "$etcd"
until_holds "n2 has ended" says n2 '^guest: masu ended with'
says n2 'guest: masu ended with 75' || fail "n2 ended in another way than a node that has lost the array"
says n2 'another node has taken over .*: the process ends at once' || fail "n2's write was not refused: $(grep -a 'ends at once' "$OUT/n2.console" | tr -d '\r')"
sleep 1
[ "$(grep -c 'wrote 4096/4096' "$OUT/session.log")" = 1 ] || fail "the woken node has acknowledged a write"
kill -KILL "$session" 2>/dev/null || true; wait "$session" 2>/dev/null || true; session=""
[ "$(held_by n1)" = "$third" ] || fail "the reservation has changed"
read_all n1
echo "shared_device: n2's machine was paused and went on: its write was refused, it ended without an answer; all $BLOCKS blocks are as written last"
order n1 end
until_holds "n1's machine ends" says n1 '^MASU_GUEST_OK'
