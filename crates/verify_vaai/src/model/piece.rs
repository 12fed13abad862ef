//! One operation on a fresh copy of the array: who does it, on which LUs, and what it came to.

use anyhow::Result;
use array::Array;
use lab_core::interrupt::{Abandoned, Stop};
use lab_tools::datastore::{Content, EXTENT_BYTES, Ways};
use lab_tools::hosts::modelled::ModelledPort;
use lab_tools::testbed::embedded::ArrayReading;
use world::World;

use super::bed::{Bed, LUNS, Reach, Space, plan};
use super::daily::Daily;
use super::sizes::Sizes;
use crate::bulk::{Bulk, Job, Way};
use crate::host::{Datastores, Host};
use crate::power_on::{self, Cluster, ClusterPlan, Crowd};
use crate::record::{Course, Record, Tick};
use crate::scenario::{self, Vaai};

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    Bulk(Bulk, Way, Space),
    PowerOn(Crowd),
    /// Not multiplied: a share of it is what the quick form shows.
    Daily(Daily),
}

/// What pieces are run on.
pub(super) struct Stand<'a> {
    pub(super) vaai: &'a Vaai,
    pub(super) sizes: &'a Sizes,
    /// How much the other operations do.
    pub(super) daily: scenario::Daily,
    pub(super) thick: &'a Bed,
    pub(super) thin: &'a Bed,
    pub(super) seed: u64,
    pub(super) stop: &'a Stop,
}

/// What a piece came to.
#[derive(Default)]
pub(super) struct Found {
    pub(super) record: Record,
    /// What was wrong with locks.
    pub(super) violations: Vec<String>,
    /// What was wrong after the other operations with locks.
    pub(super) wrong: Vec<String>,
    /// What the array calls itself.
    pub(super) product: String,
}

/// Metrics that are as many times as much as there is more to do: all that are no lengths.
const BY_SIZE: [&str; 14] = [
    "len_bytes",
    "time_s",
    "host_cpu_s",
    "packets_out",
    "packets_in",
    "packets",
    "bytes_out",
    "bytes_in",
    "array_cpu_s",
    "drive_bytes",
    "zeroed_bytes",
    "shared_bytes",
    "moved_bytes",
    "written_bytes",
];

impl Piece {
    /// The longest first: without offload.
    pub(super) fn all() -> Vec<Piece> {
        let mut all: Vec<Piece> = Bulk::ALL.map(|bulk| Piece::Bulk(bulk, Way::Off, Space::Thick)).into();
        all.extend(Crowd::ALL.map(Piece::PowerOn));
        all.extend(Daily::all().into_iter().map(Piece::Daily));
        for bulk in Bulk::ALL {
            for way in Way::ALL.into_iter().filter(|way| *way != Way::Off && way.does(bulk)) {
                all.extend([Space::Thick, Space::Thin].map(|space| Piece::Bulk(bulk, way, space)));
            }
        }
        all
    }

    pub(super) fn words(self) -> String {
        match self {
            Piece::Bulk(bulk, way, space) => format!("{}, {}", bulk.name(), mode(way, space)),
            Piece::PowerOn(crowd) => format!("power-on, {}", crowd.name()),
            Piece::Daily(daily) => daily.words(),
        }
    }
}

/// As it is called in samples. Without offload the LU is thick.
fn mode(way: Way, space: Space) -> &'static str {
    match (way, space) {
        (_, Space::Thick) | (Way::Off, _) => way.name(),
        (Way::Paper, Space::Thin) => "thin_paper",
        (Way::Advertised, Space::Thin) => "thin_advertised",
        (Way::Tokens, Space::Thin) => "thin_tokens",
    }
}

async fn reading(array: &Array, port: &ModelledPort) -> Result<ArrayReading> {
    Ok(ArrayReading::of(port.controller_cpu(), array.status().await?))
}

/// Hosts, guests and copies within each other are more than the stack of an ordinary thread holds.
const STACK_BYTES: usize = 16 << 20;

