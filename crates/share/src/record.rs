//! What nodes keep in the registry, as TOML: policies, reports and shares.

use std::collections::BTreeMap;

use qos::Policy;
use registry::record::{decode, encode};
use registry::{Key, RecordError};
use serde::{Deserialize, Serialize};

/// The key of the policies.
pub const POLICIES: &str = "qos/policies";
/// The key of the shares in force.
pub const SHARES: &str = "qos/shares";

/// What a node says of one of its disks, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskReport {
    /// In the last interval.
    pub served: u64,
    /// The share in force meanwhile; none: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<u64>,
    /// Bytes of its largest request.
    pub largest: u64,
    /// Whether it had requests nearly all the time.
    pub hungry: bool,
    /// Whether it had, and its share made none wait: the array did, or it has too few at once.
    #[serde(default)]
    pub held_up: bool,
    /// What it would take; none: all that it can get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<u64>,
    /// Bytes served since the node began.
    #[serde(default)]
    pub total: u64,
    /// Requests that it had on average, in thousandths.
    #[serde(default)]
    pub outstanding: u64,
    /// Of these, the ones at the array; in thousandths.
    #[serde(default)]
    pub below: u64,
}

/// What a node says of its disks, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Bytes of a unit of its policies.
    pub unit: u64,
    /// The lease that it is bound to: two nodes of one name differ in it.
    pub lease: u64,
    /// By name.
    #[serde(default)]
    pub disks: BTreeMap<String, DiskReport>,
}

/// What a disk is granted, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The rate in force while the leader corrects it every interval.
    pub rate: u64,
    /// The rate in force while the registry is away: without what was to be made up.
    pub steady: u64,
}

/// What the leader has divided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// The node that divided.
    pub leader: String,
    /// The capacity that was divided, bytes per second.
    pub sum: u64,
    /// Of 1000: what of the minimums could be given.
    pub scale_permille: u64,
    /// What each disk is granted, by its name.
    #[serde(default)]
    pub disks: BTreeMap<String, Grant>,
    /// What the array does with so many requests in flight: thousandths of a request, and bytes per second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(u64, u64)>,
}

/// A policy as it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptPolicy {
    #[serde(default, skip_serializing_if = "is_none")]
    minimum: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maximum: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bandwidth: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
}

fn is_none(minimum: &u64) -> bool {
    *minimum == 0
}

impl Report {
    /// For the registry.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// # Errors
    /// A value that is not a report.
    pub fn decode(key: &Key, bytes: &[u8]) -> Result<Report, RecordError> {
        decode(key.as_str(), bytes)
    }
}

impl Shares {
    /// For the registry.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// # Errors
    /// A value that is not one of shares.
    pub fn decode(bytes: &[u8]) -> Result<Shares, RecordError> {
        decode(SHARES, bytes)
    }
}

/// Policies by disk, for the registry.
pub(crate) fn encode_policies(policies: &BTreeMap<String, Policy>) -> Vec<u8> {
    let kept = |policy: &Policy| KeptPolicy {
        minimum: policy.minimum_iops,
        maximum: policy.maximum_iops,
        bandwidth: policy.bandwidth_bytes_per_s,
        weight: Some(policy.weight).filter(|weight| *weight != qos::WEIGHT_DEFAULT),
    };
    let kept: BTreeMap<&String, KeptPolicy> =
        policies.iter().map(|(disk, policy)| (disk, kept(policy))).collect();
    encode(&kept)
}

/// Policies by disk; one that cannot be kept is an error.
pub(crate) fn decode_policies(bytes: &[u8]) -> Result<BTreeMap<String, Policy>, RecordError> {
    let kept: BTreeMap<String, KeptPolicy> = decode(POLICIES, bytes)?;
    let policy = |(disk, kept): (String, KeptPolicy)| {
        let policy = Policy {
            minimum_iops: kept.minimum,
            maximum_iops: kept.maximum,
            bandwidth_bytes_per_s: kept.bandwidth,
            weight: kept.weight.unwrap_or(qos::WEIGHT_DEFAULT),
            ..Policy::none()
        };
        let checked = policy.check().map_err(|e| RecordError::new(POLICIES, format!("{disk}: {e}")));
        checked.map(|()| (disk, policy))
    };
    kept.into_iter().map(policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_registry_and_damaged_ones_are_errors() {
        let report = DiskReport {
            served: 1,
            granted: Some(2),
            largest: 8192,
            hungry: true,
            held_up: true,
            demand: None,
            total: 3,
            outstanding: 4000,
            below: 3999,
        };
        let report = Report { unit: 8192, lease: 1, disks: [("vm-1.vhdx".into(), report)].into() };
        let key = Key::new("qos/nodes/a").expect("a key");
        assert_eq!(Report::decode(&key, &report.encode()), Ok(report));
        let disks = [("d".into(), Grant { rate: 9, steady: 8 })].into();
        let shares =
            Shares { leader: "a".into(), sum: 9, scale_permille: 1000, disks, curve: vec![(1500, 7)] };
        assert_eq!(Shares::decode(&shares.encode()), Ok(shares));
        let policies: BTreeMap<String, Policy> = [
            ("a".to_owned(), Policy { minimum_iops: 5, weight: 7, ..Policy::none() }),
            ("b".to_owned(), Policy { maximum_iops: Some(9), ..Policy::none() }),
        ]
        .into();
        assert_eq!(decode_policies(&encode_policies(&policies)), Ok(policies));
        for bad in [&b"\xff"[..], b"unit = -1", b"[disks.d]", b"nonsense"] {
            assert!(Report::decode(&key, bad).is_err() && Shares::decode(bad).is_err());
        }
        assert!(decode_policies(b"a = { minimum = 9, maximum = 5 }").is_err());
    }
}
