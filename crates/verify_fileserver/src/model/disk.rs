//! A virtual disk: where what the guest reads and writes lies on the LU, and what has to be written besides.
//!
//! The file of the virtual disk is alone on its LU, in a file system of the host (NTFS): it grows at its end,
//! in one run, and each time the host's log has its new length before anything of the file refers to it.

use vdisk::vhd::{self, DynamicMap, Kind, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx, VhdxMap};
use vdisk::{Extents, FileIo, Map, Part, Source, Step, Wait, write_through_told};

use anyhow::{Result, anyhow};

use super::content::Content;
use super::layout::{CLUSTER_BYTES, Range};

/// The file of the virtual disk begins behind what the host's file system keeps at the beginning of the LU.
pub(super) const FILE_AT: u64 = 128 << 20;
/// The log of the host's file system, written round and round.
const HOST_LOG: Range = Range { at: 16 << 20, bytes: 64 << 20 };

/// Where the host's log has the n-th length of the file.
pub(super) fn host_log(number: u64) -> Range {
    Range { at: HOST_LOG.at + number * CLUSTER_BYTES % HOST_LOG.bytes, bytes: CLUSTER_BYTES }
}

/// A write of zeros, where a new block gets them.
const ZEROS_BYTES: u64 = 512 << 10;

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
pub(super) struct Vdisk {
    kept: Kept,
    /// Of a disk that is grown or compacted: what is known of its file.
    content: Option<Box<Content>>,
}

/// Where what the guest wrote lies.
#[derive(Clone, Debug)]
enum Kept {
    /// Everything lies where the guest says.
    Fixed,
    /// Blocks of 2 MiB lie in the order of their first use, each behind its bitmap of 512 bytes and right
    /// behind the one before: as in 2010.
    Dynamic(Box<DynamicMap>),
    /// Blocks of 32 MiB lie so, on whole MiB; what is known of them changes through a log.
    Vhdx(Box<VhdxMap>),
}

/// A write to the LU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LuWrite {
    pub(super) range: Range,
    /// With the guest's bytes; else with what the virtual disk and the host's file system keep of it.
    pub(super) is_payload: bool,
    /// Everything before it has to be durable first.
    pub(super) after_flush: bool,
}

/// What a write of the guest does to the LU.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    /// All of it, in order.
    pub(super) list: Vec<LuWrite>,
    /// Whether the file became longer.
    pub(super) grew: bool,
}

impl Writes {
    /// How many of them the guest knows nothing of.
    pub(super) fn besides(&self) -> u64 {
        self.list.iter().filter(|write| !write.is_payload).count() as u64
    }

    /// How many of the others lie across the units of the array's cache.
    pub(super) fn crooked(&self) -> u64 {
        self.list.iter().filter(|write| write.is_payload && write.range.is_crooked()).count() as u64
    }

    fn push(&mut self, range: Range, is_payload: bool, after_flush: bool) {
        self.list.push(LuWrite { range, is_payload, after_flush });
    }
}

impl Kept {
    /// What grows, and by how many bytes at a time.
    fn growing(&mut self) -> Option<(&mut dyn Map, u64)> {
        match self {
            Kept::Fixed => None,
            Kept::Dynamic(map) => Some((&mut **map, vhd::BLOCK_BYTES.into())),
            Kept::Vhdx(map) => Some((&mut **map, vhdx::BLOCK_BYTES.into())),
        }
    }
}

impl Vdisk {
    /// A disk on which nothing has been written.
    pub(super) fn empty(format: Format, len_bytes: u64) -> Result<Vdisk> {
        let kept = match format {
            Format::Fixed => Kept::Fixed,
            Format::Dynamic => {
                Kept::Dynamic(Box::new(DynamicMap::empty(len_bytes, vhd::BLOCK_BYTES)?.unaligned()))
            }
            Format::Vhdx => Kept::Vhdx(Box::new(new_vhdx(len_bytes).map()?)),
        };
        Ok(Vdisk { kept, content: None })
    }

