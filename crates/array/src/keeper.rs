//! Where an array keeps what must survive it.

use crate::config::{Config, Made};

/// Where the declaration and what was made are kept before a change takes effect.
pub trait Keeper: Send + Sync {
    /// Makes both durable.
    ///
    /// # Errors
    /// Why, in one line.
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String>;
}
