//! A virtual disk: where what the guest reads and writes lies on the LU, and what has to be written besides.

use vdisk::vhd::{BLOCK_BYTES, DynamicMap};
use vdisk::{Extents, FileIo, Map, Source, Wait};

use anyhow::{Result, anyhow};

use super::volume::Range;

/// The file of the virtual disk begins behind what the host's file system keeps at the beginning of the LU.
pub(super) const FILE_AT: u64 = 64 << 20;
/// Where the host's file system writes its log: when a file grows, its length is in there.
const HOST_LOG_AT: u64 = 16 << 20;
/// Of the host's file system.
const HOST_CLUSTER_BYTES: u64 = 4096;

/// How a virtual disk is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum Format {
    /// VHD that grows.
    Dynamic,
    /// VHD of its full size from the beginning.
    Fixed,
}

/// One virtual disk.
#[derive(Clone, Debug)]
pub(super) enum Vdisk {
    /// Everything lies where the guest says.
    Fixed,
    /// Blocks lie in the order of their first use.
    Dynamic(Box<DynamicMap>),
}

/// What a write does to the LU.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    /// All of it, in order.
    pub(super) ranges: Vec<Range>,
    /// Whether the file became longer.
    pub(super) grew: bool,
    scratch: Vec<FileIo>,
}

impl Vdisk {
    /// A disk on which nothing has been written.
    pub(super) fn empty(format: Format, len_bytes: u64) -> Result<Vdisk> {
        Ok(match format {
            Format::Fixed => Vdisk::Fixed,
            Format::Dynamic => Vdisk::Dynamic(Box::new(DynamicMap::empty(len_bytes, BLOCK_BYTES)?)),
        })
    }

    pub(super) fn format(&self) -> Format {
        match self {
            Vdisk::Fixed => Format::Fixed,
            Vdisk::Dynamic(_) => Format::Dynamic,
        }
    }

    /// Writes everything up to here, from the beginning on.
    pub(super) fn fill(&mut self, len_bytes: u64) -> Result<()> {
        let mut writes = Writes::default();
        for at in (0..len_bytes).step_by(BLOCK_BYTES as usize) {
            self.write(Range { at, bytes: HOST_CLUSTER_BYTES }, &mut writes)?;
        }
        Ok(())
    }

    /// Up to where its file reaches on the LU.
    pub(super) fn end(&self, len_bytes: u64) -> u64 {
        FILE_AT
            + match self {
                Vdisk::Fixed => len_bytes,
                Vdisk::Dynamic(map) => map.used_len(),
            }
    }

    /// Where a range is read; what was never written is not read at all.
    pub(super) fn read(&mut self, range: Range, out: &mut Vec<Range>) -> Result<()> {
        out.clear();
        match self {
            Vdisk::Fixed => out.push(Range { at: FILE_AT + range.at, bytes: range.bytes }),
            Vdisk::Dynamic(map) => {
                let mut extents = Extents::new();
                map.read(range.at, range.bytes, &mut extents).map_err(|wait| match wait {
                    Wait::Error(error) => anyhow!(error),
                    wait => anyhow!("a dynamic disk has all of its map in memory: {wait:?}"),
                })?;
                out.extend(extents.iter().filter_map(|extent| match extent.source {
                    Source::File(at) => Some(Range { at: FILE_AT + at, bytes: extent.len }),
                    Source::Zeros | Source::Parent => None,
                }));
            }
        }
        Ok(())
    }

    /// What has to be written for a range.
    pub(super) fn write(&mut self, range: Range, out: &mut Writes) -> Result<()> {
        out.ranges.clear();
        out.grew = false;
        match self {
            Vdisk::Fixed => out.ranges.push(Range { at: FILE_AT + range.at, bytes: range.bytes }),
            Vdisk::Dynamic(map) => {
                out.scratch.clear();
                let before = map.used_len();
                map.write_through(range.at, range.bytes, &mut out.scratch)?;
                let on_lu = |io: &FileIo| Range { at: FILE_AT + io.at, bytes: io.len };
                out.ranges.extend(out.scratch.iter().map(on_lu));
                if map.used_len() > before {
                    out.grew = true;
                    out.ranges.push(Range { at: HOST_LOG_AT, bytes: HOST_CLUSTER_BYTES });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_grows_writes_more_once_and_the_same_afterwards() {
        let mut fixed = Vdisk::empty(Format::Fixed, 16 << 30).expect("a disk");
        let mut dynamic = Vdisk::empty(Format::Dynamic, 16 << 30).expect("a disk");
        let (range, mut writes) = (Range { at: 1 << 30, bytes: 65_536 }, Writes::default());
        fixed.write(range, &mut writes).expect("written");
        assert_eq!(writes.ranges, [Range { at: FILE_AT + (1 << 30), bytes: 65_536 }]);
        dynamic.write(range, &mut writes).expect("written");
        assert!(writes.grew && writes.ranges.len() > 2, "{writes:?}");
        dynamic.write(range, &mut writes).expect("written");
        assert!(!writes.grew && writes.ranges.len() == 1 && writes.ranges[0].bytes == 65_536);
        // Off the guest's clusters by the bitmap's 512 bytes.
        assert!(!writes.ranges[0].at.is_multiple_of(4096));
        let mut reads = vec![];
        dynamic.read(range, &mut reads).expect("read");
        assert_eq!(reads, writes.ranges);
        dynamic.read(Range { at: 0, bytes: 4096 }, &mut reads).expect("read");
        assert!(reads.is_empty());
    }

    #[test]
    fn what_is_filled_is_there() {
        let mut dynamic = Vdisk::empty(Format::Dynamic, 16 << 30).expect("a disk");
        dynamic.fill(100 << 20).expect("filled");
        assert!(dynamic.end(16 << 30) > FILE_AT + (100 << 20));
        let (mut writes, mut reads) = (Writes::default(), vec![]);
        dynamic.write(Range { at: (99 << 20) + 4096, bytes: 4096 }, &mut writes).expect("written");
        assert!(!writes.grew);
        dynamic.read(Range { at: (2 << 20) - 4096, bytes: 8192 }, &mut reads).expect("read");
        assert_eq!(reads.len(), 2, "two blocks with a bitmap between them");
    }
}
