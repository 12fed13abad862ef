#!/usr/bin/env bash
# Nodes of two versions of masu: three nodes of an older one are updated one after the other under load, back, and again; owners of
# either version are killed; a controller is at another node only while that has the owner's version. Real processes, a registry
# directory, file drives. What was acknowledged is read back.
#   judges/rolling_upgrade.sh [COMMIT]   the older version (default: the commit in judges/older_version); it is built in target/older
# MASU_OLDER names a binary of it instead.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=${1:-$(grep -v '^#' judges/older_version)}
if [ -z "${MASU_OLDER:-}" ]; then
  git cat-file -e "$commit^{commit}" 2>/dev/null || { echo "rolling_upgrade: no commit $commit here: fetch the whole history" >&2; exit 2; }
  tree=$PWD/target/older/$commit
  [ -d "$tree" ] || { mkdir -p "$tree" && git archive "$commit" | tar xf - -C "$tree"; }
  # The viewer of reports is this version's: nodes do not use it.
  mkdir -p "$tree/web" && cp -r web/dist "$tree/web/"
  # A target directory of its own: the lock files differ.
  (cd "$tree" && CARGO_TARGET_DIR=$PWD/../target cargo build --locked --quiet --profile checked --bin masu)
  MASU_OLDER=$PWD/target/older/target/checked/masu
fi
export MASU_OLDER
echo "the older version: $("$MASU_OLDER" --version)"
log=$(mktemp "$PWD/target/rolling_upgrade.XXXXXX")
trap 'rm -f "$log"' EXIT
cargo test --profile checked --workspace --locked --quiet --test nodes -- --ignored --test-threads=1 --nocapture rolling_upgrade:: >"$log" 2>&1 ||
  { cat "$log" >&2; echo "rolling_upgrade: a case failed" >&2; exit 1; }
grep -E ": gap [0-9]+ ms" "$log" | sed 's/^[.i]*/  /' || { echo "rolling_upgrade: no case has run" >&2; exit 1; }
