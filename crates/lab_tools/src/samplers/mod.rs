//! Counters over time: those of a host (`/proc`) and of an array, on one clock, each at its own interval.
//!
//! ```text
//!   host (/proc) ──┐
//!   array ─────────┴─> Counter ──> Samplers (threads, one clock) ──> Series ──> CSV, figures, means of a window
//! ```
//!
//! A source says what it has counted and how a rate is made of it ([`Measure`]); two readings give one
//! sample. So sources know nothing of time, and what is computed is the same for all of them.

pub mod array;
mod counter;
mod host;
mod proc_text;
mod sampler;
mod series;

pub use counter::{Counter, Measure};
pub use host::{Host, HostPlan};
pub use sampler::{Plan, SamplerError, Samplers, Source, take};
pub use series::{Column, Sample, Series, Window};
