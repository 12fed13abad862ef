//! What came back after a power cut, against what the application was told.

use anyhow::Result;
use serde::Serialize;

use super::application::{Known, Told};
use super::file_system::FileSystem;

/// Objects (files and pages) whose last acknowledged write is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Losses {
    /// Power cuts.
    pub(crate) cuts: u64,
    /// Acknowledged as durable: a broken promise.
    pub(crate) durable: u64,
    /// Acknowledged by the disk only.
    pub(crate) written: u64,
    /// Acknowledged from memory only.
    pub(crate) buffered: u64,
    /// What came back is not what anybody wrote.
    pub(crate) wrong: u64,
    /// Cuts after which something that was acknowledged, and not as durable, was gone.
    pub(crate) cuts_with_loss: u64,
    /// Objects that had been acknowledged as durable, summed over cuts: what could have been lost.
    pub(crate) at_stake: u64,
}

impl Losses {
    pub(super) fn add(&mut self, other: Losses) {
        self.cuts += other.cuts;
        self.durable += other.durable;
        self.written += other.written;
        self.buffered += other.buffered;
        self.wrong += other.wrong;
        self.cuts_with_loss += other.cuts_with_loss;
        self.at_stake += other.at_stake;
    }

    fn count(&mut self, known: Known, oldest: u64, newest: u64) {
        self.at_stake += u64::from(known.durable > 0);
        self.durable += u64::from(oldest < known.durable);
        self.written += u64::from(oldest < known.written && known.written > known.durable);
        self.buffered += u64::from(oldest < known.buffered && known.buffered > known.durable);
        self.wrong += u64::from(newest > known.issued);
    }
}

/// Compares after one cut. What came back is what the application knows from then on.
pub(super) async fn compare(system: &FileSystem, told: &mut Told) -> Result<Losses> {
    let mut losses = Losses { cuts: 1, ..Losses::default() };
    for (file, known) in (0..).zip(&mut told.files) {
        match system.read_file(file).await? {
            Some(version) => {
                losses.count(*known, version, version);
                *known = Known { issued: version, buffered: version, written: version, durable: version };
            }
            None => losses.wrong += 1,
        }
    }
    for (page, known) in (0..).zip(&mut told.pages) {
        match system.read_page(page).await? {
            Some((oldest, newest)) => {
                losses.count(*known, oldest, newest);
                *known = Known { issued: newest, buffered: oldest, written: oldest, durable: oldest };
            }
            None => losses.wrong += 1,
        }
    }
    losses.cuts_with_loss = u64::from(losses.written + losses.buffered > 0);
    Ok(losses)
}
