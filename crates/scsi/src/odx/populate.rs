//! POPULATE TOKEN (SBC-4 5.10): freezes ranges of a logical unit and returns a token for them.

use std::time::Duration;

use block::{LockMode, Pieces};
use lu::LogicalDisk;

use super::limits::{INACTIVITY_S_DEFAULT, INACTIVITY_S_MAX, TOKEN_BYTES_MAX};
use super::ranges::{self, Range};
use super::store::Rods;
use super::token::{Facts, RodType, Token};
use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::extended_copy::sense_of;

/// The length of the parameter list before the range descriptors.
pub(super) const FIXED_LEN: usize = 16;
/// The service action.
pub(super) const ACTION: u8 = 0x10;

/// A parsed list. IMMED has no effect: freezing ranges is a metadata operation, so the token exists when the
/// command ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) idle_max: Duration,
    pub(super) ranges: Vec<Range>,
}

impl List {
    pub(super) fn parse(bytes: &[u8]) -> Result<List, CommandError> {
        let ranges = ranges::parse(bytes, FIXED_LEN)?;
        let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let idle_s = match u32_at(4) {
            0 => INACTIVITY_S_DEFAULT,
            s if s <= INACTIVITY_S_MAX => s,
            _ => return Err(CommandError::parameter(4)),
        };
        let (type_is_valid, rod_type) = (bytes[2] & 0x02 != 0, RodType(u32_at(8)));
        if type_is_valid && rod_type != RodType::POINT_IN_TIME && rod_type != RodType::POINT_IN_TIME_ANY {
            return Err(CommandError::parameter(8));
        }
        Ok(List { idle_max: Duration::from_secs(u64::from(idle_s)), ranges })
    }
}

pub(crate) async fn populate_token<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    if ctx.cdb.u32(10) == 0 {
        return Ok(Pieces::new());
    }
    let bytes = ctx.list()?;
    let list = List::parse(&bytes)?;
    let spans = ranges::spans(ctx.lu(), &list.ranges, TOKEN_BYTES_MAX, FIXED_LEN)?;
    let running = ctx.view.copies_lid4.begin((ctx.seat.lun, ctx.cdb.u32(6)), ACTION)?;
    let result = freeze(ctx, &spans).await.map(|rods| {
        let (bytes, count) = (rods.bytes, spans.len() as u16);
        let token = make(ctx, list.idle_max, rods);
        running.update(|op| (op.bytes, op.segments, op.token) = (bytes, count, Some(Box::new(token))));
    });
    running.end(&result, |error| sense_of(ctx.lu(), error));
    result.map(|()| Pieces::new())
}

/// Freezes all ranges at one point in time: everything between the first and the last waits meanwhile, after
/// running commands have ended.
async fn freeze<D: LogicalDisk>(ctx: &Context<'_, D>, spans: &[Span]) -> Result<Rods<D>, CommandError> {
    let used = || spans.iter().filter(|s| s.len > 0);
    let from = used().map(|s| s.at).min().unwrap_or(0);
    let to = used().map(|s| s.at + s.len).max().unwrap_or(0);
    let _locked = ctx.lock(Span { at: from, len: to - from }, LockMode::Exclusive).await?;
    let mut rods = Rods { list: Vec::with_capacity(spans.len()), bytes: 0 };
    for span in used() {
        let rod = ctx.lu().disk.take_rod(ctx.task.context(), span.at, span.len).await?;
        rods.list.push((rod, span.len));
        rods.bytes += span.len;
        ctx.go_on()?;
    }
    Ok(rods)
}

fn make<D: LogicalDisk>(ctx: &Context<'_, D>, idle_max: Duration, rods: Rods<D>) -> Token {
    let lu = ctx.lu();
    let facts = Facts {
        target: &ctx.view.port.target,
        naa: lu.identity.naa,
        bytes: rods.bytes,
        block_bytes: lu.block_bytes(),
        physical_block_exponent: lu.identity.physical_block_exponent,
        thin: lu.capabilities.page_bytes.is_some(),
    };
    ctx.view.tokens.make(&facts, &ctx.seat.nexus.initiator.name, idle_max, rods)
}
