//! All rounds: in each, one run on each kind of disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use world::Rng;

use super::super::Fileserver;
use super::super::scenario::Fileserver as Scenario;
use super::figures::Shown;
use super::kind::{Format, Kind, Sizes};
use super::measure::{Load, Place, Run};
use super::report::{Ran, Recording};
use super::stack::{self, Server};
use super::system::{self, Scratch};
use lab_core::interrupt::Stop;
use lab_core::progress::Progress;
use lab_core::verification::Setup;
use lab_tools::files::{Plan, Tree};
use lab_tools::testbed::{Observer, TimedArray};

/// Of a run, whatever it does.
const SECONDS_MAX: f64 = 3600.0;
/// Rounds that can be asked for.
const REPEATS_MAX: usize = 1000;
/// The set in a user's directory, and its temporary name.
const FOLDER: &str = "masu-fileserver";

/// Does it all.
pub(in super::super) fn play(setup: &Setup<'_, Fileserver>, stop: &Stop) -> Result<Recording> {
    let (request, own, scenario) = (setup.request, setup.own, setup.scenario);
    let real = &scenario.real;
    let rounds = own.repeats.unwrap_or(if own.quick { real.repeats_quick } else { real.repeats });
    ensure!((1..=REPEATS_MAX).contains(&rounds), "invalid --repeats {rounds}: must be in 1 to {REPEATS_MAX}");
    let scale = request.scale.unwrap_or(if own.quick { real.scale_quick } else { real.scale });
    let workers = scenario.published.clients * scenario.published.workers;
    let sizes = Sizes::of(scenario, scale, workers, real.cache.0, request.seed)?;
    let all = All { scenario, seed: request.seed, rounds, sizes, workers, stop };
    let ran = match &own.directory {
        Some(directory) => all.directory(directory)?,
        None => {
            let formats = if own.formats.is_empty() { &[Format::Vhd][..] } else { &own.formats };
            all.kinds(&Kind::of(formats), &request.out)?
        }
    };
    Ok(Recording { ran, scale, sizes: all.sizes })
}

struct All<'a> {
    scenario: &'a Scenario,
    seed: u64,
    rounds: usize,
    sizes: Sizes,
    workers: u32,
    stop: &'a Stop,
}

