//! A logical unit without a protocol: its requirements on a disk, and its running commands.
//!
//! ```text
//!   scsi (today's protocol) ── CommandContext, range ──> LogicalDisk: a volume, a cached volume, an image
//!        │                                                   │
//!        └── TaskSet: who runs what, who aborted it ─────────┘ an operation that waits ends when its command is aborted
//! ```
//!
//! A front end enters each command into the [`TaskSet`] of its logical unit, and passes the command's
//! [`CommandContext`] with every operation of the [`LogicalDisk`]. This crate knows no CDB, port or sense
//! code.

#![forbid(unsafe_code)]

mod command;
mod disk;
mod task_set;

pub use command::CommandContext;
pub use disk::{Capabilities, Copied, Durability, Extent, LogicalDisk, Space};
pub use task_set::{NexusId, TASKS_MAX, Task, TaskSet};

#[cfg(any(test, feature = "testing"))]
pub mod testing;
