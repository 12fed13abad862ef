//! The file of a virtual disk as the host's tools open it: to grow the disk, and to compact the file.
//!
//! Every I/O goes to the LU, with its time; the bytes are those that are known ([`Content`]). The host's
//! write cache is off: each write carries FUA, and a flush has nothing to do. The file's length is in the
//! host's log before anything uses it; of a file that becomes shorter the host gives the rest back to the LU
//! (UNMAP).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::{Result, ensure};
use world::io::{Completer, Completions};
use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io};

use super::content::Content;
use super::disk::{FILE_AT, host_log};
use super::layout::{CLUSTER_BYTES, Range};
use super::lu::{Durable, Ended, Lu};

const NAME: &str = "the file of a virtual disk";
const BLOCK_BYTES: u32 = 512;
/// The longest transfer of the host.
const TRANSFER_BYTES: u64 = 1 << 20;

/// A file that is open.
pub(super) struct HostFile(Rc<Shared>);

struct Shared {
    lu: Rc<Lu>,
    content: RefCell<Content>,
    len_bytes: Cell<u64>,
    /// How often its length was logged.
    logged: Cell<u64>,
}

struct Backend {
    shared: Rc<Shared>,
    reads: Completions<Filled>,
    others: Completions<Result<(), DriveError>>,
}

impl HostFile {
    /// Opens it, with its length.
    pub(super) fn open(lu: &Rc<Lu>, content: Content, len_bytes: u64, logged: u64) -> HostFile {
        HostFile(Rc::new(Shared {
            lu: lu.clone(),
            content: RefCell::new(content),
            len_bytes: Cell::new(len_bytes),
            logged: Cell::new(logged),
        }))
    }

    /// As a drive.
    pub(super) fn drive(&self) -> Drive {
        let info = DriveInfo {
            name: NAME.into(),
            len_bytes: self.0.len_bytes.get(),
            block_bytes: BLOCK_BYTES,
            volatile_cache: false,
            cheap_zero: false,
        };
        let (reads, others) = (Completions::default(), Completions::default());
        Drive::new(info, Box::new(Backend { shared: self.0.clone(), reads, others }))
    }

    /// What its bytes are now.
    pub(super) fn content(&self) -> Content {
        self.0.content.borrow().clone()
    }
}

/// Where a part of the file lies on the LU.
fn on_lu(at: u64, bytes: u64) -> Range {
    Range { at: FILE_AT + at, bytes }
}

impl Shared {
    async fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        for part in on_lu(at, out.len() as u64).parts(TRANSFER_BYTES) {
            self.lu.read(part).await?;
        }
        self.content.borrow().read(at, out);
        Ok(())
    }

    async fn write(&self, range: Range) -> Result<()> {
        for part in range.parts(TRANSFER_BYTES) {
            let ended = self.lu.write(part, Durable::AtOnce).await?;
            ensure!(ended == Ended::Done, "the pool has no page for it");
        }
        Ok(())
    }

    async fn set_len(&self, len_bytes: u64) -> Result<()> {
        let before = self.len_bytes.replace(len_bytes);
        self.write(host_log(self.logged.get())).await?;
        self.logged.set(self.logged.get() + 1);
        // Whole clusters, as the host's file system frees them.
        let [from, to] = [len_bytes, before].map(|len| len.next_multiple_of(CLUSTER_BYTES));
        if from < to {
            self.lu.unmap(on_lu(from, to - from)).await?;
        }
        Ok(())
    }
}

fn failed(error: &anyhow::Error) -> DriveError {
    DriveError::Gone { drive: NAME.into(), cause: lab_core::console::causes(error) }
}

impl Backend {
    fn begin(&self, work: impl AsyncFnOnce(&Shared) -> Result<()> + 'static) -> Io<Result<(), DriveError>> {
        let (io, done): (_, Completer<Result<(), DriveError>>) = self.others.start();
        let shared = self.shared.clone();
        self.shared.lu.fabric.world.spawn(async move {
            done.complete(work(&shared).await.map_err(|error| failed(&error)));
        });
        io
    }
}

impl DriveBackend for Backend {
    fn read(&self, at: u64, mut buf: Buf) -> Io<Filled> {
        let (io, done) = self.reads.start();
        let shared = self.shared.clone();
        self.shared.lu.fabric.world.spawn(async move {
            let result = shared.read(at, &mut buf).await.map_err(|error| failed(&error));
            done.complete(Filled { buf, result });
        });
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        self.begin(async move |shared| {
            shared.write(on_lu(at, data.len() as u64)).await?;
            shared.content.borrow_mut().write(at, &data);
            Ok(())
        })
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.begin(async move |shared| {
            shared.write(on_lu(at, len)).await?;
            shared.content.borrow_mut().zero(Range { at, bytes: len });
            Ok(())
        })
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }

    fn set_len(&self, len_bytes: u64) -> Option<Io<Result<(), DriveError>>> {
        Some(self.begin(async move |shared| shared.set_len(len_bytes).await))
    }
}
