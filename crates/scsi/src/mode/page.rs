//! The mode pages, byte by byte.

use lu::LogicalDisk;

use super::modes::Changeable;
use crate::error::CommandError;
use crate::unit::LogicalUnit;
use crate::vpd::threshold_exponent;

/// PAGE CONTROL: the requested values (SPC-5 6.14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Current,
    /// A mask of the changeable bits.
    Changeable,
    Default,
    /// Saved values; the defaults for bits that cannot be saved.
    Saved,
}

/// Page and subpage of every page, in the order of MODE SENSE.
const PAGES: [(u8, u8); 6] = [(0x01, 0), (0x08, 0), (0x0a, 0), (0x0a, 0x01), (0x1c, 0), (0x1c, 0x02)];
/// The page that MODE SELECT can save (PS).
const SAVABLE: (u8, u8) = (0x08, 0);
/// All pages.
const ALL: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// The pages that match a page code and a subpage code.
pub(super) fn pages<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    code: u8,
    subpage: u8,
    which: Which,
) -> Result<Vec<u8>, CommandError> {
    if subpage != 0 && subpage != ALL_SUBPAGES && code == ALL {
        return Err(CommandError::field(3));
    }
    let asked =
        |&&(c, s): &&(u8, u8)| (code == ALL || c == code) && (subpage == ALL_SUBPAGES || s == subpage);
    let found: Vec<_> = PAGES.iter().filter(asked).filter_map(|&(c, s)| page(lu, c, s, which)).collect();
    if found.is_empty() {
        let known = PAGES.iter().any(|p| p.0 == code);
        return Err(if known { CommandError::field(3) } else { CommandError::field_bit(2, 5) });
    }
    if which == Which::Saved && code != ALL && code != SAVABLE.0 {
        return Err(CommandError::SavingNotSupported);
    }
    Ok(found.concat())
}

/// One page with its header; `None` if this LU does not have it.
pub(super) fn page<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    code: u8,
    subpage: u8,
    which: Which,
) -> Option<Vec<u8>> {
    let values = match which {
        Which::Current => lu.modes.now.get(),
        Which::Default => lu.modes.default,
        Which::Saved => lu.modes.saved.get(),
        Which::Changeable => Changeable { d_sense: true, swp: true, tas: true, write_through: false },
    };
    let ps = u8::from((code, subpage) == SAVABLE) << 7;
    // The mask of an unchangeable page is zero.
    let fixed = |byte: u8| if which == Which::Changeable { 0 } else { byte };
    let body = match (code, subpage) {
        (0x01, 0) => read_write_error_recovery(fixed),
        (0x08, 0) => caching(values),
        (0x0a, 0) => control(values, fixed),
        (0x0a, 0x01) => control_extension(fixed),
        // Informational exceptions (SPC-5 7.5.14): nothing is reported by itself, MRIE = 0.
        (0x1c, 0) => vec![0; 10],
        (0x1c, 0x02) => provisioning(lu, which)?,
        _ => return None,
    };
    let mut out = Vec::with_capacity(body.len() + 4);
    if subpage == 0 {
        out.extend([ps | code, body.len() as u8]);
    } else {
        // SPF.
        out.extend([ps | 0x40 | code, subpage]);
        out.extend((body.len() as u16).to_be_bytes());
    }
    out.extend(body);
    Some(out)
}

/// 01h (SBC-4 6.5.10): AWRE and ARRE, for the layers below repair what they read from redundancy.
fn read_write_error_recovery(fixed: impl Fn(u8) -> u8) -> Vec<u8> {
    let mut body = vec![0; 10];
    body[0] = fixed(0xc0);
    body
}

/// 08h (SBC-4 6.5.6): WCE.
fn caching(values: Changeable) -> Vec<u8> {
    let mut body = vec![0; 18];
    body[0] = u8::from(!values.write_through) << 2;
    body
}

/// 0Ah (SPC-5 7.5.10): one task set for all nexuses, unrestricted reordering, QERR = 0, no interlocked unit
/// attentions.
fn control(values: Changeable, fixed: impl Fn(u8) -> u8) -> Vec<u8> {
    let mut body = vec![0; 10];
    body[0] = u8::from(values.d_sense) << 2;
    body[1] = fixed(0x10);
    body[2] = u8::from(values.swp) << 3;
    body[3] = u8::from(values.tas) << 6;
    body
}

/// 0Ah/01h (SPC-5 7.5.11): IALUAE.
fn control_extension(fixed: impl Fn(u8) -> u8) -> Vec<u8> {
    let mut body = vec![0; 28];
    body[0] = fixed(0x01);
    body
}

/// 1Ch/02h (SBC-4 6.5.9): the pool's soft threshold as one enabled descriptor: armed while the used resources
/// grow.
fn provisioning<D: LogicalDisk>(lu: &LogicalUnit<D>, which: Which) -> Option<Vec<u8>> {
    lu.capabilities.page_bytes?;
    let mut body = vec![0; 20];
    if which != Which::Changeable {
        let space = lu.disk.space();
        let set_bytes = u64::from(lu.block_bytes()) << threshold_exponent(lu);
        let used = u128::from(space.pool_bytes) * u128::from(space.soft_threshold_percent) / 100;
        let count = u32::try_from(used / u128::from(set_bytes)).unwrap_or(u32::MAX);
        // ENABLED, population threshold, armed increasing; resource 02h: used LBA mapping resources.
        body[12..14].copy_from_slice(&[0x80 | 0x01, 0x02]);
        body[16..20].copy_from_slice(&count.to_be_bytes());
    }
    Some(body)
}
