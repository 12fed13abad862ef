//! A virtual disk: where what the guest reads and writes lies on the LU, and what has to be written besides.

use vdisk::vhd::{self, DynamicMap};
use vdisk::vhdx::{self, Guid, NewVhdx, VhdxMap};
use vdisk::{Extents, FileIo, Map, Part, Source, Wait, write_through};

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
    /// VHDX that grows.
    Vhdx,
    /// VHD of its full size from the beginning.
    Fixed,
}

/// One virtual disk.
#[derive(Clone, Debug)]
pub(super) enum Vdisk {
    /// Everything lies where the guest says.
    Fixed,
    /// Blocks of 2 MiB lie in the order of their first use, each behind its bitmap of 512 bytes and right
    /// behind the one before: as in 2010.
    Dynamic(Box<DynamicMap>),
    /// Blocks of 32 MiB lie so, on whole MiB; what is known of them changes through a log.
    Vhdx(Box<VhdxMap>),
}

/// What a write does to the LU.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    /// All of it, in order.
    pub(super) ranges: Vec<Range>,
    /// How many of them the guest knows nothing of: what the virtual disk and the host's file system keep of
    /// it.
    pub(super) besides: u64,
    /// How many of the others lie across the units of the array's cache.
    pub(super) crooked: u64,
    /// Whether the file became longer.
    pub(super) grew: bool,
    scratch: Vec<FileIo>,
}

impl Vdisk {
    /// A disk on which nothing has been written.
    pub(super) fn empty(format: Format, len_bytes: u64) -> Result<Vdisk> {
        Ok(match format {
            Format::Fixed => Vdisk::Fixed,
            Format::Dynamic => {
                Vdisk::Dynamic(Box::new(DynamicMap::empty(len_bytes, vhd::BLOCK_BYTES)?.unaligned()))
            }
            Format::Vhdx => Vdisk::Vhdx(Box::new(NewVhdx::new(len_bytes, [Guid::ZERO; 3]).map()?)),
        })
    }

    /// What grows, and by how many bytes at a time.
    fn growing(&mut self) -> Option<(&mut dyn Map, u64)> {
        match self {
            Vdisk::Fixed => None,
            Vdisk::Dynamic(map) => Some((&mut **map, vhd::BLOCK_BYTES.into())),
            Vdisk::Vhdx(map) => Some((&mut **map, vhdx::BLOCK_BYTES.into())),
        }
    }

    pub(super) fn format(&self) -> Format {
        match self {
            Vdisk::Fixed => Format::Fixed,
            Vdisk::Dynamic(_) => Format::Dynamic,
            Vdisk::Vhdx(_) => Format::Vhdx,
        }
    }

    /// Writes everything up to here, from the beginning on.
    pub(super) fn fill(&mut self, len_bytes: u64) -> Result<()> {
        let Some((_, block_bytes)) = self.growing() else { return Ok(()) };
        let mut writes = Writes::default();
        for at in (0..len_bytes).step_by(block_bytes as usize) {
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
                Vdisk::Vhdx(map) => map.used_len(),
            }
    }

    /// Where a range is read; what was never written is not read at all.
    pub(super) fn read(&mut self, range: Range, out: &mut Vec<Range>) -> Result<()> {
        out.clear();
        let Some((map, _)) = self.growing() else {
            out.push(Range { at: FILE_AT + range.at, bytes: range.bytes });
            return Ok(());
        };
        let mut extents = Extents::new();
        map.read(range.at, range.bytes, &mut extents).map_err(|wait| match wait {
            Wait::Error(error) => anyhow!(error),
            wait => anyhow!("a disk that grows has all of its map in memory: {wait:?}"),
        })?;
        out.extend(extents.iter().filter_map(|extent| match extent.source {
            Source::File(at) => Some(Range { at: FILE_AT + at, bytes: extent.len }),
            Source::Zeros | Source::Parent => None,
        }));
        Ok(())
    }

    /// What has to be written for a range.
    pub(super) fn write(&mut self, range: Range, out: &mut Writes) -> Result<()> {
        out.ranges.clear();
        (out.grew, out.besides, out.crooked) = (false, 0, 0);
        let Some((map, _)) = self.growing() else {
            out.ranges.push(Range { at: FILE_AT + range.at, bytes: range.bytes });
            return Ok(());
        };
        out.scratch.clear();
        let before = map.used_len();
        write_through(map, range.at, range.bytes, &mut out.scratch)?;
        for io in &out.scratch {
            let range = Range { at: FILE_AT + io.at, bytes: io.len };
            match io.part {
                Part::Payload => out.crooked += u64::from(range.is_crooked()),
                _ => out.besides += 1,
            }
            out.ranges.push(range);
        }
        if map.used_len() > before {
            out.grew = true;
            out.besides += 1;
            out.ranges.push(Range { at: HOST_LOG_AT, bytes: HOST_CLUSTER_BYTES });
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
    fn a_vhdx_grows_in_larger_steps_and_keeps_the_guests_clusters() {
        let [mut vhd, mut vhdx] =
            [Format::Dynamic, Format::Vhdx].map(|format| Vdisk::empty(format, 16 << 30).expect("a disk"));
        let mut writes = Writes::default();
        let mut besides = |disk: &mut Vdisk| {
            let mut all = 0;
            for at in (0..64 << 20).step_by(1 << 20) {
                disk.write(Range { at, bytes: 65_536 }, &mut writes).expect("written");
                all += writes.besides;
            }
            (all, writes.ranges.last().expect("payload").at.is_multiple_of(4096))
        };
        // 32 blocks with bitmap, footer, entry and the host's log; two with an entry in the log and in place,
        // the host's log, and once the header.
        assert_eq!(besides(&mut vhd), (32 * 4, false));
        assert_eq!(besides(&mut vhdx), (2 * 3 + 1, true));
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
