//! Services that volumes are promised: `[qos]` and `[[policy]]`.

use qos::{DEPTH_MAX_DEFAULT, FLOOR_PERCENT_DEFAULT, Policy, UNIT_BYTES_DEFAULT, WEIGHT_DEFAULT};
use serde::{Deserialize, Serialize};

use crate::check::{check_names, refuse};
use crate::{Config, ConfigError, size};

/// The smallest and the largest unit that requests are counted in: a sector, and what hosts ask for at most
/// at a time.
const UNIT_BYTES: std::ops::RangeInclusive<u64> = 512..=(1 << 20);
/// What a pool may have below its scheduler: as much as all sessions of a large array keep out.
const DEPTH: std::ops::RangeInclusive<u32> = 1..=1024;
/// What volumes without a minimum share of a pool: with more than half, a minimum would mean little.
const FLOOR_PERCENT: std::ops::RangeInclusive<u32> = 0..=50;
/// What work in the background gets in any case: 10 MiB/s in units of 8 KiB, with which a drive of 600 GB is
/// rebuilt in 16 hours.
const BACKGROUND_MINIMUM_IOPS: u64 = 1280;

/// What holds for all policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QosSettings {
    /// A request counts as one for each such part of it: normalised IOPS.
    #[serde(rename = "unit", deserialize_with = "size::bytes")]
    pub unit_bytes: u64,
    /// Requests that a pool works on at once at most, while a policy is in force on it. The scheduler finds
    /// by itself how many of them it needs.
    #[serde(rename = "depth")]
    pub depth_max: u32,
    /// Percent of a pool's capacity that the volumes without a minimum share at least.
    #[serde(rename = "floor")]
    pub floor_percent: u32,
    /// Normalised IOPS that rebuilds, evacuations and their like get beside the volumes, in each pool.
    #[serde(rename = "background_minimum")]
    pub background_minimum_iops: u64,
    /// Their part of what is left.
    pub background_weight: u32,
}

impl Default for QosSettings {
    fn default() -> QosSettings {
        QosSettings {
            unit_bytes: UNIT_BYTES_DEFAULT,
            depth_max: DEPTH_MAX_DEFAULT,
            floor_percent: FLOOR_PERCENT_DEFAULT,
            background_minimum_iops: BACKGROUND_MINIMUM_IOPS,
            background_weight: WEIGHT_DEFAULT,
        }
    }
}

impl QosSettings {
    pub(crate) fn is_default(&self) -> bool {
        *self == QosSettings::default()
    }

    /// The policy of work in the background.
    pub fn background(&self) -> Policy {
        Policy {
            minimum_iops: self.background_minimum_iops,
            weight: self.background_weight,
            ..Policy::none()
        }
    }
}

/// Who shares what a policy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Each volume has it for itself.
    #[default]
    Dedicated,
    /// The volumes of a pool that have it share it.
    Aggregated,
}

/// A service that volumes are promised. IOPS are normalised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Unique among policies; volumes refer to it.
    pub name: String,
    /// What it gets when it asks for it; 0: nothing is promised.
    #[serde(default, rename = "minimum", skip_serializing_if = "is_zero")]
    pub minimum_iops: u64,
    /// What it gets at most.
    #[serde(default, rename = "maximum", skip_serializing_if = "Option::is_none")]
    pub maximum_iops: Option<u64>,
    /// Bytes per second that it gets at most.
    #[serde(
        default,
        rename = "bandwidth",
        deserialize_with = "size::some_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Its part of what is left.
    #[serde(default = "weight")]
    pub weight: u32,
    /// Units that it may be ahead after it was idle.
    #[serde(default, rename = "burst", skip_serializing_if = "is_zero")]
    pub burst_units: u64,
    /// To whom it is promised.
    #[serde(default)]
    pub sharing: Sharing,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn weight() -> u32 {
    WEIGHT_DEFAULT
}

impl PolicyConfig {
    /// A policy of this name that each volume has for itself.
    pub fn new(name: String, policy: Policy) -> PolicyConfig {
        let Policy { minimum_iops, maximum_iops, bandwidth_bytes_per_s, weight, burst_units } = policy;
        let sharing = Sharing::Dedicated;
        PolicyConfig { name, minimum_iops, maximum_iops, bandwidth_bytes_per_s, weight, burst_units, sharing }
    }

    /// What is promised.
    pub fn policy(&self) -> Policy {
        Policy {
            minimum_iops: self.minimum_iops,
            maximum_iops: self.maximum_iops,
            bandwidth_bytes_per_s: self.bandwidth_bytes_per_s,
            weight: self.weight,
            burst_units: self.burst_units,
        }
    }
}

impl Config {
    pub(crate) fn check_policies(&self) -> Result<(), ConfigError> {
        if !UNIT_BYTES.contains(&self.qos.unit_bytes) {
            return refuse(
                "qos: unit",
                format!("between {} and {} bytes", UNIT_BYTES.start(), UNIT_BYTES.end()),
            );
        }
        if !DEPTH.contains(&self.qos.depth_max) {
            return refuse("qos: depth", format!("between {} and {}", DEPTH.start(), DEPTH.end()));
        }
        if !FLOOR_PERCENT.contains(&self.qos.floor_percent) {
            let (least, most) = (FLOOR_PERCENT.start(), FLOOR_PERCENT.end());
            return refuse("qos: floor", format!("between {least} and {most} percent"));
        }
        self.qos.background().check().or_else(|e| refuse("qos: background", e.to_string()))?;
        check_names("policy", self.policies.iter().map(|p| &p.name))?;
        for policy in &self.policies {
            let place = || format!("policy {:?}", policy.name);
            policy.policy().check().or_else(|e| refuse(place(), e.to_string()))?;
        }
        Ok(())
    }
}
