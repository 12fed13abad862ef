//! The driver: resolve, move payload, keep order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::Pieces;
use smallvec::SmallVec;
use world::sync::{Permit, Permits};
use world::{BUF_LEN_MAX, Buf, Data, Drive, DriveError, Filled, Io};

use super::chain::ParentLink;
use super::reuse::Turns;
use crate::{Extent, Extents, Grant, Map, Source, Step, VdiskError, Wait};

/// What is done with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is read and written.
    Write,
}

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Payload and nothing else.
    Raw,
    /// VHD, fixed.
    VhdFixed,
    /// VHD, dynamic.
    VhdDynamic,
    /// VHD, differencing.
    VhdDifferencing,
    /// VHDX, fixed.
    VhdxFixed,
    /// VHDX, dynamic.
    VhdxDynamic,
    /// VHDX, differencing.
    VhdxDifferencing,
}

impl Format {
    /// How people call it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Raw => "raw",
            Format::VhdFixed => "vhd, fixed",
            Format::VhdDynamic => "vhd, dynamic",
            Format::VhdDifferencing => "vhd, differencing",
            Format::VhdxFixed => "vhdx, fixed",
            Format::VhdxDynamic => "vhdx, dynamic",
            Format::VhdxDifferencing => "vhdx, differencing",
        }
    }
}

/// What was found wrong with the metadata of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What cannot be: such an image is not written.
    pub faults: Vec<String>,
    /// What a second copy, or the next change, puts right.
    pub notes: Vec<String>,
}

/// Metadata is written without being asked when so many writes of it have gathered: what a power cut takes, and the time of a flush, stay small.
const UNCOMMITTED_MAX: usize = 1024;

/// A virtual disk: a handle, cheap to clone. Addresses are bytes in whole sectors.
#[derive(Clone)]
pub struct Image(pub(super) Rc<Inner>);

pub(super) struct Inner {
    pub(super) drive: Drive,
    pub(super) map: RefCell<Box<dyn Map>>,
    pub(super) format: Format,
    pub(super) access: Access,
    pub(super) link: Option<ParentLink>,
    pub(super) parent: RefCell<Option<Image>>,
    /// The identity that children know the image by, and the time that children of a VHD note.
    pub(super) id: [u8; 16],
    pub(super) disk_id: Cell<[u8; 16]>,
    pub(super) time_stamp_s: Cell<u32>,
    pub(super) findings: RefCell<Findings>,
    /// What puts the notes of the findings right.
    pub(super) repairs: RefCell<Vec<Step>>,
    /// What is left behind the image by a power cut is cut off before the first write.
    pub(super) cut_to: Cell<Option<u64>>,
    begun: Cell<bool>,
    /// From here on the file reads as zeros, where it has grown meanwhile.
    virgin_from: Cell<u64>,
    /// Held by who places blocks and who commits: one at a time.
    changing: Permits,
    turns: Turns,
    poisoned: RefCell<Option<String>>,
}

/// An operation in flight that may use what is let go meanwhile.
struct Turn<'a>(&'a Inner, usize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.0.turns.leave(self.1) {
            self.0.map.borrow_mut().reuse();
        }
    }
}

/// A part of a read under way.
enum Part {
    File(Io<Filled>),
    Zeros(u64),
    Parent(Extent),
}

impl Image {
    /// Puts an image together.
    pub(super) fn new(
        drive: Drive,
        map: Box<dyn Map>,
        format: Format,
        access: Access,
        id: [u8; 16],
        link: Option<ParentLink>,
    ) -> Image {
        // Nothing is known of what a drive of fixed length had before; a file that grows is zeros there.
        let virgin_from = Cell::new(drive.len_bytes());
        Image(Rc::new(Inner {
            drive,
            map: RefCell::new(map),
            format,
            access,
            link,
            parent: RefCell::default(),
            id,
            disk_id: Cell::new(id),
            time_stamp_s: Cell::default(),
            findings: RefCell::default(),
            repairs: RefCell::default(),
            cut_to: Cell::default(),
            begun: Cell::default(),
            virgin_from,
            changing: Permits::new(1),
            turns: Turns::default(),
            poisoned: RefCell::default(),
        }))
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.0.format
    }

    /// Size of the disk.
    pub fn len_bytes(&self) -> u64 {
        self.0.map.borrow().len_bytes()
    }

    /// The unit of addresses.
    pub fn sector_bytes(&self) -> u32 {
        self.0.map.borrow().sector_bytes()
    }

