//! Measures a drive, in either world: from what it answers follows a drive file.
//!
//! Random reads tell whether it has an arm. If so, a trace of single requests goes to [`super::fit`], and
//! sequential reads in equal parts of the drive give the zones. If not, reads at rising depths give units and
//! service time. It reads; it writes only if the plan says so, and then only on a drive that reads as zeros.

mod flash;
mod pattern;
mod stream;

use world::{Buf, Data, Drive, DriveError, Io, World};
use world_model::drives::{BLOCK_BYTES, DriveParameters, Kind, ParameterError};

use super::closed_loop::{self, Load};
use super::fit::{self, FitError, Known};
use super::trace::Trace;

pub use flash::FlashFigures;

/// Random reads that tell a disk from flash.
const SAMPLE: usize = 100;
/// The median of random reads of a drive without an arm is below this: a disk of 15,000 rpm turns half way in
/// 2 ms.
const ARM_MIN_NS: u64 = 1_000_000;
/// A smaller drive has no room for the sequential reads.
const LEN_BYTES_MIN: u64 = 64 << 20;
/// Equal parts of the drive whose rate is measured.
const PARTS: usize = 9;
/// A drive with more unreadable places is not measured.
const FAILED_MAX: u64 = 20;

/// The longest write.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// How a drive is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Single requests of a disk's trace; at least 500.
    pub requests: usize,
    /// Whether it is written, too: what is on it is lost.
    pub writes: bool,
}

/// Why a drive was not measured.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum MeasureError {
    #[error("{0}")]
    Drive(#[from] DriveError),
    #[error("too small: {0} bytes; at least 64 MiB are needed")]
    Small(u64),
    #[error(
        "it holds data, and measuring writes would overwrite it; erase it first (blkdiscard), or measure reads only"
    )]
    NotBlank,
    #[error("more than {FAILED_MAX} of its places are unreadable")]
    Unreadable,
    #[error("{0}")]
    Fit(#[from] FitError),
    #[error("{0}")]
    Parameters(#[from] ParameterError),
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The capacity.
    pub len_blocks: u64,
    /// By its kind.
    pub medium: Medium,
}

/// What was measured of a drive of this kind.
#[derive(Clone, Debug)]
pub enum Medium {
    /// With platters and an arm.
    HardDisk {
        /// Single requests.
        trace: Trace,
        /// Sequential reads in equal parts, in bytes per second.
        rates: Vec<f64>,
    },
    /// Without an arm.
    Flash(FlashFigures),
}

/// The drive that behaves as measured.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// The drive.
    pub parameters: DriveParameters,
    /// What a comment at the top of its file says: how well it fits, and what is unknown.
    pub about: Vec<String>,
}

/// Measures a drive; `progress` is told each step in a few words.
///
/// # Errors
///
/// If the drive fails, is too small, or is to be written and holds data.
pub async fn measure(
    world: &World,
    drive: &Drive,
    plan: Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<Measurement, MeasureError> {
    if drive.len_bytes() < LEN_BYTES_MIN {
        return Err(MeasureError::Small(drive.len_bytes()));
    }
    let mut content = Buf::new(WRITE_BYTES_MAX);
    world.random("drive measure, content").fill(&mut content);
    let mut probe = Probe { world, drive, content: content.freeze(), failed: 0 };
    let len_blocks = drive.len_bytes() / BLOCK_BYTES;
    progress("random reads, to tell a disk from flash");
    let is_blank = probe.looks_blank().await?;
    if plan.writes && !is_blank {
        return Err(MeasureError::NotBlank);
    }
    let medium = match probe.median_read_ns().await? >= ARM_MIN_NS {
        true => Medium::HardDisk {
            trace: pattern::trace(&mut probe, plan, progress).await?,
            rates: stream::rates(&mut probe, PARTS, progress).await?,
        },
        false => Medium::Flash(flash::figures(&mut probe, plan, progress).await?),
    };
    Ok(Measurement { len_blocks, medium })
}

impl Measurement {
    /// The drive with the parameters that fit best.
    ///
    /// # Errors
    ///
    /// If the trace is too short, or what was measured is beyond what a drive can be.
    pub fn model(&self, name: &str) -> Result<Modelled, MeasureError> {
        let (parameters, mut about) = match &self.medium {
            Medium::HardDisk { trace, rates } => {
                let known =
                    Known { name: name.into(), len_blocks: Some(self.len_blocks), rates: rates.clone() };
                let fitted = fit::fit(trace, &known)?;
                let mut about = vec![format!(
                    "Measured with {} single requests: demerit {:.2} %; {:.2} % on those that the fit did not see.",
                    trace.requests.len(),
                    fitted.replay.demerit_percent(),
                    fitted.held_out_percent,
                )];
                about.extend(fitted.unknown.iter().map(|what| format!("Unknown: {what}.")));
                (fitted.parameters, about)
            }
            Medium::Flash(figures) => (figures.parameters(name, self.len_blocks)?, figures.unknown()),
        };
        about.insert(0, self.check(&parameters)?);
        Ok(Modelled { parameters, about })
    }

    /// What the model gives for the rates that were measured.
    fn check(&self, parameters: &DriveParameters) -> Result<String, ParameterError> {
        let off = |modelled: f64, measured: f64| 100.0 * (modelled / measured - 1.0).abs();
        let (what, all): (&str, Vec<f64>) = match &self.medium {
            Medium::HardDisk { rates, .. } => {
                let mut all = Vec::new();
                for (part, rate) in rates.iter().enumerate() {
                    let from_share = part as f64 / rates.len() as f64;
                    let load = Load { requests: 500, ..Load::stream(Kind::Read, from_share) };
                    all.push(off(closed_loop::measure(parameters, &load)?.mb_per_s, rate / 1e6));
                }
                ("sequential reads", all)
            }
            Medium::Flash(figures) => {
                let mut all = Vec::new();
                for &(depth, per_s) in &figures.reads_per_s {
                    let load = Load::random_4k(Kind::Read, depth, 2000);
                    all.push(off(closed_loop::measure(parameters, &load)?.per_s, per_s));
                }
                ("random reads", all)
            }
        };
        let worst = all.iter().copied().fold(0.0, f64::max);
        Ok(format!("The model's {what} are {worst:.1} % off the measured ones at most."))
    }
}

/// Asks the drive, and counts what it does not give.
struct Probe<'a> {
    world: &'a World,
    drive: &'a Drive,
    /// What is written: random, so that nothing below makes it smaller.
    content: Data,
    failed: u64,
}

