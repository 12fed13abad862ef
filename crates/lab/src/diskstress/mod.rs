//! The verification `diskstress`: what virtualization costs a disk.
//!
//! ```text
//!   scenario ──> model: machine (modelled drives, mirror, read-ahead, processors), physical and virtual ──┐
//!           └──> real:  diskstress natively and in a guest, on the same image, in turn ───────────────────┴─> results ──> claims, figures, report
//! ```

mod claims;
mod figures;
mod guest;
mod machine;
mod model;
mod real;
mod report;
mod results;
pub mod scenario;

pub(crate) use report::verify;

#[cfg(test)]
mod tests;
