//! The verification `sanboot`: how many servers boot and live from one array.
//!
//! ```text
//!   run ──> point ──> bed (modelled drives; the product's array on them)
//!    │        └─────> host (servers, port, controller: what stands before the array's LUs) ──> results
//!    └── scenario
//! ```

mod bed;
mod host;
mod point;
pub mod ramp;
pub mod results;
mod run;
pub mod scenario;
mod write;

pub use run::experiment;
pub(crate) use write::verify;
