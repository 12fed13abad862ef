//! The same load on a LU of masu: its own code mirrors the same two drives and reads ahead, with its
//! defaults.
//!
//! ```text
//!   thread (a file each) ──> LU: cache, pool, RAID1 ──> two modelled drives
//! ```
//!
//! What it costs is compared with the controller of `machine.rs` at the same place of the same drives, each
//! pattern on an array that has just been started: nothing of it is in the cache. What it keeps is looked
//! at apart, on small drives with content: files are written over what they hold, each chunk is read back
//! when it is acknowledged, and the power is cut in between. The allowed outcomes are these: a sector holds
//! what was written or what was there before; what a flush acknowledged it holds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use array::config::{
    ArrayId, CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, Provisioning, VolumeConfig,
};
use array::{Config, LocalSession, Lun};
use block::Pieces;
use diskstress::{Direction, Pattern};
use futures::future::try_join_all;
use lab_core::interrupt::{Abandoned, Stop};
use lab_tools::drives;
use lab_tools::testbed::embedded::ArrayReading;
use lab_tools::testbed::{Started, Testbed, answer, flush, modelled_drive, notice_attentions, read, write};
use scsi::Status;
use world::{Buf, Rng, World};
use world_model::{DiskSpec, Model, Outcome};

use super::machine::{self, DRIVES};
use super::scenario::Scenario;

const INITIATOR: &str = "iqn.2026-11.model:server";
const POOL: &str = "pool";
const LUN: Lun = Lun(0);
/// What costs no time is written in steps of this size.
const STEP_BYTES: u64 = 1 << 20;

/// A pattern on a LU, once, and on the controller of the machine at the same place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) pattern: String,
    pub(super) mb_per_s: f64,
    pub(super) physical_mb_per_s: f64,
    /// What drives read or wrote, of what was asked.
    pub(super) drive_percent: f64,
}

/// What was looked at, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) cuts: u64,
    /// Sectors that were compared after a cut.
    pub(super) compared: u64,
    /// Those that hold what nobody wrote there.
    pub(super) wrong: u64,
    /// Those of which a flush had acknowledged more than they hold.
    pub(super) lost: u64,
    /// Sectors that were read when they had been acknowledged.
    pub(super) read_back: u64,
    /// Those that held what was there before.
    pub(super) stale: u64,
}

impl Kept {
    /// With those of another look.
    pub(super) fn add(&mut self, other: Kept) {
        self.cuts += other.cuts;
        self.compared += other.compared;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.read_back += other.read_back;
        self.stale += other.stale;
    }
}

fn declaration(cache: CacheSettings, lu_bytes: u64) -> Config {
    let drives: Vec<String> = DRIVES.iter().map(|name| (*name).to_owned()).collect();
    Config {
        id: ArrayId([4; 16]),
        drives: drives.iter().cloned().map(modelled_drive).collect(),
        cache: Some(cache),
        groups: vec![GroupConfig::new(POOL.into(), Level::Raid1, drives)],
        pools: vec![PoolConfig {
            soft_threshold_percent: 100,
            critical_threshold_percent: 100,
            placement: false,
            ..PoolConfig::new(POOL.into(), vec![POOL.into()])
        }],
        volumes: vec![VolumeConfig {
            provisioning: Provisioning::Thick,
            ..VolumeConfig::new("lu".into(), POOL.into(), lu_bytes)
        }],
        hosts: vec![HostConfig::new("server".into(), INITIATOR.into(), [(LUN.0, "lu".to_owned())].into())],
        ..Config::empty("iqn.2026-11.model:diskstress")
    }
}

async fn session(started: &Started) -> Result<LocalSession> {
    let opened = started.port().open(INITIATOR, [0; 6]);
    let session = opened.map_err(|refused| anyhow::anyhow!("the server is refused: {refused}"))?;
    notice_attentions(&session, LUN).await;
    Ok(session)
}

async fn execute(session: &LocalSession, request: scsi::Request) -> Result<Pieces> {
    let response = session.execute(LUN, request).await;
    let said = || answer(response.status, &response.sense);
    ensure!(response.status == Status::Good, "the array answered {}", said());
    Ok(response.data_in)
}

/// The patterns that are run on it: of most files and of fewest.
fn patterns(scale: f64) -> Vec<Pattern> {
    let published = diskstress::published().into_iter();
    let ends = published.filter(|pattern| ["R1", "W1", "R4", "W4"].contains(&pattern.name.as_str()));
    ends.map(|pattern| pattern.scaled(scale)).collect()
}