    /// The unit in which space is taken; none: all of it is.
    pub fn block_bytes(&self) -> Option<u64> {
        self.0.map.borrow().block_bytes()
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.0.access == Access::Write
    }

    /// How long its file is.
    pub fn file_len_bytes(&self) -> u64 {
        self.0.drive.len_bytes()
    }

    /// How much of the file the image uses.
    pub fn used_len_bytes(&self) -> u64 {
        self.0.map.borrow().used_len()
    }

    /// How many bytes from this address on, of so many, are alike in whether their blocks may be something else than zeros; and whether they may. `at` is in the
    /// disk; what lies behind its end does not count.
    pub fn extent(&self, at: u64, len: u64) -> (u64, bool) {
        let map = self.0.map.borrow();
        map.extent(at, len.min(map.len_bytes() - at))
    }

    /// How many bytes of a range are in blocks that may be something else than zeros.
    pub fn occupied_bytes(&self, at: u64, len: u64) -> u64 {
        let (mut done, mut occupied) = (0, 0);
        while done < len {
            let (alike, is_here) = self.extent(at + done, len - done);
            done += alike;
            occupied += if is_here { alike } else { 0 };
        }
        occupied
    }

    /// The drive below.
    pub fn drive(&self) -> &Drive {
        &self.0.drive
    }

