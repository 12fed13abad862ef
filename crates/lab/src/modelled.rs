//! An array in the model world: its controllers on one thread, reached by commands as values.

use anyhow::Result;
use array::{Array, Config, ControllerHandle, LocalPort, LocalSession, Lun, run_with_local_port};
use block::Pieces;
use scsi::{Request, Status, TaskAttribute};
use world::World;

use crate::hosts::cdb::{self, Cdb};

/// The controller that owns what is measured.
const OWNER: usize = 0;

/// An array that runs.
pub(crate) struct Started {
    pub(crate) array: Array,
    /// Of each controller.
    pub(crate) ports: Vec<LocalPort>,
}

impl Started {
    /// At the controller that owns the LUs, where one owns all.
    pub(crate) fn port(&self) -> &LocalPort {
        &self.ports[OWNER]
    }
}

/// Starts it.
pub(crate) async fn start(world: &World, config: &Config) -> Result<Started> {
    let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..config.controllers).map(ControllerHandle::new).unzip();
    let mut ports = Vec::new();
    for (index, mailbox) in mailboxes.into_iter().enumerate() {
        let (port, run) = run_with_local_port(world.clone(), index, mailbox, handles.clone());
        ports.push(port);
        world.spawn(run);
    }
    let mut array = Array::new(handles, &config.target);
    array.apply(config.clone()).await?;
    Ok(Started { array, ports })
}

/// Of the LUs here.
const BLOCK_BYTES: u64 = 512;

fn blocks(bytes: u64) -> u32 {
    (bytes / BLOCK_BYTES) as u32
}

fn request(cdb: Cdb, data_out: Pieces, data_in_max: u32, tag: u64) -> Request {
    Request { cdb, attribute: TaskAttribute::Simple, data_out, data_in_max, tag }
}

/// Reads so many bytes at this byte.
pub(crate) fn read(at: u64, bytes: u64, tag: u64) -> Request {
    request(cdb::read(at / BLOCK_BYTES, blocks(bytes)), Pieces::new(), bytes as u32, tag)
}

/// Writes at this byte.
pub(crate) fn write(at: u64, data: Pieces, tag: u64) -> Request {
    request(cdb::write(at / BLOCK_BYTES, blocks(data.len() as u64)), data, 0, tag)
}

/// The power-on attention of a LU is taken notice of (SPC-5 5.14): after it commands are executed.
pub(crate) async fn notice_attentions(session: &LocalSession, lun: Lun) {
    /// A LU has a few things to say at first, and then no more.
    const ATTENTIONS_MAX: usize = 8;
    for _ in 0..ATTENTIONS_MAX {
        let ready = request(cdb::test_unit_ready(), Pieces::new(), 0, u64::MAX);
        if session.execute(lun, ready).await.status == Status::Good {
            break;
        }
    }
}
