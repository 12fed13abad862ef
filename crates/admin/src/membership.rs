//! The declaration follows the array: a spare that took a place by itself is a drive of its group from then
//! on, a group that has left its pool is leaving no more, and one that has joined it late is in it.

use std::collections::BTreeSet;

use config::Config;

use status::Status;

/// The declaration as the array stands, when it is not that already.
pub(crate) fn followed(config: &Config, status: &Status) -> Option<Config> {
    let mut next = config.clone();
    let used: BTreeSet<&String> = config.groups.iter().flat_map(|g| &g.drives).collect();
    for group in &mut next.groups {
        let Some(now) = status.groups.iter().find(|g| g.name == group.name) else { continue };
        let is_member = |drive: &String| now.members.iter().any(|m| m.drive.as_ref() == Some(drive));
        for drive in now.members.iter().filter_map(|m| m.drive.as_ref()) {
            // A spare; or a drive that took the place of another by command, which could not be stored then.
            let is_free = next.drives.iter().any(|d| d.name == *drive) && !used.contains(drive);
            if !next.spares.contains(drive) && !is_free {
                continue;
            }
            // The declaration need not have the order of the places: what has no place any more is what left.
            if let Some(left) = group.drives.iter_mut().find(|d| !is_member(d)) {
                left.clone_from(drive);
                next.spares.retain(|s| s != drive);
            }
        }
    }
    for pool in &mut next.pools {
        let Some(now) = status.pools.iter().find(|p| p.name == pool.name) else { continue };
        pool.leaving.retain(|group| now.group_spaces.iter().any(|g| g.name == *group));
        // Its addition was begun when the pool's metadata could not be written, and refused.
        let is_declared = |name: &&String| config.groups.iter().any(|group| group.name == **name);
        let joined = now.group_spaces.iter().map(|g| &g.name).filter(is_declared);
        let joined: Vec<String> =
            joined.filter(|name| !pool.all_groups().any(|g| g == *name)).cloned().collect();
        pool.groups.extend(joined);
    }
    (next != *config && next.check().is_ok()).then_some(next)
}

#[cfg(test)]
mod tests {
    use config::{DriveConfig, GroupConfig, Level, PoolConfig};

    use super::*;
    use status::{Group, Member, Pool, PoolGroup};

    fn declared() -> Config {
        let mut config = Config::empty("iqn.2026-11.net.example:x");
        let spec = |name: &str| array::DriveSpec::Memory { name: name.into(), len_bytes: 1 << 30 };
        let names = ["d0", "d1", "e0", "e1", "s0"];
        config.drives = names.map(|name| DriveConfig { name: name.into(), spec: spec(name) }).into();
        config.spares = vec!["s0".into()];
        let group = |name: &str, drives: [&str; 2]| GroupConfig {
            stripe_unit_bytes: 64 << 10,
            ..GroupConfig::new(name.into(), Level::Raid1, drives.map(Into::into).into())
        };
        config.groups = vec![group("g0", ["d0", "d1"]), group("g1", ["e0", "e1"])];
        config.pools = vec![PoolConfig {
            leaving: vec!["g1".into()],
            ..PoolConfig::new("p0".into(), vec!["g0".into()])
        }];
        config
    }

    fn status(config: &Config, members: &[Option<&str>], in_pool: &[&str]) -> Status {
        let mut status = crate::convert::status_of(config, vec![], 0);
        let member = |(position, drive): (u32, &Option<&str>)| Member {
            slow: false,
            errors: 0,
            silences: 0,
            p99_us: None,
            position,
            drive: drive.map(Into::into),
            state: "active".into(),
            cause: None,
        };
        status.groups = vec![Group {
            name: "g0".into(),
            level: "raid1".into(),
            drives: vec![],
            size_bytes: 0,
            state: "optimal".into(),
            tolerates: 1,
            members: (0..).zip(members).map(member).collect(),
            rebuild: None,
            scrub: None,
            lost_ranges: 0,
            differing_blocks: 0,
            resync_waits: None,
            repairs: 0,
            foreground_share_percent: 70,
            class: String::new(),
            start_degraded: false,
        }];
        let space =
            |name: &&str| PoolGroup { name: (*name).into(), size_bytes: 0, used_bytes: 0, evacuating: false };
        status.pools = vec![Pool {
            heat: Default::default(),
            name: "p0".into(),
            groups: vec![],
            page_bytes: 0,
            size_bytes: 0,
            used_bytes: 0,
            token_bytes: 0,
            full_in_s: None,
            promised_bytes: 0,
            soft_threshold_percent: 80,
            critical_threshold_percent: 95,
            group_spaces: in_pool.iter().map(space).collect(),
            controller: 0,
            operations: 0,
            no_room: None,
            refused_writes: None,
            refusing_medium: None,
        }];
        status
    }

    #[test]
    fn the_declaration_follows_spares_and_groups_that_left() {
        let config = declared();
        let same = status(&config, &[Some("d0"), Some("d1")], &["g0", "g1"]);
        assert_eq!(followed(&config, &same), None);
        // A place without a drive waits for one.
        assert_eq!(followed(&config, &status(&config, &[Some("d0"), None], &["g0", "g1"])), None);
        let taken = followed(&config, &status(&config, &[Some("s0"), Some("d0")], &["g0", "g1"]));
        let taken = taken.expect("a spare took a place");
        assert_eq!(taken.groups[0].drives, ["d0", "s0"]);
        assert!(taken.spares.is_empty() && taken.pools[0].leaving == ["g1"]);
        assert_eq!(followed(&taken, &status(&config, &[Some("s0"), Some("d0")], &["g0", "g1"])), None);
        // A free drive took a place by command, and that could not be stored.
        let free = Config { spares: vec![], ..config.clone() };
        let replaced = followed(&free, &status(&free, &[Some("d0"), Some("s0")], &["g0", "g1"]));
        assert_eq!(replaced.expect("it follows").groups[0].drives, ["d0", "s0"]);
        let left = followed(&config, &status(&config, &[Some("d0"), Some("d1")], &["g0"]));
        assert!(left.expect("a group has left").pools[0].leaving.is_empty());
        let mut without = config.clone();
        without.pools[0].leaving.clear();
        let joined = followed(&without, &same).expect("a group has joined late");
        assert_eq!(joined.pools[0].groups, ["g0", "g1"]);
        without.groups.retain(|group| group.name == "g0");
        assert_eq!(followed(&without, &same), None, "what is not declared cannot be in it");
    }
}
