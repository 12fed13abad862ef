#!/usr/bin/env bash
# The traces of commands, held against OpenTelemetry's own protobuf classes: none without the table, those of reads and
# writes by qemu-io after SIGHUP, a header from a file, a request that comes again after 503, the last ones at an
# ordered stop; and a collector that is away is said once, while hosts are served.
#   judges/traces.sh    (no array of its own around it: it starts one, and a collector)
# One line per step; exit status 0 when every step passed.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly WORK=target/judges/traces VENV=target/judges/opentelemetry
readonly TARGET=iqn.2026-11.example.masu:judged
for tool in python3 curl qemu-io; do
  command -v "$tool" >/dev/null || { echo "traces: skipped: $tool is missing"; exit 0; }
done
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "traces: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/ports.sh
. judges/ports.sh
rm -rf "$WORK"; mkdir -p "$WORK/data"
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
"$VENV/bin/python" -c 'import opentelemetry.proto' 2>/dev/null || "$VENV/bin/pip" install -q 'opentelemetry-proto==1.45.2' >"$WORK/pip" 2>&1 ||
  { echo "traces: skipped: pip cannot install opentelemetry-proto: $(tail -n 1 "$WORK/pip")"; exit 0; }
array=""; collector=""
# end PID: asks a process to end, and waits for it.
end() { if kill -TERM "$1" 2>/dev/null; then wait "$1" 2>/dev/null || true; fi; }
# shellcheck disable=SC2317 # reached through the trap
stop() {
  local one
  for one in "$array" "$collector"; do [ -z "$one" ] || end "$one"; done
  rm -rf "$WORK/data"
}
trap stop EXIT
# until_true SECONDS COMMAND...: waits until the command succeeds.
until_true() {
  local left=$(($1 * 10)); shift
  until "$@"; do
    [ "$left" -gt 0 ] || return 1
    sleep 0.1; left=$((left - 1))
  done
}
iscsi=$(free_port)
declare_array() {
  echo "target = \"$TARGET\""
  printf '[[portal]]\nlisten = "127.0.0.1:%s"\n' "$iscsi"
  for i in 0 1 2; do printf '[[drive]]\nname = "d%s"\nfile = "d%s.img"\nsize = "256MiB"\n' "$i" "$i"; done
  printf '[[group]]\nname = "g0"\nlevel = "raid5"\ndrives = ["d0", "d1", "d2"]\n'
  printf '[[pool]]\nname = "p0"\ngroups = ["g0"]\n'
  printf '[[volume]]\nname = "v0"\npool = "p0"\nsize = "64MiB"\n'
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0" }\n'
}
serve() {
  "$masu" serve --data "$WORK/data" --config "$WORK/array.toml" >>"$WORK/log" 2>&1 &
  array=$!
  until_true 20 listens "$iscsi"
}
# io COMMAND...: each by qemu-io.
io() {
  local commands=() one
  for one; do commands+=(-c "$one"); done
  qemu-io -f raw "${commands[@]}" "iscsi://127.0.0.1:$iscsi/$TARGET/0" >/dev/null
}
collect() { "$VENV/bin/python" judges/traces.py serve "$WORK" >"$WORK/collector.log" 2>&1 & collector=$!; until_true 20 test -f "$WORK/port"; }
arrived() { [ "$("$VENV/bin/python" judges/traces.py count "$WORK" "$1")" -gt "${2:-0}" ]; }
metric() { curl -sS --fail --unix-socket "$WORK/data/api.sock" http://masu/metrics | awk -v name="$1" '$1 == name { print $2 }'; }
none() { [ -z "$(ls "$WORK/received")" ] && [ "$(metric masu_traces_sent_total)" = 0 ]; }
applied() { "$masu" config show --data "$WORK/data" | grep -q '^\[traces\]'; }
sent() { [ "$(metric masu_traces_sent_total)" -gt 0 ] && [ "$(metric 'masu_traces_dropped_total{reason="queue"}')" = 0 ]; }
away() { [ "$(metric 'masu_traces_dropped_total{reason="collector"}')" -gt 0 ]; }
said_once() { [ "$(grep -c 'takes no traces' "$WORK/log")" = 1 ]; }
# shellcheck source=judges/steps.sh
. judges/steps.sh

collect || { echo "traces: the collector does not start: $(tail -n 1 "$WORK/collector.log")" >&2; exit 2; }
declare_array >"$WORK/array.toml"
serve || { echo "traces: the array did not start: $(tail -n 1 "$WORK/log")" >&2; exit 2; }
step "qemu-io writes and reads" io "write -P 7 1M 64k" "read -P 7 1M 64k"
sleep 1.5
step "without the table nothing is sent" none
echo "Authorization: Bearer of-the-judge" >"$WORK/data/headers"
printf '[traces]\nendpoint = "http://127.0.0.1:%s"\nshare = 1.0\nheaders_file = "headers"\n' "$(cat "$WORK/port")" >>"$WORK/array.toml"
kill -HUP "$array"
step "SIGHUP puts the table in force" until_true 10 applied
step "qemu-io writes and reads again" io "write -P 8 1M 64k" "read -P 8 1M 64k"
step "traces of the read arrive, after a 503" until_true 15 arrived READ
step "traces of the write arrive" until_true 5 arrived WRITE
step "parents, times and attributes" "$VENV/bin/python" judges/traces.py check "$WORK"
step "the metrics count them" sent
before=$("$VENV/bin/python" judges/traces.py count "$WORK" READ)
io "read 1M 64k"; end "$array"; array=""
step "an ordered stop sends what is queued" arrived READ "$before"
end "$collector"; collector=""
serve || { echo "traces: the array did not start again: $(tail -n 1 "$WORK/log")" >&2; exit 2; }
step "without the collector qemu-io is served" io "write -P 9 1M 64k" "read -P 9 1M 64k"
step "what is not taken is counted" until_true 15 away
io "read 1M 64k"; sleep 1.5
step "that the collector is away is said once" said_once
began=$SECONDS; end "$array"; array=""
step "a stop does not wait for it" test $((SECONDS - began)) -lt 10
echo "traces: $passed passed, $failed failed"
[ "$failed" = 0 ]
