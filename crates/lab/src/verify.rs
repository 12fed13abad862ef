//! The verifications, as the command line asks for them.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::fileserver::real::Format;
use crate::sanboot::results::Layout;
use crate::scenario::Scenario;

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Someone else's LUs; none for an array of the laboratory's own.
    pub targets: Vec<String>,
    /// Whether their content may be lost.
    pub destroy_data: bool,
    /// Share of the published sizes, instead of the scenario's.
    pub scale: Option<f64>,
    /// How often each measurement is repeated.
    pub repeats: usize,
    /// Random seed.
    pub seed: u64,
    /// Output folder.
    pub out: PathBuf,
    /// A scenario file instead of the built-in one.
    pub scenario: Option<PathBuf>,
    /// The command as it was typed.
    pub command: String,
}

impl Options {
    fn checked_scale(&self) -> Result<Option<f64>, VerifyError> {
        match self.scale {
            Some(scale) if !(scale > 0.0 && scale <= 1.0) => Err(VerifyError::Scale(scale)),
            scale => Ok(scale),
        }
    }

    /// Somebody's LUs, if their content may be lost.
    pub(crate) fn agreed_targets(&self) -> Result<&[String], VerifyError> {
        match self.destroy_data || self.targets.is_empty() {
            true => Ok(&self.targets),
            false => Err(VerifyError::WouldDestroy(self.targets.join(" and "))),
        }
    }
}

/// What the command line says of `vaai` besides.
#[derive(Clone, Debug, Default)]
pub struct VaaiOptions {
    /// The quick form: as many repeats as begin in two and a half minutes, and four of them at least.
    pub quick: bool,
}

/// What the command line says of `sanboot` besides.
#[derive(Clone, Debug, Default)]
pub struct SanbootOptions {
    /// The quick form.
    pub quick: bool,
    /// The orderings for other choices of what is not published, besides.
    pub sweep: bool,
    /// Only these layouts; none: all.
    pub layouts: Vec<Layout>,
    /// Where.
    pub world: World,
}

/// Where something is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum World {
    /// Virtual time.
    #[default]
    Model,
    /// Real time, over iSCSI.
    Real,
}

/// What the command line says of `qos` besides.
#[derive(Clone, Debug, Default)]
pub struct QosOptions {
    /// The quick form.
    pub quick: bool,
    /// Where.
    pub world: World,
}

/// What the command line says of `fileserver` besides.
#[derive(Clone, Debug, Default)]
pub struct FileserverOptions {
    /// The quick form.
    pub quick: bool,
    /// Where.
    pub world: World,
    /// Of a real one, the formats of disks; none: VHD.
    pub formats: Vec<Format>,
    /// Of a real one, how many rounds; none: as the scenario says.
    pub repeats: Option<usize>,
    /// Only the load, against this directory.
    pub directory: Option<PathBuf>,
}

/// What the command line says of `diskstress` besides.
#[derive(Clone, Debug, Default)]
pub struct DiskstressOptions {
    /// The quick form.
    pub quick: bool,
    /// Where.
    pub world: World,
    /// Where a real run has its image; none: the output folder.
    pub dir: Option<PathBuf>,
    /// Where the guest's kernel and initramfs are; none: where `make diskstress` puts them.
    pub guest: Option<PathBuf>,
}

/// What a verification refuses.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Data would be lost.
    #[error("everything on {0} would be overwritten: say --destroy-data if that is meant")]
    WouldDestroy(String),
    /// It can be pointed at nothing there.
    #[error("--target: somebody's LUs are used in real time: say --world real")]
    Modelled,
    /// So is a directory.
    #[error("--directory: somebody's directory is measured in real time: say --world real")]
    ModelledDirectory,
    /// The scale is no share.
    #[error("--scale {0}: is over 0 and at most 1 (0.02 is 2 GiB of the published 100)")]
    Scale(f64),
    /// Too few or too many.
    #[error("--repeats {0}: is between 1 and 1000")]
    Repeats(usize),
}

/// Runs `vaai`, prints the answer, writes the report. Gives whether every check held.
pub fn vaai(options: &Options, own: &VaaiOptions) -> Result<bool> {
    let mut scenario = Scenario::load(options.scenario.as_deref())?;
    if let Some(scale) = options.checked_scale()? {
        scenario.vaai.run.scale = scale;
    }
    if !(1..=1000).contains(&options.repeats) {
        return Err(VerifyError::Repeats(options.repeats).into());
    }
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    crate::vaai::verify(&scenario, options, own)
}

/// Runs `sanboot`, prints the answer, writes what it found. Gives whether every check held.
pub fn sanboot(options: &Options, own: &SanbootOptions) -> Result<bool> {
    if own.world == World::Model && !options.targets.is_empty() {
        return Err(VerifyError::Modelled.into());
    }
    options.checked_scale()?;
    options.agreed_targets()?;
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    crate::sanboot::verify(options, own)
}

/// Runs `diskstress`, prints the answer, writes the report. Gives whether every check held.
pub fn diskstress(options: &Options, own: &DiskstressOptions) -> Result<bool> {
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    crate::diskstress::verify(options, own)
}

/// Runs `qos`, prints the answer, writes the report. Gives whether every check held.
pub fn qos(options: &Options, own: &QosOptions) -> Result<bool> {
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    crate::qos::verify(options, own)
}

/// Runs `fileserver`, prints the answer, writes the report. Gives whether every check held.
pub fn fileserver(options: &Options, own: &FileserverOptions) -> Result<bool> {
    if own.world == World::Model && own.directory.is_some() {
        return Err(VerifyError::ModelledDirectory.into());
    }
    options.checked_scale()?;
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    crate::fileserver::verify(options, own)
}
