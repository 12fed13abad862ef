//! What servers do.

use serde::{Deserialize, Serialize};

/// What a server does with its file, 4 KiB at a time. A mix is 75 % reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Pattern {
    RandomRead,
    RandomWrite,
    /// Random, 75 % reads.
    RandomMix,
    /// Walks the file, reading.
    SequentialRead,
    /// Walks the file, writing.
    SequentialWrite,
    /// Walks the file, 75 % reads.
    SequentialMix,
    /// Whole files, 80 % read: what no forecast was made for.
    Fileserver,
    /// A recorded boot, of one image after the other: what no forecast was made for.
    Boots,
}

/// Of 100 steps of the published clients of the file servers, so many copy a file from the server; the others
/// copy one to it.
pub(crate) const FILE_READ_PERCENT: u32 = 80;

impl Pattern {
    /// All, in the order of the figures.
    pub const ALL: [Pattern; 6] = [
        Pattern::RandomRead,
        Pattern::RandomWrite,
        Pattern::RandomMix,
        Pattern::SequentialRead,
        Pattern::SequentialWrite,
        Pattern::SequentialMix,
    ];

    /// Those that the method of forecasts was not made with.
    pub const HELD_OUT: [Pattern; 2] = [Pattern::Fileserver, Pattern::Boots];

    /// Whether it jumps.
    pub fn is_random(self) -> bool {
        matches!(self, Pattern::RandomRead | Pattern::RandomWrite | Pattern::RandomMix)
    }

    /// Of 100 requests, how many read.
    pub fn read_percent(self) -> u32 {
        match self {
            Pattern::RandomRead | Pattern::SequentialRead | Pattern::Boots => 100,
            Pattern::RandomMix | Pattern::SequentialMix => 75,
            Pattern::RandomWrite | Pattern::SequentialWrite => 0,
            Pattern::Fileserver => FILE_READ_PERCENT,
        }
    }

    /// Whether drives have random reads and writes to do at the same time.
    pub(crate) fn is_mixed(self) -> bool {
        self.is_random() && (1..100).contains(&self.read_percent())
    }

    /// Whether random writes wait in the cache for the drives.
    pub(crate) fn writes_at_random(self) -> bool {
        self.is_random() && self.read_percent() < 100
    }

    /// As it is called in files.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::RandomRead => "random_read",
            Pattern::RandomWrite => "random_write",
            Pattern::RandomMix => "random_mix",
            Pattern::SequentialRead => "sequential_read",
            Pattern::SequentialWrite => "sequential_write",
            Pattern::SequentialMix => "sequential_mix",
            Pattern::Fileserver => "fileserver",
            Pattern::Boots => "boots",
        }
    }
}