/// What it costs: each pattern on a LU and on the machine, at this place.
pub(super) fn cost(
    scenario: &Scenario,
    spec: &DiskSpec,
    place: u64,
    (seed, stop): (u64, &Stop),
) -> Result<Vec<Cost>> {
    let patterns = patterns(scenario.lu.scale);
    let lu_bytes = place + patterns.iter().map(Pattern::total_bytes).max().unwrap_or(0);
    let lu_bytes = lu_bytes.next_multiple_of(STEP_BYTES);
    let specs = DRIVES.iter().map(|name| ((*name).to_owned(), spec.clone())).collect();
    let direct_bytes = scenario.lu.direct.0;
    let cache = CacheSettings { direct_bytes, ..CacheSettings::new(scenario.lu.cache.0) };
    let config = declaration(cache, lu_bytes);
    // All of it was written before: nothing is read as zeros that no drive has to be asked for.
    let bed = Testbed::make(config, specs, seed, async |started| {
        let session = session(started).await?;
        let zeros = Buf::shared_zeros(STEP_BYTES as usize).freeze();
        for at in (0..lu_bytes).step_by(STEP_BYTES as usize) {
            execute(&session, write(at, Pieces::from(zeros.clone()), 0)).await?;
        }
        execute(&session, flush(0)).await.map(drop)
    });
    let bed = bed.context("the array")?;
    let one = |pattern: &Pattern| {
        let physical = Model::new(seed);
        DRIVES.iter().for_each(|name| drop(physical.disk(name, spec.clone())));
        let is_wanted = || !stop.is_asked();
        let native = physical.run_while(is_wanted, async |world| {
            machine::run(&world, &scenario.machine, &scenario.physical, pattern, place).await
        });
        let native = native.ok_or(Abandoned)??;
        let mb = pattern.total_bytes() as f64 / 1e6;
        let transfer = scenario.machine.transfer.0;
        let ran = bed.model(seed).run_while(is_wanted, async |world| {
            let started = bed.start(&world).await?;
            run(&world, &started, pattern, (place, transfer)).await
        });
        let (seconds, moved) = ran.ok_or(Abandoned)??;
        Ok(Cost {
            pattern: pattern.name.clone(),
            mb_per_s: mb / seconds,
            physical_mb_per_s: mb / native.seconds,
            drive_percent: 100.0 * moved as f64 / pattern.total_bytes() as f64,
        })
    };
    patterns.iter().map(one).collect()
}

/// Runs a pattern; gives its seconds, and the bytes that drives moved for it.
async fn run(
    world: &World,
    started: &Started,
    pattern: &Pattern,
    (place, transfer): (u64, u64),
) -> Result<(f64, u64)> {
    let session = session(started).await?;
    let reading = async || anyhow::Ok(ArrayReading::of(Default::default(), started.array.status().await?));
    let before = reading().await?;
    let from = world.now();
    let zeros = Buf::shared_zeros(transfer as usize).freeze();
    let files = (0..pattern.files).map(|number| {
        let (session, zeros) = (&session, &zeros);
        async move {
            let first = place + u64::from(number) * pattern.file_bytes;
            for at in (0..pattern.file_bytes).step_by(transfer as usize) {
                let len = transfer.min(pattern.file_bytes - at);
                let tag = u64::from(number);
                let request = match pattern.direction {
                    Direction::Read => read(first + at, len, tag),
                    Direction::Write => write(first + at, Pieces::from(zeros.slice(..len as usize)), tag),
                };
                execute(session, request).await?;
            }
            anyhow::Ok(())
        }
    });
    try_join_all(files).await?;
    if pattern.direction == Direction::Write {
        execute(&session, flush(u64::MAX - 1)).await?;
    }
    let seconds = world.now().since(from).as_secs_f64();
    let after = reading().await?;
    let of = |reading: &ArrayReading| {
        reading
            .drives
            .values()
            .map(|d| (d.read_bytes, d.write_bytes))
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    };
    let (was, is) = (of(&before), of(&after));
    Ok((
        seconds,
        match pattern.direction {
            Direction::Read => is.0 - was.0,
            Direction::Write => is.1 - was.1,
        },
    ))
}

// ---------------------------------------------------------------------- what it keeps

const SECTOR: usize = 512;
/// Of each drive, when content is looked at.
const DRIVE_BYTES: u64 = 1 << 30;
const CACHE_BYTES: u64 = 32 << 20;
/// Of all files together.
const CONTENT_BYTES: u64 = 64 << 20;
/// A thread flushes after so many chunks.
const FLUSH_EVERY: u64 = 16;
/// What files hold before, and what is written over it.
const VERSIONS: [u32; 2] = [1, 2];

