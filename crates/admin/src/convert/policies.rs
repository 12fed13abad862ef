//! The part of the status that is about services that volumes are promised.

use config::{Config, PolicyConfig, Sharing};

use status::Policy;

pub(super) fn policy(declared: &PolicyConfig, config: &Config) -> Policy {
    let having = config.promised().filter(|(_, _, policy)| *policy == Some(&declared.name));
    Policy {
        name: declared.name.clone(),
        minimum_iops: declared.minimum_iops,
        maximum_iops: declared.maximum_iops,
        bandwidth_bytes_per_s: declared.bandwidth_bytes_per_s,
        weight: declared.weight,
        burst_units: declared.burst_units,
        sharing: match declared.sharing {
            Sharing::Dedicated => "dedicated".into(),
            Sharing::Aggregated => "aggregated".into(),
        },
        volumes: having.map(|(_, name, _)| name.clone()).collect(),
    }
}
