#!/usr/bin/env bash
# Ports of this machine, for judges that start servers: . judges/ports.sh

# Whether somebody listens there.
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
# One at which nobody does, and that no other call returns for two hours: judges run two at a time, and a server may be long in starting.
# Tests in Rust take theirs from below 20000 (crates/test_ports).
free_port() {
  local port claims=${TMPDIR:-/tmp}/masu-ports.$UID
  mkdir -p "$claims"
  find "$claims" -ignore_readdir_race -type f -mmin +120 -delete
  while :; do
    port=$((20000 + RANDOM % 10000))
    (set -o noclobber; : >"$claims/$port") 2>/dev/null || continue
    listens "$port" || { echo "$port"; return; }
  done
}
