//! What happens with servers that are not there yet: measured with 1 to N, predicted for N + 1 and on, with the resource that ends it.
//!
//! ```text
//!   ramp (X and every U, window by window, who uses what)
//!     └─> line    demands: U over X, as a line; rejected where it is none
//!          └─> model   the network that the measured points agree with (mva)
//!               └─> forecast   over bootstrap samples: median and band, what ends it, leave-out validation, refusal
//! ```
//!
//! All of it is pure: the same ramp and seed give the same numbers.

mod forecast;
mod line;
mod model;
mod ramp;
mod refusal;

pub use forecast::{Band, Checked, Demand, End, FULL, Forecast, Point, SAMPLES, Validation, predict};
pub use ramp::{Place, Ramp, Resource, Sample};
pub use refusal::Refusal;

#[cfg(test)]
mod tests;