/// A sector says where it belongs and what was written.
fn stamp(at: u64, version: u32) -> [u8; 16] {
    let mut stamp = [0; 16];
    stamp[..8].copy_from_slice(&at.to_le_bytes());
    stamp[8..12].copy_from_slice(&version.to_le_bytes());
    stamp[12..].copy_from_slice(b"STRS");
    stamp
}

fn content(at: u64, len: u64, version: u32) -> Pieces {
    let mut bytes = vec![version as u8; len as usize];
    for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
        sector[..16].copy_from_slice(&stamp(at + (number * SECTOR) as u64, version));
    }
    Pieces::copy_of(&bytes)
}

/// Of each sector which version it is; none: what nobody wrote there.
fn versions(at: u64, data: &Pieces) -> Vec<Option<u32>> {
    let mut bytes = vec![0; data.len()];
    data.copy_to(&mut bytes);
    let of = |(number, sector): (usize, &[u8])| {
        let at = at + (number * SECTOR) as u64;
        VERSIONS.into_iter().find(|version| {
            sector[..16] == stamp(at, *version) && sector[16..].iter().all(|byte| *byte == *version as u8)
        })
    };
    bytes.chunks(SECTOR).enumerate().map(of).collect()
}

/// What the load knows of the chunks that it wrote, by where they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Sent,
    Acknowledged,
    Durable,
}

type Chunks = Rc<RefCell<(BTreeMap<u64, Told>, Kept)>>;

/// Writes one of the files over what it holds, and reads back what was acknowledged.
async fn overwrite(
    session: &LocalSession,
    (first, file_bytes, chunk): (u64, u64, u64),
    (chunks, mut rng): (Chunks, Rng),
) -> Result<()> {
    for (number, at) in (first..first + file_bytes).step_by(chunk as usize).enumerate() {
        chunks.borrow_mut().0.insert(at, Told::Sent);
        execute(session, write(at, content(at, chunk, VERSIONS[1]), first)).await?;
        chunks.borrow_mut().0.insert(at, Told::Acknowledged);
        let back = first + rng.u64(..=number as u64) * chunk;
        let found = versions(back, &execute(session, read(back, chunk, first)).await?);
        {
            let kept = &mut chunks.borrow_mut().1;
            kept.read_back += found.len() as u64;
            kept.stale += found.iter().filter(|version| **version == Some(VERSIONS[0])).count() as u64;
            kept.wrong += found.iter().filter(|version| version.is_none()).count() as u64;
        }
        if (number as u64 + 1).is_multiple_of(FLUSH_EVERY) {
            let sent: Vec<u64> = {
                let chunks = chunks.borrow();
                chunks.0.iter().filter(|(_, told)| **told >= Told::Acknowledged).map(|(at, _)| *at).collect()
            };
            execute(session, flush(first)).await?;
            chunks.borrow_mut().0.extend(sent.into_iter().map(|at| (at, Told::Durable)));
        }
    }
    Ok(())
}

/// What it keeps: power cuts at seeded points of the patterns of writes.
pub(super) fn kept(scenario: &Scenario, drive: &str, cuts: u64, (seed, stop): (u64, &Stop)) -> Result<Kept> {
    let spec = DiskSpec::drive(&drives::load(drive)?)?.with_len_bytes(DRIVE_BYTES);
    let specs = DRIVES.iter().map(|name| ((*name).to_owned(), spec.clone())).collect();
    let chunk = scenario.machine.transfer.0;
    // What passes the cache by is on the drives at once, and a flush has nothing to do.
    let cache = CacheSettings { direct_bytes: 2 * chunk, ..CacheSettings::new(CACHE_BYTES) };
    let config = declaration(cache, CONTENT_BYTES);
    let bed = Testbed::make(config, specs, seed, async |started| {
        let session = session(started).await?;
        for at in (0..CONTENT_BYTES).step_by(chunk as usize) {
            execute(&session, write(at, content(at, chunk, VERSIONS[0]), 0)).await?;
        }
        execute(&session, flush(0)).await.map(drop)
    })?;
    let mut out = Kept::default();
    let writes = patterns(1.0).into_iter().filter(|pattern| pattern.direction == Direction::Write);
    for pattern in writes {
        let file_bytes = CONTENT_BYTES / u64::from(pattern.files) / chunk * chunk;
        let files = (pattern.files, file_bytes, chunk);
        let whole = bed.model(seed);
        ensure!(matches!(written(&whole, &bed, files).1, Outcome::Finished(_)), "a run without a cut ends");
        let points = whole.disks().persistence_points();
        let mut rng = Rng::with_seed(seed);
        for _ in 0..cuts {
            if stop.is_asked() {
                return Err(Abandoned.into());
            }
            out.add(cut(&bed, files, rng.u64(1..points.max(2)), rng.u64(..))?);
        }
    }
    Ok(out)
}

