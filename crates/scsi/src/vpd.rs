//! Vital product data pages (SPC-5 7.7, SBC-4 6.6).

use lu::LogicalDisk;

use crate::context::Context;
use crate::designator::{Association, designator, name_string, target_device};
use crate::error::CommandError;
use crate::extended_copy;
use crate::inquiry::text;
use crate::limits;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::nexus::TargetPort;
use crate::unit::{Identity, LogicalUnit};

/// The pages, in ascending order as page 00h lists them.
const PAGES: [u8; 8] = [0x00, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2];

/// A VPD page, whole.
pub(crate) fn page<D: LogicalDisk>(ctx: &Context<'_, D>, code: u8) -> Result<Vec<u8>, CommandError> {
    let lu = ctx.lu();
    if !has(lu, code) {
        return Err(CommandError::field(2));
    }
    let body = match code {
        0x00 => PAGES.into_iter().filter(|page| has(lu, *page)).collect(),
        0x80 => serial(&lu.identity),
        0x83 => identification(&lu.identity, &ctx.seat.nexus.port),
        0x86 => extended_inquiry(),
        0x8f => extended_copy::third_party_copy_descriptors(lu.block_bytes()),
        0xb0 => block_limits(lu).to_vec(),
        0xb1 => characteristics(lu),
        0xb2 => provisioning(lu).to_vec(),
        _ => return Err(CommandError::field(2)),
    };
    Ok(with_header(code, &body))
}

/// The pages of a logical unit that cannot be served now: those that tell which one it is.
pub(crate) fn page_of_unavailable(
    identity: &Identity,
    port: &TargetPort,
    code: u8,
) -> Result<Vec<u8>, CommandError> {
    let body = match code {
        0x00 => vec![0x00, 0x80, 0x83],
        0x80 => serial(identity),
        0x83 => identification(identity, port),
        _ if PAGES.contains(&code) => return Err(CommandError::Unavailable),
        _ => return Err(CommandError::field(2)),
    };
    Ok(with_header(code, &body))
}

fn with_header(code: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0, code];
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
    out
}

/// Tokens need records, which this medium does not have.
fn has<D: LogicalDisk>(lu: &LogicalUnit<D>, page: u8) -> bool {
    page != 0x8f || lu.capabilities.keeps_records
}

/// 80h: unit serial number. The field is as long as the number: a longer one would have to be right-justified
/// (SPC-5 7.7).
fn serial(identity: &Identity) -> Vec<u8> {
    let mut out = vec![0; identity.serial.len()];
    text(&mut out, &identity.serial);
    out
}

/// 83h: device identification. The logical unit first, so that a host with a short buffer gets it.
fn identification(identity: &Identity, port: &TargetPort) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    designator(&mut out, Association::Unit, 3, 1, &identity.naa);
    let mut t10 = [b' '; 8 + 32];
    text(&mut t10[..8], &identity.vendor);
    text(&mut t10[8..], &identity.serial);
    designator(&mut out, Association::Unit, 1, 2, &t10);
    let [high, low] = port.relative_id.to_be_bytes();
    designator(&mut out, Association::Port, 4, 1, &[0, 0, high, low]);
    let [high, low] = port.group.to_be_bytes();
    designator(&mut out, Association::Port, 5, 1, &[0, 0, high, low]);
    let naa: String = identity.naa.iter().map(|b| format!("{b:02x}")).collect();
    designator(&mut out, Association::Unit, 8, 3, &name_string(&format!("naa.{naa}")));
    designator(&mut out, Association::Port, 8, 3, &name_string(&port.name()));
    out.extend(target_device(&port.target));
    out
}

/// 86h: extended INQUIRY data.
fn extended_inquiry() -> Vec<u8> {
    let mut out = vec![0; 60];
    // HEADSUP, ORDSUP, SIMPSUP.
    out[1] = 0x07;
    // V_SUP: there may be a volatile cache.
    out[2] = 0x01;
    // LUICLR: REPORT LUNS clears its unit attention on every LU of the nexus.
    out[3] = 0x01;
    out
}

/// B0h: block limits (SBC-4 6.6.4).
fn block_limits<D: LogicalDisk>(lu: &LogicalUnit<D>) -> [u8; 60] {
    let block = u64::from(lu.block_bytes());
    let blocks = |bytes: u64| (bytes / block) as u32;
    let mut out = [0; 60];
    let mut put = |at: usize, value: u32| out[at - 4..at].copy_from_slice(&value.to_be_bytes());
    // Offsets below are of the page; the body begins at byte 4. WSNZ = 0: WRITE SAME of 0 blocks goes to the
    // end.
    let granularity = 1 << lu.identity.physical_block_exponent.min(15);
    put(4, (limits::COMPARE_AND_WRITE_BLOCKS_MAX as u32) << 16 | granularity);
    put(8, blocks(TRANSFER_BYTES_MAX));
    put(12, blocks(limits::OPTIMAL_TRANSFER_BYTES));
    put(16, blocks(TRANSFER_BYTES_MAX));
    if let Some(page) = lu.capabilities.page_bytes {
        put(20, limits::UNMAP_BLOCKS_MAX as u32);
        put(24, limits::UNMAP_DESCRIPTORS_MAX as u32);
        put(28, blocks(page.min(limits::UNMAP_GRANULARITY_BYTES_MAX)).max(1));
        // UGAVALID, alignment 0.
        put(32, 0x8000_0000);
    }
    put(40, blocks(limits::WRITE_SAME_BYTES_MAX));
    put(44, if lu.capabilities.keeps_records { blocks(limits::ATOMIC_BYTES_MAX) } else { 0 });
    out
}

/// B1h: block device characteristics (SBC-4 6.6.2).
fn characteristics<D: LogicalDisk>(lu: &LogicalUnit<D>) -> Vec<u8> {
    let mut out = vec![0; 60];
    // Non-rotating disk.
    out[1] = 0x01;
    // WABEREQ = 01b: after a block erase every block can be read (as zeros). 00b: there is none.
    out[3] = if lu.capabilities.keeps_records { 0x40 } else { 0 };
    // VBULS: VERIFY compares unmapped blocks, too.
    out[4] = 0x01;
    out
}

/// The threshold exponent: one threshold set is one page (SBC-4 6.6.6), or more where a pool has more than
/// 2^32 pages.
pub(crate) fn threshold_exponent<D: LogicalDisk>(lu: &LogicalUnit<D>) -> u8 {
    let Some(page) = lu.capabilities.page_bytes else { return 0 };
    let blocks = (page / u64::from(lu.block_bytes())).max(1);
    let mut exponent = blocks.ilog2().max(1);
    let pool_blocks = lu.disk.space().pool_bytes / u64::from(lu.block_bytes());
    while pool_blocks >> exponent > u64::from(u32::MAX) {
        exponent += 1;
    }
    exponent as u8
}

/// B2h: logical block provisioning (SBC-4 6.6.6).
fn provisioning<D: LogicalDisk>(lu: &LogicalUnit<D>) -> [u8; 4] {
    if lu.capabilities.page_bytes.is_none() {
        return [0; 4];
    }
    // LBPU, LBPWS, LBPWS10, LBPRZ = 001b (unmapped blocks read as zeros); no anchoring; thin.
    [threshold_exponent(lu), 0x80 | 0x40 | 0x20 | 0x04, 0x02, 0]
}
