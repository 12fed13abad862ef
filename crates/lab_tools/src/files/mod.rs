//! File sets: trees of folders with files of random text, drawn from a distribution and exact in their
//! totals.
//!
//! ```text
//!   SetSpec ──> Plan (integers for each tree) ──> Tree (folders, files; made when it is needed) ──> create, check
//!                                                   └─> Content (text of a file, from its seed) ──┘
//! ```
//!
//! A plan of a million files is a few numbers for each tree: a tree is drawn again from its seed whenever it
//! is needed, and so is every byte of a file.

#![expect(clippy::disallowed_types, reason = "a file set is files of the machine's own file systems")]

pub mod cli;
mod content;
mod create;
mod folders;
mod plan;
mod sizes;
mod store;

pub use content::{Content, Version};
pub use create::{check, create, make_folders, write_file};
pub use folders::Folders;
pub use plan::{File, Plan, SetError, SetSpec, Tree};
pub use sizes::{SizeError, Sizes, Step};
pub use store::{StoreError, read_set};
