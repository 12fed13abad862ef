//! A drive in operation, of either kind.

use std::sync::Arc;

use super::flash::Flash;
use super::hard_disk::HardDisk;
use super::limits::ParameterError;
use super::mechanics::Mechanics;
use super::parameters::{BLOCK_BYTES, DriveParameters, FlashParameters};
use super::request::{Completion, Request, Usage};

/// A drive in operation.
#[derive(Clone, Debug)]
pub enum DriveModel {
    /// With platters and an arm.
    HardDisk(Box<HardDisk>),
    /// With flash.
    Flash(Flash),
}

/// Checked parameters, prepared for many drives of one model: a copy shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// With platters and an arm.
    HardDisk(Arc<Mechanics>),
    /// With flash.
    Flash(Arc<FlashParameters>),
}

impl Prepared {
    /// Checks and prepares them.
    pub fn new(parameters: &DriveParameters) -> Result<Prepared, ParameterError> {
        parameters.check()?;
        Ok(match parameters {
            DriveParameters::HardDisk(disk) => Prepared::HardDisk(Arc::new(Mechanics::new(disk.clone())?)),
            DriveParameters::Flash(flash) => Prepared::Flash(Arc::new(flash.clone())),
        })
    }

    /// The size of a drive.
    pub fn len_bytes(&self) -> u64 {
        let len_blocks = match self {
            Prepared::HardDisk(mechanics) => mechanics.geometry().len_blocks(),
            Prepared::Flash(flash) => flash.len_blocks,
        };
        len_blocks * BLOCK_BYTES
    }

    /// How much acknowledged data a power failure may lose.
    pub(crate) fn volatile_bytes(&self) -> u64 {
        match self {
            Prepared::HardDisk(mechanics) => {
                let segments = mechanics.parameters().segments;
                segments.write_segments as u64 * segments.blocks * BLOCK_BYTES
            }
            Prepared::Flash(flash) if flash.protected_buffer => 0,
            Prepared::Flash(flash) => flash.buffer_bytes,
        }
    }

    /// A new drive, its arm at the first cylinder and its cache empty.
    pub fn drive(&self) -> DriveModel {
        match self {
            Prepared::HardDisk(mechanics) => DriveModel::HardDisk(Box::new(HardDisk::new(mechanics.clone()))),
            Prepared::Flash(flash) => DriveModel::Flash(Flash::new(flash.clone())),
        }
    }
}

impl DriveModel {
    /// A new drive, its arm at the first cylinder and its cache empty.
    pub fn new(parameters: &DriveParameters) -> Result<DriveModel, ParameterError> {
        Ok(Prepared::new(parameters)?.drive())
    }

    /// How many blocks it shows.
    pub fn len_blocks(&self) -> u64 {
        match self {
            DriveModel::HardDisk(disk) => disk.mechanics().geometry().len_blocks(),
            DriveModel::Flash(flash) => flash.len_blocks(),
        }
    }

    /// Submits a request; the blocks must be on the drive. Completions that are certain now are added to
    /// `done`.
    pub fn submit(&mut self, now_ns: u64, request: Request, done: &mut Vec<Completion>) {
        match self {
            DriveModel::HardDisk(disk) => disk.submit(now_ns, request, done),
            DriveModel::Flash(flash) => flash.submit(now_ns, request, done),
        }
    }

    /// When [`DriveModel::wake`] must be called, unless a request comes first.
    pub fn due_ns(&self) -> Option<u64> {
        match self {
            DriveModel::HardDisk(disk) => disk.due_ns(),
            DriveModel::Flash(_) => None,
        }
    }

    /// The mechanism may be free now: starts the next request.
    pub fn wake(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        match self {
            DriveModel::HardDisk(disk) => disk.wake(now_ns, done),
            DriveModel::Flash(_) => {}
        }
    }

    /// From now on everything takes `factor` times as long; 1: healthy.
    pub fn set_slow(&mut self, factor: u32) {
        match self {
            DriveModel::HardDisk(disk) => disk.set_slow(factor),
            DriveModel::Flash(flash) => flash.set_slow(factor),
        }
    }

    /// The counters since it was created.
    pub fn usage(&self) -> Usage {
        match self {
            DriveModel::HardDisk(disk) => disk.usage(),
            DriveModel::Flash(flash) => flash.usage(),
        }
    }
}
