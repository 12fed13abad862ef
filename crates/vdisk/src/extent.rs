//! Where the bytes of a virtual disk lie, and what has to be written to its file.

use smallvec::SmallVec;

/// Where the bytes of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the file, from this byte on.
    File(u64),
    /// Nowhere: they are zeros.
    Zeros,
    /// In the parent, at the same address.
    Parent,
}

/// A part of a range that lies in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte on the virtual disk.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Where they are.
    pub source: Source,
}

/// The extents of one operation, in order. Up to four need no allocation: a transfer of a MiB touches two blocks of two MiB at most.
pub type Extents = SmallVec<[Extent; 4]>;

/// Appends an extent; one that goes on where the last one ends is joined to it.
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

/// What part of an image is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What the guest sees.
    Payload,
    /// Which sectors of a block are there.
    Bitmap,
    /// Where blocks lie.
    Table,
    /// The footer of a VHD, which follows the last block.
    Footer,
    /// A header, or what else is written rarely.
    Header,
    /// The log of a VHDX.
    Log,
}

/// One step of a change of metadata. Writes between two flushes may reach the medium in any order, whole or by sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything before is durable before anything after is written.
    Flush,
    /// Bytes of the file, whole sectors.
    Write {
        /// What they are.
        part: Part,
        /// First byte in the file.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Zeros, whole sectors.
    Zero {
        /// What they are.
        part: Part,
        /// First byte in the file.
        at: u64,
        /// Bytes.
        len: u64,
    },
}

/// A write to the file of an image, as a model counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIo {
    /// What is written.
    pub part: Part,
    /// First byte in the file.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}