    /// Reads `len` bytes at `at`, appended to `out`.
    pub async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        self.check(at, len)?;
        let _turn = self.enter()?;
        let extents = self.resolve(|map, out| map.read(at, len, out)).await?;
        let mut parts: SmallVec<[Part; 4]> = SmallVec::new();
        for extent in extents {
            match extent.source {
                Source::File(from) => self.begin_read(from, extent.len, &mut parts),
                Source::Zeros => parts.push(Part::Zeros(extent.len)),
                Source::Parent => parts.push(Part::Parent(extent)),
            }
        }
        for part in parts {
            match part {
                Part::File(io) => {
                    let filled = io.await;
                    filled.result?;
                    out.push(filled.buf.freeze());
                }
                Part::Zeros(len) => push_zeros(out, len),
                Part::Parent(extent) => self.read_parent(extent, out).await?,
            }
        }
        Ok(())
    }

    /// Submits the reads of a range of the file; what lies past its end is zeros.
    fn begin_read(&self, from: u64, len: u64, parts: &mut SmallVec<[Part; 4]>) {
        let there = self.0.drive.len_bytes().saturating_sub(from).min(len);
        let mut done = 0;
        while done < there {
            let n = (there - done).min(BUF_LEN_MAX as u64);
            parts.push(Part::File(self.0.drive.read(from + done, Buf::new(n as usize))));
            done += n;
        }
        if there < len {
            parts.push(Part::Zeros(len - there));
        }
    }

    /// Reads from the parent; what lies past its end is zeros.
    async fn read_parent(&self, extent: Extent, out: &mut Pieces) -> Result<(), VdiskError> {
        let parent = self.0.parent.borrow().clone();
        let Some(parent) = parent else {
            let name = self.0.link.as_ref().map_or_else(String::new, |link| link.name.clone());
            return Err(VdiskError::Parent { name, cause: "it is not attached".into() });
        };
        let there = parent.len_bytes().saturating_sub(extent.at).min(extent.len);
        if there > 0 {
            // Boxed: a chain is as deep as it is.
            Box::pin(parent.read(extent.at, there, out)).await?;
        }
        push_zeros(out, extent.len - there);
        Ok(())
    }

    /// Writes `data` at `at`.
    pub async fn write(&self, at: u64, data: &Pieces) -> Result<(), VdiskError> {
        let len = data.len() as u64;
        self.check(at, len)?;
        self.begin().await?;
        let _turn = self.enter()?;
        let extents = self.resolve(|map, out| map.write(at, len, out)).await?;
        let mut writes: SmallVec<[Io<Result<(), DriveError>>; 4]> = SmallVec::new();
        for extent in extents {
            let Source::File(to) = extent.source else { unreachable!("writes go to the file") };
            let mut done = 0;
            while done < extent.len {
                let n = (extent.len - done).min(BUF_LEN_MAX as u64);
                let part = data.slice((extent.at - at + done) as usize, n as usize);
                writes.push(submit(&self.0.drive, to + done, part));
                done += n;
            }
        }
        for write in writes {
            write.await?;
        }
        self.0.map.borrow_mut().written(at, len);
        self.commit_if_much().await
    }

    /// Makes a range zeros, and gives its space back where whole blocks are in it.
    pub async fn zero(&self, at: u64, len: u64) -> Result<(), VdiskError> {
        self.check(at, len)?;
        self.begin().await?;
        let _turn = self.enter()?;
        let extents = self.resolve(|map, out| map.zero(at, len, out)).await?;
        for extent in extents {
            let Source::File(from) = extent.source else { continue };
            // Past the end of the file there are zeros already.
            let there = self.0.drive.len_bytes().saturating_sub(from).min(extent.len);
            if there > 0 {
                self.0.drive.zero(from, there).await?;
            }
        }
        self.0.map.borrow_mut().written(at, len);
        self.commit_if_much().await
    }

    /// Makes durable what was complete before this call.
    pub async fn flush(&self) -> Result<(), VdiskError> {
        self.check_poison()?;
        if self.0.access == Access::Read {
            return Ok(());
        }
        let changing = self.0.changing.take(1).await;
        if self.0.map.borrow().uncommitted() == 0 {
            drop(changing);
            return Ok(self.0.drive.flush().await?);
        }
        self.commit(changing).await
    }

    /// Makes everything durable and leaves the image as one that nobody has open. Nobody writes meanwhile or later.
    pub async fn close(&self) -> Result<(), VdiskError> {
        if self.0.access == Access::Read || !self.0.begun.get() {
            return Ok(());
        }
        self.flush().await?;
        let _changing = self.0.changing.take(1).await;
        let steps = self.0.map.borrow_mut().close()?;
        self.0.begun.set(false);
        self.take(steps).await
    }

    async fn commit_if_much(&self) -> Result<(), VdiskError> {
        if self.0.map.borrow().uncommitted() < UNCOMMITTED_MAX {
            return Ok(());
        }
        let changing = self.0.changing.take(1).await;
        self.commit(changing).await
    }

    async fn commit(&self, _changing: Permit) -> Result<(), VdiskError> {
        let steps = self.0.map.borrow_mut().commit()?;
        self.take(steps).await?;
        // Who let go before still waits: what this commit let go waits with the next one.
        if !self.0.turns.is_waiting() && self.0.map.borrow_mut().committed() && self.0.turns.wait() {
            self.0.map.borrow_mut().reuse();
        }
        Ok(())
    }

    /// Takes the steps of a change of metadata. A failure in the midst of it poisons the image: what is in the file is not known any more.
    pub(super) async fn take(&self, steps: Vec<Step>) -> Result<(), VdiskError> {
        let taken = take_steps(&self.0.drive, steps).await;
        if let Err(error) = &taken {
            self.0.poisoned.borrow_mut().get_or_insert_with(|| error.to_string());
        }
        Ok(taken?)
    }

    /// Before the first write.
    pub(super) async fn begin(&self) -> Result<(), VdiskError> {
        if self.0.begun.get() {
            return Ok(());
        }
        if self.0.access == Access::Read {
            return Err(VdiskError::ReadOnly);
        }
        let _changing = self.0.changing.take(1).await;
        if self.0.begun.get() {
            return Ok(());
        }
        if let Some(len) = self.0.cut_to.take()
            && self.0.drive.set_len(len).await?
        {
            self.0.virgin_from.set(len);
        }
        let steps = self.0.map.borrow_mut().begin()?;
        self.take(steps).await?;
        self.0.begun.set(true);
        Ok(())
    }

    /// Asks the map until it knows: what it needs is read, what it lacks is placed.
    async fn resolve(
        &self,
        mut ask: impl FnMut(&mut dyn Map, &mut Extents) -> Result<(), Wait>,
    ) -> Result<Extents, VdiskError> {
        let mut extents = Extents::new();
        let mut changing = None;
        loop {
            extents.clear();
            let answer = ask(self.0.map.borrow_mut().as_mut(), &mut extents);
            match answer {
                Ok(()) => return Ok(extents),
                Err(Wait::Error(error)) => return Err(error),
                Err(Wait::Load { at, len }) => self.load(at, len).await?,
                // Somebody else may place it meanwhile: asked again under the permit.
                Err(Wait::Block(_)) if changing.is_none() => {
                    changing = Some(self.0.changing.take(1).await);
                    self.check_poison()?;
                }
                Err(Wait::Block(block)) => self.place(block).await?,
            }
        }
    }

    async fn load(&self, at: u64, len: u64) -> Result<(), VdiskError> {
        let mut bytes = Pieces::new();
        read_file(&self.0.drive, at, len, &mut bytes).await?;
        self.0.map.borrow_mut().load(at, &bytes.joined())
    }

    /// Under the permit: finds a place for a block, makes it zeros, and gives it to the block.
    async fn place(&self, block: u64) -> Result<(), VdiskError> {
        let grant = self.0.map.borrow_mut().reserve(block)?;
        let Grant { at, len, file_len, .. } = grant;
        let (drive, virgin_from) = (&self.0.drive, self.0.virgin_from.get());
        if drive.len_bytes() < file_len && !drive.set_len(file_len).await? {
            let cause = format!("{} has {} bytes and needs {file_len}", drive.info().name, drive.len_bytes());
            return Err(VdiskError::NoRoom { cause });
        }
        if at < virgin_from {
            drive.zero(at, len.min(virgin_from - at)).await?;
        }
        self.0.virgin_from.set(virgin_from.max(at + len));
        self.0.map.borrow_mut().place(grant);
        Ok(())
    }

    fn enter(&self) -> Result<Turn<'_>, VdiskError> {
        self.check_poison()?;
        Ok(Turn(&self.0, self.0.turns.enter()))
    }

    fn check_poison(&self) -> Result<(), VdiskError> {
        match self.0.poisoned.borrow().as_ref() {
            Some(cause) => {
                Err(VdiskError::refused(format!("stopped after a failed metadata write: {cause}")))
            }
            None => Ok(()),
        }
    }

    fn check(&self, at: u64, len: u64) -> Result<(), VdiskError> {
        let (end, sector) = (self.len_bytes(), u64::from(self.sector_bytes()));
        assert!(at.is_multiple_of(sector) && len.is_multiple_of(sector), "whole sectors");
        match at.checked_add(len) {
            Some(last) if last <= end => Ok(()),
            _ => Err(VdiskError::refused(format!("{len} bytes at {at} pass the end of the disk at {end}"))),
        }
    }
}

