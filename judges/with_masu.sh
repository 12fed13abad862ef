#!/usr/bin/env bash
# Runs a command against an array of its own: starts the release binary on free ports with a fresh data directory,
# and stops and removes it afterwards, also on Ctrl-C. This is the only judge that knows how masu is started.
#
#   judges/with_masu.sh [--chap] [--memory] [--cache SIZE] [--pin CORE] [--size SIZE] COMMAND...
#
#   --chap      every host must authenticate, and the array proves itself in turn
#   --memory    the drive is memory (default: a file under target/judges)
#   --cache     so much memory as a cache (default: none)
#   --pin CORE  the whole array runs on one processor
#   --size      of the volume (default 512MiB)
#   --with FILE  these drives, groups, pools, volumes, hosts and cache, as TOML, in place of all that is said above
#   --empty     no volumes and no hosts: two controllers, each with a portal and a pool (`system`, `data`)
#
# The command finds in its environment
#   MASU_URL, MASU_URL_2     the volume at the first and at the second portal (with user and password under --chap)
#   MASU_URL_512, MASU_URL_RO  a volume with 512-byte physical blocks, and one that hosts may only read
#   MASU_PORT, MASU_PORT_2, MASU_TARGET   the portals on 127.0.0.1, and the target's name
#   MASU_DATA                the data directory, where `masu` finds the running array
#   MASU_LOGIN                under --chap: USER PASSWORD USER_IN PASSWORD_IN
# MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly START_TIMEOUT_S=20 STOP_TIMEOUT_S=10
readonly TARGET=iqn.2026-11.example.masu:judged
readonly USER_NAME=judge PASSWORD=secret-of-the-judge USER_IN=masu PASSWORD_IN=secret-of-the-array

chap=""; drive="file"; cache=""; pin=(); size=512MiB; empty=""; with=""
while [ $# -gt 0 ]; do
  case $1 in
    --chap) chap=yes; shift ;;
    --memory) drive="memory"; shift ;;
    --cache) cache=${2:?}; shift 2 ;;
    --pin) pin=(taskset -c "${2:?}"); shift 2 ;;
    --size) size=${2:?}; shift 2 ;;
    --with) with=${2:?}; shift 2 ;;
    --empty) empty=yes; shift ;;
    -*) sed -n '2,21s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { sed -n '2,21s/^# \{0,1\}//p' "$0"; exit 2; }
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "with_masu: $masu is missing; run make build" >&2; exit 2; }

# shellcheck source=judges/ports.sh
. judges/ports.sh

mkdir -p target/judges
dir=$(mktemp -d target/judges/array.XXXXXX)
pid=""
stop() {
  local waited=0
  trap - EXIT INT TERM
  if [ -n "$pid" ] && kill -TERM "$pid" 2>/dev/null; then
    while kill -0 "$pid" 2>/dev/null && [ "$waited" -lt $((STOP_TIMEOUT_S * 10)) ]; do sleep 0.1; waited=$((waited + 1)); done
    kill -KILL "$pid" 2>/dev/null && echo "with_masu: the array did not stop within $STOP_TIMEOUT_S s and was killed" >&2
  fi
  mv "$dir/log" target/judges/array.log 2>/dev/null || true
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

port=$(free_port); port_2=$(free_port)

declare_empty() {
  echo 'controllers = 2'
  local controller=0 pool
  for pool in system data; do
    printf '[[portal]]\nlisten = "127.0.0.1:%s"\ncontroller = %s\n' "$([ "$controller" = 0 ] && echo "$port" || echo "$port_2")" "$controller"
    printf '[[drive]]\nname = "d%s"\nfile = "d%s.img"\nsize = "4GiB"\n' "$controller" "$controller"
    printf '[[group]]\nname = "g%s"\nlevel = "raid0"\ndrives = ["d%s"]\n' "$controller" "$controller"
    printf '[[pool]]\nname = "%s"\ngroups = ["g%s"]\ncontroller = %s\n' "$pool" "$controller" "$controller"
    controller=$((controller + 1))
  done
}
declare_portals() { printf '[[portal]]\nlisten = "127.0.0.1:%s"\n' "$port" "$port_2"; }
declare_volumes() {
  [ -z "$cache" ] || printf '[cache]\nmemory = "%s"\n' "$cache"
  echo '[[drive]]'
  echo 'name = "d0"'
  case $drive in memory) echo 'memory = true' ;; file) echo 'file = "d0.img"' ;; esac
  echo 'size = "4GiB"'
  printf '[[group]]\nname = "g0"\nlevel = "raid0"\ndrives = ["d0"]\n'
  printf '[[pool]]\nname = "p0"\ngroups = ["g0"]\n'
  printf '[[volume]]\nname = "v0"\npool = "p0"\nsize = "%s"\n' "$size"
  printf '[[volume]]\nname = "physical512"\npool = "p0"\nsize = "64MiB"\nphysical_block = 512\n'
  printf '[[volume]]\nname = "read_only"\npool = "p0"\nsize = "64MiB"\nread_only = true\n'
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0", 1 = "physical512", 2 = "read_only" }\n'
  if [ -n "$chap" ]; then
    echo "chap = { name = \"$USER_NAME\", secret = \"$PASSWORD\" }"
    echo "mutual_chap = { name = \"$USER_IN\", secret = \"$PASSWORD_IN\" }"
  fi
}
{
  echo "target = \"$TARGET\""
  if [ -n "$empty" ]; then
    declare_empty
  else
    declare_portals
    if [ -n "$with" ]; then cat "$with"; else declare_volumes; fi
  fi
} >"$dir/array.toml"

"${pin[@]+"${pin[@]}"}" "$masu" serve --data "$dir/data" --config "$dir/array.toml" >"$dir/log" 2>&1 &
pid=$!
waited=0
until listens "$port" && listens "$port_2"; do
  if ! kill -0 "$pid" 2>/dev/null; then echo "with_masu: the array did not start: $(tail -n 1 "$dir/log")" >&2; exit 2; fi
  [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || { echo "with_masu: the array does not listen after $START_TIMEOUT_S s: $(tail -n 1 "$dir/log")" >&2; exit 2; }
  sleep 0.1; waited=$((waited + 1))
done

prefix="${chap:+$USER_NAME%$PASSWORD@}"
export MASU_PORT=$port MASU_PORT_2=$port_2 MASU_TARGET=$TARGET MASU_DATA=$dir/data
export MASU_URL="iscsi://${prefix}127.0.0.1:$port/$TARGET/0" MASU_URL_2="iscsi://${prefix}127.0.0.1:$port_2/$TARGET/0"
export MASU_URL_512="${MASU_URL%0}1" MASU_URL_RO="${MASU_URL%0}2"
export MASU_LOGIN="${chap:+$USER_NAME $PASSWORD $USER_IN $PASSWORD_IN}"
rc=0
"$@" || rc=$?
if ! kill -0 "$pid" 2>/dev/null; then
  echo "with_masu: the array died meanwhile: $(tail -n 1 "$dir/log")" >&2
  pid=""; exit 1
fi
exit "$rc"
