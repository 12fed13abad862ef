#!/usr/bin/env bash
# Gets what the judges need and is not here yet: other people's programs (Debian packages, as root only), Debian's
# kernel for the guest (unpacked, not installed). Prints a line for each thing it does, nothing
# when nothing is missing. What it cannot get it names, and goes on: `make verify` needs none of it.
#   judges/setup.sh [--ceph] [--alua]    --ceph: also a Ceph cluster of one node, for drives on RBD images (about 150 MB)
#                                        --alua: also a kernel for guests that knows ALUA (70 MB)
set -euo pipefail
cd "$(dirname "$0")/.."
readonly KERNEL_DIR=target/judges/kernel ALUA_KERNEL_DIR=target/judges/kernel_alua MULTIPATH_DIR=target/judges/multipath
# What each is for: iscsi-test-cu, iscsi-perf | a file server | a clean root of Debian | qemu-img, qemu-io over iscsi:// | vhdiinfo, a second reader of VHD | tgt, the peer | the guest's emulator,
# firmware, tools and initiator | the nodes' registry, and certificates for it | the loader and partitions of a boot image | a load | shells that
# read completions | the report's browser test | promtool |
# these scripts' own check | the C++ of libFuzzer.
readonly PACKAGES="libiscsi-bin samba mmdebstrap qemu-utils qemu-block-extra libvhdi-utils tgt qemu-system-x86 seabios ipxe-qemu busybox-static kmod cpio open-iscsi e2fsprogs udev dmsetup liburcu8 libaio1 util-linux sg3-utils etcd-server etcd-client openssl syslinux mtools fdisk fio zsh fish chromium prometheus shellcheck g++ musl-tools"
readonly CEPH_PACKAGES="iproute2 ceph-mon ceph-mgr ceph-osd ceph-common librbd1"

packages=$PACKAGES alua=""
for what; do
  case $what in
    --ceph) packages="$PACKAGES $CEPH_PACKAGES" ;;
    --alua) alua=yes ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

say() { echo "setup: $*"; }

missing_packages() {
  local package
  for package in $packages; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
  done
}

get_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is no Debian: get these yourself for make test, conformance and bench: $packages"; return
  fi
  mapfile -t missing < <(missing_packages)
  [ "${#missing[@]}" -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    say "missing, and only root can install them: apt-get install ${missing[*]}"; return
  fi
  say "installing ${missing[*]}"
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >target/judges/apt.log 2>&1 ||
    { say "apt-get failed: see target/judges/apt.log"; return; }
  # Debian starts them as services; tests start their own.
  if [[ " ${missing[*]} " == *" prometheus "* ]] && [ -d /run/systemd/system ]; then
    systemctl disable --quiet --now prometheus || say "the service prometheus was started by its package and cannot be stopped"
  fi
  if [[ " ${missing[*]} " == *" etcd-server "* ]] && [ -d /run/systemd/system ]; then
    systemctl disable --quiet --now etcd || say "the service etcd was started by its package and cannot be stopped"
  fi
}

# get_kernel DIR PACKAGE: the kernel that the package stands for.
get_kernel() {
  local package
  [ -z "$(find "$1" -name 'linux-image-*.deb' 2>/dev/null)" ] || return 0
  command -v apt-get >/dev/null || { say "no apt-get: no kernel for the guest"; return; }
  package=$(apt-cache depends "$2" 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n 1)
  [ -n "$package" ] || { say "apt knows no $2: no kernel for the guest (apt-get update?)"; return; }
  say "downloading $package"
  mkdir -p "$1"
  (cd "$1" && apt-get download -q -o APT::Sandbox::User=root "$package" >/dev/null) || say "apt-get download failed: no kernel for the guest"
}

# Unpacked, not installed: its daemon would look for paths on this machine. Its libraries are among the packages.
get_multipath() {
  local package
  [ ! -x "$MULTIPATH_DIR/sbin/multipathd" ] || return 0
  command -v apt-get >/dev/null || { say "no apt-get: no multipath-tools for the guest"; return; }
  say "downloading multipath-tools"
  mkdir -p "$MULTIPATH_DIR"
  (cd "$MULTIPATH_DIR" && apt-get download -q -o APT::Sandbox::User=root multipath-tools >/dev/null) ||
    { say "apt-get download failed: no multipath-tools for the guest"; return; }
  package=$(find "$MULTIPATH_DIR" -name 'multipath-tools_*.deb' | sort -V | tail -n 1)
  dpkg -x "$package" "$MULTIPATH_DIR"
}

# Without it the static binary is linked with glibc.
get_musl() {
  local target
  target="$(uname -m)-unknown-linux-musl"
  command -v rustup >/dev/null && ! rustup target list --installed 2>/dev/null | grep -qx "$target" || return 0
  say "getting Rust's $target"
  timeout 120 rustup target add "$target" >target/judges/rustup.log 2>&1 || say "rustup failed: static binaries are linked with glibc"
}

mkdir -p target/judges
get_packages
get_kernel "$KERNEL_DIR" linux-image-cloud-amd64
# The cloud's kernel knows no ALUA.
[ -z "$alua" ] || get_kernel "$ALUA_KERNEL_DIR" linux-image-amd64
get_multipath
get_musl
