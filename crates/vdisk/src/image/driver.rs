//! The driver: resolve, transfer payload, keep order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use block::Pieces;
use smallvec::SmallVec;
use world::sync::{Permit, Permits};
use world::{BUF_LEN_MAX, Drive, DriveError, Filled, Io};

use super::chain::ParentLink;
use super::file::{self, push_zeros, read_file, take_due};
use super::format::Format;
use super::reuse::Turns;
use super::trouble::{ImageTrouble, Trouble};
use crate::{Extent, Extents, Grant, Map, Source, Step, VdiskError, Wait};

/// How an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read-only.
    Read,
    /// For reading and writing.
    Write,
}

/// Findings about the metadata of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Faults: such an image is not written.
    pub faults: Vec<String>,
    /// Notes: differences that a second copy, or the next change, repairs.
    pub notes: Vec<String>,
}

/// Metadata is committed without a flush request when this many writes have accumulated: bounds the loss in a
/// power failure, and the time of a flush.
const UNCOMMITTED_MAX: usize = 1024;

/// A virtual disk: a handle, cheap to clone. Addresses are bytes in whole sectors.
#[derive(Clone)]
pub struct Image(pub(super) Rc<Inner>);

/// A handle of an image that does not keep it open.
#[derive(Clone)]
pub struct WeakImage(Weak<Inner>);

impl WeakImage {
    /// The image, if it is still open.
    pub fn upgrade(&self) -> Option<Image> {
        self.0.upgrade().map(Image)
    }
}

pub(super) struct Inner {
    pub(super) drive: Drive,
    pub(super) map: RefCell<Box<dyn Map>>,
    pub(super) format: Format,
    pub(super) access: Access,
    pub(super) link: Option<ParentLink>,
    pub(super) parent: RefCell<Option<Image>>,
    /// The identity by which children refer to the image, and the time stamp that children of a VHD store.
    pub(super) id: [u8; 16],
    pub(super) disk_id: Cell<[u8; 16]>,
    pub(super) time_stamp_s: Cell<u32>,
    pub(super) findings: RefCell<Findings>,
    /// The repairs of the findings' notes.
    pub(super) repairs: RefCell<Vec<Step>>,
    /// The length to which the file is truncated before the first write: a power failure left data behind it.
    pub(super) cut_to: Cell<Option<u64>>,
    begun: Cell<bool>,
    /// Whether the map's first steps were requested; they are in `due` until they are done.
    announced: Cell<bool>,
    /// From here on the file reads as zeros, if it has grown since.
    virgin_from: Cell<u64>,
    /// Held while placing blocks or committing: one at a time.
    changing: Permits,
    turns: Turns,
    /// Metadata writes that must precede all others: the file system had no space for them.
    due: RefCell<VecDeque<Step>>,
    trouble: Trouble,
}

/// Limit of blocks zeroed at once: their metadata must fit in memory.
const ZERO_BLOCKS: u64 = 256;

/// An operation in flight that may use blocks that are released meanwhile.
struct Turn<'a>(&'a Inner, usize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.0.turns.leave(self.1) {
            self.0.map.borrow_mut().reuse();
        }
    }
}

/// A part of a read in progress.
enum Part {
    File(Io<Filled>),
    Zeros(u64),
    Parent(Extent),
}

