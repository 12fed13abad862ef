//! Where an array keeps what must survive it.

use crate::config::{Config, Made};

/// Where the declaration and what was made are kept before a change takes effect.
pub trait Keeper: Send + Sync {
    /// Makes both durable.
    ///
    /// # Errors
    /// Why, in one line. What is kept then is what was before, or this.
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String>;

    /// The same in the place of a form that was a step of a change, which is no earlier form of the array: it
    /// has records of what is to be deleted, or may be overwritten, if the change is interrupted.
    ///
    /// # Errors
    /// As [`Keeper::keep`].
    fn replace(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.keep(config, made)
    }

    /// Makes both durable in the place of a change that is refused. They were kept before it: a keeper that
    /// has that form still needs no room for it.
    ///
    /// # Errors
    /// As [`Keeper::keep`].
    fn put_back(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.keep(config, made)
    }

    /// Keeps nothing any more: a first declaration was refused, and nothing is left of it. Returns whether
    /// that is so; a keeper that cannot forget keeps what is then put back.
    fn forget(&mut self) -> bool {
        false
    }

    /// Whether another form like this one could be kept now. Nothing changes.
    ///
    /// # Errors
    /// Why not, in one line.
    fn may_keep(&mut self, _config: &Config, _made: &Made) -> Result<(), String> {
        Ok(())
    }
}