impl Probe<'_> {
    /// Blocks of 512 bytes that every request is a multiple of.
    fn unit(&self) -> u64 {
        u64::from(self.drive.info().block_bytes) / BLOCK_BYTES
    }

    fn len_blocks(&self) -> u64 {
        self.drive.len_bytes() / BLOCK_BYTES
    }

    /// One place of the drive that begins a request of so many blocks.
    fn anywhere(&self, rng: &mut world::Rng, blocks: u64) -> u64 {
        let unit = self.unit().max(8);
        rng.u64(..=(self.len_blocks() - blocks) / unit) * unit
    }

    /// Reads, and how long it took; `None`: this place is unreadable.
    async fn read(&mut self, block: u64, blocks: u64) -> Result<Option<(Buf, u64)>, MeasureError> {
        let begun = self.world.now();
        let buf = Buf::new((blocks * BLOCK_BYTES) as usize);
        let filled = self.drive.read(block * BLOCK_BYTES, buf).await;
        match filled.result {
            Ok(()) => {
                let took = self.world.now().since(begun).as_nanos() as u64;
                Ok(Some((filled.buf, took)))
            }
            Err(DriveError::Medium { .. }) => self.failed().map(|()| None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes this much of something.
    fn write(&self, block: u64, blocks: u64) -> Io<Result<(), DriveError>> {
        self.drive.write(block * BLOCK_BYTES, self.content.slice(..(blocks * BLOCK_BYTES) as usize))
    }

    fn failed(&mut self) -> Result<(), MeasureError> {
        self.failed += 1;
        if self.failed > FAILED_MAX { Err(MeasureError::Unreadable) } else { Ok(()) }
    }

    async fn median_read_ns(&mut self) -> Result<u64, MeasureError> {
        let mut rng = self.world.random("drive measure, sample");
        let mut times = Vec::with_capacity(SAMPLE);
        while times.len() < SAMPLE {
            let block = self.anywhere(&mut rng, 8);
            times.extend(self.read(block, 8).await?.map(|(_, ns)| ns));
        }
        times.sort_unstable();
        Ok(times[SAMPLE / 2])
    }

    /// Whether its begin, its end and places between them read as zeros.
    async fn looks_blank(&mut self) -> Result<bool, MeasureError> {
        const ENDS: u64 = (1 << 20) / BLOCK_BYTES;
        let mut rng = self.world.random("drive measure, blank");
        let last = (self.len_blocks() - ENDS) / 8 * 8;
        let mut places = vec![(0, ENDS), (last, self.len_blocks() - last)];
        places.extend((0..64).map(|_| (self.anywhere(&mut rng, 8), 8)));
        for (block, blocks) in places {
            match self.read(block, blocks).await? {
                Some((buf, _)) if buf.iter().all(|byte| *byte == 0) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}
