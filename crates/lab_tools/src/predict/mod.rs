//! Forecast for additional servers: measured with 1 to N, predicted for N + 1 and more, with the resource
//! that limits them.
//!
//! ```text
//!   ramp (X and every U, window by window, who uses what)
//!     └─> plan    demands (line: U over X), which groups bound their servers and by which law (groups)
//!          └─> model   the network that the measured points agree with (mva)
//!               └─> forecast   median, what ends it, leave-out validation, refusal; band: over bootstrap samples
//! ```
//!
//! All of it is pure: the same ramp and seed give the same numbers.

mod band;
mod forecast;
mod groups;
mod line;
mod model;
mod plan;
mod ramp;
mod refusal;
mod told;
mod what_if;
mod within;

pub use band::SAMPLES;
pub use forecast::{FULL, predict, predict_changed};
pub use ramp::{Place, Ramp, Resource, Sample, Shared, Uneven};
pub use refusal::Refusal;
pub use told::{Band, Basis, Checked, Demand, End, Forecast, Point, Validation};
pub use what_if::{BadChange, Change, WhatIf, unknown};

#[cfg(test)]
mod tests;
