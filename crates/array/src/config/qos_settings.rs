//! Services that volumes are promised, as they are declared.

use qos::{DEPTH_MAX_DEFAULT, Policy, UNIT_BYTES_DEFAULT};

use super::check::refuse;
use super::{Config, ConfigError};

/// The smallest and the largest unit that requests are counted in: a sector, and what hosts ask for at most at a time.
const UNIT_BYTES: std::ops::RangeInclusive<u64> = 512..=(1 << 20);
/// What a pool may have below its scheduler: as much as all sessions of a large array keep out.
const DEPTH: std::ops::RangeInclusive<u32> = 1..=1024;
/// What work in the background gets in any case: 10 MiB/s in units of 8 KiB, with which a drive of 600 GB is rebuilt in 16 hours.
const BACKGROUND_MINIMUM_IOPS: u64 = 1280;

/// What holds for all policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosSettings {
    /// A request counts as one for each such part of it: normalised IOPS.
    pub unit_bytes: u64,
    /// Requests that a pool works on at once at most, while a policy is in force on it.
    pub depth_max: u32,
    /// What rebuilds, evacuations and their like get beside the volumes, in each pool.
    pub background: Policy,
}

impl Default for QosSettings {
    fn default() -> QosSettings {
        QosSettings {
            unit_bytes: UNIT_BYTES_DEFAULT,
            depth_max: DEPTH_MAX_DEFAULT,
            background: Policy { minimum_iops: BACKGROUND_MINIMUM_IOPS, ..Policy::none() },
        }
    }
}

/// Who shares what a policy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each volume has it for itself.
    #[default]
    Dedicated,
    /// The volumes of a pool that have it share it.
    Aggregated,
}

/// A service that volumes are promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Its name.
    pub name: String,
    /// What is promised.
    pub policy: Policy,
    /// To whom.
    pub sharing: Sharing,
}

impl Config {
    pub(super) fn check_policies(&self) -> Result<(), ConfigError> {
        if !UNIT_BYTES.contains(&self.qos.unit_bytes) {
            return refuse(
                "qos: unit",
                format!("between {} and {} bytes", UNIT_BYTES.start(), UNIT_BYTES.end()),
            );
        }
        if !DEPTH.contains(&self.qos.depth_max) {
            return refuse("qos: depth", format!("between {} and {}", DEPTH.start(), DEPTH.end()));
        }
        self.qos.background.check().or_else(|e| refuse("qos: background", e.to_string()))?;
        super::check::check_names("policy", self.policies.iter().map(|p| &p.name))?;
        for policy in &self.policies {
            let place = || format!("policy {:?}", policy.name);
            policy.policy.check().or_else(|e| refuse(place(), e.to_string()))?;
        }
        Ok(())
    }
}
