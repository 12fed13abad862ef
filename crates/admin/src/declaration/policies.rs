//! How services are declared that volumes are promised: `[qos]` and `[[policy]]`.

use array::config::{self, PolicyConfig, QosSettings, Sharing};
use serde::{Deserialize, Serialize};

use super::size::Size;

/// What holds for all policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Qos {
    unit: Size,
    depth: u32,
    background_minimum: u64,
    background_weight: u32,
}

impl Default for Qos {
    fn default() -> Qos {
        Qos::of(&QosSettings::default())
    }
}

impl Qos {
    pub(super) fn is_default(&self) -> bool {
        *self == Qos::default()
    }

    pub(super) fn to_config(&self) -> QosSettings {
        QosSettings {
            unit_bytes: self.unit.0,
            depth_max: self.depth,
            background: config::Policy {
                minimum_iops: self.background_minimum,
                weight: self.background_weight,
                ..config::Policy::none()
            },
        }
    }

    pub(super) fn of(settings: &QosSettings) -> Qos {
        Qos {
            unit: Size(settings.unit_bytes),
            depth: settings.depth_max,
            background_minimum: settings.background.minimum_iops,
            background_weight: settings.background.weight,
        }
    }
}

/// A service that volumes are promised.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    name: String,
    /// Normalised IOPS that it gets when it asks for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    minimum: u64,
    /// Normalised IOPS that it gets at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maximum: Option<u64>,
    /// Bytes per second that it gets at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bandwidth: Option<Size>,
    /// Its part of what is left.
    #[serde(default = "default_weight")]
    weight: u32,
    /// Units that it may be ahead after it was idle.
    #[serde(default, skip_serializing_if = "is_zero")]
    burst: u64,
    #[serde(default)]
    sharing: SharingName,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SharingName {
    #[default]
    Dedicated,
    Aggregated,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn default_weight() -> u32 {
    config::Policy::none().weight
}

impl Policy {
    pub(super) fn to_config(&self) -> PolicyConfig {
        PolicyConfig {
            name: self.name.clone(),
            policy: config::Policy {
                minimum_iops: self.minimum,
                maximum_iops: self.maximum,
                bandwidth_bytes_per_s: self.bandwidth.map(|size| size.0),
                weight: self.weight,
                burst_units: self.burst,
            },
            sharing: match self.sharing {
                SharingName::Dedicated => Sharing::Dedicated,
                SharingName::Aggregated => Sharing::Aggregated,
            },
        }
    }

    pub(super) fn of(declared: &PolicyConfig) -> Policy {
        let policy = &declared.policy;
        Policy {
            name: declared.name.clone(),
            minimum: policy.minimum_iops,
            maximum: policy.maximum_iops,
            bandwidth: policy.bandwidth_bytes_per_s.map(Size),
            weight: policy.weight,
            burst: policy.burst_units,
            sharing: match declared.sharing {
                Sharing::Dedicated => SharingName::Dedicated,
                Sharing::Aggregated => SharingName::Aggregated,
            },
        }
    }
}
