//! File servers: the load that clients put on them (`masu load fileserver`), and the verification of virtual disks that grow under it.
//!
//! ```text
//!   run ──> model (clients, servers, disks, the array) ──> courses ──> claims, figures, findings ──> report
//!    ├── scenario
//!    └────> real (the same on this machine, on disks that are there)
//! ```

mod beyond;
mod claims;
mod figures;
mod findings;
pub mod load;
mod model;
pub mod real;
mod report;
mod results;
mod run;
mod scenario;

pub(crate) use run::verify;
