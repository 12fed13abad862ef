//! The other operations that hosts leave to the array, each on a fresh copy of it: first writes, disks
//! deployed from one template, a disk that moves while its VM writes, a VM that is deleted.

mod deleted;
mod moved;

use std::cell::RefCell;

use anyhow::Result;
use array::Array;
use futures::future::try_join_all;
use lab_core::interrupt::Stop;
use lab_tools::datastore::{Content, EXTENT_BYTES, File, Mode, StoreError, Ways};
use lab_tools::hosts::{Spent, Steps};
use lab_tools::testbed::Started;
use lab_tools::testbed::embedded::ArrayReading;
use world::World;

use super::bed::{LUNS, POOLS, Reach, Space, plan};
use super::guest;
use super::piece::{Found, Stand};
use crate::bulk::Way;
use crate::host::{Datastores, Host};
use crate::power_on::{Cluster, ClusterPlan, Crowd, note_lived};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Daily {
    /// What VMs ask of locks.
    Locks(Crowd),
    /// So many bytes written into each block that was never written.
    First(u64, Way, Space),
    Deploy(Way, Space),
    Moved(Way, Space),
    Deleted,
}

/// Bytes of a first write.
const FIRST_BYTES: [u64; 2] = [4 << 10, 64 << 10];
/// Slots of files, after those of the bulk tests.
const SLOT: u32 = 2;
/// Until what was prepared is on the drives.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(20);
/// The host beside those of VMs.
const BESIDE: u8 = 100;

impl Daily {
    /// The longest first.
    pub(super) fn all() -> Vec<Daily> {
        let mut all: Vec<Daily> = Crowd::ALL.map(Daily::Locks).into();
        all.push(Daily::Deleted);
        for way in [Way::Off, Way::Paper] {
            for space in [Space::Thick, Space::Thin] {
                all.extend([Daily::Moved(way, space), Daily::Deploy(way, space)]);
                all.extend(FIRST_BYTES.map(|bytes| Daily::First(bytes, way, space)));
            }
        }
        all
    }

    pub(super) fn words(self) -> String {
        match self {
            Daily::Locks(crowd) => format!("lives of VMs, {}", crowd.name()),
            Daily::First(bytes, way, space) => format!("first writes of {bytes}, {}", mode(way, space)),
            Daily::Deploy(way, space) => format!("disks deployed, {}", mode(way, space)),
            Daily::Moved(way, space) => format!("a disk moves, {}", mode(way, space)),
            Daily::Deleted => "a VM is deleted".into(),
        }
    }

    /// The kind of LU that it is done on.
    pub(super) fn space(self) -> Space {
        match self {
            Daily::First(_, _, space) | Daily::Deploy(_, space) | Daily::Moved(_, space) => space,
            Daily::Locks(_) | Daily::Deleted => Space::Thin,
        }
    }
}

/// As it is called in samples.
pub(super) fn mode(way: Way, space: Space) -> &'static str {
    match (way == Way::Off, space) {
        (true, Space::Thick) => "off",
        (false, Space::Thick) => "paper",
        (true, Space::Thin) => "thin_off",
        (false, Space::Thin) => "thin_paper",
    }
}

/// An array that runs, and the way to it.
pub(super) struct Stage<'a> {
    stand: &'a Stand<'a>,
    world: &'a World,
    started: Started,
    reach: Reach,
}

impl Stage<'_> {
    async fn host(&self, number: u8, outstanding: usize) -> Result<Host> {
        let ways = Ways { outstanding, transfer_bytes: self.stand.vaai.model.transfer.0 };
        let mut plan = plan(self.stand.vaai, ways);
        plan.number = u32::from(number);
        let connection = self.reach.host(&self.started, number)?;
        Host::open(self.world.clone(), connection, plan, Datastores::Made).await
    }

    /// Reads and writes in flight without offload, or commands with it.
    fn outstanding(&self, way: Way) -> usize {
        let model = &self.stand.vaai.model;
        if way == Way::Off { model.outstanding } else { model.outstanding_offload }
    }

    /// Who does it, in the published steps.
    fn by(&self, way: Way) -> Mode {
        let paper = &self.stand.vaai.paper_steps;
        match way {
            Way::Off => Mode::Host,
            _ => Mode::Array(Steps {
                write_same_bytes: paper.write_same.0,
                segment_bytes: paper.copy_segment.0,
                segments: paper.segments_per_command,
            }),
        }
    }

    async fn used_bytes(&self) -> Result<u64> {
        used_bytes(&self.started.array).await
    }
}

