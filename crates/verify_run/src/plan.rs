//! What is played: a scenario with its names resolved and its files of loads read, as `super::read` checked
//! it.

use std::path::PathBuf;
use std::time::Duration;

use array::config::{CachePolicy, Level, Policy};
use lab_core::claim::Claims;

use super::asked::{Asked, Search};
use super::scenario::RunTable;
use lab_tools::load::Job;

/// A scenario that was checked.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) name: String,
    pub(super) question: String,
    /// How it is measured.
    pub(super) run: RunTable,
    /// What is compared.
    pub(super) arrays: Vec<ArrayPlan>,
    pub(super) volumes: Vec<VolumePlan>,
    /// Every volume is on one of them.
    pub(super) hosts: Vec<HostPlan>,
    /// What hosts do.
    pub(super) loads: Vec<LoadPlan>,
    /// One after the other.
    pub(super) phases: Vec<PhasePlan>,
    /// What the claims ask for.
    pub(super) asked: Vec<Asked>,
    pub(super) claims: Claims,
    /// The most volumes of a load.
    pub(super) search: Option<Search>,
}

#[derive(Clone, Debug)]
pub(super) struct ArrayPlan {
    pub(super) name: String,
    /// 0: none.
    pub(super) cache_bytes: u64,
    pub(super) drives: Vec<DrivePlan>,
    pub(super) groups: Vec<GroupPlan>,
    pub(super) pools: Vec<PoolPlan>,
    pub(super) spares: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct DrivePlan {
    pub(super) name: String,
    pub(super) kind: DriveKind,
}

impl DrivePlan {
    /// Which model; none: it is a real one.
    pub(super) fn model(&self) -> Option<&str> {
        match &self.kind {
            DriveKind::Model(model) => Some(model),
            DriveKind::Path(..) => None,
        }
    }
}

/// What it is.
#[derive(Clone, Debug)]
pub(super) enum DriveKind {
    /// Of the catalogue, or a file that describes one.
    Model(String),
    /// A file, made with this size when it is not there, or a block device.
    Path(PathBuf, Option<u64>),
}

#[derive(Clone, Debug)]
pub(super) struct GroupPlan {
    pub(super) name: String,
    pub(super) level: Level,
    pub(super) drives: Vec<String>,
    pub(super) stripe_unit_bytes: u32,
}

#[derive(Clone, Debug)]
pub(super) struct PoolPlan {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
    pub(super) page_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct VolumePlan {
    pub(super) name: String,
    /// None: the only pool of each array.
    pub(super) pool: Option<String>,
    pub(super) len_bytes: u64,
    pub(super) thin: bool,
    pub(super) cache: CachePolicy,
    pub(super) policy: Policy,
}

/// A host, and which volumes it uses.
#[derive(Clone, Debug)]
pub(super) struct HostPlan {
    pub(super) name: String,
    pub(super) volumes: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct LoadPlan {
    pub(super) name: String,
    /// Each has all jobs.
    pub(super) volumes: Vec<usize>,
    pub(super) jobs: Vec<Job>,
    /// What of its file has no counterpart here.
    pub(super) left_out: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct PhasePlan {
    pub(super) name: String,
    pub(super) time: Duration,
    pub(super) loads: Vec<usize>,
    /// By volume.
    pub(super) policies: Vec<(usize, Policy)>,
    pub(super) pull: Vec<String>,
    /// Pool and group.
    pub(super) grow: Vec<(String, String)>,
}

impl PhasePlan {
    /// Whether the array is another one with it.
    pub(super) fn changes_array(&self) -> bool {
        !self.policies.is_empty() || !self.pull.is_empty() || !self.grow.is_empty()
    }
}

impl Plan {
    /// Whether a load writes.
    pub(super) fn writes(&self) -> bool {
        self.loads.iter().flat_map(|load| &load.jobs).any(|job| job.mix.writes())
    }

    /// How long a run takes by its own clock.
    pub(super) fn time(&self) -> Duration {
        self.run.warm_up.0 + self.phases.iter().map(|phase| phase.time).sum::<Duration>()
    }

    /// The host of a volume, and which of its LUNs it is.
    pub(super) fn host_of(&self, volume: usize) -> (usize, usize) {
        let on = |(n, host): (usize, &HostPlan)| {
            host.volumes.iter().position(|other| *other == volume).map(|lun| (n, lun))
        };
        self.hosts.iter().enumerate().find_map(on).expect("every volume is on a host")
    }
}
