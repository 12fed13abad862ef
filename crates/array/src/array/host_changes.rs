//! Describes what a new declaration changes for hosts.

use std::collections::BTreeMap;

use crate::config::{Config, HostConfig};

/// A line for each change. Secrets are not shown.
pub(super) fn host_changes(old: &Config, new: &Config) -> Vec<String> {
    let by_name = |config| -> BTreeMap<&str, &HostConfig> {
        let hosts: &Vec<HostConfig> = config;
        hosts.iter().map(|h| (h.name.as_str(), h)).collect()
    };
    let (known, now) = (by_name(&old.hosts), by_name(&new.hosts));
    let mut lines = Vec::new();
    for host in &new.hosts {
        let before = known.get(host.name.as_str()).copied();
        let same_identity = |h: &&HostConfig| {
            h.initiator == host.initiator && h.chap == host.chap && h.mutual_chap == host.mutual_chap
        };
        if before.filter(same_identity).is_none() {
            lines.push(format!("host {}: {}", host.name, host.initiator));
        }
        let saw = before.map(|h| h.luns.clone()).unwrap_or_default();
        let news = host.luns.iter().filter(|(lun, volume)| saw.get(lun) != Some(volume));
        lines.extend(news.map(|(lun, volume)| format!("host {}: {volume} mapped as LUN {lun}", host.name)));
        let gone = saw.iter().filter(|(lun, _)| !host.luns.contains_key(lun));
        lines.extend(gone.map(|(lun, volume)| format!("host {}: {volume} (LUN {lun}) unmapped", host.name)));
    }
    let removed = old.hosts.iter().filter(|h| !now.contains_key(h.name.as_str()));
    lines.extend(removed.map(|h| format!("host {}: removed", h.name)));
    lines
}
