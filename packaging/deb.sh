#!/usr/bin/env bash
# Makes the Debian package of a binary. The same binary, version and SOURCE_DATE_EPOCH give the same bytes.
#   packaging/deb.sh BINARY DIRECTORY [VERSION]
# MASU_DEB_COMPRESSION: arguments of dpkg-deb; by default xz by one thread.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
binary=$1 to=$2
upstream=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
version=${3:-$upstream-1}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C TZ=UTC
arch=$(dpkg --print-architecture)
read -ra compression <<<"${MASU_DEB_COMPRESSION:--Zxz --threads-max=1}"
mkdir -p "$to"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
umask 022
chmod 755 "$tree"

put() { install -D -m "$1" "$2" "$tree/$3"; }
doc=usr/share/doc/masu
put 755 "$binary" usr/bin/masu
# Names of functions stay: the stacks that a watchdog logs have them.
strip --strip-debug "$tree/usr/bin/masu"
put 644 packaging/systemd/masu.service usr/lib/systemd/system/masu.service
put 644 packaging/sysusers.conf usr/lib/sysusers.d/masu.conf
put 644 packaging/tmpfiles.conf usr/lib/tmpfiles.d/masu.conf
install -d "$tree/etc/masu"
{ cat packaging/array.toml.head; sed -e 's/^/# /' -e 's/ *$//' crates/config/src/reference/example.toml; } >"$tree/etc/masu/array.toml"
chmod 640 "$tree/etc/masu/array.toml"
"$binary" config check "$tree/etc/masu/array.toml" >/dev/null
for shell in bash:usr/share/bash-completion/completions/masu zsh:usr/share/zsh/vendor-completions/_masu fish:usr/share/fish/vendor_completions.d/masu.fish; do
  install -d "$tree/$(dirname "${shell#*:}")"
  "$binary" completions "${shell%%:*}" >"$tree/${shell#*:}"
done
"$binary" man "$tree/usr/share/man/man1" >/dev/null
gzip -9n "$tree"/usr/share/man/man1/*.1
for file in README.md SECURITY.md docs/*.md docs/array.schema.json; do put 644 "$file" "$doc/$(basename "$file")"; done
[ ! -f target/masu.cdx.json ] || put 644 target/masu.cdx.json $doc/masu.cdx.json
put 644 packaging/debian/copyright $doc/copyright
gzip -9nc CHANGELOG.md >"$tree/$doc/changelog.gz"
printf 'masu (%s) unstable; urgency=medium\n\n  * masu %s: see changelog.gz.\n\n -- masu <masu@localhost>  %s\n' \
  "$version" "$upstream" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$tree/$doc/changelog.Debian.gz"

libc=$(objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
install -d "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: masu
Version: $version
Architecture: $arch
Maintainer: masu <masu@localhost>
Section: admin
Priority: optional
Depends: libc6 (>= ${libc#GLIBC_}), libgcc-s1, passwd
Suggests: librbd1, open-iscsi, qemu-utils
Installed-Size: $(du -sk --apparent-size "$tree" | cut -f1)
Description: storage array for virtual machines, and a laboratory for storage
 RAID groups with spares, thin pools with snapshots and clones, a write-back
 cache with a journal, QoS per volume, and an iSCSI target with VAAI and ODX.
 The laboratory verifies storage: masu, or any other iSCSI target.
CONTROL
echo /etc/masu/array.toml >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "packaging/debian/$script" "$tree/DEBIAN/$script"; done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group "${compression[@]}" --build "$tree" "$to/masu_${version}_$arch.deb" >/dev/null
echo "$to/masu_${version}_$arch.deb"
