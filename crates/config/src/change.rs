//! What a declaration may become while the array runs.

use std::collections::BTreeMap;

use crate::{Config, ConfigError, ImageConfig, VolumeConfig};

impl Config {
    /// Whether an array that runs as `self` declares can run as `next` declares without a restart, and
    /// without data that nobody has moved away yet.
    ///
    /// # Errors
    /// Which object stands in the way.
    pub fn may_become(&self, next: &Config) -> Result<(), ConfigError> {
        for pool in &self.pools {
            let Some(later) = next.pool(&pool.name) else { continue };
            let place = || format!("pool {:?}", pool.name);
            let stays = |g: &&String| later.groups.contains(g) || later.leaving.contains(g);
            if let Some(group) = pool.groups.iter().find(|g| !stays(g)) {
                let cause = format!(
                    "group {group:?} is in it: use `masu pool remove-group`, which moves its pages away first"
                );
                return Err(ConfigError { place: place(), cause });
            }
        }
        self.groups_stay(next)?;
        self.volumes_stay(next)?;
        for image in &self.images {
            // Its policy may change while it is open.
            let is_same =
                |later: &ImageConfig| *later == ImageConfig { policy: later.policy.clone(), ..image.clone() };
            if next.image(&image.name).is_some_and(|later| !is_same(later)) {
                let cause =
                    "is open as it was declared: remove it before it is declared in another way".into();
                return Err(ConfigError { place: format!("image {:?}", image.name), cause });
            }
        }
        Ok(())
    }

    /// A group keeps the layout of its data.
    fn groups_stay(&self, next: &Config) -> Result<(), ConfigError> {
        for group in &self.groups {
            let Some(later) = next.groups.iter().find(|later| later.name == group.name) else { continue };
            if (later.level, later.stripe_unit_bytes) != (group.level, group.stripe_unit_bytes) {
                let cause = "its level and stripe unit stay as they were made: make another group, and move the \
                             data there (`masu pool add-group`, `masu pool remove-group`)";
                return Err(ConfigError { place: format!("group {:?}", group.name), cause: cause.into() });
            }
        }
        Ok(())
    }

    /// A volume stays in its pool, and its hosts keep their block length.
    fn volumes_stay(&self, next: &Config) -> Result<(), ConfigError> {
        let later: BTreeMap<&str, &VolumeConfig> =
            next.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect();
        for volume in &self.volumes {
            let Some(later) = later.get(volume.name.as_str()) else { continue };
            let cause = match () {
                () if later.pool != volume.pool => {
                    format!(
                        "is in pool {:?}: copy it into a new volume of pool {:?}",
                        volume.pool, later.pool
                    )
                }
                () if later.block_bytes != volume.block_bytes => {
                    format!(
                        "has blocks of {} bytes, which its hosts use: make a new volume",
                        volume.block_bytes
                    )
                }
                () => continue,
            };
            return Err(ConfigError { place: format!("volume {:?}", volume.name), cause });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, GroupConfig, Level, PoolConfig, VolumeConfig};

    fn declared(groups: &[&str], leaving: &[&str], controller: usize) -> Config {
        let names = |list: &[&str]| list.iter().map(|g| (*g).to_owned()).collect();
        let pool =
            PoolConfig { leaving: names(leaving), controller, ..PoolConfig::new("p".into(), names(groups)) };
        Config { pools: vec![pool], ..Config::empty("iqn.2026-11.test:array") }
    }

    fn check(next: &Config, refusal: Option<&str>) {
        let outcome = declared(&["a", "b"], &[], 0).may_become(next);
        match refusal {
            None => assert_eq!(outcome, Ok(())),
            Some(part) => {
                let text = outcome.expect_err("it is refused").to_string();
                assert!(text.contains(part), "{text:?} does not say {part:?}");
            }
        }
    }

    #[test]
    fn what_lies_on_the_drives_is_not_declared_anew() {
        let with = |level, pool: &str, block_bytes| Config {
            groups: vec![GroupConfig::new("g".into(), level, vec!["d0".into(), "d1".into()])],
            volumes: vec![VolumeConfig {
                block_bytes,
                ..VolumeConfig::new("v".into(), pool.into(), 1 << 20)
            }],
            ..declared(&["g"], &[], 0)
        };
        let now = with(Level::Raid1, "p", 512);
        let refused = |next: &Config| now.may_become(next).expect_err("refused").to_string();
        assert_eq!(now.may_become(&now), Ok(()));
        assert!(refused(&with(Level::Raid0, "p", 512)).contains("level"));
        assert!(refused(&with(Level::Raid1, "q", 512)).contains("is in pool"));
        assert!(refused(&with(Level::Raid1, "p", 4096)).contains("blocks"));
    }

    #[test]
    fn a_pool_loses_no_group_by_declaration() {
        check(&declared(&["a", "b", "c"], &[], 0), None);
        check(&declared(&["b"], &["a"], 0), None);
        check(&Config::empty("iqn.2026-11.test:array"), None);
        check(&declared(&["b"], &[], 0), Some("remove-group"));
        check(&declared(&["a", "b"], &[], 1), None);
    }
}
