//! The words of judgement of the laboratory: what a claim is, which verdict it gets, what a run leaves
//! behind, and what is made of that.
//!
//! ```text
//!   scenario (claims with their bounds) ──┐
//!   recording ──> estimates ──────────────┴─> verdict ──> record (results.json) ──> terminal, report.html, index, comparison
//! ```

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "the laboratory stands outside the worlds: it starts threads, reads files and clocks"
)]

pub mod bound;
pub mod bundle;
pub mod checks;
pub mod claim;
pub mod command_line;
pub mod console;
pub mod digest;
pub mod index;
pub mod inputs;
pub mod interrupt;
pub mod machine;
pub mod outputs;
pub mod parallel;
pub mod presentation;
pub mod proc;
pub mod progress;
pub mod proof;
pub mod quantity;
pub mod record;
pub mod report;
pub mod scenario;
pub mod schema;
pub mod scope;
pub mod stats;
pub mod sweep;
pub mod terminal;
pub mod text_file;
pub mod toml_text;
pub mod verdict;
pub mod verification;
pub mod words;
pub mod world;
