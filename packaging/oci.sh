#!/usr/bin/env bash
# Makes an OCI image layout without a daemon: one layer with the binary, the libraries that it names, and a user. Its files have the time
# SOURCE_DATE_EPOCH.
#   packaging/oci.sh BINARY VERSION DIRECTORY
set -euo pipefail
binary=$1 version=$2 layout=$3
: "${SOURCE_DATE_EPOCH:?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
install -D -m 755 "$binary" "$root/usr/bin/masu"
# Paths of libraries, and of the loader, which has no arrow.
ldd "$binary" | sed -n 's#.* => \(/[^ ]*\) .*#\1#p; s#^\s*\(/[^ ]*\) .*#\1#p' | while read -r library; do
  install -D -m 755 "$(realpath "$library")" "$root$library"
done
mkdir -p "$root/etc"
install -d -m 700 "$root/var/lib/masu"
echo 'masu:x:10001:10001:masu storage array:/var/lib/masu:/sbin/nologin' >"$root/etc/passwd"
echo 'masu:x:10001:' >"$root/etc/group"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$layout/blobs/sha256"
put() { # a blob from the standard input; prints its digest and size
  local sum
  cat >"$work/blob"
  sum=$(sha256sum "$work/blob" | cut -d' ' -f1)
  mv "$work/blob" "$layout/blobs/sha256/$sum"
  echo "$sum $(stat -c %s "$layout/blobs/sha256/$sum")"
}
# The data directory belongs to the user, everything else to root.
tar -C "$root" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar --exclude=./var/lib/masu -cf "$work/layer.tar" .
tar -C "$root" --owner=10001 --group=10001 --numeric-owner --format=ustar -rf "$work/layer.tar" ./var/lib/masu
diff_id=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
read -r layer layer_size < <(gzip -9nc "$work/layer.tar" | put)
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
read -r config config_size < <(put <<JSON
{"architecture":"$arch","os":"linux","created":"$created","config":{"User":"10001:10001","Entrypoint":["/usr/bin/masu"],"Cmd":["serve","--data","/var/lib/masu","--listen","0.0.0.0:3260"],"Env":["PATH=/usr/bin","MASU_DATA=/var/lib/masu"],"Volumes":{"/var/lib/masu":{}},"ExposedPorts":{"3260/tcp":{}},"StopSignal":"SIGTERM","Labels":{"org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]},"history":[{"created":"$created","created_by":"packaging/oci.sh"}]}
JSON
)
read -r manifest manifest_size < <(put <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$config_size},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$layer_size}]}
JSON
)
printf '{"imageLayoutVersion":"1.0.0"}\n' >"$layout/oci-layout"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"org.opencontainers.image.ref.name":"%s"}}]}\n' \
  "$manifest" "$manifest_size" "$version" >"$layout/index.json"
