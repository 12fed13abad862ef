//! Mode parameters: MODE SENSE and MODE SELECT (SPC-5 6.13 to 6.16, 7.5).

mod page;
mod select;

use std::cell::Cell;

use block::{BlockError, Pieces};
use lu::LogicalDisk;
pub(crate) use select::select;

use crate::dispatch::{Context, cut};
use crate::error::CommandError;
use crate::unit::LogicalUnit;
use page::Which;

/// The record of a medium with WCE, 0 or 1 in one byte, when a host has saved it.
const RECORD: &str = "modes";

/// The mode parameters that can change. Shared by all nexuses (the mode page policy is "shared"). WCE can be saved (PS of its
/// page) and is then what power on and a reset bring back; of the rest that is the default.
pub(crate) struct Modes {
    now: Cell<Changeable>,
    saved: Cell<Changeable>,
    default: Changeable,
}

/// What MODE SELECT can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changeable {
    d_sense: bool,
    swp: bool,
    tas: bool,
    write_through: bool,
}

impl Modes {
    /// After power on: what was saved with the disk.
    pub(crate) fn load<D: LogicalDisk>(disk: &D) -> Modes {
        let default =
            Changeable { write_through: !disk.capabilities().volatile_cache, ..Changeable::default() };
        let write_through = match disk.load_record(RECORD).as_deref() {
            Some([wce]) => *wce == 0,
            _ => default.write_through,
        };
        let saved = Changeable { write_through, ..default };
        Modes { now: Cell::new(saved), saved: Cell::new(saved), default }
    }

    /// Saves what can be saved of the present values.
    async fn save<D: LogicalDisk>(&self, disk: &D) -> Result<(), BlockError> {
        let saved = Changeable { write_through: self.now.get().write_through, ..self.default };
        disk.save_record(RECORD, &[u8::from(!saved.write_through)]).await?;
        self.saved.set(saved);
        Ok(())
    }

    /// D_SENSE of the control mode page.
    pub(crate) fn descriptor_sense(&self) -> bool {
        self.now.get().d_sense
    }

    /// SWP of the control mode page.
    pub(crate) fn software_write_protect(&self) -> bool {
        self.now.get().swp
    }

    /// TAS of the control mode page: commands that another nexus aborted end with TASK ABORTED.
    pub(crate) fn task_aborted_status(&self) -> bool {
        self.now.get().tas
    }

    /// WCE = 0 in the caching mode page: every write is flushed before it ends.
    pub(crate) fn write_through(&self) -> bool {
        self.now.get().write_through
    }

    /// Back to what was saved, as after power on.
    pub(crate) fn reset(&self) {
        self.now.set(self.saved.get());
    }
}

/// DEVICE-SPECIFIC PARAMETER (SBC-4 6.5.1): WP and DPOFUA.
fn device_specific<D: LogicalDisk>(lu: &LogicalUnit<D>) -> u8 {
    u8::from(lu.check_writable().is_err()) << 7 | 0x10
}

/// The mode parameter block descriptor (SBC-4 6.5.2), short or long.
fn block_descriptor<D: LogicalDisk>(lu: &LogicalUnit<D>, long: bool) -> Vec<u8> {
    let block = lu.block_bytes().to_be_bytes();
    let mut out = Vec::with_capacity(16);
    if long {
        out.extend(lu.blocks().to_be_bytes());
        out.extend([0; 4]);
    } else {
        out.extend(u32::try_from(lu.blocks()).unwrap_or(u32::MAX).to_be_bytes());
    }
    // The short form has three bytes of block length behind a reserved one, which a length under 16 MiB leaves 0.
    out.extend(block);
    out
}

/// MODE SENSE(6) and (10).
pub(crate) fn sense<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (cdb, lu) = (&ctx.cdb, ctx.lu());
    let ten = cdb.opcode() == 0x5a;
    let which = match cdb.u8(2) >> 6 {
        0 => Which::Current,
        1 => Which::Changeable,
        2 => Which::Default,
        _ => Which::Saved,
    };
    let pages = page::pages(lu, cdb.u8(2) & 0x3f, cdb.u8(3), which)?;
    let long = ten && cdb.bit(1, 0x10);
    let descriptor = if cdb.bit(1, 0x08) { Vec::new() } else { block_descriptor(lu, long) };
    let mut out = Vec::with_capacity(256);
    if ten {
        out.extend(((6 + descriptor.len() + pages.len()) as u16).to_be_bytes());
        out.extend([0, device_specific(lu), u8::from(long), 0]);
        out.extend((descriptor.len() as u16).to_be_bytes());
    } else {
        let len = u8::try_from(3 + descriptor.len() + pages.len()).unwrap_or(u8::MAX);
        out.extend([len, 0, device_specific(lu), descriptor.len() as u8]);
    }
    out.extend(descriptor);
    out.extend(pages);
    Ok(cut(&out, if ten { cdb.uint(7, 2) } else { cdb.uint(4, 1) }))
}
