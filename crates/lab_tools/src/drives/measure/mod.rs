//! Measures a drive, in either world: from what it answers follows a drive file.
//!
//! Random reads tell whether it has an arm. If so, a trace of single requests goes to [`super::fit`], and
//! sequential reads in equal parts of the drive give the zones. If not, reads at rising depths give units and
//! service time. It reads; it writes only if the plan says so, and then, unless the plan says more, only on a
//! drive of which every byte was read and was zero.

mod flash;
mod pattern;
mod probe;
mod stream;

use lab_core::interrupt::Stop;
use world::{Drive, World};
use world_model::drives::{BLOCK_BYTES, DriveParameters, Kind, ParameterError};

use super::closed_loop::{self, Load};
use super::fit::{self, Known};
use super::trace::Trace;

use probe::Probe;

pub use flash::FlashFigures;
pub use probe::{MeasureError, Plan, Writing};

/// The median of random reads of a drive without an arm is below this: a disk of 15,000 rpm turns half way in
/// 2 ms.
const ARM_MIN_NS: u64 = 1_000_000;
/// A smaller drive has no room for the sequential reads.
const LEN_BYTES_MIN: u64 = 64 << 20;
/// Equal parts of the drive whose rate is measured.
const PARTS: usize = 9;

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
        /// Sequential reads in equal parts, in bytes per second; none: the measurement was stopped before.
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

/// Measures a drive; `progress` is told each step in a few words. Where `stop` is asked for, what was
/// measured of a disk until then is the result, if it is a single request at least.
///
/// # Errors
///
/// If the drive fails, is too small, or is to be written and holds data; or if it was stopped and nothing of
/// a result is there.
pub async fn measure(
    world: &World,
    drive: &Drive,
    plan: Plan,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<Measurement, MeasureError> {
    if drive.len_bytes() < LEN_BYTES_MIN {
        return Err(MeasureError::Small(drive.len_bytes()));
    }
    let mut probe = Probe::new(world, drive, stop);
    let len_blocks = drive.len_bytes() / BLOCK_BYTES;
    if plan.writes == Writing::IfBlank {
        probe.check_blank(progress).await?;
    }
    progress("random reads, to tell a disk from flash");
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
                let stopped = if rates.is_empty() { "Stopped before the sequential reads. " } else { "" };
                let mut about = vec![format!(
                    "{stopped}Measured with {} single requests: demerit {:.2} %; {:.2} % on those that the fit did not see.",
                    trace.requests.len(),
                    fitted.replay.demerit_percent(),
                    fitted.held_out_percent,
                )];
                about.extend(fitted.unknown.iter().map(|what| format!("Unknown: {what}.")));
                (fitted.parameters, about)
            }
            Medium::Flash(figures) => (figures.parameters(name, self.len_blocks)?, figures.unknown()),
        };
        about.splice(0..0, self.check(&parameters)?);
        Ok(Modelled { parameters, about })
    }

    /// What the model gives for the rates that were measured; none: none were.
    fn check(&self, parameters: &DriveParameters) -> Result<Option<String>, ParameterError> {
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
        let worst = all.into_iter().reduce(f64::max);
        Ok(worst.map(|worst| format!("The model's {what} are {worst:.1} % off the measured ones at most.")))
    }
}
