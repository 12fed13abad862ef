//! Long commands: they let other tasks of the controller run in between.
//!
//! A step that needs no drive (on unmapped blocks, or in the cache) completes without waiting, and a
//! controller is one thread: a command of many such steps would stop all hosts until its end, and a burst of
//! such commands for longer.

use std::cell::Cell;

/// Steps between two turns of the loop. A step is at most 1 MiB of data or 256 MiB of metadata, some 0.05 ms:
/// no READ or WRITE of a usual length reaches it, and WRITE SAME of zeros does not either.
const STEPS: u32 = 16;

/// Counts the steps of one command, and yields when a turn is used up.
#[derive(Default)]
pub(crate) struct Turns(Cell<u32>);

impl Turns {
    /// Called before every step, without a lock on blocks.
    pub(crate) async fn step(&self) {
        // More when others of the command go on while one gives way: they share the count.
        if self.0.get() >= STEPS {
            self.0.set(0);
            world::yield_now().await;
        }
        self.0.set(self.0.get() + 1);
    }
}
