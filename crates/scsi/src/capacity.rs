//! READ CAPACITY(10) and (16), GET LBA STATUS, READ DEFECT DATA: properties of the medium.

use block::Pieces;
use lu::LogicalDisk;

use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::turns::Turns;

/// READ CAPACITY(10), SBC-4 5.20.
pub(crate) fn read_capacity_10<D: LogicalDisk>(ctx: &Context<'_, D>) -> Pieces {
    let lu = ctx.lu();
    let last = u32::try_from(lu.blocks().saturating_sub(1)).unwrap_or(u32::MAX);
    let mut out = [0; 8];
    out[..4].copy_from_slice(&last.to_be_bytes());
    out[4..].copy_from_slice(&lu.block_bytes().to_be_bytes());
    Pieces::copy_of(&out)
}

/// READ CAPACITY(16), SBC-4 5.21.
pub(crate) fn read_capacity_16<D: LogicalDisk>(ctx: &Context<'_, D>) -> Pieces {
    let lu = ctx.lu();
    let mut out = [0; 32];
    out[..8].copy_from_slice(&lu.blocks().saturating_sub(1).to_be_bytes());
    out[8..12].copy_from_slice(&lu.block_bytes().to_be_bytes());
    out[13] = lu.identity.physical_block_exponent & 0x0f;
    if lu.capabilities.page_bytes.is_some() {
        // LBPME, LBPRZ.
        out[14] = 0xc0;
    }
    cut(&out, ctx.cdb.uint(10, 4))
}

/// Most descriptors in one response, which then stays under 64 KiB.
const DESCRIPTORS_MAX: u64 = 4095;
/// Most state queries of one command: alternating runs are cut, and the host asks again.
const EXTENTS_MAX: usize = 65_536;

/// A descriptor: LBA, blocks, whether they are mapped.
type Run = (u64, u64, bool);

/// GET LBA STATUS, SBC-4 5.6: runs of equal state from the requested LBA on.
pub(crate) async fn get_lba_status<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let lu = ctx.lu();
    let (start, allocation_len) = (ctx.cdb.u64(2), ctx.cdb.uint(10, 4));
    if start >= lu.blocks() {
        return Err(CommandError::LbaOutOfRange);
    }
    let block = u64::from(lu.block_bytes());
    let room = (allocation_len.saturating_sub(8) / 16).clamp(1, DESCRIPTORS_MAX) as usize;
    let mut runs: Vec<Run> = Vec::new();
    let (mut lba, turns) = (start, Turns::default());
    for _ in 0..EXTENTS_MAX {
        turns.step().await;
        ctx.go_on()?;
        if lba >= lu.blocks() {
            break;
        }
        let extent = lu.disk.extent(lba * block);
        let blocks = (extent.len_bytes / block).clamp(1, lu.blocks() - lba);
        if !describe(&mut runs, room, (lba, blocks, extent.mapped)) {
            break;
        }
        lba += blocks;
    }
    let mut out = Vec::with_capacity(8 + runs.len() * 16);
    out.extend((4 + runs.len() as u32 * 16).to_be_bytes());
    out.extend([0; 4]);
    for (lba, blocks, mapped) in runs {
        out.extend(lba.to_be_bytes());
        out.extend((blocks as u32).to_be_bytes());
        // PROVISIONING STATUS: 0 mapped, 1 deallocated.
        out.extend([u8::from(!mapped), 0, 0, 0]);
    }
    Ok(cut(&out, allocation_len))
}

/// Adds the descriptors of an extent, of which one may need several: their block count has 32 bits. `false`:
/// there is no room for all.
fn describe(runs: &mut Vec<Run>, room: usize, (mut lba, mut blocks, mapped): Run) -> bool {
    let most = u64::from(u32::MAX);
    if let Some(run) = runs.last_mut().filter(|run| run.2 == mapped) {
        let more = blocks.min(most - run.1);
        run.1 += more;
        (lba, blocks) = (lba + more, blocks - more);
    }
    while blocks > 0 && runs.len() < room {
        let here = blocks.min(most);
        runs.push((lba, here, mapped));
        (lba, blocks) = (lba + here, blocks - here);
    }
    blocks == 0
}

/// READ DEFECT DATA(10) and (12), SBC-4 5.22: the array hides the defects of its drives; both lists are valid
/// and empty.
pub(crate) fn read_defect_data<D: LogicalDisk>(ctx: &Context<'_, D>) -> Pieces {
    let cdb = &ctx.cdb;
    if cdb.opcode() == 0x37 {
        cut(&[0, cdb.u8(2) & 0x1f, 0, 0], cdb.uint(7, 2))
    } else {
        cut(&[0, cdb.u8(1) & 0x1f, 0, 0, 0, 0, 0, 0], cdb.uint(6, 4))
    }
}
