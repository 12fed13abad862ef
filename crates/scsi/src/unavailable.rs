//! Logical units that are mapped and cannot be served now, because their drives are missing, for example.
//! LOGICAL UNIT NOT SUPPORTED would tell hosts that they are gone for good: some take every path away then,
//! and do not look again. NOT READY makes them wait, or report an error and look again.

use block::Pieces;
use lu::LogicalDisk;

use crate::cdb::Cdb;
use crate::context::cut;
use crate::error::CommandError;
use crate::nexus::TargetPort;
use crate::opcode::Handler;
use crate::unit::Unavailable;
use crate::view::View;
use crate::{condition, inquiry, report, vpd};

/// A command on it: those that a device server without its medium can answer (SPC-5 6.7.1, 6.36, 6.43), and
/// NOT READY or BUSY for all others.
pub(crate) fn execute<D: LogicalDisk>(
    view: &View<D>,
    (unit, port): (&Unavailable, &TargetPort),
    (handler, cdb): (Option<Handler>, &Cdb),
) -> Result<Pieces, CommandError> {
    let answer = match handler {
        Some(Handler::Inquiry) => inquiry(unit, port, cdb),
        Some(Handler::ReportLuns) => report::report_luns(view, cdb),
        Some(Handler::RequestSense) => {
            let reason = if unit.is_busy { CommandError::BecomingReady } else { CommandError::Unavailable };
            Ok(condition::request_sense_for(&reason, cdb))
        }
        _ => Err(CommandError::Unavailable),
    };
    match answer {
        Err(CommandError::Unavailable) if unit.is_busy => Err(CommandError::Busy),
        answer => answer,
    }
}

fn inquiry(unit: &Unavailable, port: &TargetPort, cdb: &Cdb) -> Result<Pieces, CommandError> {
    let (page, len) = (cdb.u8(2), cdb.uint(3, 2));
    match (cdb.bit(1, 0x01), &unit.identity) {
        (false, _) if page != 0 => Err(CommandError::field(2)),
        (false, identity) => Ok(inquiry::of_unavailable(identity.as_ref(), len)),
        // Which pages it has depends on what is not known.
        (true, None) => Err(CommandError::Unavailable),
        (true, Some(identity)) => Ok(cut(&vpd::page_of_unavailable(identity, port, page)?, len)),
    }
}