impl Image {
    /// Assembles an image.
    pub(super) fn new(
        drive: Drive,
        map: Box<dyn Map>,
        format: Format,
        access: Access,
        id: [u8; 16],
        link: Option<ParentLink>,
    ) -> Image {
        // The earlier content of a drive of fixed length is unknown; a file that grows has zeros there.
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
            announced: Cell::default(),
            virgin_from,
            changing: Permits::new(1),
            turns: Turns::default(),
            due: RefCell::default(),
            trouble: Trouble::default(),
        }))
    }

    /// A handle that does not keep the image open.
    pub fn downgrade(&self) -> WeakImage {
        WeakImage(Rc::downgrade(&self.0))
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

    /// The unit of allocation; none: fully allocated.
    pub fn block_bytes(&self) -> Option<u64> {
        self.0.map.borrow().block_bytes()
    }

    /// Whether it is open for writing.
    pub fn is_writable(&self) -> bool {
        self.0.access == Access::Write
    }

    /// Length of its file.
    pub fn file_len_bytes(&self) -> u64 {
        self.0.drive.len_bytes()
    }

    /// Length of the used part of the file.
    pub fn used_len_bytes(&self) -> u64 {
        self.0.map.borrow().used_len()
    }

    /// The number of bytes from this address on, at most `len`, that are alike in whether their blocks may
    /// contain data, and whether they may. `at` must be in the disk; bytes behind its end are ignored.
    pub fn extent(&self, at: u64, len: u64) -> (u64, bool) {
        let map = self.0.map.borrow();
        match len.min(map.len_bytes().saturating_sub(at)) {
            0 => (0, false),
            len => map.extent(at, len),
        }
    }

    /// Number of bytes of a range in blocks that may contain data.
    pub fn occupied_bytes(&self, at: u64, len: u64) -> u64 {
        let (mut done, mut occupied) = (0, 0);
        while done < len {
            let (alike, is_here) = self.extent(at + done, len - done);
            if alike == 0 {
                break;
            }
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
    ///
    /// # Errors
    ///
    /// The range exceeds the disk, or the file failed.
    pub async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        self.check(at, len)?;
        // Also for an image that has become read-only: its written data are known and present.
        let _turn = Turn(&self.0, self.0.turns.enter());
        let extents = self.resolve(|map, out| map.read(at, len, out)).await?;
        let mut parts: SmallVec<[Part; 4]> = SmallVec::new();
        for extent in extents {
            match extent.source {
                Source::File(from) => self.begin_read(from, extent.len, &mut parts)?,
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

    /// Submits the reads of a range of the file; it reads as zeros past its end.
    fn begin_read(&self, from: u64, len: u64, parts: &mut SmallVec<[Part; 4]>) -> Result<(), VdiskError> {
        let there = self.0.drive.len_bytes().saturating_sub(from).min(len);
        let mut done = 0;
        while done < there {
            let n = (there - done).min(BUF_LEN_MAX as u64);
            parts.push(Part::File(file::read(&self.0.drive, from + done, n as usize)?));
            done += n;
        }
        if there < len {
            parts.push(Part::Zeros(len - there));
        }
        Ok(())
    }

    /// Reads from the parent; it reads as zeros past its end.
    async fn read_parent(&self, extent: Extent, out: &mut Pieces) -> Result<(), VdiskError> {
        let parent = self.0.parent.borrow().clone();
        let Some(parent) = parent else {
            let name = self.0.link.as_ref().map_or_else(String::new, |link| link.name.clone());
            return Err(VdiskError::Parent { name, cause: "it is not attached".into() });
        };
        let there = parent.len_bytes().saturating_sub(extent.at).min(extent.len);
        if there > 0 {
            // Boxed, because a chain recurses.
            Box::pin(parent.read(extent.at, there, out)).await?;
        }
        push_zeros(out, extent.len - there);
        Ok(())
    }

    /// Writes `data` at `at`.
    ///
    /// # Errors
    ///
    /// The range exceeds the disk, the image is read-only, or the file failed or is full. After a failed
    /// metadata write all later writes fail.
    pub async fn write(&self, at: u64, data: &Pieces) -> Result<(), VdiskError> {
        let len = data.len() as u64;
        self.check(at, len)?;
        self.begin().await?;
        let _turn = self.enter()?;
        let extents = self.resolve(|map, out| map.write(at, len, out)).await?;
        let mut writes: SmallVec<[Io<Result<(), DriveError>>; 4]> = SmallVec::new();
        let submitted = extents.iter().try_for_each(|e| self.begin_write(at, data, e, &mut writes));
        self.0.trouble.note_payload(at, len, file::all(writes).await)?;
        submitted?;
        self.0.map.borrow_mut().written(at, len);
        self.commit_if_much().await
    }

    /// Submits the writes of an extent, from the data of a write at `at`.
    fn begin_write(
        &self,
        at: u64,
        data: &Pieces,
        extent: &Extent,
        writes: &mut SmallVec<[Io<Result<(), DriveError>>; 4]>,
    ) -> Result<(), VdiskError> {
        let Source::File(to) = extent.source else {
            return Err(VdiskError::damaged("the map", "it maps a write outside the file"));
        };
        let mut done = 0;
        while done < extent.len {
            let n = (extent.len - done).min(BUF_LEN_MAX as u64);
            let part = data.slice((extent.at - at + done) as usize, n as usize);
            writes.push(file::write_pieces(&self.0.drive, to + done, part)?);
            done += n;
        }
        Ok(())
    }

    /// Zeroes a range, and releases its whole blocks.
    ///
    /// # Errors
    ///
    /// As [`Image::write`].
    pub async fn zero(&self, at: u64, len: u64) -> Result<(), VdiskError> {
        self.check(at, len)?;
        self.begin().await?;
        let _turn = self.enter()?;
        let Some(step) = self.block_bytes().map(|block| block * ZERO_BLOCKS) else {
            return self.zero_part(at, len).await;
        };
        let (mut here, end) = (at, at + len);
        while here < end {
            let next = (here / step * step + step).min(end);
            self.zero_part(here, next - here).await?;
            here = next;
        }
        Ok(())
    }

    async fn zero_part(&self, at: u64, len: u64) -> Result<(), VdiskError> {
        let extents = self.resolve(|map, out| map.zero(at, len, out)).await?;
        for extent in extents {
            let Source::File(from) = extent.source else { continue };
            // The file reads as zeros past its end.
            let there = self.0.drive.len_bytes().saturating_sub(from).min(extent.len);
            if there > 0 {
                let zeroed = file::zero(&self.0.drive, from, there)?.await;
                self.0.trouble.note_payload(extent.at, extent.len, zeroed)?;
            }
        }
        self.0.map.borrow_mut().written(at, len);
        self.commit_if_much().await
    }

    /// Makes everything durable that was complete before this call.
    ///
    /// # Errors
    ///
    /// The file failed. All later writes fail then.
    pub async fn flush(&self) -> Result<(), VdiskError> {
        if self.0.access == Access::Read {
            return Ok(());
        }
        self.0.trouble.check()?;
        let changing = self.0.changing.take(1).await;
        if self.0.map.borrow().uncommitted() == 0 && self.0.due.borrow().is_empty() {
            drop(changing);
            return self.0.trouble.poison_if(self.0.drive.flush().await.map_err(VdiskError::from));
        }
        self.commit(changing).await
    }

    /// Makes everything durable and marks the image as closed. No writes may be in progress or follow.
    ///
    /// # Errors
    ///
    /// As [`Image::flush`]; the image then looks like one that was in use when the power failed.
    pub async fn close(&self) -> Result<(), VdiskError> {
        if self.0.access == Access::Read || !self.0.begun.get() {
            return Ok(());
        }
        self.flush().await?;
        let _changing = self.0.changing.take(1).await;
        let steps = self.0.map.borrow_mut().close()?;
        self.0.begun.set(false);
        self.0.announced.set(false);
        self.take(steps).await
    }

    async fn commit_if_much(&self) -> Result<(), VdiskError> {
        // A flush retries writes that found no space, so that not every write fails for them.
        if self.0.map.borrow().uncommitted() < UNCOMMITTED_MAX || !self.0.due.borrow().is_empty() {
            return Ok(());
        }
        let changing = self.0.changing.take(1).await;
        self.commit(changing).await
    }

    async fn commit(&self, _changing: Permit) -> Result<(), VdiskError> {
        if !self.0.due.borrow().is_empty() {
            self.take(Vec::new()).await?;
            self.let_go();
        }
        let steps = self.0.map.borrow_mut().commit()?;
        self.take(steps).await?;
        self.let_go();
        Ok(())
    }

    /// After a commit: blocks that it released may be reused when no operation uses them.
    fn let_go(&self) {
        // Blocks released earlier still wait: those of this commit wait with the next one.
        if !self.0.turns.is_waiting() && self.0.map.borrow_mut().committed() && self.0.turns.wait() {
            self.0.map.borrow_mut().reuse();
        }
    }

    /// Performs the steps of a metadata change, after those that found no space before. If there is no space
    /// or no response, they are retried with the next change: nothing valid was overwritten. Any other
    /// failure makes the image read-only, because the content of the file is unknown.
    pub(super) async fn take(&self, steps: Vec<Step>) -> Result<(), VdiskError> {
        self.0.due.borrow_mut().extend(steps);
        let taken = self.0.trouble.note_room(take_due(&self.0.drive, &self.0.due).await);
        match taken {
            Err(error @ VdiskError::Drive(DriveError::NoRoom { .. })) => Err(error),
            taken => self.0.trouble.poison_if(taken),
        }
    }

    /// Performs the steps before the first write.
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
        self.0.trouble.check()?;
        if let Some(len) = self.0.cut_to.take()
            && self.0.drive.set_len(len).await?
        {
            self.0.virgin_from.set(len);
        }
        let needed = self.0.map.borrow().begin_len();
        if self.0.drive.len_bytes() < needed {
            self.0.trouble.note_room(self.lengthen(needed).await)?;
            self.0.virgin_from.set(needed);
        }
        let steps = match self.0.announced.replace(true) {
            true => Vec::new(),
            false => {
                // A damaged copy is repaired while the other is intact: the changes may overwrite it.
                let mut steps = self.0.repairs.take();
                steps.extend(self.0.map.borrow_mut().begin()?);
                steps
            }
        };
        self.take(steps).await?;
        self.0.begun.set(true);
        Ok(())
    }

    /// Extends the file, if it is shorter.
    async fn lengthen(&self, len: u64) -> Result<(), VdiskError> {
        let drive = &self.0.drive;
        if drive.len_bytes() < len && !drive.set_len(len).await? {
            let cause = format!("{} has {} bytes and requires {len}", drive.info().name, drive.len_bytes());
            return Err(VdiskError::NoRoom { cause });
        }
        Ok(())
    }

    /// Resolves until the map has an answer: reads the bytes that it needs, allocates the blocks that it
    /// lacks.
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
                // Another operation may have placed it meanwhile: checked again with the permit.
                Err(Wait::Block(_)) if changing.is_none() => {
                    changing = Some(self.0.changing.take(1).await);
                    self.0.trouble.check()?;
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

    /// With the permit: reserves a place for a block, zeroes it, and assigns it to the block.
    async fn place(&self, block: u64) -> Result<(), VdiskError> {
        let grant = self.0.map.borrow_mut().reserve(block)?;
        let before = self.0.drive.len_bytes();
        let made = self.make_room(&grant).await;
        match self.0.trouble.note_room(made) {
            Ok(()) => self.0.map.borrow_mut().place(grant),
            Err(error) => {
                self.0.map.borrow_mut().give_back(grant);
                if self.0.drive.len_bytes() > before {
                    // The excess length of the file does no harm: the next block uses it.
                    let _ = self.0.drive.set_len(before).await;
                    self.0.virgin_from.set(self.0.virgin_from.get().min(before));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn make_room(&self, grant: &Grant) -> Result<(), VdiskError> {
        let Grant { at, len, file_len, .. } = *grant;
        self.lengthen(file_len).await?;
        let virgin_from = self.0.virgin_from.get();
        if at < virgin_from {
            file::zero(&self.0.drive, at, len.min(virgin_from - at))?.await?;
        }
        self.0.virgin_from.set(virgin_from.max(at + len));
        Ok(())
    }

    fn enter(&self) -> Result<Turn<'_>, VdiskError> {
        self.0.trouble.check()?;
        Ok(Turn(&self.0, self.0.turns.enter()))
    }

    /// A problem of the open image: why it is read-only, or that its file system has no space.
    pub fn trouble(&self) -> Option<ImageTrouble> {
        self.0.trouble.told()
    }

    /// Checks that the file is there as it was opened: not removed, replaced or cut. Until the next look
    /// finds it so, writes are refused, which would be lost with it.
    pub async fn look(&self) {
        self.0.trouble.note_look(self.0.drive.probe().await);
    }

    fn check(&self, at: u64, len: u64) -> Result<(), VdiskError> {
        let (end, sector) = (self.len_bytes(), u64::from(self.sector_bytes()));
        match at.checked_add(len) {
            Some(last) if last <= end && at.is_multiple_of(sector) && len.is_multiple_of(sector) => Ok(()),
            _ => Err(VdiskError::refused(format!(
                "invalid range of {len} bytes at {at}: must be whole sectors of {sector} bytes within the disk of {end}"
            ))),
        }
    }
}
