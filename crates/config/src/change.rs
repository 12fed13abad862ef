//! What a declaration may become while the array runs.

use crate::{Config, ConfigError, ImageConfig};

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
}

#[cfg(test)]
mod tests {
    use crate::{Config, PoolConfig};

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
    fn a_pool_loses_no_group_by_declaration() {
        check(&declared(&["a", "b", "c"], &[], 0), None);
        check(&declared(&["b"], &["a"], 0), None);
        check(&Config::empty("iqn.2026-11.test:array"), None);
        check(&declared(&["b"], &[], 0), Some("remove-group"));
        check(&declared(&["a", "b"], &[], 1), None);
    }
}