fn submit(drive: &Drive, to: u64, part: Pieces) -> Io<Result<(), DriveError>> {
    match part.iter().count() {
        1 => drive.write(to, part.joined()),
        n if n > world::VECTORED_MAX => drive.write(to, part.joined()),
        _ => drive.write_vectored(to, part.into_iter().collect()),
    }
}

fn push_zeros(out: &mut Pieces, len: u64) {
    let mut left = len;
    while left > 0 {
        let n = left.min(BUF_LEN_MAX as u64);
        out.push(Buf::shared_zeros(n as usize).freeze());
        left -= n;
    }
}

/// Takes steps: writes at once, and every flush when the writes before it have ended.
pub(crate) async fn take_steps(drive: &Drive, steps: Vec<Step>) -> Result<(), DriveError> {
    let mut writes = Vec::new();
    for step in steps {
        match step {
            Step::Write { at, bytes, .. } => {
                for (i, chunk) in bytes.chunks(BUF_LEN_MAX).enumerate() {
                    writes.push(drive.write(at + (i * BUF_LEN_MAX) as u64, Data::copy_of(chunk)));
                }
            }
            Step::Flush => {
                for write in writes.drain(..) {
                    write.await?;
                }
                drive.flush().await?;
            }
        }
    }
    for write in writes {
        write.await?;
    }
    Ok(())
}

/// Reads bytes of the file; what lies past its end is zeros.
pub(crate) async fn read_file(drive: &Drive, at: u64, len: u64, out: &mut Pieces) -> Result<(), DriveError> {
    let there = drive.len_bytes().saturating_sub(at).min(len);
    let mut done = 0;
    while done < there {
        let n = (there - done).min(BUF_LEN_MAX as u64);
        let filled = drive.read(at + done, Buf::new(n as usize)).await;
        filled.result?;
        out.push(filled.buf.freeze());
        done += n;
    }
    push_zeros(out, len - there);
    Ok(())
}

/// All of a range of the file in one piece of memory: for metadata, whose length was checked.
pub(crate) async fn read_vec(drive: &Drive, at: u64, len: u64) -> Result<Vec<u8>, DriveError> {
    let mut pieces = Pieces::new();
    read_file(drive, at, len, &mut pieces).await?;
    let mut bytes = vec![0; pieces.len()];
    pieces.copy_to(&mut bytes);
    Ok(bytes)
}
