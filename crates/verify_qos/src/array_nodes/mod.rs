//! The form *array nodes*: one array whose controllers run at several nodes, each with a pool; aggregated
//! policies span all of them, and a node is lost.
//!
//! ```text
//!   bed (an array with a controller and a pool for each node)
//!    ├── model: machines of the model world ──┬──> play: phases, a node that is lost ──> Course
//!    └── real: processes of masu serve ───────┘
//!   Course ──> judge (windows, the closed formula) ──> claims, figures
//! ```

mod bed;
mod claims;
mod figures;
mod judge;
mod model;
mod paths;
mod play;
mod real;
mod results;
mod scenario;
#[cfg(test)]
mod tests;

pub(super) use claims::measures;
pub(super) use figures::{figures, headlines};
pub(super) use judge::{View, view};
pub(super) use model::play;
pub(super) use paths::Paths;
pub(super) use play::Course;
pub(super) use real::play as play_real;
pub(super) use results::{metrics, rows, write_series};
pub use scenario::ArrayNodes;