    /// The same, with the bytes of its file.
    pub(super) fn with_content(format: Format, len_bytes: u64) -> Result<Vdisk> {
        let steps = match format {
            Format::Fixed => vec![],
            Format::Dynamic => NewVhd::new(Kind::Dynamic, len_bytes, [0; 16], 0).steps()?.1,
            Format::Vhdx => new_vhdx(len_bytes).steps()?.1,
        };
        let mut content = Content::default();
        steps.iter().for_each(|step| note(&mut content, step));
        Ok(Vdisk { content: Some(Box::new(content)), ..Vdisk::empty(format, len_bytes)? })
    }

    fn growing(&mut self) -> Option<(&mut dyn Map, u64)> {
        self.kept.growing()
    }

    pub(super) fn format(&self) -> Format {
        match &self.kept {
            Kept::Fixed => Format::Fixed,
            Kept::Dynamic(_) => Format::Dynamic,
            Kept::Vhdx(_) => Format::Vhdx,
        }
    }

    /// What its blocks have.
    pub(super) fn allocated_bytes(&mut self) -> u64 {
        let Some((map, _)) = self.growing() else { return 0 };
        let (mut at, mut allocated) = (0, 0);
        while at < map.len_bytes() {
            let (len, mapped) = map.extent(at, map.len_bytes() - at);
            allocated += if mapped { len } else { 0 };
            at += len;
        }
        allocated
    }

    /// How long its file is.
    pub(super) fn file_bytes(&self, len_bytes: u64) -> u64 {
        self.end(len_bytes) - FILE_AT
    }

    /// What is known of its file, which is then read and written as a file.
    pub(super) fn take_content(&mut self) -> Option<Box<Content>> {
        self.content.take()
    }

    /// Its file has this map from now on.
    pub(super) fn set_dynamic(&mut self, map: DynamicMap, content: Box<Content>) {
        *self = Vdisk { kept: Kept::Dynamic(Box::new(map)), content: Some(content) };
    }

    /// The same of a VHDX.
    pub(super) fn set_vhdx(&mut self, map: VhdxMap, content: Box<Content>) {
        *self = Vdisk { kept: Kept::Vhdx(Box::new(map)), content: Some(content) };
    }

    /// Writes these ranges in this order, as far as blocks are concerned.
    pub(super) fn fill(&mut self, ranges: &[Range]) -> Result<()> {
        let Some((_, block_bytes)) = self.growing() else { return Ok(()) };
        let mut last = None;
        for block in ranges.iter().flat_map(|range| range.at / block_bytes..range.end().div_ceil(block_bytes))
        {
            if last.replace(block) != Some(block) {
                self.write(Range { at: block * block_bytes, bytes: CLUSTER_BYTES }, (0, false))?;
            }
        }
        Ok(())
    }

