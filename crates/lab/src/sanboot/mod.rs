//! The verification `sanboot`: how many servers boot and live from one array.
//!
//! ```text
//!   run ──> point ──> bed (modelled drives, port, controllers; the product's array) ──> results
//!    │                 └── host (servers: requests through the port to their LU)
//!    └── scenario
//! ```

pub mod results;
