//! Log pages: LOG SENSE and LOG SELECT (SPC-5 6.10, 6.11, 7.3; SBC-4 6.4).

use block::Pieces;
use lu::LogicalDisk;

use crate::attention::Attention;
use crate::context::{Context, cut};
use crate::counters::OpClass;
use crate::error::CommandError;
use crate::unit::LogicalUnit;
use crate::vpd::threshold_exponent;

/// The pages, in ascending order.
const PAGES: [u8; 6] = [0x00, 0x02, 0x03, 0x0c, 0x19, 0x2f];
/// All subpages of a page, or of all pages.
const ALL_SUBPAGES: u8 = 0xff;

/// Log parameters: code and value; bounded data counters or binary lists that are not saved.
type Parameters = Vec<(u16, Vec<u8>)>;

/// LOG SENSE. Only cumulative values exist (PC = 01b).
pub(crate) fn sense<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (cdb, lu) = (&ctx.cdb, ctx.lu());
    let (control, code, subpage, pointer) = (cdb.u8(2) >> 6, cdb.u8(2) & 0x3f, cdb.u8(3), cdb.u16(5));
    if control != 1 {
        return Err(CommandError::field_bit(2, 7));
    }
    let body = match (code, subpage) {
        (0x00, 0) => supported(lu).collect(),
        (0x00, ALL_SUBPAGES) => [[0x00, 0x00], [0x00, ALL_SUBPAGES]]
            .into_iter()
            .chain(supported(lu).skip(1).map(|p| [p, 0]))
            .flatten()
            .collect(),
        (_, 0) => encode(parameters(lu, code).ok_or(CommandError::field_bit(2, 5))?, pointer)?,
        _ => return Err(CommandError::field(3)),
    };
    // SPF.
    let mut out = vec![if subpage == 0 { code } else { 0x40 | code }, subpage];
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
    Ok(cut(&out, cdb.uint(7, 2)))
}

fn supported<D: LogicalDisk>(lu: &LogicalUnit<D>) -> impl Iterator<Item = u8> {
    let thin = lu.capabilities.page_bytes.is_some();
    PAGES.into_iter().filter(move |&p| p != 0x0c || thin)
}

/// The parameters from code `pointer` on (SPC-5 6.11).
fn encode(parameters: Parameters, pointer: u16) -> Result<Vec<u8>, CommandError> {
    if parameters.last().is_none_or(|p| p.0 < pointer) {
        return Err(CommandError::field(5));
    }
    let mut out = Vec::new();
    for (code, value) in parameters.into_iter().filter(|p| p.0 >= pointer) {
        out.extend(code.to_be_bytes());
        // FORMAT AND LINKING 11b: binary format list.
        out.extend([0x03, value.len() as u8]);
        out.extend(value);
    }
    Ok(out)
}

fn parameters<D: LogicalDisk>(lu: &LogicalUnit<D>, code: u8) -> Option<Parameters> {
    let counting = &lu.counting;
    let page = match code {
        0x02 => errors(counting.written_bytes.get(), counting.write_errors.get()),
        0x03 => errors(counting.read_bytes.get(), counting.read_errors.get()),
        0x0c => provisioning(lu)?,
        0x19 => performance(lu),
        // Informational exceptions (SPC-5 7.3.8): none; the temperature is not known (FFh).
        0x2f => vec![(0x0000, vec![0, 0, 0xff, 0])],
        _ => return None,
    };
    Some(page)
}

/// 02h and 03h (SPC-5 7.3.7): bytes and uncorrected errors. The layers below count their own corrected
/// errors.
fn errors(bytes: u64, uncorrected: u64) -> Parameters {
    vec![
        (0x0003, vec![0; 8]),
        (0x0005, bytes.to_be_bytes().to_vec()),
        (0x0006, uncorrected.to_be_bytes().to_vec()),
    ]
}

/// 0Ch (SBC-4 6.4.5): available and used LBA mapping resources, in threshold sets. Free space is the pool's
/// (scope 10b: shared with other LUs), used space is this LU's own (scope 01b).
fn provisioning<D: LogicalDisk>(lu: &LogicalUnit<D>) -> Option<Parameters> {
    lu.capabilities.page_bytes?;
    let (space, set_bytes) = (lu.disk.space(), u64::from(lu.block_bytes()) << threshold_exponent(lu));
    let resource = |bytes: u64, scope: u8| {
        let mut value = u32::try_from(bytes / set_bytes).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        value.extend([scope, 0, 0, 0]);
        value
    };
    Some(vec![(0x0001, resource(space.pool_free_bytes, 0x02)), (0x0002, resource(space.used_bytes, 0x01))])
}

/// 19h (SPC-5 7.3.12): general access statistics (0001h): commands and blocks each way. Idle time (0002h) and
/// the time interval that it counts in (0003h) are not kept and read as zero. They are present because
/// `sg_logs` does not decode a page without them.
fn performance<D: LogicalDisk>(lu: &LogicalUnit<D>) -> Parameters {
    let (counting, block) = (&lu.counting, u64::from(lu.block_bytes()));
    let commands = |class: OpClass| counting.commands[class as usize].get();
    let access = [
        commands(OpClass::Read),
        commands(OpClass::Write) + commands(OpClass::Zero) + commands(OpClass::Compare),
        // Received with writes, transmitted with reads.
        counting.written_bytes.get() / block,
        counting.read_bytes.get() / block,
        0,
        0,
        0,
        0,
    ];
    vec![
        (0x0001, access.iter().flat_map(|field| field.to_be_bytes()).collect()),
        (0x0002, vec![0; 8]),
        (0x0003, vec![0; 8]),
    ]
}

/// LOG SELECT: supports only the reset of all parameters to their defaults (PCR = 1), which clears the error
/// counters.
pub(crate) fn select<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (cdb, lu) = (&ctx.cdb, ctx.lu());
    if cdb.bit(1, 0x01) {
        return Err(CommandError::field_bit(1, 0));
    }
    if cdb.uint(7, 2) != 0 {
        return Err(CommandError::field(7));
    }
    if cdb.bit(1, 0x02) {
        lu.counting.read_errors.clear();
        lu.counting.write_errors.clear();
        lu.raise_for_others(ctx.seat.nexus.id, Attention::LogParametersChanged);
    }
    Ok(Pieces::new())
}