    /// Up to where its file reaches on the LU.
    pub(super) fn end(&self, len_bytes: u64) -> u64 {
        FILE_AT
            + match &self.kept {
                Kept::Fixed => len_bytes,
                Kept::Dynamic(map) => map.used_len(),
                Kept::Vhdx(map) => map.used_len(),
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
        map.read(range.at, range.bytes, &mut extents).map_err(|wait| waits(&wait))?;
        out.extend(extents.iter().filter_map(|extent| match extent.source {
            Source::File(at) => Some(Range { at: FILE_AT + at, bytes: extent.len }),
            Source::Zeros | Source::Parent => None,
        }));
        Ok(())
    }

    /// Whether a write of a range takes blocks of the LU.
    pub(super) fn takes_blocks(&mut self, range: Range) -> bool {
        let Some((map, _)) = self.growing() else { return false };
        let (mut at, mut left) = (range.at, range.bytes);
        while left > 0 {
            let (len, mapped) = map.extent(at, left);
            if !mapped {
                return true;
            }
            (at, left) = (at + len, left - len);
        }
        false
    }

    /// What has to be written for a range. `grown`: how often the file grew before, which says where the
    /// host's log is.
    pub(super) fn write(&mut self, range: Range, (grown, zeroes_blocks): (u64, bool)) -> Result<Writes> {
        let mut out = Writes::default();
        let Vdisk { kept, content } = self;
        let Some((map, _)) = kept.growing() else {
            out.push(Range { at: FILE_AT + range.at, bytes: range.bytes }, true, false);
            return Ok(out);
        };
        let (before, mut file) = (map.used_len(), Vec::<FileIo>::new());
        write_through_told(map, range.at, range.bytes, &mut file, &mut |steps| {
            if let Some(content) = content {
                steps.iter().for_each(|step| note(content, step));
            }
        })?;
        out.grew = map.used_len() > before;
        if out.grew {
            out.push(host_log(grown), false, false);
        }
        for (index, io) in file.iter().enumerate() {
            let range = Range { at: FILE_AT + io.at, bytes: io.len };
            // Nothing of the file's new part is written before the file has it.
            let after_flush = io.after_flush || out.grew && index == 0;
            out.push(range, io.part == Part::Payload, after_flush);
            if io.part == Part::Bitmap && zeroes_blocks {
                let block = Range { at: range.end(), bytes: vhd::BLOCK_BYTES.into() };
                block.parts(ZEROS_BYTES).for_each(|zeros| out.push(zeros, false, false));
            }
        }
        if let Some(content) = content {
            let payload = file.iter().filter(|io| io.part == Part::Payload);
            payload.for_each(|io| content.data(Range { at: io.at, bytes: io.len }));
        }
        Ok(out)
    }

    /// The guest does not need a range any more: its whole blocks are released. What has to be written.
    pub(super) fn unmap(&mut self, range: Range) -> Result<Vec<LuWrite>> {
        let Some((map, block_bytes)) = self.growing() else { return Ok(vec![]) };
        let (first, end) = (range.at.div_ceil(block_bytes), range.end() / block_bytes);
        if first >= end {
            return Ok(vec![]);
        }
        let mut parts = Extents::new();
        map.zero(first * block_bytes, (end - first) * block_bytes, &mut parts)
            .map_err(|wait| waits(&wait))?;
        let steps = map.commit()?;
        // The guest's I/O to the range has ended.
        if map.committed() {
            map.reuse();
        }
        Ok(self.take_steps(&steps))
    }

    /// Nobody uses it any more; what has to be written first.
    pub(super) fn close(&mut self) -> Result<Vec<LuWrite>> {
        let Some((map, _)) = self.growing() else { return Ok(vec![]) };
        let steps = map.close()?;
        Ok(self.take_steps(&steps))
    }

    /// It is used again; what has to be written first.
    pub(super) fn begin(&mut self) -> Result<Vec<LuWrite>> {
        let Some((map, _)) = self.growing() else { return Ok(vec![]) };
        let steps = map.begin()?;
        Ok(self.take_steps(&steps))
    }

    fn take_steps(&mut self, steps: &[Step]) -> Vec<LuWrite> {
        if let Some(content) = &mut self.content {
            steps.iter().for_each(|step| note(content, step));
        }
        let (mut out, mut after_flush) = (vec![], false);
        for step in steps {
            let (at, bytes) = match step {
                Step::Flush => {
                    after_flush = true;
                    continue;
                }
                Step::Write { at, bytes, .. } => (FILE_AT + at, bytes.len() as u64),
                Step::Zero { at, len, .. } => (FILE_AT + at, *len),
            };
            out.push(LuWrite { range: Range { at, bytes }, is_payload: false, after_flush });
            after_flush = false;
        }
        out
    }
}

fn new_vhdx(len_bytes: u64) -> NewVhdx {
    NewVhdx::new(len_bytes, [Guid::ZERO; 3])
}

fn waits(wait: &Wait) -> anyhow::Error {
    match wait {
        Wait::Error(error) => anyhow!(error.clone()),
        wait => anyhow!("a disk that grows has all of its map in memory: {wait:?}"),
    }
}

fn note(content: &mut Content, step: &Step) {
    match step {
        Step::Flush => {}
        Step::Write { at, bytes, .. } => content.write(*at, bytes),
        Step::Zero { at, len, .. } => content.zero(Range { at: *at, bytes: *len }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_grows_writes_more_once_and_the_same_afterwards() {
        let mut fixed = Vdisk::empty(Format::Fixed, 16 << 30).expect("a disk");
        let mut dynamic = Vdisk::empty(Format::Dynamic, 16 << 30).expect("a disk");
        let range = Range { at: 1 << 30, bytes: 65_536 };
        let ranges = |writes: &Writes| writes.list.iter().map(|w| w.range).collect::<Vec<_>>();
        let writes = fixed.write(range, (0, false)).expect("written");
        assert_eq!(ranges(&writes), [Range { at: FILE_AT + (1 << 30), bytes: 65_536 }]);
        assert!(!fixed.takes_blocks(range) && dynamic.takes_blocks(range));
        let writes = dynamic.write(range, (0, false)).expect("written");
        // The host's log; then bitmap, payload and footer; then the table, which refers to them.
        let order: Vec<_> = writes.list.iter().map(|w| (w.is_payload, w.after_flush)).collect();
        assert_eq!(order, [(false, false), (false, true), (true, false), (false, false), (false, true)]);
        assert!(writes.grew && !dynamic.takes_blocks(range));
        let again = dynamic.write(range, (1, false)).expect("written");
        assert!(!again.grew && again.list.len() == 1 && again.list[0].range.bytes == 65_536);
        // Off the guest's clusters by the bitmap's 512 bytes.
        assert!(!again.list[0].range.at.is_multiple_of(4096));
        let mut reads = vec![];
        dynamic.read(range, &mut reads).expect("read");
        assert_eq!(reads, ranges(&again));
        dynamic.read(Range { at: 0, bytes: 4096 }, &mut reads).expect("read");
        assert!(reads.is_empty());
    }

    #[test]
    fn a_vhdx_grows_in_larger_steps_and_keeps_the_guests_clusters() {
        let [mut vhd, mut vhdx] =
            [Format::Dynamic, Format::Vhdx].map(|format| Vdisk::empty(format, 16 << 30).expect("a disk"));
        let besides = |disk: &mut Vdisk| {
            let (mut all, mut is_straight) = (0, false);
            for at in (0..64 << 20).step_by(1 << 20) {
                let writes = disk.write(Range { at, bytes: 65_536 }, (0, false)).expect("written");
                all += writes.besides();
                is_straight = writes.crooked() == 0;
            }
            (all, is_straight)
        };
        // 32 blocks with bitmap, footer, entry and the host's log; two with an entry in the log and in place,
        // the host's log, and once the header.
        assert_eq!(besides(&mut vhd), (32 * 4, false));
        assert_eq!(besides(&mut vhdx), (2 * 3 + 1, true));
    }

    #[test]
    fn blocks_lie_in_the_order_of_filling() {
        let mut dynamic = Vdisk::empty(Format::Dynamic, 16 << 30).expect("a disk");
        let filling = [Range { at: 100 << 20, bytes: 4 << 20 }, Range { at: 0, bytes: 4 << 20 }];
        dynamic.fill(&filling).expect("filled");
        assert!(dynamic.end(16 << 30) > FILE_AT + (8 << 20));
        assert!(!dynamic.takes_blocks(Range { at: (3 << 20) + 4096, bytes: 4096 }));
        let mut reads = vec![];
        dynamic.read(Range { at: (2 << 20) - 4096, bytes: 8192 }, &mut reads).expect("read");
        assert_eq!(reads.len(), 2, "two blocks with a bitmap between them");
        let first = reads[0].at;
        dynamic.read(Range { at: 100 << 20, bytes: 4096 }, &mut reads).expect("read");
        assert!(reads[0].at < first);
    }
}
