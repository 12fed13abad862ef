# shellcheck shell=bash
# A clean root of Debian, in which the package is installed. Sourced, by root, in a mount namespace of its own. The caller
# sets `root`, the directory. The root is made once by mmdebstrap from the mirror that apt uses here.
readonly ROOT_TAR=target/judges/root.tar

# clean_root_tar: the root as an archive; judges that run at once make it once.
clean_root_tar() {
  local suite
  mkdir -p target/judges
  suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  (
    flock 9
    [ ! -s "$ROOT_TAR" ] || exit 0
    mmdebstrap --quiet --format=tar --variant=essential --dpkgopt=force-unsafe-io --include=passwd,man-db,bash-completion --aptopt='APT::Install-Recommends "false"' "$suite" "$ROOT_TAR.new" \
      >target/judges/root.log 2>&1 || { tail -n 3 target/judges/root.log; exit 1; }
    mv "$ROOT_TAR.new" "$ROOT_TAR"
  ) 9>target/judges/root.lock
}

# clean_root DIRECTORY: the root there, with /proc and /dev.
clean_root() {
  mkdir "$1"
  tar -xf "$ROOT_TAR" -C "$1" --exclude='./dev/*'
  mount -t proc proc "$1/proc"
  mount --rbind /dev "$1/dev"
}
leave_root() { umount -l "$1/proc" "$1/dev" 2>/dev/null || true; }

# shellcheck disable=SC2154 # the caller sets it
within() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

setting() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/masu.service"; }
# by_unit: what the unit starts, as its user and groups.
by_unit() {
  local command; read -ra command <<<"$(setting ExecStart)"
  exec chroot --userspec="$(setting User):$(setting Group)" --groups="$(setting SupplementaryGroups)" "$root" \
    /usr/bin/env -i PATH=/usr/bin:/bin "${command[@]}"
}
