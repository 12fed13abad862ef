//! A LU of the array as the host's disk driver presents it: a drive, with the virtual disk's file on it.
//!
//! * With WCE = 1 the driver sends SYNCHRONIZE CACHE when it is flushed; with WCE = 0 it sends none, as Linux
//!   and Windows do: every write is durable when it returns.
//! * When the array is gone, the driver waits until it is back, and sends again what was not answered.
//! * An array that has lost its power tells its hosts (unit attention 29h, SPC-5 5.14). What it acknowledged
//!   since the last flush may be lost then, and nobody but the driver knows that ([`AfterReset`]).
//! * Zeros are WRITE SAME with UNMAP: pages go back to the pool. A write that finds no page there is
//!   [`DriveError::NoRoom`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use array::{LocalSession, Lun};
use block::Pieces;
use futures::channel::oneshot;
use lab_tools::hosts::cdb;
use lab_tools::testbed::{self, answer};
use scsi::{Request, Response, Status};
use world::io::{Completer, Completions};
use world::{BUF_LEN_MAX, Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io, World};

/// The LU.
pub(in super::super) const LUN: Lun = Lun(0);
/// As long as hosts wait for their storage: Windows gives a disk 60 s.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often a host tries to reach the array again.
const RETRY: Duration = Duration::from_millis(100);
/// Attentions in a row that are heard: an array has a few to say.
const ATTENTIONS_MAX: u32 = 8;
const NAME: &str = "LU";
const BLOCK_BYTES: u32 = 512;
/// Zeros per command: what hosts send, and LUs take (the block limits page).
const ZERO_BYTES_MAX: u64 = 32 << 20;
/// SPACE ALLOCATION FAILED, WRITE PROTECT (SBC-4 4.7).
const NO_SPACE: (u8, u8, u8) = (0x07, 0x27, 0x07);
/// POWER ON, RESET, OR BUS DEVICE RESET OCCURRED, with any qualifier.
const RESET: u8 = 0x29;

/// What the driver does when the array was reset and acknowledged writes were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum AfterReset {
    /// The disk fails: nothing is acknowledged any more that may be gone.
    Fails,
    /// It goes on, as Linux does: the next flush succeeds, and what it should have made durable may be gone.
    GoesOn,
}

/// The array as hosts reach it: none while it has no power.
#[derive(Default)]
pub(in super::super) struct Reached(RefCell<Option<Rc<Reach>>>);

/// An array that has power.
pub(in super::super) struct Reach {
    /// Commands run there, whatever happens to the host meanwhile.
    pub(in super::super) world: World,
    /// The host's session.
    pub(in super::super) session: Rc<LocalSession>,
}

impl Reached {
    /// From now on this array answers, or none.
    pub(in super::super) fn set(&self, reach: Option<Reach>) {
        *self.0.borrow_mut() = reach.map(Rc::new);
    }
}

/// The command and its data.
fn request(cdb: cdb::Cdb, data_out: Pieces) -> Request {
    Request::new(cdb, data_out, 255)
}

/// Sets WCE of the caching mode page (SBC-4 6.5.6) and saves it.
pub(in super::super) fn mode_select_wce(on: bool) -> Request {
    const PARAMETER_BYTES: usize = 24;
    let mut list = [0; PARAMETER_BYTES];
    (list[4], list[5], list[6]) = (0x08, 0x12, u8::from(on) << 2);
    let mut cdb = [0; 16];
    // MODE SELECT(6), PF = 1, SP = 1.
    (cdb[0], cdb[1], cdb[4]) = (0x15, 0x11, PARAMETER_BYTES as u8);
    request(cdb, Pieces::copy_of(&list))
}

struct Shared {
    world: World,
    reached: Rc<Reached>,
    has_cache: bool,
    after_reset: AfterReset,
    /// Writes acknowledged so far, and how many of them a flush has covered.
    acknowledged: Cell<u64>,
    flushed: Cell<u64>,
    failed: Cell<bool>,
}

struct LuDrive {
    shared: Rc<Shared>,
    reads: Completions<Filled>,
    others: Completions<Result<(), DriveError>>,
}

/// Opens the LU at a host.
pub(in super::super) fn open(
    host: &World,
    reached: &Rc<Reached>,
    (len_bytes, has_cache): (u64, bool),
    after_reset: AfterReset,
) -> Drive {
    let shared = Rc::new(Shared {
        world: host.clone(),
        reached: reached.clone(),
        has_cache,
        after_reset,
        acknowledged: Cell::default(),
        flushed: Cell::default(),
        failed: Cell::default(),
    });
    let info = DriveInfo {
        name: NAME.into(),
        len_bytes,
        block_bytes: BLOCK_BYTES,
        volatile_cache: has_cache,
        cheap_zero: false,
    };
    let drive = LuDrive { shared, reads: Completions::default(), others: Completions::default() };
    Drive::new(info, Box::new(drive))
}

