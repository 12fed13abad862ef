//! An index of a declaration by name: built once per pass over many objects, so that the pass takes linear
//! time.

use std::collections::{BTreeMap, BTreeSet};

use status::Mapping;

use super::slices::Slices;
use crate::config::{Config, HostConfig, ImageConfig, Sharing, VolumeConfig};
use crate::place::Place;

/// The block size that a port assumes for an image of another controller until it has asked.
pub(crate) const SECTOR_BYTES: u32 = 512;

/// Volumes, images, hosts and mappings of a declaration by name.
pub(crate) struct Index<'a> {
    volumes: BTreeMap<&'a str, &'a VolumeConfig>,
    images: BTreeMap<&'a str, &'a ImageConfig>,
    seers: BTreeMap<&'a str, Vec<(&'a str, u16)>>,
    /// Hosts by initiator name.
    hosts: BTreeMap<&'a str, &'a HostConfig>,
    /// The controllers of pools.
    pools: BTreeMap<&'a str, usize>,
    /// The declared size of all volumes, by pool.
    promised_bytes: BTreeMap<&'a str, u64>,
    /// The schedulers in which an aggregated policy has volumes or images.
    places: BTreeMap<&'a str, BTreeSet<Place>>,
}

/// The owner of a LU, which one it is, and its block size: what a port must know about the LUs of other
/// controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) owner: usize,
    pub(crate) key: u64,
    pub(crate) block_bytes: u32,
}

/// By what all controllers know the LU of a volume or an image: the name is all that they share.
pub(crate) fn key_of(name: &str) -> u64 {
    world::fnv1a(name.bytes())
}

impl<'a> Index<'a> {
    pub(crate) async fn of(config: &'a Config, slices: &mut Slices) -> Index<'a> {
        let pools = config.pools.iter().map(|p| (p.name.as_str(), p.controller)).collect();
        let mut index = Index {
            volumes: BTreeMap::new(),
            images: BTreeMap::new(),
            seers: BTreeMap::new(),
            hosts: BTreeMap::new(),
            pools,
            promised_bytes: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        let aggregated = config.policies.iter().filter(|p| p.sharing == Sharing::Aggregated);
        index.places = aggregated.map(|p| (p.name.as_str(), BTreeSet::new())).collect();
        for volume in &config.volumes {
            slices.step(1).await;
            index.volumes.insert(&volume.name, volume);
            let promised = index.promised_bytes.entry(&volume.pool).or_default();
            *promised = promised.saturating_add(volume.len_bytes);
            index.has_policy(volume.policy.as_ref(), || Place::Pool(volume.pool.clone()));
        }
        for image in &config.images {
            slices.step(1).await;
            index.images.insert(&image.name, image);
            index.has_policy(image.policy.as_ref(), || Place::Images(image.controller));
        }
        for host in &config.hosts {
            slices.step(1).await;
            index.hosts.insert(&host.initiator, host);
            for (lun, seen) in &host.luns {
                slices.step(1).await;
                index.seers.entry(seen).or_default().push((&host.name, *lun));
            }
        }
        index
    }

    fn has_policy(&mut self, policy: Option<&'a String>, place: impl FnOnce() -> Place) {
        if let Some(places) = policy.and_then(|policy| self.places.get_mut(policy.as_str())) {
            places.insert(place());
        }
    }

    /// The schedulers in which an aggregated policy has volumes or images.
    pub(crate) fn places_of(&self, policy: &str) -> usize {
        self.places.get(policy).map_or(0, BTreeSet::len)
    }

    /// Whether it has some there.
    pub(crate) fn is_in(&self, policy: &str, place: &Place) -> bool {
        self.places.get(policy).is_some_and(|places| places.contains(place))
    }

    /// The aggregated policies with volumes or images in several schedulers.
    pub(crate) fn spread(&self) -> BTreeMap<String, BTreeSet<Place>> {
        let several = self.places.iter().filter(|(_, places)| places.len() > 1);
        several.map(|(policy, places)| ((*policy).to_owned(), places.clone())).collect()
    }

    /// Frees the index in slices.
    pub(crate) async fn let_go(self, slices: &mut Slices) {
        slices.let_go(self.volumes).await;
        slices.let_go(self.images).await;
        slices.let_go(self.seers).await;
        slices.let_go(self.hosts).await;
    }

    /// As [`Config::host_of`].
    pub(crate) fn host_of(&self, initiator: &str) -> Option<&'a HostConfig> {
        self.hosts.get(initiator).or_else(|| self.hosts.get("*")).copied()
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&'a VolumeConfig> {
        self.volumes.get(name).copied()
    }

    pub(crate) fn image(&self, name: &str) -> Option<&'a ImageConfig> {
        self.images.get(name).copied()
    }

    /// The owner of a volume or an image.
    pub(crate) fn owner_of(&self, name: &str) -> Option<usize> {
        match self.images.get(name) {
            Some(image) => Some(image.controller),
            None => self.pools.get(self.volumes.get(name)?.pool.as_str()).copied(),
        }
    }

    /// The declared policy of a volume or image.
    pub(crate) fn policy_of(&self, kind: &str, name: &str) -> Option<&'a String> {
        match kind {
            "volume" => self.volume(name)?.policy.as_ref(),
            _ => self.image(name)?.policy.as_ref(),
        }
    }

    /// The mappings of a volume or an image: host and LUN.
    pub(crate) fn mapped_to(&self, name: &str) -> Vec<Mapping> {
        let seers = self.seers.get(name).into_iter().flatten();
        seers.map(|(host, lun)| Mapping { host: (*host).to_owned(), lun: *lun }).collect()
    }

    /// The declared size of all volumes of a pool.
    pub(crate) fn promised_bytes(&self, pool: &str) -> u64 {
        self.promised_bytes.get(pool).copied().unwrap_or_default()
    }

    /// The owner and block size of each volume and image.
    pub(crate) async fn whereabouts(&self, slices: &mut Slices) -> BTreeMap<String, Whereabouts> {
        let mut all = BTreeMap::new();
        let volumes = self.volumes.iter().map(|(name, v)| (*name, v.block_bytes));
        let images = self.images.keys().map(|name| (*name, SECTOR_BYTES));
        for (name, block_bytes) in volumes.chain(images) {
            slices.step(1).await;
            if let Some(owner) = self.owner_of(name) {
                all.insert(name.to_owned(), Whereabouts { owner, key: key_of(name), block_bytes });
            }
        }
        all
    }
}
