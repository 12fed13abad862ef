//! The project's own tools: tidy, sim, bench.

fn main() {}
