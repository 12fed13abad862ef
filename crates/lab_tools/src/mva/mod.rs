//! Closed queueing networks, solved exactly: a fixed number of customers who think, then visit every station,
//! and think again.
//!
//! ```text
//!        ┌──────────────────────────── think Z ◄───────────────────────────┐
//!        └──► station 1 (demand D₁) ──► station 2 (D₂, rates α(j)) ──► … ───┘
//! ```
//!
//! A server with its outstanding I/Os is as many customers; a port, a controller, a drive is a station. One
//! class of customers, product form. The mean values are those of exact mean value analysis; they are
//! computed from the normalisation constant (Buzen, 1973), because the recursion over marginal probabilities
//! loses all digits at a station whose rate depends on its queue and which is nearly saturated.

mod chains;
mod network;
mod schweitzer;
mod solve;

pub use chains::{Chain, solve_chains};
pub use network::{Bounds, Network, NetworkError, Rate, Station};
pub use solve::{Point, StationPoint, solve};

#[cfg(test)]
mod tests;
