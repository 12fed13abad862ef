#!/usr/bin/env bash
# The static binary: that it is one, that it serves a LU to QEMU, and what it says of RBD images, whose libraries it cannot load.
#   judges/static.sh [BINARY]
set -euo pipefail
cd "$(dirname "$0")/.."
masu=$(realpath "${1:-target/$(uname -m)-unknown-linux-musl/release/masu}")
[ -x "$masu" ] || { echo "static: $masu is missing; run make static" >&2; exit 2; }
# shellcheck source=judges/ports.sh
. judges/ports.sh
readonly WORK=target/judges/static
rm -rf "$WORK"; mkdir -p "$WORK"
pid=""
# shellcheck disable=SC2317 # reached through the trap
stop() { [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; } || true; rm -rf "$WORK/data"; }
trap stop EXIT
# shellcheck source=judges/steps.sh
. judges/steps.sh
port=$(free_port)
own() { "$masu" "$@" --data "$WORK/data"; }
# A program that is loaded by another names it (ELF, PT_INTERP); a static one names none.
is_static() { ! readelf -lW "$masu" | grep -q INTERP && ! readelf -dW "$masu" 2>/dev/null | grep -q NEEDED; }
served() {
  "$masu" serve --data "$WORK/data" --listen "127.0.0.1:$port" >"$WORK/log" 2>&1 & pid=$!
  own wait --timeout 30s && own volume create v0 --size 64MiB && own host create any '*' && own host map any v0
}
read_back() {
  local io=(qemu-io -f raw "iscsi://127.0.0.1:$port/iqn.2026-11.net.masu:array/0")
  "${io[@]}" -c 'write -P 0x5a 1M 4M' -c flush && "${io[@]}" -c 'read -P 0x5a 1M 4M' | tee /dev/stderr | grep -q '^read 4194304/4194304' &&
    ! "${io[@]}" -c 'read -P 0x5a 1M 4M' | grep -q failed
}
refuses_rbd() {
  printf '[[portal]]\nlisten = "127.0.0.1:%s"\n[[drive]]\nname = "d0"\nrbd = "p/x"\n[[group]]\nname = "g0"\nlevel = "raid0"\ndrives = ["d0"]\n' "$(free_port)" >"$WORK/rbd.toml"
  ! "$masu" serve --data "$WORK/rbd" --config "$WORK/rbd.toml" >"$WORK/said" 2>&1 && grep 'static binary' "$WORK/said"
}
step "it has no shared libraries" is_static
step "it serves" served
step "QEMU reads what it wrote" read_back
step "an RBD image is refused with the reason" refuses_rbd
echo "static: $passed passed, $failed failed, $(stat -c %s "$masu") bytes"
[ "$failed" = 0 ]
