#!/usr/bin/env bash
# Runs every fuzz target for a while; a crash, a hang or too much memory fails. Needs nothing but the stable Rust of this
# repository and a C++ compiler: the targets link libFuzzer themselves, and fuzz/.cargo/config.toml has the compiler flags that
# cargo-fuzz would set.
#   judges/fuzz.sh [SECONDS [TARGET...]]   for each target (default 10)
set -euo pipefail
cd "$(dirname "$0")/.."
readonly SECONDS_EACH=${1:-10}
readonly OUT=$PWD/target/fuzz
shift $(($# > 0 ? 1 : 0))

# The environment's flags would replace those of the configuration, and the targets would run blind.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
host=$(rustc -vV | sed -n 's/^host: //p')
# Without --locked: the lock file follows when a crate of the array takes one more dependency, itself pinned there.
(cd fuzz && cargo build --release --quiet --target "$host")
readonly BIN=$OUT/build/$host/release

run_one() {
  local target=$1 rc=0 words given=()
  local corpus=$OUT/corpus/$target crashes=$OUT/crashes/$target log=$OUT/$target.log
  mkdir -p "$corpus" "$crashes"
  # Seeds that the target makes itself, if it makes any; it ends when they are written.
  SEEDS_TO=$corpus "$BIN/$target" -runs=0 >/dev/null 2>&1 || true
  # Targets that read text have seeds written by hand, and words to begin with: of a file, or of the protocol.
  if [ -d "fuzz/seeds/$target" ]; then
    words=fuzz/seeds/$target.dict
    [ -f "$words" ] || words=fuzz/seeds/protocol.dict
    given=("fuzz/seeds/$target" -dict="$words")
  fi
  "$BIN/$target" "$corpus" "${given[@]}" -artifact_prefix="$crashes/" \
    -max_total_time="$SECONDS_EACH" -timeout=5 -rss_limit_mb=2048 -len_control=0 -max_len=4096 -print_final_stats=1 >"$log" 2>&1 || rc=$?
  if [ "$rc" != 0 ]; then
    grep -E -A 2 'panicked at|ERROR: libFuzzer' "$log" | head -n 12 >&2
    echo "fuzz: $target FAILED; the input lies in $crashes, the log is $log; again with: $BIN/$target INPUT" >&2
    return 1
  fi
  echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $SECONDS_EACH s, $(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1) edges"
}
export -f run_one
export OUT BIN SECONDS_EACH

targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(sed -n 's/^path = "targets\/\(.*\)\.rs"$/\1/p' fuzz/Cargo.toml)
[ "${#targets[@]}" -gt 0 ] || { echo "fuzz: there are no fuzz targets" >&2; exit 2; }
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET bash -euo pipefail -c 'run_one TARGET'
