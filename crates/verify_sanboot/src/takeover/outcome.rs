//! What was seen of a controller that goes: a part of `points.json`.

use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;

/// A server's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disks {
    /// The one that it boots from.
    System,
    /// The other one.
    Data,
}

impl Disks {
    /// Both.
    pub const ALL: [Disks; 2] = [Disks::System, Disks::Data];

    /// As a reader calls them.
    pub fn words(self) -> &'static str {
        match self {
            Disks::System => "system disks",
            Disks::Data => "data disks",
        }
    }

    /// The other ones.
    #[must_use]
    pub fn other(self) -> Disks {
        match self {
            Disks::System => Disks::Data,
            Disks::Data => Disks::System,
        }
    }
}

/// How a controller goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Its process dies: hosts' connections are reset at once.
    Killed,
    /// It loses its power: hosts hear nothing any more.
    Silent,
    /// Two of its pools are moved to the other one, as planned.
    Moved,
}

impl Way {
    /// As a reader calls it.
    pub fn words(self) -> &'static str {
        match self {
            Way::Killed => "killed",
            Way::Silent => "without power",
            Way::Moved => "planned",
        }
    }
}

/// What servers got, and what worked how much for it. Of two controllers the first one remains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// I/Os per second of all system disks, and of all data disks.
    pub iops: [f64; 2],
    /// Of each server, both of its disks together.
    pub server_iops: Vec<f64>,
    /// Share of its cores' time that each controller worked.
    pub controller_busy: [f64; 2],
    /// Share of the time that each port's busier direction carried something.
    pub port_busy: [f64; 2],
    /// Share of the time that the drives of the system disks worked, and those of the data disks.
    pub drive_busy: [f64; 2],
}

impl Load {
    /// I/Os per second of all disks.
    pub fn all_iops(&self) -> f64 {
        self.iops.iter().sum()
    }
}

/// Servers with a disk at each of two controllers, of which one goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Takeover {
    /// What the servers do with both of their disks.
    pub pattern: Pattern,
    /// How many of them.
    pub servers: u32,
    /// The disks of the controller that goes.
    pub goes: Disks,
    /// How it goes.
    pub way: Way,
    /// The seed of this run.
    pub seed: u64,
    /// With both controllers.
    pub before: Load,
    /// With one alone.
    pub after: Load,
    /// The longest time in which a disk of a server had no answer, with both controllers.
    pub gap_before_s: f64,
    /// The same from the loss on, of disks of the controller that goes.
    pub gap_s: f64,
    /// The same of the other disks.
    pub gap_other_s: f64,
    /// From the loss until the other controller had opened everything.
    pub changed_s: f64,
    /// Why a planned move was refused; the pools that had not moved yet stay where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Writes that were acknowledged.
    pub written: u64,
    /// Blocks that were read again at the end, all that have a content of their own.
    pub read_back: u64,
    /// Reads, those at the end included, that gave something else than what was acknowledged last.
    pub wrong: u64,
    /// The quarter of a second of `bins` in which the controller goes.
    pub lost_at: u32,
    /// I/Os per second in each quarter of a second, of system disks and of data disks.
    pub bins: [Vec<f64>; 2],
}
