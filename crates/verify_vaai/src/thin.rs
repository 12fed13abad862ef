//! Thin provisioning: a LU larger than its pool. The host writes until it is warned, then until it is
//! stopped; it gives space back and goes on; at the end everything is given back.

use anyhow::{Context, Result, ensure};
use block::Pieces;
use iscsi::initiator::{Options, Session};
use scsi::Lun;
use world::{Buf, Rng, World};

use super::bed::Bed;
use super::measures::ReadBack;
use super::record::{Filled, Record};
use lab_tools::hosts::Capabilities;
use lab_tools::hosts::{Disk, DiskError, HostThread, OUT_OF_SPACE, THRESHOLD_REACHED};

/// The size of a write, and of an UNMAP.
const STEP: u64 = 1 << 20;
/// What is compared at a time.
const BLOCK: usize = 4096;
/// How much the host unmaps when a write fails, in steps.
const RELIEF_STEPS: u64 = 16;
/// How often a stopped write is sent again before the host gives up: unmapped space is free once the array
/// has made that durable.
const RESUME_TRIES: u32 = 50;
const RESUME_WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// What the jobs of the host's thread share.
pub(crate) struct ThinHost {
    world: World,
    disk: Disk,
    caps: Capabilities,
}

/// The pool's name.
pub(crate) const POOL: &str = "thin";

impl ThinHost {
    /// A host on a thread of its own.
    pub(crate) fn start(login: Options, lun: Lun, seed: u64) -> Result<HostThread<ThinHost>> {
        HostThread::start("thin-host", seed, move |world| async move {
            let session =
                Session::login(&world, &login).await.with_context(|| format!("{}", login.address))?;
            let disk = Disk::open(world.clone(), session, lun).await?;
            let caps = disk.capabilities().await?;
            ensure!(caps.unmap, "the LU takes no UNMAP");
            Ok(ThinHost { world, disk, caps })
        })
    }

    /// The content of one step: different in each.
    fn content(step: u64, repeat: u64) -> Pieces {
        let mut buf = Buf::new(STEP as usize);
        Rng::with_seed(step ^ repeat << 32).fill(&mut buf);
        buf.freeze().into()
    }

    async fn unmap(&self, from: u64, to: u64) -> Result<(), DiskError> {
        let most = if self.caps.unmap_bytes_max == 0 { 256 << 20 } else { self.caps.unmap_bytes_max };
        let mut at = from;
        while at < to {
            let len = most.min(to - at) / STEP * STEP;
            self.disk.unmap(&[(at, len.max(STEP))]).await?;
            at += len.max(STEP);
        }
        Ok(())
    }
}

/// What one write came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes { warned: bool },
    OutOfSpace,
}

fn write(host: &HostThread<ThinHost>, step: u64, repeat: u64) -> Result<Written> {
    host.run(move |host| async move {
        match host.disk.write(step * STEP, ThinHost::content(step, repeat)).await {
            Err(error) if error.sense() == Some(OUT_OF_SPACE) => return Ok(Written::OutOfSpace),
            other => other?,
        }
        // What the array wants to tell comes with the next command.
        host.disk.ready().await?;
        Ok(Written::Yes { warned: host.disk.take_noticed().attentions.contains(&THRESHOLD_REACHED) })
    })
}

fn used(bed: &Bed) -> Result<(u64, u64)> {
    Ok(bed.read()?.and_then(|r| r.pools.get(POOL).copied()).unwrap_or_default())
}

/// How far a host came.
struct Stopped {
    /// The step that met a full pool.
    step: u64,
    /// Of the pool, what was used when the host was warned.
    warned_percent: Option<f64>,
    used_bytes: u64,
}

