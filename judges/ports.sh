#!/usr/bin/env bash
# Ports of this machine, for judges that start servers: . judges/ports.sh

# Whether somebody listens there.
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
# One at which nobody does.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 10000))
    listens "$port" || { echo "$port"; return; }
  done
}
