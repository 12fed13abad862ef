//! Controllers of the array that other nodes than the owner run: which node runs which, and for how long it
//! may without hearing from the owner. Pure.

mod assignment;
mod term;

pub use assignment::{home, of_node};
pub use term::{EVERY, SILENT_MAX, Terms, grant, over};
