//! Controllers of the array that other nodes than the owner run: which node runs which, for how long it may
//! without hearing from the owner, and when it gets them again. Pure.

mod assignment;
mod pauses;
mod term;

pub use assignment::{home, of_node};
pub use pauses::{AFTER_REFUSAL, BEGIN_MAX, CHANGES_WAIT, CLAIM_MAX, Pauses};
pub use term::{EVERY, SILENT_MAX, Terms, grant, over};
