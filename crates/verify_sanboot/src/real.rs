//! The same in real time: every server is an initiator with a session of its own over iSCSI. Its disk is a LU
//! of an array of the laboratory's own, on modelled drives that take their time, or a LU that somebody gives.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use array::status::ControllerStatus;
use array::{Config, DriveSpec, Lun};
use iscsi::initiator::{Options, Session, Url};
use world::{Buf, Data, World};
use world_model::drives::{Prepared, Usage};

use super::bed::{self, INTERNAL, Shape};
use super::bench::{Bench, Probe};
use super::conditioning::{condition, write_pending};
use super::front::Op;
use super::host::{Ramp, Target};
use super::measured::{ArraySample, Sample};
use super::results::{Condition, Layout, Point, Results, Source};
use super::run::{Pace, Plan, Ran, points, results_of, show};
use super::scenario::Sanboot;
use super::which::{Which, seed_of};
use lab_core::interrupt::Stop;
use lab_core::progress::Progress;
use lab_tools::drives;
use lab_tools::hosts::Disk;
use lab_tools::testbed::timed_drive::{Drives, Meter, metered_world_with};
use lab_tools::testbed::{Observer, TimedArray, portal};

/// A file is written in such pieces before anybody reads it.
const PREPARE_BYTES: u64 = 1 << 20;

/// Where a layout's servers find their disks.
enum Place {
    /// Testbed anew for each point: what one point leaves in the cache is no memory of the next one.
    Array(Box<Config>, Prepared),
    Internal(Prepared),
    Given(Vec<Url>),
}

/// Runs all points, one after the other: they share the machine.
pub(super) fn run(sanboot: &Sanboot, plan: &Plan, given: &[Url], stop: &Stop) -> Result<Ran> {
    let all = points(sanboot, &plan.layouts);
    let fits = |which: &Which| which.layout != Layout::Given || which.servers as usize <= given.len();
    let all: Vec<Which> = all.into_iter().filter(fits).collect();
    let progress = Progress::new(all.iter().filter(|which| which.repeat == 0).count() as u64);
    let from = Instant::now();
    let mut done = Vec::new();
    for &layout in &plan.layouts {
        let place = Place::of(sanboot, layout, given)?;
        for which in all.iter().filter(|which| which.layout == layout) {
            if stop.is_asked() {
                break;
            }
            show(&progress, which);
            done.push(place.point(sanboot, which, plan.seed)?);
        }
    }
    progress.end();
    let stopped = done.len() < all.len();
    // As in the model world: by pattern, then by layout.
    done.sort_by_key(|point| (point.pattern, point.layout, point.servers, point.repeat));
    let wall = from.elapsed();
    let pace = Pace {
        wall,
        busy: wall,
        ios: done.iter().map(|point| point.array_ios).sum(),
        virtual_s: done.iter().map(|point| point.virtual_s).sum(),
    };
    let results = Results {
        world: "real".to_owned(),
        quick: plan.quick,
        stopped,
        conditions: conditions(sanboot),
        ..results_of(sanboot, plan.seed, done)
    };
    Ok(Ran { results, pace })
}

/// The inputs that have a meaning here: nothing of servers, port and controller is modelled, and what is
/// scaled is not what was published.
fn conditions(sanboot: &Sanboot) -> Vec<Condition> {
    let is_modelled =
        |c: &Condition| ["controller.", "host.", "port."].iter().any(|of| c.name.starts_with(of));
    let scaled = |c: Condition| match c.name.as_str() {
        "published.file" | "array.cache" => Condition { source: Source::Chosen, ..c },
        _ => c,
    };
    sanboot.conditions().into_iter().filter(|c| !is_modelled(c)).map(scaled).collect()
}

impl Place {
    fn of(sanboot: &Sanboot, layout: Layout, given: &[Url]) -> Result<Place> {
        Ok(match (layout, Shape::of(layout)) {
            (Layout::Given, _) => Place::Given(given.to_vec()),
            (_, None) => Place::Internal(Prepared::new(&bed::internal(sanboot)?)?),
            (_, Some(shape)) => {
                let config = Config { portals: vec![portal()], ..bed::declaration(sanboot, &shape) };
                Place::Array(Box::new(config), Prepared::new(&drives::load(&sanboot.array.drive)?)?)
            }
        })
    }