fn gone(cause: &str) -> DriveError {
    DriveError::Gone { drive: NAME.into(), cause: cause.into() }
}

impl Shared {
    /// Sends a command until it is answered.
    async fn command(&self, new: impl Fn() -> Request) -> Result<Response, DriveError> {
        let (began, mut attentions) = (self.world.now(), 0);
        loop {
            if self.failed.get() {
                return Err(gone("the array was reset, and writes were not flushed"));
            }
            if self.world.now().since(began) > WAIT_MAX {
                return Err(gone("the array does not answer"));
            }
            let Some(response) = self.send(new()).await else {
                self.world.sleep(RETRY).await;
                continue;
            };
            match (response.status, scsi::sense_codes(&response.sense)) {
                // Another command may have heard that the cache is gone: then this one promises nothing.
                (Status::Good, _) if self.failed.get() => {}
                (Status::Good, _) => return Ok(response),
                (_, Some((0x06, code, _))) if attentions < ATTENTIONS_MAX => {
                    attentions += 1;
                    self.heed(code);
                }
                (_, Some(NO_SPACE)) => return Err(DriveError::NoRoom { drive: NAME.into(), at: 0 }),
                (status, _) => return Err(gone(&answer(status, &response.sense))),
            }
        }
    }

    /// A unit attention.
    fn heed(&self, code: u8) {
        let is_lost = code == RESET && self.has_cache && self.acknowledged.get() > self.flushed.get();
        if is_lost && self.after_reset == AfterReset::Fails {
            self.failed.set(true);
        }
    }

    /// Sends it once; none: the array has no power, or lost it meanwhile.
    async fn send(&self, request: Request) -> Option<Response> {
        let reach = self.reached.0.borrow().clone()?;
        let (done, answer) = oneshot::channel();
        let session = reach.session.clone();
        reach.world.spawn(async move {
            // The host may be gone: nobody hears it then.
            let _ = done.send(session.execute(LUN, request).await);
        });
        answer.await.ok()
    }

    async fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), DriveError> {
        let mut done = 0;
        for part in buf.chunks_mut(BUF_LEN_MAX) {
            let response = self.command(|| testbed::read(at + done, part.len() as u64, 0)).await?;
            if response.data_in.len() != part.len() {
                return Err(gone("a read is short"));
            }
            response.data_in.copy_to(part);
            done += part.len() as u64;
        }
        Ok(())
    }

    async fn write(&self, at: u64, data: Pieces) -> Result<(), DriveError> {
        self.command(|| testbed::write(at, data.clone(), 0)).await?;
        self.acknowledged.set(self.acknowledged.get() + 1);
        Ok(())
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), DriveError> {
        let block = Pieces::copy_of(&[0; BLOCK_BYTES as usize]);
        let mut done = 0;
        while done < len {
            let part = (len - done).min(ZERO_BYTES_MAX);
            let (lba, blocks) = ((at + done) / u64::from(BLOCK_BYTES), part / u64::from(BLOCK_BYTES));
            self.command(|| request(cdb::write_same_unmap(lba, blocks as u32), block.clone())).await?;
            done += part;
        }
        self.acknowledged.set(self.acknowledged.get() + 1);
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        if !self.has_cache {
            return Ok(());
        }
        // Those that are acknowledged meanwhile belong to the next one.
        let covered = self.acknowledged.get();
        self.command(|| request(cdb::synchronize_cache(), Pieces::new())).await?;
        self.flushed.set(self.flushed.get().max(covered));
        Ok(())
    }
}

impl LuDrive {
    fn begin(
        &self,
        work: impl AsyncFnOnce(&Shared) -> Result<(), DriveError> + 'static,
    ) -> Io<Result<(), DriveError>> {
        let (io, done): (_, Completer<Result<(), DriveError>>) = self.others.start();
        let shared = self.shared.clone();
        self.shared.world.spawn(async move { done.complete(work(&shared).await) });
        io
    }
}

impl DriveBackend for LuDrive {
    fn read(&self, at: u64, mut buf: world::Buf) -> Io<Filled> {
        let (io, done) = self.reads.start();
        let shared = self.shared.clone();
        self.shared.world.spawn(async move {
            let result = shared.read(at, &mut buf).await;
            done.complete(Filled { buf, result });
        });
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        self.begin(async move |shared| shared.write(at, data.into()).await)
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.begin(async move |shared| shared.zero(at, len).await)
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        self.begin(async move |shared| shared.flush().await)
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }
}
