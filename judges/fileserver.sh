#!/usr/bin/env bash
# The file-server load against other people's file server: Samba, started for the purpose without root's configuration, with two client machines
# (processes with clocks and sessions of their own) that begin at one moment.
#   judges/fileserver.sh
# A set is created on the share, every target file is copied once, read ones are compared with what was created, and afterwards
# every file of the set is checked on the server's own file system.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly START_TIMEOUT_S=20 USER_PASSWORD=secret-of-the-judge
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "fileserver: $masu is missing; run make build" >&2; exit 2; }
PATH=$PATH:/usr/sbin:/sbin
if ! command -v smbd >/dev/null || ! command -v smbpasswd >/dev/null; then
  echo "fileserver: Samba is missing; run make setup" >&2; exit 2
fi

# shellcheck source=judges/ports.sh
. judges/ports.sh

mkdir -p target/judges
dir=$(mktemp -d target/judges/samba.XXXXXX)
dir=$(cd "$dir" && pwd)
pids=()
stop() {
  trap - EXIT INT TERM
  for pid in "${pids[@]+"${pids[@]}"}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]+"${pids[@]}"}"; do wait "$pid" 2>/dev/null || true; done
  mv "$dir/smbd.log" target/judges/smbd.log 2>/dev/null || true
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

wait_for() {
  local waited=0
  until listens "$1"; do
    [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || { echo "fileserver: $2 does not listen after $START_TIMEOUT_S s" >&2; exit 2; }
    sleep 0.1; waited=$((waited + 1))
  done
}

port=$(free_port)
user=$(id -un)
mkdir -p "$dir"/{share,private,state,cache,lock,run,ncalrpc}
cat >"$dir/smb.conf" <<CONF
[global]
  server role = standalone server
  smb ports = $port
  bind interfaces only = yes
  interfaces = 127.0.0.1/8
  disable netbios = yes
  load printers = no
  printcap name = /dev/null
  server min protocol = SMB2
  private dir = $dir/private
  state directory = $dir/state
  cache directory = $dir/cache
  lock directory = $dir/lock
  pid directory = $dir/run
  ncalrpc dir = $dir/ncalrpc
  passdb backend = tdbsam:$dir/private/passdb.tdb
  log file = $dir/smbd.log
  max log size = 1000
[data]
  path = $dir/share
  read only = no
CONF
printf '%s\n%s\n' "$USER_PASSWORD" "$USER_PASSWORD" | smbpasswd -c "$dir/smb.conf" -s -a "$user" >/dev/null
# It ends its whole process group: one of its own.
setsid smbd --foreground --no-process-group --configfile="$dir/smb.conf" --debug-stdout >"$dir/smbd.out" 2>&1 &
pids+=($!)
wait_for "$port" Samba

"$masu" load files create "$dir/share" --trees 16 --files 60 --targets 15 --levels 12 --folders 20 --target-bytes 60000000 --seed 7
agents=""
(umask 077; head -c 24 /dev/urandom | base64 >"$dir/secret"; echo "another secret than that" >"$dir/other_secret")
for client in 1 2; do
  agent_port=$(free_port)
  MASU_SMB_PASSWORD=$USER_PASSWORD "$masu" agent "smb://$user@127.0.0.1:$port/data" --local "$dir/client$client" --listen "127.0.0.1:$agent_port" --secret-file "$dir/secret" 2>"$dir/agent$client.log" &
  pids+=($!)
  wait_for "$agent_port" "agent $client"
  agents+="${agents:+,}127.0.0.1:$agent_port"
done

if "$masu" load fileserver --agents "$agents" --secret-file "$dir/other_secret" --workers 8 2>/dev/null; then
  echo "fileserver: agents follow a lead that does not have their secret" >&2; exit 1
fi
"$masu" load fileserver --agents "$agents" --secret-file "$dir/secret" --workers 8 --verify --json >"$dir/outcome.json"
"$masu" load files check "$dir/share" --json >"$dir/check.json"
python3 - "$dir/outcome.json" "$dir/check.json" <<'PYTHON'
import json, sys

load, check = (json.load(open(path)) for path in sys.argv[1:])
files = load["reads"]["files"] + load["writes"]["files"]
size = load["reads"]["bytes"] + load["writes"]["bytes"]
print(f"fileserver: {load['mb_per_s']:.1f} MB/s from Samba, {files} files of {size} bytes, "
      f"starts within {load['start_spread_ms']:.1f} ms (clocks known to {load['clock_error_ms']:.2f} ms)")
wrong = []
if (files, size, load["clients"]) != (16 * 15, 60000000, 2):
    wrong.append("not every target was copied exactly once")
if load["mismatches"]:
    wrong.append(f"{load['mismatches']} files were not read as they were created")
if check["written"] != load["writes"]["files"] or check["damaged"] + check["missing"] + check["unfinished"]:
    wrong.append(f"the server has other files than were written: {check}")
if load["start_spread_ms"] > 1000:
    wrong.append("the clients did not begin together")
sys.exit("fileserver: " + "; ".join(wrong) if wrong else 0)
PYTHON