    /// One point, on a thread of the servers' own.
    fn point(&self, sanboot: &Sanboot, which: &Which, seed: u64) -> Result<Point> {
        let seed = seed_of(seed, which);
        let array = match self {
            Place::Array(config, drives) => Some(TimedArray::start((**config).clone(), drives, seed)?),
            Place::Internal(_) | Place::Given(_) => None,
        };
        let listen = array.as_ref().map(TimedArray::listen);
        let logins = self.logins(which, listen)?;
        let observer = array.as_ref().map(TimedArray::observer);
        let internal = match self {
            Place::Internal(prepared) => Some(prepared.clone()),
            Place::Array(..) | Place::Given(_) => None,
        };
        let (sanboot, own) = (sanboot.clone(), which.clone());
        let options = world_real::Options { seed, ..world_real::Options::default() };
        let servers = world_real::start("servers", options, move |world| async move {
            let (world, meter) = match internal {
                Some(prepared) => {
                    let takes_time = Arc::new(AtomicBool::new(true));
                    let prepared = [(INTERNAL.to_owned(), prepared)].into();
                    let drives = Drives { prepared, takes_time };
                    let (world, meter) = metered_world_with(world, drives);
                    (world, Some(meter))
                }
                None => (world, None),
            };
            let targets = match meter {
                Some(_) => {
                    let spec = DriveSpec::Modelled { name: INTERNAL.to_owned() };
                    vec![Target::Disk(world.open_now(&spec)?)]
                }
                None => sessions(&world, &logins, sanboot.published.file.0).await?,
            };
            let ramp = Ramp::new(&sanboot, &world, own.pattern, targets)?;
            let ramp = Rc::new(match own.layout {
                Layout::Given => ramp.with_content(noise(&world)),
                _ => ramp,
            });
            let began = world.now();
            if own.layout == Layout::Given {
                prepare(&ramp, sanboot.published.file.0, own.servers).await?;
            }
            let transfer_bytes = sanboot.published.transfer.0;
            let probe = Asked { layout: own.layout, transfer_bytes, array: observer, internal: meter };
            Bench { sanboot: &sanboot, which: &own, world, ramp, probe, began }.run(seed).await
        })?;
        let place =
            || format!("{}, {}, {} servers", which.pattern.name(), which.layout.name(), which.servers);
        servers
            .join()
            .map_err(|_| anyhow!("the servers have panicked"))?
            .map_err(anyhow::Error::from)
            .flatten()
            .with_context(place)
    }

    /// How each server logs in.
    fn logins(&self, which: &Which, listen: Option<SocketAddr>) -> Result<Vec<(Options, Lun)>> {
        let login = |server: u32| match self {
            Place::Internal(_) => None,
            Place::Array(..) => listen.map(|listen| {
                let name = bed::initiator(which.lu_of(server));
                Ok((Options::new(listen, &name, bed::TARGET, server + 1), Lun(0)))
            }),
            Place::Given(urls) => urls.get(server as usize).map(|url| {
                let login = lab_tools::hosts::login_of(url)?;
                let port = Options::new(login.address, &login.initiator, &url.target, server + 1);
                Ok((Options { isid: port.isid, ..login }, Lun(url.lun)))
            }),
        };
        (0..which.servers).filter_map(login).collect()
    }
}

/// What is written to LUs of which nothing is known.
fn noise(world: &World) -> Data {
    let mut noise = Buf::new(PREPARE_BYTES as usize);
    world.random("content").fill(&mut noise);
    noise.freeze()
}

/// A session for each server, whose LU has room for its file.
async fn sessions(world: &World, logins: &[(Options, Lun)], file_bytes: u64) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for (server, (login, lun)) in logins.iter().enumerate() {
        let name = || format!("server {server}");
        let session = Session::login(world, login).await.with_context(name)?;
        let disk = Disk::open(world.clone(), session, *lun).await.with_context(name)?;
        let len = disk.capabilities().await.with_context(name)?.len_bytes;
        ensure!(
            len >= file_bytes,
            "server {server}: the LU of {len} bytes is smaller than the file of {file_bytes}; pass a smaller \
             --scale"
        );
        targets.push(Target::Session(disk));
    }
    Ok(targets)
}

/// LUs of --target are written once, so that there is something to read.
async fn prepare(ramp: &Ramp, file_bytes: u64, servers: u32) -> Result<()> {
    let pieces = file_bytes / PREPARE_BYTES;
    let writes = (0..pieces).flat_map(|n| (0..servers as usize).map(move |server| (server, n)));
    let ops = writes.map(|(server, n)| (server, Op { at: n * PREPARE_BYTES, reads: false }, PREPARE_BYTES));
    condition(ramp, ops).await
}

/// What can be asked: an array of the laboratory's own, or the drive in a server. LUs of --target have no
/// counters.
struct Asked {
    layout: Layout,
    transfer_bytes: u64,
    array: Option<Observer>,
    internal: Option<Meter>,
}

impl Probe for Asked {
    fn has_array(&self) -> bool {
        self.array.is_some()
    }

    async fn status(&self) -> Result<Vec<ControllerStatus>> {
        match &self.array {
            Some(array) => array.status().await,
            None => Ok(vec![]),
        }
    }

