#!/usr/bin/env bash
# Parts from which guests are built, for the scripts that build them (sourced). Needs no root and installs nothing;
# the kernel package comes from judges/setup.sh (target/judges/kernel).
PATH=$PATH:/usr/sbin:/sbin

# guest_package DIR: the kernel package there.
guest_package() {
  local package dir=$1
  package=$(find "$dir" -name 'linux-image-*.deb' 2>/dev/null | sort -V | tail -n 1)
  [ -n "$package" ] || { echo "guest: no kernel package in $dir; run judges/setup.sh" >&2; return 2; }
  echo "$package"
}

# guest_needs COMMAND...: all of them, or a message that names one that is missing.
guest_needs() {
  local tool
  for tool; do
    command -v "$tool" >/dev/null || { echo "guest: $tool is missing; run judges/setup.sh" >&2; return 2; }
  done
}

# guest_fresh RESULT SOURCE...: whether the result is there and newer than all it is made from.
guest_fresh() {
  local result=$1 source
  shift
  [ -s "$result" ] || return 1
  for source; do [ "$result" -nt "$source" ] || return 1; done
}

# guest_kernel PACKAGE DIR: unpacks the kernel with its modules, DIR/vmlinuz being the kernel; prints its release.
guest_kernel() {
  local release
  dpkg -x "$1" "$2"
  release=$(ls "$2/lib/modules")
  depmod -b "$2" "$release"
  cp "$2/boot/vmlinuz-$release" "$2/vmlinuz"
  echo "$release"
}

# guest_tree ROOT: the directories of a small system, and busybox.
guest_tree() {
  mkdir -p "$1"/{bin,sbin,dev,proc,sys,run,tmp,mnt,etc/iscsi,var/lib/iscsi,lib/modules}
  cp "$(command -v busybox)" "$1/bin/busybox"
  echo "root:x:0:0:root:/:/bin/sh" >"$1/etc/passwd"
}

# guest_modules ROOT KERNEL RELEASE MODULE...: these and what they need, and the order in which they load, each once.
guest_modules() {
  local root=$1 kernel=$2 release=$3 module
  shift 3
  for module; do
    modprobe -d "$PWD/$kernel" -S "$release" --show-depends "$module"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
    cp "$file" "$root/lib/modules/"; basename "$file"
  done >"$root/lib/modules/order"
}

# guest_tools ROOT COMMAND...: tools, and the libraries they are linked with at the paths where the loader looks for them.
guest_tools() {
  local root=$1 tool path
  shift
  for tool; do
    path=$(command -v "$tool"); cp -L "$path" "$root/sbin/$tool"
    ldd "$path" | grep -o '/[^ ]*' | while read -r library; do
      mkdir -p "$root$(dirname "$library")"; cp -Ln "$library" "$root$library"
    done
  done
}

# guest_initramfs ROOT FILE: packs the tree.
guest_initramfs() { (cd "$1" && find . | cpio --quiet -o -H newc | gzip -1) >"$2"; }
