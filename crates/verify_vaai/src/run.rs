//! The run: tests off and on in turn, repeated.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Options;
use super::bed::Bed;
use super::bulk::{Bench, Bulk, Way};
use super::host::{Host, HostPlan};
use super::measures::Faults;
use super::power_on::{self, Cluster, ClusterPlan, Crowd};
use super::record::Record;
use super::recording::Recording;
use super::scenario::Vaai;
use super::thin::{self, ThinHost};
use lab_core::interrupt::{Abandoned, Stop};
use lab_core::progress::Progress;
use lab_core::verification::Request;
use lab_tools::datastore::{StoreError, Ways};
use lab_tools::hosts::HostThread;

/// Steps before the first repeat: hosts and datastores, template, VMs.
const STEPS_BEFORE: u64 = 3;

/// In the quick form no repeat begins later than this after the first, once there are enough for an interval.
const QUICK_TIME: Duration = Duration::from_secs(60);
const QUICK_REPEATS_MIN: usize = 4;

/// Measures everything.
pub(super) fn run(vaai: &Vaai, options: &Request, own: &Options, stop: &Stop) -> Result<Recording> {
    let bed = open_bed(vaai, options)?;
    let progress = Progress::new(STEPS_BEFORE);
    let opened = Run::open(vaai, &bed, options.seed, stop, &progress);
    let mut run = opened.map_err(|error| match stop.is_asked() && was_stopped(&error) {
        true => Abandoned.into(),
        false => error,
    })?;
    progress.expect(STEPS_BEFORE + (options.repeats as u64 + 1) * run.steps_per_repeat());
    let (mut record, mut faults) = (Record::default(), Faults::default());
    let from = Instant::now();
    // Repeat 0 warms up: caches, memory, branch predictors; everything is read back whole, nothing is
    // counted.
    for repeat in 0..=options.repeats {
        if own.quick && repeat > QUICK_REPEATS_MIN && from.elapsed() > QUICK_TIME {
            break;
        }
        match run.repeat(repeat, &mut record, &mut faults) {
            Ok(()) => record.repeats = repeat,
            Err(error) if stop.is_asked() && was_stopped(&error) => {
                record.drop_repeat(repeat);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    progress.end();
    let product = run.product()?;
    drop(run);
    let place = bed.place().to_owned();
    let is_embedded = bed.is_embedded();
    drop(bed);
    Ok(Recording { record, faults, place, product, is_embedded, is_model: false, stopped: stop.is_asked() })
}

fn open_bed(vaai: &Vaai, options: &Request) -> Result<Bed> {
    if options.targets.is_empty() {
        return Bed::embedded(vaai, options.seed, Path::new(&options.out));
    }
    Bed::foreign(vaai, &options.targets, options.destroy_data)
}

fn was_stopped(error: &anyhow::Error) -> bool {
    error.is::<Stopped>() || matches!(error.downcast_ref::<StoreError>(), Some(StoreError::Stopped))
}

#[derive(Debug, thiserror::Error)]
#[error("stopped")]
struct Stopped;

/// Everything that runs.
struct Run<'a> {
    vaai: &'a Vaai,
    bed: &'a Bed,
    stop: &'a Stop,
    progress: &'a Progress,
    bench: Bench<'a>,
    cluster: HostThread<Cluster>,
    thin: Option<HostThread<ThinHost>>,
    /// Why a test cannot be done, by the beginning of its checks' ids.
    obstacles: Vec<(&'static str, String)>,
}

impl<'a> Run<'a> {
    fn open(
        vaai: &'a Vaai,
        bed: &'a Bed,
        seed: u64,
        stop: &'a Stop,
        progress: &'a Progress,
    ) -> Result<Run<'a>> {
        let ways = Ways { outstanding: vaai.run.outstanding, transfer_bytes: vaai.run.transfer.0 };
        let patience = vaai.patience(false);
        progress.step("hosts log in, datastores are made");
        let plan = HostPlan { luns: bed.datastore_luns(), ways, patience, stop: stop.clone(), number: 0 };
        let mut bench = Bench::new(vaai, bed, Host::start(bed.login(0), plan, seed)?, seed);
        progress.step("the template is written");
        bench.prepare()?;
        let mut obstacles = Vec::new();
        for bulk in Bulk::ALL {
            obstacles.extend(bench.obstacle(bulk)?.map(|why| (bulk.name(), why)));
        }
        if !bench.has_tokens() {
            let why = "the array does not advertise tokens (VPD page 8Fh)";
            obstacles.extend(["copy.tokens", "between.tokens"].map(|id| (id, why.to_owned())));
        }
        progress.step("the VMs are made");
        // Host 0 of the power-ons is a session of its own beside that of the bulk tests.
        let logins = (1..=vaai.published.hosts as u32).map(|host| bed.login(host)).collect();
        let plan = ClusterPlan {
            lun: bed.datastore_luns()[0],
            ways,
            patience,
            stop: stop.clone(),
            vaai: vaai.clone(),
        };
        let cluster = Cluster::start(logins, plan, seed)?;
        match power_on::obstacle(&cluster)? {
            Some(why) => obstacles.push(("locking", why)),
            None => power_on::prepare(&cluster, vaai, seed)?,
        }
        let thin = bed.thin_lun().map(|lun| ThinHost::start(bed.login(HOST_THIN), lun, seed)).transpose()?;
        if thin.is_none() {
            obstacles.push(("thin", "requires a pool that may be filled, and its counters".into()));
        }
        if !bed.is_embedded() {
            let why = "the counters of another vendor's array are not available";
            obstacles.extend(["zeroing.drive_io", "copy.drive_io", "offload"].map(|id| (id, why.to_owned())));
        }
        Ok(Run { vaai, bed, stop, progress, bench, cluster, thin, obstacles })
    }

    fn product(&self) -> Result<String> {
        self.bench.host.run(|host| async move { Ok(host.product.clone()) })
    }

    /// Whether something stops a test altogether.
    fn can(&self, test: &str) -> bool {
        self.obstacles.iter().all(|(id, _)| *id != test)
    }

    fn steps_per_repeat(&self) -> u64 {
        let bulk = Bulk::ALL.iter().filter(|b| self.can(b.name())).map(|b| self.bench.ways(*b).count());
        let bulk: usize = bulk.sum();
        let crowds = if self.can("locking") { Crowd::ALL.len() } else { 0 };
        (bulk + crowds + usize::from(self.thin.is_some())) as u64
    }

    fn repeat(&mut self, repeat: usize, record: &mut Record, faults: &mut Faults) -> Result<()> {
        record.not_judged.extend(self.obstacles.iter().cloned());
        let when = if repeat == 0 { "warm-up".to_owned() } else { format!("repeat {repeat}") };
        for bulk in Bulk::ALL {
            // Each repeat begins with another way, so that none always comes first.
            let ways: Vec<Way> = self.bench.ways(bulk).collect();
            for way in rotated(Way::ALL, repeat).into_iter().filter(|way| ways.contains(way)) {
                if self.can(bulk.name()) {
                    self.begin(&format!("{when}: {}, {}", bulk_words(bulk), way_words(way)))?;
                    faults.blocks += self.bench.run(bulk, way, repeat, repeat == 0, record)?;
                }
            }
        }
        for crowd in rotated(Crowd::ALL, repeat) {
            if self.can("locking") {
                self.begin(&format!("{when}: power-on, {}", crowd_words(crowd, self.vaai)))?;
                faults.owners.extend(power_on::run(self.bed, &self.cluster, crowd, repeat, record)?);
                faults.power_ons += 1;
            }
        }
        if let Some(thin) = &self.thin {
            self.begin(&format!("{when}: thin pool, filled and emptied"))?;
            faults.blocks += thin::run(self.bed, thin, repeat, record)?;
        }
        Ok(())
    }

    fn begin(&self, step: &str) -> Result<()> {
        if self.stop.is_asked() {
            return Err(Stopped.into());
        }
        self.progress.step(step);
        Ok(())
    }
}

/// The session of the thin test, after those of the power-ons.
const HOST_THIN: u32 = 200;

fn rotated<T: Copy, const N: usize>(all: [T; N], by: usize) -> [T; N] {
    let mut out = all;
    out.rotate_left(by % N);
    out
}

fn bulk_words(bulk: Bulk) -> &'static str {
    match bulk {
        Bulk::Zeroing => "zeroing a disk",
        Bulk::Copy => "cloning in one pool",
        Bulk::Between => "cloning between pools",
    }
}

fn way_words(way: Way) -> &'static str {
    match way {
        Way::Off => "by the host",
        Way::Paper => "offloaded in small steps",
        Way::Advertised => "offloaded in large steps",
        Way::Tokens => "offloaded by tokens",
    }
}

fn crowd_words(crowd: Crowd, vaai: &Vaai) -> String {
    let (hosts, vms) = (vaai.published.hosts, vaai.published.vms_per_host);
    match crowd {
        Crowd::Reserve => format!("{hosts} hosts × {vms} VMs, LU reserved"),
        Crowd::Compare => format!("{hosts} hosts × {vms} VMs, COMPARE AND WRITE"),
        Crowd::Alone => format!("one host × {vms} VMs, COMPARE AND WRITE"),
    }
}
