//! Virtual disk images: VHD and VHDX for reading and writing, other formats for reading.
//!
//! ```text
//!  Image (block::Device) ── asks ──> Map: where does this range lie?     pure: no I/O, no clock
//!    │   └─ its parent, an Image     │  vhd::FixedMap, vhd::DynamicMap, vhdx::VhdxMap
//!    v                               └─ answers with Extents, and with Steps: what to write, and between which flushes
//!  world::Drive (a file, or a drive of the model)
//! ```
//!
//! * A [`Map`] holds the metadata of one image in memory. It resolves a range of the virtual disk to
//!   [`Extent`]s of the file, to zeros, or to the parent; the caller transfers the payload. It collects
//!   metadata changes, and [`Map::commit`] returns them as [`Step`]s in an order that survives a power
//!   failure at any of them.
//! * An [`Image`] is the thin driver over a [`world::Drive`], the same in both worlds. Writes touch payload
//!   only; their metadata is committed at the next flush (or when much of it has accumulated). So a power
//!   failure leaves the blocks of the last flush, and later writes are old or new per sector.
//!
//! # Counting the I/O of a format
//!
//! A map needs no file. A model of a virtual disk uses it to count the I/O of an implementation that defers
//! nothing:
//!
//! ```
//! use vdisk::{FileIo, Part, vhd, write_through};
//! let mut map = vhd::DynamicMap::empty(500 << 30, vhd::BLOCK_BYTES).expect("a size that VHD can have");
//! let mut io: Vec<FileIo> = Vec::new();
//! write_through(&mut map, 1 << 30, 4096, &mut io).expect("within the disk");
//! // First touch of a block of 2 MiB: its bitmap, the payload, the footer behind it, then the entry of the table.
//! assert_eq!(io.iter().map(|io| io.part).collect::<Vec<_>>(), [Part::Bitmap, Part::Payload, Part::Footer, Part::Table]);
//! io.clear();
//! write_through(&mut map, (1 << 30) + 8192, 4096, &mut io).expect("within the disk");
//! assert_eq!(io.len(), 1); // The block is there: payload alone, on whole 4 KiB.
//! assert_eq!(io[0].at % 4096, 0);
//! ```

mod count;
mod error;
mod extent;
mod image;
mod import;
mod map;
pub mod nbd;
pub mod vhd;
pub mod vhdx;

pub use count::{write_through, write_through_told};
pub use error::VdiskError;
pub use extent::{Extent, Extents, FileIo, Part, Source, Step};
pub use image::{
    Access, Chain, Compacted, FileFormat, Findings, Format, Image, ImageTrouble, ParentLink, Probed,
    WeakImage, attach_parents, copy, open_chain, open_file, probe,
};
pub use import::{AnyDisk, Qcow2, Vmdk};
pub use map::{Grant, Map, Move, Wait};
pub use vhd::FixedMap;