async fn reading(array: &Array) -> Result<ArrayReading> {
    Ok(ArrayReading::of(std::time::Duration::ZERO, array.status().await?))
}

/// What is used of the first pool.
async fn used_bytes(array: &Array) -> Result<u64> {
    let reading = reading(array).await?;
    Ok(reading.pools.get(POOLS[0]).map_or(0, |(used, _)| *used))
}

/// Adds what an operation spent.
fn note_spent(found: &mut Found, test: &'static str, mode: &'static str, spent: &Spent) {
    for (metric, value) in
        [("time_s", spent.time_s), ("host_cpu_s", spent.host_cpu_s), ("packets", spent.packets())]
    {
        found.record.add(test, mode, 1, metric, value);
    }
}

fn note_content(found: &mut Found, test: &'static str, mode: &'static str, content: guest::Found) {
    found.record.add(test, mode, 1, "compared", content.compared as f64);
    found.record.add(test, mode, 1, "wrong", content.wrong as f64);
}

impl Stand<'_> {
    pub(super) async fn daily(&self, world: &World, daily: Daily) -> Result<Found> {
        let started = self.bed(daily.space()).start(world).await?;
        let reach = Reach::new(self.vaai, world)?;
        let stage = Stage { stand: self, world, started, reach };
        // Boxed: a future of commands through all layers is large, and the threads' stacks are not.
        match daily {
            Daily::Locks(crowd) => Box::pin(stage.locks(crowd)).await,
            Daily::First(bytes, way, space) => Box::pin(stage.first_writes(bytes, (way, space))).await,
            Daily::Deploy(way, space) => Box::pin(stage.deploy((way, space))).await,
            Daily::Moved(way, space) => Box::pin(stage.moved((way, space))).await,
            Daily::Deleted => Box::pin(stage.deleted()).await,
        }
    }
}

