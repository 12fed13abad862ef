//! The verification `vaai`: zeroing, copying, locking and thin provisioning, with the array's help and without.
//!
//! ```text
//!   run ──> bed (the array under test) <── status, CPU clock
//!    │  ──> host, bulk      zeroing and copies        ┐
//!    │  ──> power_on        VMs of several hosts      ├──> record ──> judge ──> report: claims, figures, tables, words
//!    └  ──> thin            a pool that fills         ┘
//! ```

mod bed;
mod bulk;
mod claims;
mod figures;
mod host;
mod judge;
mod power_on;
mod record;
mod run;
mod summary;
mod tables;
mod thin;
mod words;
mod write;

pub(crate) use bed::login_of;
pub(crate) use judge::{MEASURES, Verdict};
pub(crate) use run::verify;
