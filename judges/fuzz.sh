#!/usr/bin/env bash
# Runs every fuzz target for a while; a crash or a hang fails.
#   judges/fuzz.sh [SECONDS]   for each target (default 10)
set -euo pipefail
cd "$(dirname "$0")/.."
readonly SECONDS_EACH=${1:-10}
cargo fuzz --version >/dev/null 2>&1 || { echo "fuzz: cargo-fuzz is missing; run judges/setup.sh" >&2; exit 2; }
mapfile -t targets < <(cargo +nightly fuzz list)
[ "${#targets[@]}" -gt 0 ] || { echo "fuzz: there are no fuzz targets" >&2; exit 2; }
for target in "${targets[@]}"; do
  echo "fuzz: $target for $SECONDS_EACH s"
  cargo +nightly fuzz run "$target" -- -max_total_time="$SECONDS_EACH" -timeout=5 -rss_limit_mb=2048 -print_final_stats=0 -verbosity=0
done
