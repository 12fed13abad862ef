//! On this machine: the load natively and in a guest, in turn, on the same stretches of the same image file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diskstress::processor::Used;
use diskstress::{Direction, Pattern, Plan, Target};

use super::guest::{Guest, Parts};
use super::results::{Measured, On, Run, patterns};
use super::scenario::Scenario;
use lab_core::interrupt::Stop;
use lab_core::progress::Progress;
use lab_core::report::Span;
use lab_tools::samplers::{self, Host, HostPlan, Samplers, Series};

/// Where it runs.
pub(super) struct Place<'a> {
    /// Where the image is made, and removed again.
    pub(super) dir: &'a Path,
    /// Where the guest's kernel and initramfs are.
    pub(super) guest: &'a Path,
}

/// What else there is to say of a run.
pub(super) struct Real {
    pub(super) run: Run,
    /// Whether the page cache was passed by, natively and in the guest.
    pub(super) direct: bool,
    /// Bytes of the files of a pattern together.
    pub(super) pattern_bytes: u64,
    /// What the host counted meanwhile.
    pub(super) host: Series,
    /// When each repeat began and ended, on the same clock.
    pub(super) repeats: Vec<Span>,
}

/// The image; removed when it is dropped.
struct Image(PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        // It goes with the run, whatever became of it.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Image {
    /// Written once from beginning to end, so that every block has its place before anything is measured.
    fn make(dir: &Path, len: u64) -> Result<Image> {
        let path = dir.join("diskstress.img");
        let opened = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut file = opened.with_context(|| path.display().to_string())?;
        let image = Image(path);
        let piece = vec![0x5a; IMAGE_STEP as usize];
        let mut written = Ok(());
        for _ in 0..len.div_ceil(IMAGE_STEP) {
            written = written.and_then(|()| file.write_all(&piece));
        }
        written.and_then(|()| file.sync_all()).with_context(|| image.0.display().to_string())?;
        Ok(image)
    }
}

/// Room behind the last file: drives of guests are whole MiB.
const IMAGE_STEP: u64 = 1 << 20;

/// How often the host is sampled: a pattern takes seconds.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

fn host_samplers() -> Result<Samplers> {
    let host = Host::new(HostPlan::default());
    let source = Box::new(move || host.read());
    let plan = samplers::Plan { name: "host".into(), interval: SAMPLE_INTERVAL, source };
    Ok(Samplers::start(Instant::now(), vec![plan])?)
}

/// Runs everything; the first repeat warms up and is not counted.
pub(super) fn run(scenario: &Scenario, place: &Place<'_>, seed: u64, stop: &Stop) -> Result<Real> {
    let parts = Parts::of(place.guest)?;
    let shapes = patterns(Direction::Write).into_iter().map(|p| p.scaled(scenario.real.scale));
    let shapes: Vec<Pattern> = shapes.collect();
    let pattern_bytes = shapes.iter().map(Pattern::total_bytes).max().unwrap_or(0);
    let progress = Progress::new(2 + u64::from(scenario.real.repeats));
    progress.step("the image is written");
    let image = Image::make(place.dir, pattern_bytes.next_multiple_of(IMAGE_STEP))?;
    progress.step("the guest boots; both machines warm up");
    let mut guest = Guest::boot(&parts, &image.0, scenario.real.memory_mb)?;
    let plan = Plan { seed, ..Plan::new(Target::at(&image.0)?) };
    let mut both = Both { scenario, plan, guest: &mut guest, direct: true, wrong: 0 };
    both.repeat(&shapes[..1], 0)?;
    let mut run = Run::default();
    let samplers = host_samplers()?;
    let mut repeats = Vec::new();
    for repeat in 0..scenario.real.repeats {
        if stop.is_asked() {
            run.stopped = true;
            break;
        }
        progress.step(&format!("repeat {} of {}", repeat + 1, scenario.real.repeats));
        let from = samplers.now_s();
        run.measured.extend(both.repeat(&shapes, repeat)?);
        repeats.push(Span { name: format!("repeat {}", repeat + 1), from, to: samplers.now_s() });
        run.repeats = repeat + 1;
    }
    progress.end();
    run.wrong = both.wrong;
    let host = samplers.end().pop().unwrap_or_default();
    Ok(Real { direct: both.direct, run, pattern_bytes, host, repeats })
}

/// Both machines.
struct Both<'a> {
    scenario: &'a Scenario,
    plan: Plan,
    guest: &'a mut Guest,
    direct: bool,
    wrong: u64,
}

impl Both<'_> {
    /// Every shape on both, written and then read; who begins changes from repeat to repeat.
    fn repeat(&mut self, shapes: &[Pattern], repeat: u32) -> Result<Vec<Measured>> {
        let order = if repeat.is_multiple_of(2) { On::BOTH } else { [On::Virtual, On::Physical] };
        let mut out = Vec::new();
        for shape in shapes {
            for on in order {
                for direction in [Direction::Write, Direction::Read] {
                    out.push(self.one(shape, direction, on)?);
                }
            }
        }
        Ok(out)
    }

    fn one(&mut self, shape: &Pattern, direction: Direction, on: On) -> Result<Measured> {
        let letter = if direction == Direction::Read { "R" } else { "W" };
        let name = format!("{letter}{}", &shape.name[1..]);
        let (before, from) = (Used::now(), Instant::now());
        let mb_per_s = match on {
            On::Physical => {
                let pattern = Pattern { name: name.clone(), direction, ..shape.clone() };
                let outcome = diskstress::run(&self.plan, &pattern)?;
                self.wrong += outcome.wrong;
                self.direct &= outcome.direct;
                outcome.mb_per_s
            }
            On::Virtual => {
                // What is read is there: it was written just before.
                let options = format!(
                    "--patterns {name} --scale {} --seed {} --as-it-is",
                    self.scenario.real.scale, self.plan.seed
                );
                let said = self.guest.run(&options)?;
                let one = said.into_iter().find(|said| said.pattern == name);
                let one = one.with_context(|| format!("no result for {name} from the guest"))?;
                ensure!(one.mb_per_s > 0.0, "the guest's clock stood still in {name}");
                self.wrong += one.wrong;
                self.direct &= one.direct;
                one.mb_per_s
            }
        };
        let load = Used::now().since(&before, from.elapsed().as_secs_f64());
        Ok(Measured {
            pattern: name,
            on,
            drive: String::new(),
            mb_per_s,
            processor_percent: load.machine_percent,
        })
    }
}
