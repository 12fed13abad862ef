//! Images of a node that shares its storage with other nodes, through a registry.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Result, bail};
use block::{BlockError, Device, Geometry, Pieces};
use config::format_bytes;
use qos::{Policy, UNIT_BYTES_DEFAULT};
use share::{Node, Store, run, set_policies};
use world::World;

use crate::registry_option::{RegistryOption, node_name};

/// How the images of this process share storage with those of others.
#[derive(clap::Args)]
pub(crate) struct Sharing {
    #[command(flatten)]
    registry: RegistryOption,
    /// Name of this node in the registry; no other may have it
    #[arg(long, requires = "registry", value_parser = node_name)]
    node: Option<String>,
    /// Policy of the images, e.g. minimum=3000,weight=200: minimum, maximum (8 KiB per second), bandwidth
    /// (bytes per second), weight; without it the registry's stays
    #[arg(long, requires = "registry", value_parser = parse_policy)]
    policy: Option<Policy>,
}

/// `minimum=3000,weight=200`.
fn parse_policy(text: &str) -> Result<Policy, String> {
    let mut policy = Policy::none();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or(format!("invalid {part:?}: expected NAME=VALUE"))?;
        let number: u64 = value.parse().map_err(|_| format!("invalid {name} {value:?}: must be a number"))?;
        match name {
            "minimum" => policy.minimum_iops = number,
            "maximum" => policy.maximum_iops = Some(number),
            "bandwidth" => policy.bandwidth_bytes_per_s = Some(number),
            "weight" => {
                policy.weight = u32::try_from(number).map_err(|_| format!("invalid weight {number}"))?;
            }
            _ => return Err(format!("unknown {name:?}: minimum, maximum, bandwidth or weight")),
        }
    }
    policy.check().map_err(|e| e.to_string())?;
    Ok(policy)
}

/// A node at work.
pub(super) struct Member {
    node: Rc<Node>,
    /// Why it stands as it does, to tell changes only.
    told: Option<String>,
}

impl Sharing {
    /// Joins the other nodes with these disks; none: the storage is not shared.
    pub(super) async fn join(&self, world: &World, disks: Vec<String>) -> Result<Option<Member>> {
        let registry = self.registry.open(world)?;
        let (registry, name) = match (registry, &self.node) {
            (Some(registry), Some(name)) => (registry, name),
            (Some(_), None) => bail!("--registry without a name for this node: pass --node NAME, too"),
            (None, _) => return Ok(None),
        };
        let mut names = disks.clone();
        names.sort();
        names.dedup();
        if names.len() < disks.len() {
            bail!("two images of one name: nodes tell them apart by it");
        }
        if let Some(policy) = self.policy {
            let policies: BTreeMap<String, Policy> =
                disks.iter().map(|disk| (disk.clone(), policy)).collect();
            set_policies(&*registry, &policies).await?;
        }
        let node = Node::new(world, name, UNIT_BYTES_DEFAULT, disks);
        world.spawn(run(node.clone(), registry));
        Ok(Some(Member { node, told: None }))
    }
}

impl Member {
    /// Where requests of a disk wait, by its number.
    pub(super) fn gate(&self, disk: usize) -> (Rc<Node>, usize) {
        (self.node.clone(), disk)
    }

    /// Prints what has changed.
    pub(super) fn tell(&mut self) {
        let state = self.node.state();
        let name = self.node.name();
        let text = match (&state.store, &state.fault) {
            (Store::Unasked, _) => return,
            (Store::Away { cause, .. }, _) => {
                format!("node {name}: the registry does not answer: the last shares stay in force ({cause})")
            }
            (Store::Answers, Some(fault)) => format!("node {name}: {fault}"),
            (Store::Answers, None) if state.scale_permille < 1000 => {
                let percent = state.scale_permille / 10;
                format!("node {name}: minimums exceed the capacity: {percent} % of each are given")
            }
            (Store::Answers, None) => format!("node {name}: shares are in force"),
        };
        if self.told.as_ref() != Some(&text) {
            println!("{text}");
            self.told = Some(text);
        }
    }

    /// Gives the shares back.
    pub(super) fn leave(&self) {
        self.node.leave();
    }

    /// The shares in force, for the end.
    pub(super) fn shares(&self, disks: usize) -> String {
        let share =
            |disk| self.node.share(disk).map_or("no limit".into(), |s| format!("{}/s", format_bytes(s)));
        (0..disks).map(share).collect::<Vec<_>>().join(", ")
    }
}

/// A disk whose requests wait for the share of its node.
#[derive(Clone)]
pub(super) struct Gated<D> {
    disk: D,
    gate: Option<(Rc<Node>, usize)>,
}

impl<D: Device> Gated<D> {
    pub(super) fn new(disk: D, gate: Option<(Rc<Node>, usize)>) -> Gated<D> {
        Gated { disk, gate }
    }

    async fn run<T>(
        &self,
        bytes: u64,
        work: impl Future<Output = Result<T, BlockError>>,
    ) -> Result<T, BlockError> {
        let Some((node, disk)) = &self.gate else { return work.await };
        let admitted = node.admit(*disk, bytes).await;
        let done = work.await?;
        admitted.served();
        Ok(done)
    }
}

impl<D: Device> Device for Gated<D> {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.run(len as u64, self.disk.read(at, len, out)).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.run(data.len() as u64, self.disk.write(at, data)).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        // In a fixed image zeros are written; in another one blocks are released.
        self.run(len, self.disk.zero(at, len)).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.disk.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_wrong_ones_are_refused() {
        let policy = parse_policy("minimum=3000,weight=200").expect("a policy");
        assert_eq!((policy.minimum_iops, policy.weight), (3000, 200));
        for bad in
            ["", "minimum", "minimum=x", "speed=1", "minimum=9,maximum=5", "weight=0", "weight=9999999999"]
        {
            assert!(parse_policy(bad).is_err(), "{bad}");
        }
    }
}