fn on_a_deep_stack(work: impl FnOnce() -> Result<Found> + Send) -> Result<Found> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Stand<'_> {
    pub(super) fn bed(&self, space: Space) -> &Bed {
        if space == Space::Thick { self.thick } else { self.thin }
    }

    /// One piece.
    ///
    /// # Errors
    ///
    /// [`Abandoned`] after a stop request; and when it cannot be played.
    pub(super) fn play(&self, piece: Piece) -> Result<Found> {
        let is_wanted = || !self.stop.is_asked();
        match piece {
            Piece::Bulk(bulk, way, space) => {
                let bed = self.bed(space);
                let model = bed.model(self.seed);
                model
                    .run_while(is_wanted, async |world| self.bulk(&world, bed, (bulk, way, space)).await)
                    .unwrap_or_else(|| Err(Abandoned.into()))
            }
            Piece::PowerOn(crowd) => {
                let model = self.thin.model(self.seed);
                model
                    .run_while(is_wanted, async |world| self.power_on(&world, crowd).await)
                    .unwrap_or_else(|| Err(Abandoned.into()))
            }
            Piece::Daily(daily) => on_a_deep_stack(|| {
                let model = self.bed(daily.space()).model(self.seed);
                model
                    .run_while(is_wanted, async |world| Box::pin(self.daily(&world, daily)).await)
                    .unwrap_or_else(|| Err(Abandoned.into()))
            }),
        }
    }

    async fn bulk(&self, world: &World, bed: &Bed, (bulk, way, space): (Bulk, Way, Space)) -> Result<Found> {
        let (vaai, model) = (self.vaai, &self.vaai.model);
        let started = bed.start(world).await?;
        let reach = Reach::new(vaai, world)?;
        let outstanding = if way == Way::Off { model.outstanding } else { model.outstanding_offload };
        let ways = Ways { outstanding, transfer_bytes: model.transfer.0 };
        let connection = reach.host(&started, 0)?;
        let host = Host::open(world.clone(), connection, plan(vaai, ways), Datastores::Made).await?;
        let job = Job {
            bulk,
            way,
            len_bytes: if bulk == Bulk::Zeroing { self.sizes.zeroed } else { self.sizes.used },
            template: bed.template.clone(),
            paper: vaai.paper_steps.clone(),
        };
        let before = reading(&started.array, &reach.port).await?;
        let made = job.run(&host).await?;
        let after = reading(&started.array, &reach.port).await?;
        let (test, mode) = (bulk.name(), mode(way, space));
        let mut found = Found { product: host.product.clone(), ..Found::default() };
        let more = 1.0 / self.sizes.share;
        for (metric, value) in job.values(&made, Some((&before, &after))) {
            let times = if BY_SIZE.contains(&metric) { more } else { 1.0 };
            found.record.add(test, mode, 1, metric, times * value);
        }
        let busy_percent = 100.0 * made.spent.host_cpu_s / made.spent.time_s / model.processors as f64;
        found.record.add(test, mode, 1, "host_busy_percent", busy_percent);
        let ticks = made.ticks.iter().map(|tick| Tick {
            at_s: more * tick.at_s,
            bytes: more * tick.bytes,
            packets: more * tick.packets,
        });
        found.record.courses.push(Course { test, mode, repeat: 1, ticks: ticks.collect() });
        Ok(found)
    }

    async fn power_on(&self, world: &World, crowd: Crowd) -> Result<Found> {
        let mut vaai = self.vaai.clone();
        let own = &mut vaai.power_on;
        own.pause.0 = vaai.model.pause(own.file_locks + own.shared_locks);
        let started = self.thin.start(world).await?;
        let reach = Reach::new(&vaai, world)?;
        let connections = (0..vaai.published.hosts as u8).map(|host| reach.host(&started, host + 1));
        let ways = Ways { outstanding: vaai.model.outstanding, transfer_bytes: vaai.model.transfer.0 };
        let connections = connections.collect::<Result<Vec<_>>>()?;
        let vm_disk = vaai.published.vm_disk.0;
        let patience = vaai.patience(true);
        let plan = ClusterPlan { lun: LUNS[0], ways, patience, stop: Stop::default(), vaai };
        let cluster = Cluster::open(world.clone(), connections, plan).await?;
        cluster.prepare(vm_disk, |_| Content::Zeros).await?;
        cluster.reset().await?;
        let before = reading(&started.array, &reach.port).await?;
        let outcome = cluster.power_on(crowd).await?;
        let after = reading(&started.array, &reach.port).await?;
        let mut found = Found::default();
        found.violations = power_on::note(outcome, (crowd, 1), Some((before, after)), &mut found.record);
        Ok(found)
    }
}

const _: () = assert!(EXTENT_BYTES == crate::bulk::ALIGN);