impl All<'_> {
    /// The steps of one round are the same for all kinds.
    fn load(&self, round: usize) -> Load {
        Load {
            workers: self.workers,
            read_share: f64::from(self.scenario.published.read_percent) / 100.0,
            seed: self.seed.wrapping_add(round as u64),
            seconds_max: SECONDS_MAX,
        }
    }

    /// A stack for each kind, and all rounds on them.
    fn kinds(&self, kinds: &[Kind], out: &Path) -> Result<Ran> {
        system::check()?;
        let progress = Progress::new((kinds.len() * (self.rounds + 1)) as u64);
        let scratch = Scratch::make(out.join("mounts"))?;
        let array = stack::array(self.scenario, kinds, &self.sizes, self.seed)?;
        let mut servers = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            if self.stop.is_asked() {
                break;
            }
            progress.step(&format!("a server on a {} disk is made", kind.name()));
            let made = Server::make((number, *kind), &self.sizes, &array, &scratch, self.seed, self.stop);
            servers.push(made.with_context(|| format!("the server on a {} disk", kind.name()))?);
        }
        array.take_time(true);
        let shown: Vec<Shown> = kinds.iter().map(|kind| self.shown(*kind)).collect();
        let disks: Vec<String> = servers.iter().map(|server| server.disk.name().to_owned()).collect();
        let observer = Arc::new(array.observer());
        let mut rng = Rng::with_seed(self.seed);
        let mut runs = Vec::new();
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..servers.len()).collect();
            rng.shuffle(&mut order);
            for (place, number) in order.into_iter().enumerate() {
                if self.stop.is_asked() {
                    break;
                }
                let name = &shown[number].name;
                progress.step(&format!("round {} of {}, {name}", round + 1, self.rounds));
                let run = self.one(&servers[number], number, round, &array, &observer)?;
                if !self.stop.is_asked() {
                    runs.push(Run { configuration: name.clone(), round: round as u32, place, ..run });
                }
            }
        }
        progress.end();
        let stopped = runs.len() < kinds.len() * self.rounds;
        // What is left of writes on the way out need not take the time of drives.
        array.take_time(false);
        drop(servers);
        Ok(Ran { runs, shown, disks: Some(disks), stopped, directory: None, cached: false })
    }

    fn shown(&self, kind: Kind) -> Shown {
        let p = &self.scenario.published;
        let is_published = kind.format == Format::Vhd;
        let published = if kind.dynamic { p.dynamic_mb_per_s } else { p.fixed_mb_per_s };
        Shown { name: kind.name(), color: kind.color(), published: is_published.then_some(published) }
    }

    /// One run, with nothing of its files in this machine's memory or the array's.
    fn one(
        &self,
        server: &Server,
        number: usize,
        round: usize,
        array: &TimedArray,
        observer: &Arc<Observer>,
    ) -> Result<Run> {
        array.take_time(false);
        server.files.remount()?;
        read_dummies(server.files.point(), &self.sizes.plan)?;
        server.files.remount()?;
        array.take_time(true);
        let place = Place {
            set: server.files.point(),
            disk: Some(server.disk.name()),
            lu: Some((stack::volume(number), stack::drives_of(self.scenario, number), observer.clone())),
        };
        place.run(&self.load(round), self.stop)
    }

    /// Creates a set in a user's directory, and runs all rounds on it.
    fn directory(&self, directory: &Path) -> Result<Ran> {
        let progress = Progress::new(self.rounds as u64 + 1);
        progress.step("the set is made");
        let set = OwnSet::make(directory.join(FOLDER))?;
        lab_tools::files::create(&set.0, &self.sizes.plan, stack::CREATE_THREADS, self.stop, |_| ())?;
        let name = "directory".to_owned();
        let (mut runs, mut cached) = (Vec::new(), false);
        for round in 0..self.rounds {
            if self.stop.is_asked() {
                break;
            }
            progress.step(&format!("round {} of {}", round + 1, self.rounds));
            cached |= forget_pages(&set.0).is_err();
            let run = Place { set: &set.0, disk: None, lu: None }.run(&self.load(round), self.stop)?;
            if !self.stop.is_asked() {
                runs.push(Run { configuration: name.clone(), round: round as u32, ..run });
            }
        }
        progress.end();
        let stopped = runs.len() < self.rounds;
        let shown = vec![Shown { name, color: "blue", published: None }];
        Ok(Ran { runs, shown, disks: None, stopped, directory: Some(directory.to_owned()), cached })
    }
}

/// Reads what no worker touches: twice the array's cache.
fn read_dummies(set: &Path, plan: &Plan) -> Result<()> {
    for number in plan.spec().trees..plan.spec().all_trees() {
        let tree: Tree = plan.tree(number);
        for file in 0..tree.files.len() as u32 {
            let path = set.join(tree.path(file));
            std::fs::read(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Has the machine forget what it holds of files.
fn forget_pages(set: &Path) -> std::io::Result<()> {
    rustix::fs::syncfs(std::fs::File::open(set)?)?;
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// A set in a user's directory: only what masu created there is removed.
struct OwnSet(PathBuf);

impl OwnSet {
    fn make(path: PathBuf) -> Result<OwnSet> {
        std::fs::create_dir(&path).with_context(|| {
            format!("{}: remove it, if it is left of a run that was killed", path.display())
        })?;
        Ok(OwnSet(path))
    }
}

impl Drop for OwnSet {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            lab_core::console::note(&format!("{}: {error}", self.0.display()));
        }
    }
}
