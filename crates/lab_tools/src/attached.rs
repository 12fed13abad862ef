//! Attaches a disk as a local file: an image, or a LU behind an `iscsi://` URL, optionally with its file
//! system.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Result;
use attach::{Detached, Mounted, Options};
use block::{BlockError, Device, Geometry, Pieces};
use vdisk::Image;
use world::World;

use crate::lu::Lu;

/// Errors that are printed; the kernel gets all of them.
const ERRORS_PRINTED_MAX: u32 = 20;

/// What can be attached.
#[derive(Clone)]
pub enum Disk {
    /// An image in a file.
    Image(Image),
    /// A LU of another array.
    Lu(Rc<Lu>),
}

impl Disk {
    /// Whether it is read-only.
    pub fn is_read_only(&self) -> bool {
        match self {
            Disk::Image(image) => !image.is_writable(),
            Disk::Lu(lu) => lu.is_read_only(),
        }
    }

    /// Makes everything durable and closes the disk.
    pub async fn close(&self) -> Result<()> {
        match self {
            Disk::Image(image) => Ok(image.close().await?),
            Disk::Lu(lu) => lu.close().await,
        }
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        match self {
            Disk::Image(image) => image.geometry(),
            Disk::Lu(lu) => lu.geometry(),
        }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        match self {
            Disk::Image(image) => Device::read(image, at, len, out).await,
            Disk::Lu(lu) => lu.read(at, len, out).await,
        }
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        match self {
            Disk::Image(image) => Device::write(image, at, data).await,
            Disk::Lu(lu) => lu.write(at, data).await,
        }
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        match self {
            Disk::Image(image) => Device::zero(image, at, len).await,
            Disk::Lu(lu) => lu.zero(at, len).await,
        }
    }

    async fn flush(&self) -> Result<(), BlockError> {
        match self {
            Disk::Image(image) => Device::flush(image).await,
            Disk::Lu(lu) => lu.flush().await,
        }
    }
}

/// An attached disk. Its world serves the kernel's requests while it runs.
pub struct Attached {
    mounted: Mounted,
    ended: Rc<Cell<bool>>,
}

impl Attached {
    /// Mounts it on a directory; `name` is what `mount` shows.
    pub fn new(world: &World, disk: &Disk, point: &Path, name: &str, read_only: bool) -> Result<Attached> {
        let read_only = read_only || disk.is_read_only();
        let options = Options { name: name.to_owned(), geometry: disk.geometry(), read_only };
        let (mounted, requests) = attach::mount(point, &options)?;
        let ended = Rc::new(Cell::new(false));
        let (here, disk, done) = (world.clone(), disk.clone(), ended.clone());
        let errors = Cell::new(0);
        world.spawn(async move {
            let failed = move |error: &BlockError| {
                errors.set(errors.get() + 1);
                if errors.get() <= ERRORS_PRINTED_MAX {
                    lab_core::console::note(&error.to_string());
                }
            };
            attach::serve(&here, requests, disk, failed).await;
            done.set(true);
        });
        Ok(Attached { mounted, ended })
    }

    /// Where the file is.
    pub fn file(&self) -> PathBuf {
        self.mounted.file()
    }

    /// Whether the kernel sends no more requests.
    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Detaches the file; processes that have it open keep it.
    pub fn detach(&mut self) -> Result<Detached> {
        Ok(self.mounted.detach()?)
    }

    /// After its end: whether it ended without an error.
    pub fn join(self) -> Result<()> {
        Ok(self.mounted.join()?)
    }
}
