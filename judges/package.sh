#!/usr/bin/env bash
# The Debian package, judged in a clean root of Debian: it is reproducible, is installed with an older version, starts by the unit's command as
# the unit's user, serves a LU to QEMU, is upgraded with its data and its changed declaration, is removed, and purged: the data stay.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "package: skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "needs root (chroot, another user)"
for tool in dpkg-deb mmdebstrap qemu-io strip objdump unshare zsh fish; do command -v "$tool" >/dev/null || skip "$tool is not installed (make setup installs it on Debian)"; done
masu=$(realpath "${MASU:-target/checked/masu}")
[ -x "$masu" ] || { echo "package: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/clean_root.sh
. judges/clean_root.sh
clean_root_tar || skip "mmdebstrap could not make a root"
# A mount namespace of its own: whatever happens, no mount stays.
[ -n "${MASU_PACKAGE_MOUNTS:-}" ] || exec env MASU_PACKAGE_MOUNTS=own unshare --mount --propagation private "$0" "$@"
# shellcheck source=judges/ports.sh
. judges/ports.sh
readonly OLD=0.0.1-1 TARGET=iqn.2026-11.example.masu:packaged

dir=$(realpath "$(mktemp -d target/judges/package.XXXXXX)")
root=$dir/root
pid=""
# shellcheck disable=SC2317 # reached through the trap
stop() {
  local rc=$?
  trap - EXIT INT TERM
  [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
  [ "$rc" = 0 ] || tail -n 8 "$dir/log" >&2 2>/dev/null || true
  leave_root "$root"
  rm -rf "$dir"
  exit "$rc"
}
trap stop EXIT
trap 'exit 130' INT TERM
fail() { echo "package: $*" >&2; exit 1; }

# Two builds of one binary are equal byte for byte; an older version to upgrade from. Packed fast: this is not for publication.
export MASU_DEB_COMPRESSION="-Zgzip -z1"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1)
export SOURCE_DATE_EPOCH
new=$(packaging/deb.sh "$masu" "$dir/new")
again=$(cd / && "$OLDPWD/packaging/deb.sh" "$masu" "$dir/again")
cmp "$new" "$again" || fail "two builds of one binary differ"
old=$(packaging/deb.sh "$masu" "$dir/old" "$OLD")
rm -r "$dir/again"

clean_root "$root"
cp "$new" "$old" "$root/tmp/"
install_package() { within dpkg --force-unsafe-io -i "/tmp/$(basename "$1")" >"$dir/log" 2>&1 || fail "dpkg -i $(basename "$1") failed"; }

version() { within dpkg -s masu | sed -n 's/^Version: //p'; }

start() {
  by_unit >>"$dir/log" 2>&1 &
  pid=$!
  within masu wait --timeout 20s >/dev/null || fail "the array does not serve"
}
halt() { within masu stop --timeout 20s >/dev/null; wait "$pid" || fail "the array ended with status $?"; pid=""; }
io() { # qemu-io exits with 0 after a failed comparison.
  local said; said=$(qemu-io -f raw -t none "$@" "iscsi://127.0.0.1:$port/$TARGET/0" 2>&1) || fail "$said"
  ! grep -qi 'fail\|error' <<<"$said" || fail "$said"
}

install_package "$old"
[ "$(version)" = "$OLD" ] || fail "another version than $OLD is installed"
within masu config check /etc/masu/array.toml | grep -q valid || fail "the installed declaration is not valid"
[ "$(within stat -c '%U %a' /var/lib/masu)" = "masu 700" ] || fail "/var/lib/masu is not for masu only"
[ "$(within stat -c '%U:%G %a' /etc/masu/array.toml)" = "root:masu 640" ] || fail "array.toml may hold secrets, and is for root and masu only"
start # as installed, with nothing declared
within masu group create g0 --level 0 --drive d0.img --drive-size 1GiB >/dev/null
within masu pool create p0 --group g0 >/dev/null
halt
within man masu-volume-create | grep -q -- --size || fail "man masu-volume-create"
within bash -c '. /usr/share/bash-completion/completions/masu && complete -p masu' >/dev/null || fail "completions for bash"
# The root has no other shells: those of this machine read the installed files.
zsh -f -c 'fpath=("$1" $fpath); autoload -Uz compinit && compinit -u -D && [[ $_comps[masu] = _masu ]] && zsh -n "$1/_masu" && autoload +X _masu' \
  zsh "$root/usr/share/zsh/vendor-completions" || fail "completions for zsh"
# shellcheck disable=SC2016 # fish expands it
said=$(fish --no-config -c 'source $argv[1]; complete -C "masu vol"' "$root/usr/share/fish/vendor_completions.d/masu.fish") || fail "completions for fish"
grep -q '^volume' <<<"$said" || fail "completions for fish: masu vol is not completed"

port=$(free_port)
printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n[[host]]\nname = "any"\ninitiator = "*"\n' "$TARGET" "$port" >"$dir/declared"
within sh -c 'cat > /etc/masu/array.toml' <"$dir/declared"
start
within masu volume create v0 --size 64MiB >/dev/null
within masu host map any v0 >/dev/null
io -c "write -P 0x5a 1M 1M" -c "flush" -c "read -P 0x5a 1M 1M"
halt

install_package "$new"
cmp -s "$dir/declared" "$root/etc/masu/array.toml" || fail "the upgrade changed the declaration"
[ "$(version)" != "$OLD" ] || fail "not upgraded"
[ "$(within stat -c '%U:%G %a' /etc/masu/array.toml)" = "root:masu 640" ] || fail "the upgrade changed who may read array.toml"
start
io -c "read -P 0x5a 1M 1M"
halt

within dpkg -r masu >"$dir/log" 2>&1 || fail "dpkg -r failed"
[ ! -e "$root/usr/bin/masu" ] || fail "the removed package left its program"
cmp -s "$dir/declared" "$root/etc/masu/array.toml" || fail "the removal took the declaration"
within test -s /var/lib/masu/d0.img || fail "the removal took data"
within dpkg -P masu >"$dir/purged" 2>&1 || fail "dpkg -P failed"
within test -s /var/lib/masu/d0.img || fail "the purge took data"
[ ! -e "$root/etc/masu" ] || fail "the purge left /etc/masu"
grep -q 'stay in /var/lib/masu' "$dir/purged" || fail "the purge does not say what it leaves"
echo "package: $(basename "$new"): reproducible, installed, served as user masu, upgraded from $OLD, removed, purged; data and declaration stayed"
