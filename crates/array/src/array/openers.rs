//! Which controllers may have the drives of a pool open: for who takes drives from a controller that is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Config, DriveConfig};

/// Which controllers may have which drives open. Cheap to clone; it can be asked while the array changes.
#[derive(Clone)]
pub struct Openers(Arc<Mutex<State>>);

struct State {
    config: Arc<Config>,
    /// Pools of which the declaration does not say it: one that moves, and one whose move has failed at a
    /// controller that was gone.
    others: BTreeMap<String, BTreeSet<usize>>,
    /// Drives that are to take a place of a group, each with the controller that may have it open. The
    /// declaration has them when that has succeeded.
    given: BTreeMap<String, usize>,
}

impl Openers {
    pub(super) fn new(config: &Config) -> Openers {
        let (config, others, given) = (Arc::new(config.clone()), BTreeMap::new(), BTreeMap::new());
        Openers(Arc::new(Mutex::new(State { config, others, given })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The declaration in force.
    pub fn config(&self) -> Arc<Config> {
        self.state().config.clone()
    }

    /// The part of the declaration of which these controllers may have drives open, and no other one has.
    pub fn part(&self, controllers: &[usize]) -> Config {
        let state = self.state();
        let mut config = Config::clone(&state.config);
        for pool in &mut config.pools {
            if let Some(openers) = state.others.get(&pool.name) {
                let opener = openers.iter().find(|index| controllers.contains(index));
                pool.controller = opener.copied().unwrap_or(usize::MAX);
            }
        }
        let mut part = config.of_controllers(controllers);
        let given = |drive: &String| state.given.get(drive).is_some_and(|index| controllers.contains(index));
        let more =
            state.config.drives.iter().filter(|drive| given(&drive.name) && !part.drives.contains(drive));
        let more: Vec<DriveConfig> = more.cloned().collect();
        part.drives.extend(more);
        part
    }

    /// This controller may open a drive for a group of its own.
    pub(super) fn gives(&self, drive: &str, controller: usize) {
        self.state().given.insert(drive.into(), controller);
    }

    /// It has not opened it, or the declaration says so.
    pub(super) fn has_settled(&self, drive: &str) {
        self.state().given.remove(drive);
    }

    pub(super) fn in_force(&self, config: &Config) {
        let mut state = self.state();
        state.given.retain(|drive, _| !config.groups.iter().any(|group| group.drives.contains(drive)));
        state.config = Arc::new(config.clone());
    }

    /// This controller may have the pool open; none: nobody has.
    pub(super) fn has(&self, pool: &str, controller: Option<usize>) {
        self.state().others.insert(pool.into(), controller.into_iter().collect());
    }

    /// The move is over, and failed: whichever of the two begins anew, the drives are taken from the other.
    pub(super) fn left(&self, pool: &str, (from, to): (usize, usize)) {
        self.state().others.insert(pool.into(), BTreeSet::from([from, to]));
    }

    /// The controller that is declared has it.
    pub(super) fn as_declared(&self, pool: &str) {
        self.state().others.remove(pool);
    }

    /// This controller has begun anew, and opened what is declared.
    pub(super) fn opened(&self, controller: usize) {
        let state = &mut *self.state();
        let is_its =
            |name: &String| state.config.pool(name).is_some_and(|pool| pool.controller == controller);
        state.others.retain(|pool, _| !is_its(pool));
        // What the one before it had open it has opened itself, if it is a drive of a group.
        state.given.retain(|_, at| *at != controller);
    }

    /// The pools that are not open where they are declared.
    pub(super) fn on_their_way(&self) -> BTreeSet<String> {
        self.state().others.keys().cloned().collect()
    }

    /// The pools that this controller may have open although another one is declared.
    pub(super) fn left_at(&self, controller: usize) -> Vec<String> {
        let others = &self.state().others;
        let left = others.iter().filter(|(_, openers)| openers.contains(&controller));
        left.map(|(pool, _)| pool.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DriveSpec;
    use crate::config::{DriveConfig, GroupConfig, Level, PoolConfig};

    #[test]
    fn a_pool_on_its_way_is_claimed_with_the_controller_that_may_have_it() {
        let mut config = Config::empty("iqn.2026-11.test:a");
        for n in 0..2 {
            let (drive, group) = (format!("d{n}"), format!("g{n}"));
            let spec = DriveSpec::Modelled { name: drive.clone() };
            config.drives.push(DriveConfig { name: drive.clone(), spec });
            config.groups.push(GroupConfig::new(group.clone(), Level::Raid0, vec![drive]));
            config.pools.push(PoolConfig { controller: n, ..PoolConfig::new(format!("p{n}"), vec![group]) });
        }
        config.drives.push(DriveConfig { name: "s".into(), spec: DriveSpec::Modelled { name: "s".into() } });
        let openers = Openers::new(&config);
        let drives = || {
            let of = |index| openers.part(&[index]).drives.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
            [of(0), of(1)].map(|names| names.join(" "))
        };
        assert_eq!(drives(), ["d0", "d1"]);
        openers.has("p0", None);
        assert_eq!(drives(), ["", "d1"], "closed, and not open again");
        openers.has("p0", Some(1));
        assert_eq!(drives(), ["", "d0 d1"], "the first one must not be fenced where it is open now");
        openers.left("p0", (0, 1));
        assert_eq!(drives(), ["d0", "d0 d1"], "wherever it is opened next, the other one may have it");
        assert_eq!(openers.left_at(1), ["p0"]);
        openers.as_declared("p0");
        assert_eq!(drives(), ["d0", "d1"]);
        // One that is to take a place there, and that may be open when the controller is lost.
        openers.gives("s", 1);
        assert_eq!(drives(), ["d0", "d1 s"]);
        openers.has_settled("s");
        openers.gives("s", 0);
        assert_eq!(drives(), ["d0 s", "d1"]);
        openers.opened(0);
        assert_eq!(drives(), ["d0", "d1"]);
        config.pools[0].controller = 1;
        openers.in_force(&config);
        assert_eq!(drives(), ["", "d0 d1"]);
    }
}
