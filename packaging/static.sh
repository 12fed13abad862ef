#!/usr/bin/env bash
# Builds masu without shared libraries: target/<machine>-unknown-linux-musl/release/masu.
#   packaging/static.sh [CARGO_PROFILE]
# Needs the musl target of Rust (rustup target add <machine>-unknown-linux-musl), and a C compiler for it (Debian: musl-tools).
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(uname -m)-unknown-linux-musl
rustc --print target-libdir --target "$target" 2>/dev/null | xargs -I {} test -e {}/self-contained ||
  { echo "static: the target $target is missing: rustup target add $target" >&2; exit 2; }
command -v musl-gcc >/dev/null || { echo "static: musl-gcc is missing (Debian: musl-tools)" >&2; exit 2; }
cargo build --quiet --locked --profile "${1:-release}" --package masu --bin masu --target "$target"
