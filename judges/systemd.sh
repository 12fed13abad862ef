#!/usr/bin/env bash
# The systemd unit, judged by systemd: it parses, every setting is known, and what it exposes is little.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is not here: the unit is not judged"; exit 0; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The program and its manual need not be installed where the unit is judged.
sed -e 's#^ExecStart=/usr/bin/masu#ExecStart=/bin/true#' -e '/^Documentation=/d' packaging/systemd/masu.service > "$dir/masu.service"
said=$(systemd-analyze verify "$dir/masu.service" 2>&1 || true)
# Other units of this machine are not judged here.
if grep "$dir/masu.service\|masu.service:" <<< "$said"; then
  echo "the unit is not well formed" >&2
  exit 1
fi
if systemd-analyze security --help >/dev/null 2>&1 && systemd-analyze --help | grep -q -- --offline; then
  # 3.0 or less.
  systemd-analyze security --offline=true --threshold=30 "$dir/masu.service" | tail -1
fi
echo "the unit is well formed"
