//! The objects of a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use ::status::{ImageFault, Reason};
use pool::{Closed, Pool};
use qos::Found;
use raid::Group;
use scsi::{HostTraffic, Identity, LogicalUnit, Lun, Unavailable, VolatileState};
use stack::{CachedVolume, Disk, PoolJournal, Service, VolumeCache};
use world::sync::{Permits, Signal};
use world::{Drive, Instant};

use super::index::{Whereabouts, key_of};
use super::made::{Fresh, Kind};
use super::nexuses::Nexuses;
use super::partitions::Partitions;
use super::pool_service::PoolService;
use super::ports::OpenPort;
use super::refusals::Refusals;
use super::watch::Watch;
use crate::config::{Config, HostConfig, Made};
use crate::nodes::Nodes;
use crate::place::Place;
use crate::status::Unopened;
use crate::why::Told;

/// Pool and name of a volume. Declared names are unique in the array; pools may have others of the same name,
/// which no declaration names.
pub(crate) type VolumeKey = (String, String);

/// What a moving pool takes along; each part is used once.
#[derive(Default)]
pub(crate) struct Brought {
    /// How it was closed: its journal need not be searched.
    pub(crate) closed: Option<Closed>,
    /// With what its scheduler begins.
    pub(crate) found: Option<Found>,
}

/// A resync that waits.
pub(crate) struct ResyncWait {
    pub(crate) cause: String,
    /// For longer than the opening of pools takes.
    pub(crate) is_long: bool,
}

/// The objects of a controller.
pub(crate) struct State {
    pub(crate) config: Arc<Config>,
    /// Owner and block size of every declared volume and image.
    pub(crate) whereabouts: BTreeMap<String, Whereabouts>,
    /// Objects that were created earlier: they are opened, and never created again.
    pub(crate) made: Arc<Made>,
    /// Objects that were created for a declaration that is not in force yet.
    pub(crate) fresh: Fresh,
    /// Volumes whose commands wait, because they move between controllers.
    pub(crate) held: Arc<BTreeSet<String>>,
    /// The state with which the LUs of moving volumes begin, by volume.
    pub(crate) arriving: BTreeMap<String, VolatileState>,
    /// What pools take along that come from other controllers, or come back, by pool.
    pub(crate) brought: BTreeMap<String, Brought>,
    /// When hosts asked last that a pool be moved, or it came from another controller.
    pub(crate) asked_to_move: BTreeMap<String, Instant>,
    /// Missing objects, with the reason.
    pub(crate) missing: BTreeMap<(Kind, String), Told>,
    /// Volumes of open pools that no declaration has. What is to be deleted is not among them.
    pub(crate) undeclared: BTreeSet<VolumeKey>,
    pub(crate) drives: BTreeMap<String, Drive>,
    /// Drives that are being opened, and the tasks that wait for this.
    pub(crate) opening: BTreeSet<String>,
    pub(crate) opened: Rc<Signal>,
    pub(crate) groups: BTreeMap<String, Group>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) cache: Option<VolumeCache>,
    /// The drive of its second level.
    pub(crate) ssd: Option<String>,
    pub(crate) partitions: Partitions,
    /// Volumes behind the cache.
    pub(crate) units: BTreeMap<VolumeKey, CachedVolume>,
    /// By pool name.
    pub(crate) journals: BTreeMap<String, PoolJournal>,
    /// By the name of the volume or image.
    pub(crate) lus: BTreeMap<String, Rc<LogicalUnit<Disk>>>,
    /// The numbers of the LUs of volumes ([`Made::lu_numbers`]).
    pub(crate) lu_numbers: BTreeMap<String, u64>,
    /// Declared images that cannot be opened, with the reason.
    pub(crate) unopened: BTreeMap<String, Unopened>,
    pub(crate) ports: Vec<Rc<OpenPort>>,
    /// Declared spares that are in no group.
    pub(crate) spares: Vec<String>,
    /// The permit to write labels on spares.
    pub(crate) spare_turn: Permits,
    /// Ends the task that monitors the spares.
    pub(crate) spare_watch: Watch,
    /// Trouble with spares, as of the last check.
    pub(crate) spare_faults: BTreeMap<String, String>,
    /// Groups with a drive replacement by an administrator: no spare takes a position meanwhile.
    pub(crate) replacing: BTreeSet<String>,
    /// Groups whose rebuild, scrub and resync are paused.
    pub(crate) paused: BTreeSet<String>,
    /// Groups whose mirrors are not made equal yet, with the reason: what lies on them is not recovered.
    pub(crate) resync_waits: BTreeMap<String, ResyncWait>,
    /// Ends the tasks that monitor a group, by group name.
    pub(crate) group_watches: BTreeMap<String, Watch>,
    /// Ends the tasks that monitor a pool, by pool name.
    pub(crate) pool_watches: BTreeMap<String, Watch>,
    /// The schedulers of pools, by pool name.
    pub(crate) services: BTreeMap<String, PoolService>,
    /// The scheduler of images, once there is one.
    pub(crate) image_service: Option<Rc<Service>>,
    /// Ends its monitoring task.
    pub(crate) image_watch: Watch,
    /// Aggregated policies that have volumes or images in several schedulers, and which these are.
    pub(crate) spread: BTreeMap<String, BTreeSet<Place>>,
    /// Whether this controller divides them.
    pub(crate) divides: bool,
    pub(crate) nexuses: Nexuses,
    pub(crate) nodes: Arc<Nodes>,
    /// The target ports, as hosts see them.
    pub(crate) listed_ports: Rc<scsi::Ports>,
    pub(crate) refusals: Refusals,
    /// What hosts were served, by the name of the host: it outlives their sessions.
    pub(crate) host_traffic: BTreeMap<String, Rc<HostTraffic>>,
}

