//! Where the bytes of a virtual disk are stored, and which writes its file needs.

use smallvec::SmallVec;

/// The location of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the file, from this byte on.
    File(u64),
    /// Not stored: zeros.
    Zeros,
    /// In the parent, at the same address.
    Parent,
}

/// A part of a range with one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte on the virtual disk.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Their location.
    pub source: Source,
}

/// The extents of one operation, in order. Up to four need no allocation: a transfer of 1 MiB touches at most
/// two blocks of 2 MiB.
pub type Extents = SmallVec<[Extent; 4]>;

/// Appends an extent; an adjacent one is merged with the last.
pub(crate) fn push(out: &mut Extents, at: u64, len: u64, source: Source) {
    if let Some(last) = out.last_mut().filter(|last| last.at + last.len == at) {
        let goes_on = match (last.source, source) {
            (Source::File(a), Source::File(b)) => a + last.len == b,
            (a, b) => a == b,
        };
        if goes_on {
            last.len += len;
            return;
        }
    }
    out.push(Extent { at, len, source });
}

/// Which part of an image is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Data of the disk.
    Payload,
    /// Which sectors of a block are present.
    Bitmap,
    /// The block allocation table.
    Table,
    /// The footer of a VHD, which follows the last block.
    Footer,
    /// A header, or another rarely written structure.
    Header,
    /// The log of a VHDX.
    Log,
}

/// One step of a metadata change. Writes between two flushes may reach the medium in any order, completely or
/// by sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Step {
    /// Everything before it is durable before anything after it is written.
    Flush,
    /// Bytes of the file, whole sectors.
    Write {
        /// The written part.
        part: Part,
        /// First byte in the file.
        at: u64,
        bytes: Vec<u8>,
    },
    /// Zeros, whole sectors.
    Zero {
        /// The written part.
        part: Part,
        /// First byte in the file.
        at: u64,
        /// Bytes.
        len: u64,
    },
}

/// A write to the file of an image, as counted by a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIo {
    /// The written part.
    pub part: Part,
    /// First byte in the file.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Whether the writes before it have to be durable first: it refers to them.
    pub after_flush: bool,
}
