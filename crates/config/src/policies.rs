//! Services that volumes are promised: `[qos]` and `[[policy]]`.

use qos::{
    DEPTH_MAX_DEFAULT, FLOOR_PERCENT_DEFAULT, Policy, RATE_MAX, UNIT_BYTES_DEFAULT, WEIGHT_DEFAULT,
    WEIGHT_MAX,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::{check_names, refuse};
use crate::{Config, ConfigError, schema, size};

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
/// What a limit of zero is answered, by whatever way it comes.
const NOTHING: &str = "must be at least 1; for no limit leave it out, give null to the API or none to masu policy set; \
     to keep hosts from a volume, unmap it: masu host unmap";

/// Settings of all policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QosSettings {
    /// Unit of normalised IOPS: a request counts once for each unit of its length.
    #[serde(rename = "unit", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size", range(min = *UNIT_BYTES.start(), max = *UNIT_BYTES.end()))]
    pub unit_bytes: u64,
    /// Maximum queue depth below the scheduler of a pool with policies. The scheduler measures how much of it
    /// the pool needs.
    #[serde(rename = "depth")]
    #[schemars(range(min = *DEPTH.start(), max = *DEPTH.end()), extend("x-unit" = "requests"))]
    pub depth_max: u32,
    /// Minimum share of a pool's capacity for all volumes without a minimum together.
    #[serde(rename = "floor")]
    #[schemars(range(min = *FLOOR_PERCENT.start(), max = *FLOOR_PERCENT.end()), extend("x-unit" = "%"))]
    pub floor_percent: u32,
    /// Minimum of rebuilds, evacuations and other background work, in each pool; 0: none.
    #[serde(rename = "background_minimum")]
    #[schemars(range(max = RATE_MAX), extend("x-unit" = "normalised IOPS"))]
    pub background_minimum_iops: u64,
    /// Weight of background work.
    #[schemars(range(min = 1, max = WEIGHT_MAX))]
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

/// Who shares the service of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Each volume receives it.
    #[default]
    Dedicated,
    /// All volumes and images with this policy share it.
    Aggregated,
}

/// A policy: the service of the volumes and images that name it. IOPS are normalised to `qos.unit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Unique among policies; volumes and images refer to it.
    #[schemars(with = "schema::Name")]
    pub name: String,
    /// Minimum service on demand; 0: none. At most `maximum`.
    #[serde(default, rename = "minimum", skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if, range(max = RATE_MAX), extend("x-unit" = "normalised IOPS"))]
    pub minimum_iops: u64,
    /// Maximum service.
    #[serde(default, rename = "maximum", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = RATE_MAX), extend("x-unit" = "normalised IOPS"))]
    pub maximum_iops: Option<u64>,
    /// Maximum bandwidth.
    #[serde(
        default,
        rename = "bandwidth",
        deserialize_with = "size::some_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<schema::Size>", extend("x-unit" = "per second"))]
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Share of the remaining capacity, relative to the weights of others. Volumes without a policy have the
    /// default.
    #[serde(default = "weight")]
    #[schemars(range(min = 1, max = WEIGHT_MAX))]
    pub weight: u32,
    /// Requests by which a volume may exceed its share after it was idle.
    #[serde(default, rename = "burst", skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if, extend("x-unit" = "normalised requests"))]
    pub burst_units: u64,
    /// Who shares the service.
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
            let limits = [("maximum", policy.maximum_iops), ("bandwidth", policy.bandwidth_bytes_per_s)];
            if let Some((what, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
                return refuse(place(), format!("invalid {what} 0: {NOTHING}"));
            }
            policy.policy().check().or_else(|e| refuse(place(), e.to_string()))?;
        }
        Ok(())
    }
}
