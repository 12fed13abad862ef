//! What a controller owns.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use pool::Pool;
use raid::Group;
use scsi::{LogicalUnit, Lun};
use stack::{CachedVolume, Disk, PoolJournal, Service, VolumeCache};
use world::Drive;
use world::sync::{Permits, Signal};

use super::index::Whereabouts;
use super::made::{Fresh, Kind};
use super::nexuses::Nexuses;
use super::partitions::Partitions;
use super::pool_service::PoolService;
use super::ports::OpenPort;
use super::refusals::Refusals;
use super::watch::Watch;
use crate::config::{Config, HostConfig, Made};

/// What a controller owns.
pub(crate) struct State {
    pub(crate) config: Arc<Config>,
    /// Where every declared volume and image is served.
    pub(crate) whereabouts: BTreeMap<String, Whereabouts>,
    /// What was made before: it is opened, and not made again.
    pub(crate) made: Arc<Made>,
    /// What was made since, for a declaration that is not in force yet.
    pub(crate) fresh: Fresh,
    /// What is declared and was made, and cannot be opened; why.
    pub(crate) missing: BTreeMap<(Kind, String), String>,
    pub(crate) drives: BTreeMap<String, Drive>,
    /// Names of drives that are being opened, and who waits for that.
    pub(crate) opening: BTreeSet<String>,
    pub(crate) opened: Rc<Signal>,
    pub(crate) groups: BTreeMap<String, Group>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) cache: Option<VolumeCache>,
    pub(crate) partitions: Partitions,
    /// Volumes under the cache, by name.
    pub(crate) units: BTreeMap<String, CachedVolume>,
    /// By the pool's name.
    pub(crate) journals: BTreeMap<String, PoolJournal>,
    /// By the name of the volume or image.
    pub(crate) lus: BTreeMap<String, Rc<LogicalUnit<Disk>>>,
    /// Declared images that cannot be opened, and why.
    pub(crate) unopened: BTreeMap<String, String>,
    pub(crate) ports: Vec<Rc<OpenPort>>,
    /// Declared spares that nobody has taken.
    pub(crate) spares: Vec<String>,
    /// Whoever has it may write labels on spares.
    pub(crate) spare_turn: Permits,
    /// Who looks at the spares.
    pub(crate) spare_watch: Watch,
    /// What is wrong with spares, since they were looked at the last time.
    pub(crate) spare_faults: BTreeMap<String, String>,
    /// Groups in which a place is being given to a drive by hand: no spare takes it meanwhile.
    pub(crate) replacing: BTreeSet<String>,
    /// Groups whose rebuild, scrub and comparison of mirrors wait until they are resumed.
    pub(crate) paused: BTreeSet<String>,
    /// Who looks after a group, by its name.
    pub(crate) group_watches: BTreeMap<String, Watch>,
    /// Who listens to a pool, by its name.
    pub(crate) pool_watches: BTreeMap<String, Watch>,
    /// What keeps the promises to the volumes of a pool, by its name.
    pub(crate) services: BTreeMap<String, PoolService>,
    /// What keeps the promises to images, once there is one.
    pub(crate) image_service: Option<Rc<Service>>,
    /// Who looks after that.
    pub(crate) image_watch: Watch,
    pub(crate) nexuses: Nexuses,
    pub(crate) refusals: Refusals,
}

pub(crate) type Here = BTreeMap<Lun, Rc<LogicalUnit<Disk>>>;

impl State {
    /// Nothing.
    pub(crate) fn new() -> State {
        State {
            config: Arc::new(Config::empty("")),
            whereabouts: BTreeMap::new(),
            made: Arc::default(),
            fresh: Fresh::default(),
            missing: BTreeMap::new(),
            drives: BTreeMap::new(),
            opening: BTreeSet::new(),
            opened: Rc::default(),
            groups: BTreeMap::new(),
            pools: BTreeMap::new(),
            cache: None,
            partitions: Partitions::default(),
            units: BTreeMap::new(),
            journals: BTreeMap::new(),
            lus: BTreeMap::new(),
            unopened: BTreeMap::new(),
            ports: Vec::new(),
            spares: Vec::new(),
            spare_turn: Permits::new(1),
            spare_watch: Watch::default(),
            spare_faults: BTreeMap::new(),
            replacing: BTreeSet::new(),
            paused: BTreeSet::new(),
            group_watches: BTreeMap::new(),
            pool_watches: BTreeMap::new(),
            services: BTreeMap::new(),
            image_service: None,
            image_watch: Watch::default(),
            nexuses: Nexuses::default(),
            refusals: Refusals::default(),
        }
    }

    /// The LUs of this controller that a host sees, and who serves its others.
    pub(crate) fn what_host_sees(&self, host: &HostConfig, index: usize) -> (Here, Vec<(Lun, Whereabouts)>) {
        let (mut here, mut elsewhere) = (BTreeMap::new(), Vec::new());
        host.luns.iter().for_each(|seen| self.place(seen, index, &mut here, &mut elsewhere));
        (here, elsewhere)
    }

    /// Says of one LUN of a host where it is served.
    pub(crate) fn place(
        &self,
        (lun, name): (&u16, &String),
        index: usize,
        here: &mut Here,
        elsewhere: &mut Vec<(Lun, Whereabouts)>,
    ) {
        match (self.lus.get(name), self.whereabouts.get(name)) {
            (Some(lu), _) => _ = here.insert(Lun(*lun), lu.clone()),
            (None, Some(at)) if at.owner != index => elsewhere.push((Lun(*lun), *at)),
            (None, _) => {}
        }
    }
}
