//! What a load runs against: a LU behind a session, a file or a device.

use std::cell::Cell;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use array::LocalSession;
use block::Pieces;
use futures::future::{Either, select};
use iscsi::initiator::{Options, Session, Url};
use scsi::{Lun, Request, Status};
use world::{Buf, Data, Drive, DriveSpec, World};

use super::access::Op;
use crate::hosts::Disk;
use crate::testbed;

/// Where it is.
#[derive(Clone)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Place {
    /// A LU, and how to log in.
    Lu { lun: Lun, login: Box<Options> },
    /// A file or a device.
    Drive(DriveSpec),
}

impl Place {
    /// A target as given by the user: `iscsi://host:port/target/lun`, or the path of an existing file or
    /// device.
    pub fn find(text: &str) -> Result<Place> {
        if text.starts_with("iscsi:") {
            let url = Url::parse(text)?;
            let login = Box::new(crate::hosts::login_of(&url)?);
            return Ok(Place::Lu { lun: Lun(url.lun), login });
        }
        let drive = existing_drive(Path::new(text)).context("not an iscsi:// URL")?;
        Ok(Place::Drive(drive))
    }

    /// How the worker of this number logs in: an initiator port of its own for each.
    pub fn login(&self, number: usize, depth: u16) -> Option<(Options, Lun)> {
        let Place::Lu { lun, login } = self else { return None };
        let number = (number as u32 + 1).to_be_bytes();
        let isid = [0x80, 1, number[2], number[3], 0, 0];
        Some((Options { isid, depth_max: depth, ..(**login).clone() }, *lun))
    }
}

/// An existing file or block device, to be read and written.
///
/// # Errors
///
/// If it is neither.
pub fn existing_drive(path: &Path) -> Result<DriveSpec> {
    let facts =
        std::fs::metadata(path).with_context(|| format!("{}: no such file or device", path.display()))?;
    let (kind, path) = (facts.file_type(), path.to_owned());
    ensure!(kind.is_file() || kind.is_block_device(), "{}: not a file or device", path.display());
    Ok(match kind.is_block_device() {
        true => DriveSpec::Device { path },
        false => DriveSpec::File { path, create_len_bytes: None },
    })
}

/// It, opened by one worker.
#[derive(Clone)]
pub enum Target {
    /// Reached over iSCSI.
    Lu(Rc<Reached>),
    /// A LU of an array in the same world.
    Local(Rc<LocalLu>),
    /// A file or a device.
    Drive(Drive),
}

/// A LU behind a session, which ends when the target does not respond any more.
pub struct Reached {
    disk: Disk,
    session: Session,
    is_silent: Cell<bool>,
}

/// From the connection to the capacity of the LU, and a response to a ping, at most. Linux gives a SCSI
/// command 30 s.
const SILENT_TIME: Duration = Duration::from_secs(30);
const PING_EVERY: Duration = Duration::from_secs(5);

/// Pings the target for as long as somebody uses it.
async fn ends_when_silent(world: World, lu: Weak<Reached>) {
    loop {
        world.sleep(PING_EVERY).await;
        let Some(lu) = lu.upgrade() else { return };
        let ping = pin!(lu.session.ping(&[]));
        match select(ping, world.sleep(SILENT_TIME)).await {
            Either::Left((Ok(_), _)) => {}
            // Whoever waits for a command is told.
            Either::Left((Err(_), _)) => return,
            Either::Right(_) => {
                lu.is_silent.set(true);
                lu.session.close();
                return;
            }
        }
    }
}

/// A session with an array in the same world, for one worker.
pub struct LocalLu {
    session: LocalSession,
    lun: Lun,
    /// Tags of one nexus differ.
    next_tag: Cell<u64>,
}

/// A command that ends with a unit attention is sent again, as disk drivers do; an array has no more to say
/// at once.
const TRIES_MAX: usize = 8;

impl LocalLu {
    /// Executes a command. `None`: it was refused.
    async fn execute(&self, request: impl Fn(u64) -> Request) -> Option<Pieces> {
        for _ in 0..TRIES_MAX {
            let tag = self.next_tag.replace(self.next_tag.get() + 1);
            let response = self.session.execute(self.lun, request(tag)).await;
            if response.status == Status::Good {
                return Some(response.data_in);
            }
            // SPC-5 4.4: the sense key of both formats.
            let key = match response.sense[..] {
                [0x72 | 0x73, key, ..] | [0x70 | 0x71, _, key, ..] => key & 0xf,
                _ => 0,
            };
            if key != UNIT_ATTENTION {
                return None;
            }
        }
        None
    }
}