/// What a host sees, by LUN.
#[derive(Default)]
pub(crate) struct Mapped {
    /// The LUs of this controller.
    pub(crate) here: BTreeMap<Lun, Rc<LogicalUnit<Disk>>>,
    /// Those of the others.
    pub(crate) elsewhere: Vec<(Lun, Whereabouts)>,
    /// Those of this controller that are not open.
    pub(crate) unavailable: BTreeMap<Lun, Unavailable>,
}

impl State {
    /// A controller without objects.
    pub(crate) fn new() -> State {
        State {
            config: Arc::new(Config::empty("")),
            whereabouts: BTreeMap::new(),
            made: Arc::default(),
            fresh: Fresh::default(),
            held: Arc::default(),
            arriving: BTreeMap::new(),
            brought: BTreeMap::new(),
            asked_to_move: BTreeMap::new(),
            missing: BTreeMap::new(),
            undeclared: BTreeSet::new(),
            drives: BTreeMap::new(),
            opening: BTreeSet::new(),
            opened: Rc::default(),
            groups: BTreeMap::new(),
            pools: BTreeMap::new(),
            cache: None,
            ssd: None,
            partitions: Partitions::default(),
            units: BTreeMap::new(),
            journals: BTreeMap::new(),
            lus: BTreeMap::new(),
            lu_numbers: BTreeMap::new(),
            unopened: BTreeMap::new(),
            ports: Vec::new(),
            spares: Vec::new(),
            spare_turn: Permits::new(1),
            spare_watch: Watch::default(),
            spare_faults: BTreeMap::new(),
            replacing: BTreeSet::new(),
            paused: BTreeSet::new(),
            resync_waits: BTreeMap::new(),
            group_watches: BTreeMap::new(),
            pool_watches: BTreeMap::new(),
            services: BTreeMap::new(),
            image_service: None,
            image_watch: Watch::default(),
            spread: BTreeMap::new(),
            divides: false,
            nexuses: Nexuses::default(),
            nodes: Arc::default(),
            listed_ports: Rc::default(),
            refusals: Refusals::default(),
            host_traffic: BTreeMap::new(),
        }
    }

    /// What a pool takes along; nothing, if it has not moved.
    pub(crate) fn brought_by(&mut self, pool: &str) -> &mut Brought {
        self.brought.entry(pool.to_owned()).or_default()
    }

    /// What a host sees of the controller with this number.
    pub(crate) fn what_host_sees(&self, host: &HostConfig, index: usize) -> Mapped {
        let mut mapped = Mapped::default();
        host.luns.iter().for_each(|seen| self.place(seen, index, &mut mapped));
        mapped
    }

    /// Whether the LU of this name was withheld when it was to be opened last: it is busy until it is opened,
    /// or turns out to be missing for another reason.
    fn waits_for_claim(&self, name: &str) -> bool {
        let groups = (Kind::Group, String::new())..(Kind::Pool, String::new());
        let mut withheld =
            self.missing.range(groups).filter(|(_, told)| told.why.reason == Reason::Unclaimed);
        let is_image = || self.unopened.get(name).is_some_and(|image| image.fault == ImageFault::Unclaimed);
        let pool = || self.config.pool(&self.config.volume(name)?.pool);
        is_image()
            || withheld.clone().next().is_some()
                && pool().is_some_and(|pool| {
                    withheld.any(|((_, group), _)| {
                        pool.groups.contains(group) || pool.journal.as_ref() == Some(group)
                    })
                })
    }

    /// Adds one LUN of a host to the view.
    pub(crate) fn place(&self, (lun, name): (&u16, &String), index: usize, mapped: &mut Mapped) {
        let lun = Lun(*lun);
        match (self.lus.get(name), self.whereabouts.get(name)) {
            (Some(lu), _) => _ = mapped.here.insert(lun, lu.clone()),
            (None, Some(at)) if at.owner != index || self.held.contains(name) => {
                mapped.elsewhere.push((lun, *at));
            }
            (None, Some(at)) => {
                let number = self.made.lu_numbers.get(name);
                let identity = number.map(|number| identity_of(&self.config, (name, *number)));
                let is_busy = self.waits_for_claim(name);
                _ = mapped.unavailable.insert(lun, Unavailable { key: at.key, identity, is_busy });
            }
            (None, None) => {}
        }
    }
}

/// The identity of the LU of a volume or an image, from its number.
pub(crate) fn identity_of(config: &Config, (name, number): (&str, u64)) -> Identity {
    let array = u64::from_be_bytes(config.id.0[..8].try_into().expect("8 of 16 bytes"));
    Identity { key: key_of(name), ..Identity::of(array, number) }
}