    async fn sample(&self, ramp: &Ramp) -> Result<Sample> {
        let mut counts = ramp.counts.get();
        let (mut array, mut drives) = (None, Vec::new());
        if let (Some(observer), Some(shape)) = (&self.array, Shape::of(self.layout)) {
            let status = observer.status().await?;
            let usage = observer.usage().await?;
            drives = shape.drives().map(|name| usage.get(&name).copied().unwrap_or_default()).collect();
            counts.hits = read_hits(&status) / self.transfer_bytes;
            let busy = status.first().map_or(Duration::ZERO, |part| part.busy);
            array = Some(ArraySample {
                controller_ns: busy.as_nanos() as u64,
                port_ns: None,
                pending: write_pending(&status),
            });
        }
        if let Some(internal) = &self.internal {
            drives = internal.usage().into_values().collect::<Vec<Usage>>();
        }
        Ok(Sample {
            at_ns: ramp.now_ns(),
            counts,
            server_ios: ramp.server_ios(),
            hosts_ns: vec![],
            array,
            drives,
        })
    }
}

/// Bytes that were read from memory since the start.
fn read_hits(status: &[ControllerStatus]) -> u64 {
    let caches = status.iter().filter_map(|part| part.cache.as_ref());
    caches.flat_map(|cache| &cache.partitions).map(|part| part.traffic.read_hit_bytes).sum()
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;

    use super::*;
    use crate::results::{Pattern, ResourceKind};
    use lab_core::quantity::Size;
    use lab_tools::testbed::embedded::{ArrayShape, DriveKind, Embedded, PoolShape, TARGET};

    /// The built-in scenario with little of everything.
    fn small() -> Sanboot {
        let (sanboot, _) = Sanboot::load(None).expect("built in");
        let mut small = sanboot.real(true, Some(1.0 / 192.0)).expect("16 MiB files");
        small.array.lu.0 = 64 << 20;
        (small.run.servers, small.run.windows, small.run.rounds_max) = (vec![2, 3], 2, 2);
        (small.run.window_ios, small.run.round_ios) = (20, 10);
        (small.run.window_time.0, small.run.round_time.0) =
            (Duration::from_millis(100), Duration::from_millis(50));
        small
    }

    fn which(layout: Layout, pattern: Pattern) -> Which {
        Which::in_turn(pattern, layout, 2)
    }

    #[test]
    fn servers_have_sessions_and_drives_take_their_time() {
        let small = small();
        let place = Place::of(&small, Layout::Raid1x8, &[]).expect("an array");
        let point = place.point(&small, &which(Layout::Raid1x8, Pattern::RandomRead), 1).expect("a point");
        assert_eq!((point.per_server.len(), point.windows.len()), (2, 2));
        assert!(point.per_server.iter().all(|server| server.iops > 0.0), "{:?}", point.per_server);
        let groups = point.resources.iter().filter(|r| r.kind == ResourceKind::Group);
        let used: Vec<bool> = groups.map(|group| group.utilisation > 0.0).collect();
        assert_eq!(used, [true, true, false, false, false, false, false, false], "{:?}", point.resources);
        let controller = point.resources.iter().find(|r| r.kind == ResourceKind::Controller).expect("one");
        assert!(controller.utilisation > 0.0);
        assert!(point.resources.iter().all(|r| r.kind != ResourceKind::Port), "no link is modelled");
    }

    #[test]
    fn given_lus_are_used_as_far_as_they_go() {
        let shape = ArrayShape { drives: DriveKind::Memory, page: Size(1 << 20), segment_bytes_max: 1448 };
        let pool =
            |name| PoolShape { name, drive_bytes: 512 << 20, volume_bytes: 32 << 20, threshold_percent: 80 };
        let dir = std::env::temp_dir();
        let array = Embedded::start(&shape, &[pool("a"), pool("b")], 1, &dir).expect("an array");
        let url = |lun| Url::parse(&format!("iscsi://{}/{TARGET}/{lun}", array.listen())).expect("a url");
        let plan = Plan { seed: 1, quick: true, layouts: vec![Layout::Given], threads: 1 };
        let ran = run(&small(), &plan, &[url(0), url(1)], &Stop::default()).expect("points");
        // Three servers would need three LUs.
        let numbers: Vec<u32> = ran.results.points.iter().map(|point| point.servers).collect();
        assert_eq!(numbers, [2; 6]);
        assert_eq!(ran.results.world, "real");
        let written = array.read().expect("its counters").drive_bytes_since(&Default::default());
        assert!(written >= 2 * (16 << 20), "{written}");
    }

    #[test]
    fn a_lu_without_room_for_the_file_is_named() {
        let shape = ArrayShape { drives: DriveKind::Memory, page: Size(1 << 20), segment_bytes_max: 1448 };
        let pool =
            PoolShape { name: "a", drive_bytes: 512 << 20, volume_bytes: 8 << 20, threshold_percent: 80 };
        let array = Embedded::start(&shape, &[pool], 1, &std::env::temp_dir()).expect("an array");
        let url = Url::parse(&format!("iscsi://{}/{TARGET}/0", array.listen())).expect("a url");
        let place = Place::of(&small(), Layout::Given, &[url.clone(), url]).expect("a place");
        let refused = place.point(&small(), &which(Layout::Given, Pattern::RandomRead), 1);
        let text = format!("{:#}", refused.expect_err("too short"));
        assert!(text.contains("server 0") && text.contains("--scale"), "{text}");
    }
}
