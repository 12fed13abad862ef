//! The form *array nodes*: one array whose controllers run at several nodes, each with a pool; aggregated
//! policies span all of them, and a node is lost.
//!
//! ```text
//!   bed (an array with a controller and a pool for each node) ──> play: phases, a node that is lost ──> Course
//!   Course ──> judge (windows, the closed formula) ──> claims, figures
//! ```

mod bed;
mod claims;
mod figures;
mod judge;
mod paths;
mod play;
mod results;
mod scenario;
#[cfg(test)]
mod tests;

pub(super) use claims::measures;
pub(super) use figures::figures;
pub(super) use judge::{View, view};
pub(super) use paths::Paths;
pub(super) use play::{Course, play};
pub(super) use results::{metrics, rows, write_series};
pub use scenario::ArrayNodes;