type Files = (u32, u64, u64);

fn written(model: &Model, bed: &Testbed, (files, file_bytes, chunk): Files) -> (Chunks, Outcome<Result<()>>) {
    let chunks = Chunks::default();
    let told = chunks.clone();
    let ended = model.run_until_crash(async |world: World| {
        let started = bed.start(&world).await?;
        let session = session(&started).await?;
        let all = (0..files).map(|number| {
            let rng = world.random(&format!("file {number}"));
            let place = (u64::from(number) * file_bytes, file_bytes, chunk);
            overwrite(&session, place, (told.clone(), rng))
        });
        try_join_all(all).await.map(drop)
    });
    (chunks, ended)
}

/// A run that ends in a cut at this point; then the array is turned on again, and everything is read.
fn cut(bed: &Testbed, files: Files, point: u64, seed: u64) -> Result<Kept> {
    let model = bed.model(seed);
    model.disks().cut_power_after(point);
    let (chunks, ended) = written(&model, bed, files);
    match ended {
        // It came later than all that there was to do.
        Outcome::Finished(done) => done.map(|()| model.disks().keep_power())?,
        Outcome::PowerCut => model.reboot(),
    }
    let (told, mut kept) =
        Rc::try_unwrap(chunks).map(RefCell::into_inner).unwrap_or_else(|rc| rc.borrow().clone());
    kept.cuts = 1;
    model.run(async |world| {
        let started = bed.start(&world).await.context("the array after a power cut")?;
        let session = session(&started).await?;
        for (&at, &told) in &told {
            for version in versions(at, &execute(&session, read(at, files.2, 0)).await?) {
                kept.compared += 1;
                kept.wrong += u64::from(version.is_none());
                kept.lost += u64::from(told == Told::Durable && version == Some(VERSIONS[0]));
            }
        }
        anyhow::Ok(())
    })?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;

    use super::*;

    /// A LU that says more than it keeps, or holds what nobody wrote, is found out.
    #[test]
    fn what_a_lu_holds_is_told_from_what_was_there_before() {
        let (at, len) = (1 << 20, 4 * SECTOR as u64);
        let mut bytes = vec![0; len as usize];
        content(at, len, 2).copy_to(&mut bytes);
        let all = |bytes: &[u8]| versions(at, &Pieces::copy_of(bytes));
        assert_eq!(all(&bytes), [Some(2); 4]);
        content(at, len, 1).copy_to(&mut bytes[..]);
        assert_eq!(all(&bytes), [Some(1); 4]);
        bytes[SECTOR + 300] ^= 1;
        assert_eq!(all(&bytes), [Some(1), None, Some(1), Some(1)]);
        assert_eq!(versions(at + len, &Pieces::copy_of(&bytes)), [None; 4], "of another place");
    }

    /// Why writes through a LU are not equal: those of 256 KiB and more pass its cache by, and each moves the
    /// arms. Gathered in the cache first they are nearly as fast as natively.
    #[test]
    fn writes_that_pass_the_cache_by_are_what_a_lu_costs() {
        let mut scenario = Scenario::load(None).expect("built in").0;
        let spec = DiskSpec::drive(&drives::load(&scenario.run.drives[0]).expect("known")).expect("a drive");
        let mut share = |direct_bytes: u64| {
            scenario.lu.direct.0 = direct_bytes;
            let all = cost(&scenario, &spec, 0, (7, &Stop::default())).expect("runs").into_iter();
            let writes = all.filter(|cost| cost.pattern.starts_with('W'));
            writes.map(|cost| cost.mb_per_s / cost.physical_mb_per_s).fold(f64::INFINITY, f64::min)
        };
        let (by, through) = (share(256 << 10), share(512 << 10));
        assert!(by < 0.7 && through > 0.9, "{by} and {through}");
    }

    #[test]
    fn a_lu_loses_nothing_that_was_flushed_in_a_power_cut() {
        let scenario = Scenario::load(None).expect("built in").0;
        let kept = kept(&scenario, &scenario.run.drives[0], 2, (7, &Stop::default())).expect("runs");
        assert_eq!((kept.cuts, kept.wrong, kept.lost, kept.stale), (4, 0, 0, 0), "{kept:?}");
        assert!(kept.compared > 10_000 && kept.read_back > 10_000, "{kept:?}");
    }
}
