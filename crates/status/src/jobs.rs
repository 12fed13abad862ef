//! Long work, and how far it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far long work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Never more than `total_bytes`.
    pub done_bytes: u64,
    /// All bytes; 0 while nobody knows.
    pub total_bytes: u64,
}

/// Long work: it runs in the array, whoever asked for it, and goes on after a restart where it says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// `rebuild`, `scrub`, `resync`, `evacuate`, `rebalance`, `reclaim` or `place`.
    pub kind: String,
    /// The group, pool or volume.
    pub object: String,
    /// How far it is.
    pub progress: Progress,
}

/// A change that is being made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnderWay {
    /// What it is, and who asked for it.
    pub what: String,
    /// Since when, in milliseconds.
    pub for_ms: u64,
}