const UNIT_ATTENTION: u8 = 0x6;

/// What it takes.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its capacity.
    pub len_bytes: u64,
    /// Its logical block.
    pub block_bytes: u64,
    /// The longest I/O.
    pub transfer_bytes_max: u64,
    /// Whether the LU refuses writes; of a file or a device that is not known before one.
    pub read_only: bool,
}

impl Target {
    /// A LU of an array in the same world, behind a session of one worker's own.
    pub fn local(session: LocalSession, lun: Lun, len_bytes: u64) -> (Target, Facts) {
        let facts = Facts {
            len_bytes,
            block_bytes: 512,
            transfer_bytes_max: world::BUF_LEN_MAX as u64,
            read_only: false,
        };
        (Target::Local(Rc::new(LocalLu { session, lun, next_tag: Cell::new(1) })), facts)
    }

    /// Opens it for the worker of this number.
    ///
    /// # Errors
    /// It cannot be opened, or its target does not respond within 30 s.
    pub async fn open(world: &World, place: &Place, number: usize, depth: u16) -> Result<(Target, Facts)> {
        if let Place::Drive(spec) = place {
            let drive = world.open_drive(spec).await?;
            let (len_bytes, block_bytes) = (drive.info().len_bytes, drive.info().block_bytes.into());
            let transfer_bytes_max = world::BUF_LEN_MAX as u64;
            let facts = Facts { len_bytes, block_bytes, transfer_bytes_max, read_only: false };
            return Ok((Target::Drive(drive), facts));
        }
        let (login, lun) = place.login(number, depth).expect("it is a LU");
        let opening = async {
            let session = Session::login(world, &login).await?;
            let disk = Disk::open(world.clone(), session.clone(), lun).await?;
            let caps = disk.capabilities().await?;
            // A target that has no such page takes writes until it refuses one.
            let read_only = disk.is_write_protected().await.unwrap_or(false);
            anyhow::Ok((session, disk, caps, read_only))
        };
        let opened = match select(pin!(opening), world.sleep(SILENT_TIME)).await {
            Either::Left((opened, _)) => opened,
            Either::Right(_) => Err(no_response()),
        };
        let (session, disk, caps, read_only) = opened.with_context(|| login.address.to_string())?;
        let most = match caps.transfer_bytes_max {
            0 => world::BUF_LEN_MAX as u64,
            most => most,
        };
        let facts = Facts {
            len_bytes: caps.len_bytes,
            block_bytes: caps.block_bytes.into(),
            transfer_bytes_max: most,
            read_only,
        };
        let lu = Rc::new(Reached { disk, session, is_silent: Cell::new(false) });
        world.spawn(ends_when_silent(world.clone(), Rc::downgrade(&lu)));
        Ok((Target::Lu(lu), facts))
    }

    /// Ends the session, if there is one.
    pub fn close(&self) {
        if let Target::Lu(lu) = self {
            lu.session.close();
        }
    }

    /// Reads. The outer error: the target is lost; the inner: it did not do it.
    pub async fn read(&self, op: Op) -> Result<Option<Pieces>> {
        match self {
            Target::Lu(lu) => lu.good(lu.disk.read(op.at, op.len).await),
            Target::Local(lu) => Ok(lu.execute(|tag| testbed::read(op.at, op.len, tag)).await),
            Target::Drive(drive) => {
                let filled = drive.read(op.at, Buf::new(op.len as usize)).await;
                Ok(served(filled.result)?.map(|()| filled.buf.freeze().into()))
            }
        }
    }

    /// Writes. `None`: it was refused.
    pub async fn write(&self, op: Op, data: Data) -> Result<Option<()>> {
        match self {
            Target::Lu(lu) => lu.good(lu.disk.write(op.at, data.into()).await),
            Target::Local(lu) => {
                let request = |tag| testbed::write(op.at, data.clone().into(), tag);
                Ok(lu.execute(request).await.map(drop))
            }
            Target::Drive(drive) => served(drive.write(op.at, data).await),
        }
    }
}

