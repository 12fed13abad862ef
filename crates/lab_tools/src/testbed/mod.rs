//! What a verification runs on: an array in the model world, its controllers on one thread and reached by
//! commands as values, or the same in real time, its controller on a thread of its own or its nodes in
//! processes of their own, reached over iSCSI.

pub mod embedded;
pub mod nodes;
mod other_drives;
mod platter;
pub mod processes;
mod scratch;
mod thread;
mod timed;
pub mod timed_drive;
pub mod timed_file;

pub use thread::portal;
pub use timed::{Observer, TimedArray};

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use array::config::DriveConfig;
use array::{Array, Config, ControllerHandle, DriveSpec, LocalPort, LocalSession, Lun, run_with_local_port};
use block::Pieces;
use scsi::{Request, Status};
use world::World;
use world_model::{DiskSpec, DisksImage, Loss, Model};

use crate::drives;
use crate::hosts::cdb::{self, Cdb};

/// The controller that owns what is measured.
const OWNER: usize = 0;

/// An array that runs.
pub struct Started {
    /// Where it runs.
    pub world: World,
    /// Its control plane.
    pub array: Array,
    /// Of each controller.
    pub ports: Vec<LocalPort>,
}

impl Started {
    /// At the controller that owns the LUs, where one owns all.
    pub fn port(&self) -> &LocalPort {
        &self.ports[OWNER]
    }
}

/// Declares a drive of the model world.
pub fn modelled_drive(name: String) -> DriveConfig {
    DriveConfig { spec: DriveSpec::Modelled { name: name.clone() }, name }
}

async fn start(world: &World, config: &Config) -> Result<Started> {
    let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..config.controllers).map(ControllerHandle::new).unzip();
    let mut ports = Vec::new();
    for (index, mailbox) in mailboxes.into_iter().enumerate() {
        let (port, run) = run_with_local_port(world.clone(), index, mailbox, handles.clone());
        ports.push(port);
        world.spawn(run);
    }
    let mut array = Array::new(handles, &config.target);
    array.apply(config.clone()).await?;
    Ok(Started { world: world.clone(), array, ports })
}

/// Disks that only hold content while an array is made.
const QUICK_LATENCY: Duration = Duration::from_nanos(1);

/// An array that was made on disks that cost no time. Its content is moved to modelled drives for every run:
/// all runs begin with the same array, its cache empty.
#[derive(Clone)]
pub struct Testbed {
    /// The declaration that it was made from.
    pub config: Config,
    image: DisksImage,
    specs: BTreeMap<String, DiskSpec>,
}

impl Testbed {
    /// Makes it on drives that are all of one model; `fill` does what else belongs to its beginning.
    pub fn alike(
        config: Config,
        model: &str,
        seed: u64,
        fill: impl AsyncFnOnce(&mut Started) -> Result<()>,
    ) -> Result<Testbed> {
        let spec = DiskSpec::drive(&drives::load(model)?)?;
        let specs = config.drives.iter().map(|drive| (drive.name.clone(), spec.clone())).collect();
        Testbed::make(config, specs, seed, fill)
    }

    /// Makes it; `specs` are those of its drives, by name, and `fill` does what else belongs to its
    /// beginning.
    pub fn make(
        config: Config,
        specs: BTreeMap<String, DiskSpec>,
        seed: u64,
        fill: impl AsyncFnOnce(&mut Started) -> Result<()>,
    ) -> Result<Testbed> {
        config.check()?;
        let model = Model::new(seed);
        for name in config.drives.iter().map(|drive| &drive.name) {
            let len_bytes = specs[name].len_bytes;
            model.disk(name, DiskSpec::new(len_bytes).with_latency(QUICK_LATENCY).with_cache_bytes(0));
        }
        let config = model.run(async |world| {
            let mut started = start(&world, &config).await?;
            fill(&mut started).await?;
            let config = started.array.config().clone();
            started.array.stop().await?;
            anyhow::Ok(config)
        })?;
        Ok(Testbed { config, image: model.disks().image(), specs })
    }

    /// A model with its drives, as they were when it was made.
    pub fn model(&self, seed: u64) -> Model {
        let moved = self.image.clone().moved_to(|name| self.specs[name].clone());
        Model::from_image(seed, moved, Loss::Process)
    }

    /// Starts the array.
    pub async fn start(&self, world: &World) -> Result<Started> {
        self.start_as(world, &self.config).await
    }

    /// Starts it by another declaration than it was made from, of the same objects.
    pub async fn start_as(&self, world: &World, config: &Config) -> Result<Started> {
        start(world, config).await
    }
}

/// Of the LUs here.
const BLOCK_BYTES: u64 = 512;

fn blocks(bytes: u64) -> u32 {
    (bytes / BLOCK_BYTES) as u32
}

fn request(cdb: Cdb, data_out: Pieces, data_in_max: u32, tag: u64) -> Request {
    Request { tag, ..Request::new(cdb, data_out, data_in_max) }
}

/// Reads so many bytes at this byte.
pub fn read(at: u64, bytes: u64, tag: u64) -> Request {
    request(cdb::read(at / BLOCK_BYTES, blocks(bytes)), Pieces::new(), bytes as u32, tag)
}

/// Writes at this byte.
pub fn write(at: u64, data: Pieces, tag: u64) -> Request {
    request(cdb::write(at / BLOCK_BYTES, blocks(data.len() as u64)), data, 0, tag)
}

/// Makes everything durable that was written.
pub fn flush(tag: u64) -> Request {
    request(cdb::synchronize_cache(), Pieces::new(), 0, tag)
}

/// What an array answered, in the words of SAM-5 and SPC-5: "CHECK CONDITION, sense 3h/11h/00h".
pub fn answer(status: Status, sense: &[u8]) -> String {
    match scsi::sense_codes(sense) {
        Some((key, code, qualifier)) => format!("{status}, sense {key:x}h/{code:02x}h/{qualifier:02x}h"),
        None => status.to_string(),
    }
}

/// The power-on attention of a LU is taken notice of (SPC-5 5.14): after it commands are executed.
pub async fn notice_attentions(session: &LocalSession, lun: Lun) {
    /// A LU has a few things to say at first, and then no more.
    const ATTENTIONS_MAX: usize = 8;
    for _ in 0..ATTENTIONS_MAX {
        let ready = request(cdb::test_unit_ready(), Pieces::new(), 0, u64::MAX);
        if session.execute(lun, ready).await.status == Status::Good {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors had "CheckCondition, sense [70, 00, 03, …]".
    #[test]
    fn an_answer_is_in_the_words_of_the_standards() {
        let fixed = [0x70, 0, 3, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0];
        let descriptor = [0x72, 5, 0x25, 0];
        for (status, sense, said) in [
            (Status::CheckCondition, &fixed[..], "CHECK CONDITION, sense 3h/11h/00h"),
            (Status::CheckCondition, &descriptor, "CHECK CONDITION, sense 5h/25h/00h"),
            (Status::CheckCondition, &fixed[..5], "CHECK CONDITION"),
            (Status::Busy, &[], "BUSY"),
            (Status::ReservationConflict, &[], "RESERVATION CONFLICT"),
        ] {
            assert_eq!(answer(status, sense), said);
        }
    }
}
