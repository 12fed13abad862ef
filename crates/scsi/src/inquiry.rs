//! INQUIRY: standard data (SPC-5 6.7); the VPD pages are in [`crate::vpd`].

use block::Pieces;
use lu::LogicalDisk;

use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::unit::Identity;
use crate::vpd;

/// SPC-5 6.7.2 up to the version descriptors, and what is reserved after them.
const STANDARD_LEN: usize = 96;

/// Version descriptors (SPC-5 6.7.2, table of values; no revision claimed): SAM-5, iSCSI, SPC-4, SBC-3,
/// SPC-5, SBC-4.
const VERSION_DESCRIPTORS: [u16; 6] = [0x00a0, 0x0960, 0x0460, 0x04c0, 0x05c0, 0x0600];

/// PERIPHERAL QUALIFIER 011b, device type 1Fh: no device can be here.
const NO_DEVICE: u8 = 0x7f;

/// Left-justified, padded with spaces, printable ASCII only (SPC-5 4.3.1).
pub(crate) fn text(to: &mut [u8], from: &str) {
    to.fill(b' ');
    for (to, from) in to.iter_mut().zip(from.bytes().filter(|b| (0x20..0x7f).contains(b))) {
        *to = from;
    }
}

fn standard(first: u8, identity: Option<&Identity>) -> [u8; STANDARD_LEN] {
    let mut out = [0; STANDARD_LEN];
    out[0] = first;
    // SPC-4: the latest version whose code every host knows.
    out[2] = 0x06;
    // HISUP, response data format 2.
    out[3] = 0x12;
    out[4] = (STANDARD_LEN - 5) as u8;
    // TPGS = 01b (implicit ALUA), 3PC.
    out[5] = 0x18;
    // MULTIP.
    out[6] = 0x10;
    // CMDQUE.
    out[7] = 0x02;
    text(&mut out[8..16], identity.map_or("MASU", |i| &i.vendor));
    text(&mut out[16..32], identity.map_or("", |i| &i.product));
    text(&mut out[32..36], identity.map_or("", |i| &i.revision));
    for (at, version) in out[58..74].chunks_exact_mut(2).zip(VERSION_DESCRIPTORS) {
        at.copy_from_slice(&version.to_be_bytes());
    }
    out
}

/// INQUIRY on a logical unit.
pub(crate) fn inquiry<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (vital, page, allocation_len) = (ctx.cdb.bit(1, 0x01), ctx.cdb.u8(2), ctx.cdb.uint(3, 2));
    if vital {
        return Ok(cut(&vpd::page(ctx, page)?, allocation_len));
    }
    if page != 0 {
        return Err(CommandError::field(2));
    }
    let mut data = standard(0, Some(&ctx.lu().identity));
    if ctx.lu().may_be_moved() {
        // TPGS = 11b: explicit ALUA, too.
        data[5] |= 0x20;
    }
    Ok(cut(&data, allocation_len))
}

/// Standard INQUIRY data of a logical unit that cannot be served now: as ever, so that hosts keep it.
pub(crate) fn of_unavailable(identity: Option<&Identity>, allocation_len: u64) -> Pieces {
    let usual = Identity::of(0, 0);
    cut(&standard(0, Some(identity.unwrap_or(&usual))), allocation_len)
}

/// INQUIRY on a LUN without a logical unit (SPC-5 6.7.1): standard data only.
pub(crate) fn without_unit(cdb: &crate::cdb::Cdb) -> Result<Pieces, CommandError> {
    if cdb.bit(1, 0x01) || cdb.u8(2) != 0 {
        return Err(CommandError::field(2));
    }
    Ok(cut(&standard(NO_DEVICE, None), cdb.uint(3, 2)))
}