impl Stage<'_> {
    async fn locks(&self, crowd: Crowd) -> Result<Found> {
        let (vaai, daily) = (self.stand.vaai, &self.stand.daily);
        let connections =
            (0..vaai.published.hosts as u8).map(|host| self.reach.host(&self.started, host + 1));
        let ways = Ways { outstanding: vaai.model.outstanding, transfer_bytes: vaai.model.transfer.0 };
        let mut own = vaai.clone();
        own.published.vms_per_host = daily.vms_per_host;
        let patience = own.patience(true);
        let plan = ClusterPlan { lun: LUNS[0], ways, patience, stop: Stop::default(), vaai: own };
        let connections = connections.collect::<Result<Vec<_>>>()?;
        let cluster = Cluster::open(self.world.clone(), connections, plan).await?;
        let beside = self.reach.host(&self.started, BESIDE)?;
        let template = &self.stand.bed(Space::Thin).template;
        let lived = Box::pin(cluster.live(crowd, daily, (beside, LUNS[0], template))).await?;
        let mut found = Found::default();
        found.wrong = note_lived(lived, crowd, &mut found.record);
        Ok(found)
    }

    /// A guest writes into blocks that hold what a deleted VM left there: each must be zeroed before.
    async fn first_writes(&self, bytes: u64, (way, space): (Way, Space)) -> Result<Found> {
        let daily = &self.stand.daily;
        let host = self.host(0, daily.guest_outstanding).await?;
        let (store, len) = (&host.stores[0], daily.first_writes as u64 * EXTENT_BYTES);
        let file = store.create_file(SLOT, "old.vmdk", len, len).await?;
        let [old, new] = [1, 2].map(|n| Content::Pattern { key: self.stand.seed ^ n, used_bytes: u64::MAX });
        store.fill(&file, old).await?;
        self.world.sleep(SETTLE).await;
        let mut rng = self.world.random("first writes");
        let at = |n: u64, rng: &mut world::Rng| n * EXTENT_BYTES + rng.u64(0..EXTENT_BYTES / bytes) * bytes;
        let mut offsets: Vec<u64> = (0..daily.first_writes as u64).map(|n| at(n, &mut rng)).collect();
        rng.shuffle(&mut offsets);
        let took = RefCell::new(Vec::new());
        let write = |offset: u64| {
            let (file, took) = (&file, &took);
            async move {
                let began = self.world.now();
                let block = file.part(offset / EXTENT_BYTES * EXTENT_BYTES, EXTENT_BYTES);
                store.zero_ranges(&block, self.by(way)).await?;
                let (place, _) = file.place(offset).unwrap_or_default();
                store.locks().write(place, new.bytes(offset, bytes)).await?;
                took.borrow_mut().push(self.world.now().since(began).as_secs_f64());
                Ok(())
            }
        };
        let all = async { Ok(store.at_once(offsets.clone(), write).await?) };
        let before = reading(&self.started.array).await?;
        let ((), spent, _) = host.measure(all).await?;
        self.world.sleep(SETTLE).await;
        let drives = reading(&self.started.array).await?.drive_bytes_since(&before);
        let mut found = Found::default();
        let (test, mode) = (if bytes == FIRST_BYTES[0] { "first_4k" } else { "first_64k" }, mode(way, space));
        note_spent(&mut found, test, mode, &spent);
        let took = took.into_inner();
        let response = took.iter().sum::<f64>() / took.len().max(1) as f64;
        found.record.add(test, mode, 1, "response_s", response);
        found.record.add(test, mode, 1, "drive_bytes", drives as f64);
        let content = first_content((store, &file), &offsets, (bytes, new)).await?;
        note_content(&mut found, test, mode, content);
        Ok(found)
    }

    /// Hosts that clone one template at once, a disk each.
    async fn deploy(&self, (way, space): (Way, Space)) -> Result<Found> {
        let daily = &self.stand.daily;
        let mut hosts = Vec::new();
        for number in 0..daily.deployed as u8 {
            hosts.push(self.host(number, self.outstanding(way)).await?);
        }
        let len = daily.deployed_disk.0;
        let content = Content::Pattern { key: self.stand.seed, used_bytes: len };
        let store = &hosts[0].stores[0];
        let template = store.create_file(SLOT, "deployed.vmdk", len, len).await?;
        store.fill(&template, content).await?;
        self.world.sleep(SETTLE).await;
        let used = self.used_bytes().await?;
        let by = self.by(way);
        let measured = try_join_all(hosts.iter().enumerate().map(|(n, host)| {
            let (slot, template, store) = (SLOT + 1 + n as u32, &template, &host.stores[0]);
            let name = format!("deployed-{n}.vmdk");
            let clone = async move { Ok(store.clone_file(store, template, slot, &name, by).await?) };
            host.measure(clone)
        }));
        let measured = measured.await?;
        let taken = self.used_bytes().await?.saturating_sub(used);
        let mut found = Found::default();
        let (mode, mut spent) = (mode(way, space), Spent::default());
        let mut blocks = guest::Found::default();
        for (file, own, _) in &measured {
            spent.time_s = spent.time_s.max(own.time_s);
            spent.host_cpu_s += own.host_cpu_s;
            spent.packets_in += own.packets_in;
            spent.packets_out += own.packets_out;
            blocks.wrong += store.differences(file, content).await?;
            blocks.compared += file.taken_bytes() / guest::BLOCK;
        }
        note_spent(&mut found, "deploy", mode, &spent);
        let deployed = (len * measured.len() as u64) as f64;
        found.record.add("deploy", mode, 1, "taken_percent", 100.0 * taken as f64 / deployed);
        note_content(&mut found, "deploy", mode, blocks);
        Ok(found)
    }
}

/// What was written, and zeros around it.
async fn first_content(
    (store, file): (&lab_tools::datastore::Datastore, &File),
    offsets: &[u64],
    (bytes, new): (u64, Content),
) -> Result<guest::Found, StoreError> {
    let mut found = guest::Found::default();
    for offset in offsets {
        let first = offset / EXTENT_BYTES * EXTENT_BYTES;
        let (place, _) = file.place(first).unwrap_or_default();
        let data = store.locks().read(place, EXTENT_BYTES).await?.joined();
        for (n, block) in data.chunks(guest::BLOCK as usize).enumerate() {
            let at = first + n as u64 * guest::BLOCK;
            let content = if (*offset..offset + bytes).contains(&at) { new } else { Content::Zeros };
            found.wrong += content.differences(at, block);
            found.compared += 1;
        }
    }
    Ok(found)
}
