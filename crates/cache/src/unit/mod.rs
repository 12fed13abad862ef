//! A unit: one store with the cache over it.
//!
//! ```text
//!   read ──> frames ──missing──> segments (read ahead) ──missing──> the store
//!   write ──> the journal's queue and frames                  destage ──> the store
//!   change ──> the store itself, with the range held alone
//!   flush ──> the journal is durable; without one: destage, and the store's flush
//! ```

mod ahead;
mod change;
mod flush;
mod read;
mod state;
mod write;

pub use change::Settled;
pub(crate) use state::{State, blocks_of, bytes_of};
pub use state::{Unit, UnitCounts, UnitSpec, WritePolicy};