/// One run; adds what it measured (repeat 0: nothing). Gives how many blocks were compared, and of these how
/// many did not survive.
pub(crate) fn run(
    bed: &Bed,
    host: &HostThread<ThinHost>,
    repeat: usize,
    record: &mut Record,
) -> Result<ReadBack> {
    let key = repeat as u64;
    host.run(|host| async move {
        let end = host.caps.len_bytes;
        host.unmap(0, end).await?;
        host.disk.take_noticed();
        Ok(())
    })?;
    let (used_before, pool_bytes) = used(bed)?;
    let percent = |bytes: u64| 100.0 * bytes as f64 / pool_bytes.max(1) as f64;
    let mut course = Vec::new();
    let stopped = fill(bed, host, repeat, &mut course)?;
    let resumed = resume(host, stopped.step, key)?;
    let event = |written: u64, used: u64, event| Filled {
        repeat,
        written_bytes: (written * STEP) as f64,
        used_percent: percent(used),
        event: Some(event),
    };
    course.push(event(stopped.step + 1, used(bed)?.0, "resumed"));
    let read_back = read_back(host, stopped.step + u64::from(resumed), key)?;
    let (reclaim_s, used_after) = reclaim(bed, host, used_before)?;
    course.push(event(0, used_after, "reclaimed"));
    if repeat == 0 {
        return Ok(read_back);
    }
    record.filling.extend(course);
    if let Some(percent) = stopped.warned_percent {
        record.add("thin", "on", repeat, "warned_percent", percent);
    }
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let reclaimed =
        share(stopped.used_bytes.saturating_sub(used_after), stopped.used_bytes.saturating_sub(used_before));
    for (metric, value) in [
        ("warned", f64::from(u8::from(stopped.warned_percent.is_some()))),
        ("resumed_percent", if resumed { 100.0 } else { 0.0 }),
        ("reclaimed_percent", reclaimed),
        ("reclaim_s", reclaim_s),
        ("stopped_percent", percent(stopped.used_bytes)),
        ("written_bytes", (stopped.step * STEP) as f64),
    ] {
        record.add("thin", "on", repeat, metric, value);
    }
    Ok(read_back)
}

/// Writes until the array says that the pool is full.
fn fill(bed: &Bed, host: &HostThread<ThinHost>, repeat: usize, course: &mut Vec<Filled>) -> Result<Stopped> {
    let (mut step, mut warned_percent) = (0, None);
    loop {
        let written = write(host, step, repeat as u64)?;
        let (used_bytes, pool_bytes) = used(bed)?;
        let used_percent = 100.0 * used_bytes as f64 / pool_bytes.max(1) as f64;
        let filled =
            |steps: u64, event| Filled { repeat, written_bytes: (steps * STEP) as f64, used_percent, event };
        match written {
            Written::OutOfSpace => {
                course.push(filled(step, Some("stopped")));
                return Ok(Stopped { step, warned_percent, used_bytes });
            }
            Written::Yes { warned: true } if warned_percent.is_none() => {
                warned_percent = Some(used_percent);
                course.push(filled(step + 1, Some("warned")));
            }
            Written::Yes { .. } => course.push(filled(step + 1, None)),
        }
        step += 1;
        ensure!(step * STEP <= pool_bytes, "the pool takes more than it has");
    }
}

/// Gives the first steps back and sends the stopped write again.
fn resume(host: &HostThread<ThinHost>, step: u64, key: u64) -> Result<bool> {
    host.run(|host| async move { Ok(host.unmap(0, RELIEF_STEPS * STEP).await?) })?;
    for _ in 0..RESUME_TRIES {
        if write(host, step, key)? != Written::OutOfSpace {
            return Ok(true);
        }
        host.run(|host| async move {
            host.world.sleep(RESUME_WAIT).await;
            Ok(())
        })?;
    }
    Ok(false)
}

/// Reads everything back: zeros where space was unmapped, the content elsewhere.
fn read_back(host: &HostThread<ThinHost>, steps: u64, key: u64) -> Result<ReadBack> {
    host.run(move |host| async move {
        let mut read_back = ReadBack::default();
        for step in 0..steps {
            let found = host.disk.read(step * STEP, STEP).await?.joined();
            let expected = if step < RELIEF_STEPS {
                Buf::zeroed(STEP as usize).freeze()
            } else {
                ThinHost::content(step, key).joined()
            };
            for (block, expected) in found.chunks(BLOCK).zip(expected.chunks(BLOCK)) {
                read_back += ReadBack { compared: 1, wrong: u64::from(block != expected) };
            }
        }
        Ok(read_back)
    })
}

/// Gives everything back, and waits for a moment until the pool shows it. Gives the time and the bytes still
/// used.
fn reclaim(bed: &Bed, host: &HostThread<ThinHost>, used_before: u64) -> Result<(f64, u64)> {
    let seconds = host.run(|host| async move {
        let began = host.world.now();
        let end = host.caps.len_bytes;
        host.unmap(0, end).await?;
        Ok(host.world.now().since(began).as_secs_f64())
    })?;
    for _ in 0..RESUME_TRIES {
        if used(bed)?.0 <= used_before {
            break;
        }
        host.run(|host| async move {
            host.world.sleep(RESUME_WAIT).await;
            Ok(())
        })?;
    }
    Ok((seconds, used(bed)?.0))
}