impl Reached {
    /// Commands that end with sense are counted as failed; a session that breaks ends the load.
    fn good<T>(&self, result: Result<T, crate::hosts::DiskError>) -> Result<Option<T>> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.sense().is_some() => Ok(None),
            Err(_) if self.is_silent.get() => Err(no_response()),
            Err(error) => Err(error.into()),
        }
    }
}

fn no_response() -> anyhow::Error {
    anyhow!("no response from the target within {} s; the run was ended", SILENT_TIME.as_secs())
}

/// A medium error is counted as failed; a drive that is gone, or has no room, ends the load.
fn served(result: Result<(), world::DriveError>) -> Result<Option<()>> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(world::DriveError::Medium { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use array::config::{GroupConfig, HostConfig, Level, PoolConfig, PortalConfig, VolumeConfig};
    use array::{Array, Config, ControllerHandle, run_controller};
    use world_model::{DiskSpec, Model};

    use super::*;

    /// Before, a run waited for a target that had stopped without an end, and for Ctrl-C without one, too.
    #[test]
    fn a_target_that_does_not_respond_to_a_login_is_an_error_soon() {
        let said = world_model::Model::new(1).run(async |world| {
            let address = std::net::SocketAddr::from(([10, 0, 0, 1], 3260));
            let listener = world.listen(address).expect("a port");
            let login =
                Box::new(Options::new(address, "iqn.2026-11.test:host", "iqn.2026-11.test:silent", 1));
            let opened = Target::open(&world, &Place::Lu { lun: Lun(0), login }, 0, 1).await;
            drop(listener);
            opened.err().map(|error| format!("{error:#}"))
        });
        let said = said.expect("refused");
        assert!(said.contains("no response from the target within 30 s"), "{said}");
    }

    const TARGET: &str = "iqn.2026-11.test:array";

    /// An array with one LU, at this address of the model world.
    async fn array_at(model: &Model, world: &World, address: SocketAddr) -> Array {
        let name = || "a".to_owned();
        model.disk("a", DiskSpec::new(256 << 20));
        let (handle, mailbox) = ControllerHandle::new(0);
        world.spawn(run_controller(world.clone(), 0, mailbox, vec![handle.clone()]));
        let mut array = Array::new(vec![handle], TARGET);
        let config = Config {
            portals: vec![PortalConfig { listen: address, controller: 0, segment_bytes_max: None }],
            drives: vec![testbed::modelled_drive(name())],
            groups: vec![GroupConfig::new(name(), Level::Raid0, vec![name()])],
            pools: vec![PoolConfig::new(name(), vec![name()])],
            volumes: vec![VolumeConfig::new(name(), name(), 8 << 20)],
            hosts: vec![HostConfig::new(name(), "*".into(), [(0, name())].into())],
            ..Config::empty(TARGET)
        };
        array.apply(config).await.expect("an array");
        array
    }

    /// A target that has logged a host in, and then stops: what was sent to it waited without an end.
    #[test]
    fn a_target_that_becomes_silent_ends_what_waits_for_it() {
        const END: Duration = Duration::from_secs(3600);
        let model = Model::new(1);
        let (said, waited) = model.run(async |world| {
            let address = SocketAddr::from(([10, 0, 0, 1], 3260));
            let _array = array_at(&model, &world, address).await;
            let login = Box::new(Options::new(address, "iqn.2026-11.test:host", TARGET, 1));
            let opened = Target::open(&world, &Place::Lu { lun: Lun(0), login }, 0, 4).await;
            let (target, _) = opened.expect("it responds");
            let op = Op { at: 0, len: 4096, reads: true, pause: None };
            // As long as it responds, pings do no harm.
            world.sleep(10 * SILENT_TIME).await;
            assert!(target.read(op).await.expect("it responds").is_some());
            model.net().connections().iter().for_each(|(client, _)| model.net().silence(*client));
            let from = world.now();
            let said = match select(pin!(target.read(op)), world.sleep(END)).await {
                Either::Left((read, _)) => read.err().map(|error| format!("{error:#}")),
                Either::Right(_) => None,
            };
            (said, world.now().since(from))
        });
        let said = said.expect("the read waits without an end");
        assert!(said.contains("no response from the target within 30 s"), "{said}");
        assert!(waited <= SILENT_TIME + PING_EVERY, "{waited:?}");
    }
}
