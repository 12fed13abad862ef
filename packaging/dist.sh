#!/usr/bin/env bash
# Makes what is published of a binary, in target/dist: the Debian package, an archive, an OCI image, the bill of materials, and SHA256SUMS.
# The same binary and SOURCE_DATE_EPOCH give the same bytes.
#   packaging/dist.sh [BINARY] [DIRECTORY] [STATIC_BINARY]
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-target/release/masu} to=${2:-target/dist} static=${3:-target/$(uname -m)-unknown-linux-musl/release/masu}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C TZ=UTC
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
arch=$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
rm -rf "$to"
mkdir -p "$to"

pack() { # DIRECTORY ENTRY...: a tar without owners, in order, on the standard output
  local from=$1; shift
  find "$from" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  tar -C "$from" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$@"
}

target/checked/xtask sbom target/masu.cdx.json >/dev/null
cp target/masu.cdx.json "$to/masu-$version.cdx.json"
deb=$(packaging/deb.sh "$binary" "$to")

# The archive has what the package has, as it lies in the system; the scripts of the package are not there.
name=masu-$version-linux-$arch
mkdir "$work/archive"
dpkg-deb -x "$deb" "$work/archive/$name"
pack "$work/archive" "$name" | gzip -9n >"$to/$name.tar.gz"

# The same with the static binary, where it was built (make static).
if [ -x "$static" ]; then
  mkdir "$work/static"
  cp -a "$work/archive/$name" "$work/static/$name-static"
  strip --strip-debug -o "$work/static/$name-static/usr/bin/masu" "$static"
  pack "$work/static" "$name-static" | gzip -9n >"$to/$name-static.tar.gz"
fi

packaging/oci.sh "$work/archive/$name/usr/bin/masu" "$version" "$work/oci"
pack "$work/oci" . >"$to/masu-$version-oci-$arch.tar"

(cd "$to" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
ls -l "$to"
