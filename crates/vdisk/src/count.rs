//! The file I/O that a write to an image causes, without a file.

use crate::{Extents, FileIo, Map, Part, Source, Step, VdiskError, Wait};

/// The file I/O of one write by an implementation that defers nothing: payload and, where needed, bitmaps of
/// new blocks (before it), table entries, a footer, a log and the pages it protects (after it, in order).
/// Appends to `out`; the map is updated. A map that needs bytes of its file gets zeros.
pub fn write_through(map: &mut dyn Map, at: u64, len: u64, out: &mut Vec<FileIo>) -> Result<(), VdiskError> {
    write_through_told(map, at, len, out, &mut |_| {})
}

/// The same; `told` hears the steps of the metadata, with their bytes, if there are any.
pub fn write_through_told(
    map: &mut dyn Map,
    at: u64,
    len: u64,
    out: &mut Vec<FileIo>,
    told: &mut dyn FnMut(&[Step]),
) -> Result<(), VdiskError> {
    let mut extents = Extents::new();
    loop {
        extents.clear();
        match map.write(at, len, &mut extents) {
            Ok(()) => break,
            Err(Wait::Block(block)) => {
                let grant = map.reserve(block)?;
                map.place(grant);
            }
            Err(Wait::Load { at, len }) => map.load(at, &vec![0; len as usize])?,
            Err(Wait::Error(error)) => return Err(error),
        }
    }
    map.written(at, len);
    let steps = match map.uncommitted() {
        0 => Vec::new(),
        _ => map.commit()?,
    };
    map.committed();
    told(&steps);
    let metadata = metadata(&steps);
    // The bitmap of a new block and its payload need no order; what refers to them follows a flush.
    out.extend(metadata.iter().filter(|io| io.part == Part::Bitmap));
    out.extend(extents.iter().filter_map(|extent| match extent.source {
        Source::File(at) => Some(FileIo { part: Part::Payload, at, len: extent.len, after_flush: false }),
        Source::Zeros | Source::Parent => None,
    }));
    out.extend(metadata.iter().filter(|io| io.part != Part::Bitmap));
    Ok(())
}

/// The writes of these steps, the first one behind each flush marked.
fn metadata(steps: &[Step]) -> Vec<FileIo> {
    let (mut out, mut after_flush) = (Vec::new(), false);
    for step in steps {
        let (part, at, len) = match step {
            Step::Flush => {
                after_flush = true;
                continue;
            }
            Step::Write { part, at, bytes } => (*part, *at, bytes.len() as u64),
            Step::Zero { part, at, len } => (*part, *at, *len),
        };
        out.push(FileIo { part, at, len, after_flush: std::mem::take(&mut after_flush) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhdx::{self, Guid, NewVhdx};

    fn parts(map: &mut dyn Map, at: u64, len: u64) -> Vec<(Part, u64)> {
        let mut io = Vec::new();
        write_through(map, at, len, &mut io).expect("room");
        // Only payload and metadata in whole pages: nothing of a VHDX is misaligned to 4 KiB.
        assert!(io.iter().all(|io| io.at.is_multiple_of(4096) && io.len.is_multiple_of(4096)), "{io:?}");
        io.iter().map(|io| (io.part, io.len)).collect()
    }

    #[test]
    fn what_refers_to_a_new_block_of_a_vhd_follows_a_flush() {
        let mut map = crate::vhd::DynamicMap::empty(100 << 20, crate::vhd::BLOCK_BYTES).expect("a map");
        let mut io = Vec::new();
        write_through(&mut map, 3 << 20, 65_536, &mut io).expect("room");
        let order: Vec<_> = io.iter().map(|io| (io.part, io.after_flush)).collect();
        let (bitmap, footer) = ((Part::Bitmap, false), (Part::Footer, false));
        assert_eq!(order, [bitmap, (Part::Payload, false), footer, (Part::Table, true)]);
    }

    #[test]
    fn a_new_block_of_a_vhdx_goes_through_its_log_and_what_is_there_costs_nothing() {
        let mut map = NewVhdx::new(100 << 30, [Guid::ZERO; 3]).map().expect("a size that VHDX can have");
        // The table entry in the log, and in place; the header announces the log once.
        let logged = [(Part::Payload, 65_536), (Part::Log, 8192), (Part::Header, 4096), (Part::Table, 4096)];
        assert_eq!(parts(&mut map, 1 << 30, 65_536), logged);
        assert_eq!(parts(&mut map, (1 << 30) + (31 << 20), 65_536), [(Part::Payload, 65_536)]);
        let again = [(Part::Payload, 65_536), (Part::Log, 8192), (Part::Table, 4096)];
        assert_eq!(parts(&mut map, 2 << 30, 65_536), again);
        // Across the border from an allocated block into an unallocated one: the new one is behind it, and
        // both are written at once.
        let border = (2 << 30) + u64::from(vhdx::BLOCK_BYTES);
        assert_eq!(
            parts(&mut map, border - 4096, 8192).iter().filter(|(part, _)| *part == Part::Payload).count(),
            1
        );
    }
}
