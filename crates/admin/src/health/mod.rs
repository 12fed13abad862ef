//! What block devices report about themselves: smartctl reads it every few minutes, beside the data path.
//!
//! ```text
//! watch ──> ask: a process with a time limit ──> parse: what is understood ──> record: trouble, with hysteresis
//! ```

mod ask;
mod parse;
mod record;
mod watch;

pub use ask::{AskError, Smartctl};
pub(crate) use record::Records;
pub(crate) use watch::watch_task;
