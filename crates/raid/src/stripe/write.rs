//! Writes: hold the rows, plan, read as planned, journal, write in place.

use std::rc::Rc;

use block::{BlockError, Buf, Data, Pieces};
use parity::{Plan, Span, Way, mul_xor_into, p, pq, q, q_coefficient, xor_into};
use smallvec::SmallVec;
use world::{Drive, DriveError, Filled, Io, OpenSpan, Trace};

use super::Rows;
use super::change::{Change, Intent, New, Piece};
use super::journal::checksum;
use super::read::recovered;
use crate::inner::Inner;
use crate::segments::{self, SEGMENT_BYTES_MAX, Segment};

/// Whole rows of zeros in one change: an entry for each drive, but a note for each row.
const ZERO_ROWS_MAX: u64 = 4096;

/// Full stripes in one change of an optimal group, for which the journal gets only checksums.
const FULL_ROWS_MAX: u64 = 64;

/// Rows in one change whose content goes to the journal.
fn content_rows_max(rows: &Rows) -> u64 {
    (rows.journal.content_max() / (rows.unit() + crate::BLOCK_LEN)).max(1)
}

/// A row before its write.
struct RowWrite {
    plan: Plan,
    /// The new content of each data unit.
    new: SmallVec<[(u32, Span, Data); 8]>,
    reads: SmallVec<[(u32, Span, Io<Filled>); 8]>,
}

/// The planned reads of a row, by position.
type Old = SmallVec<[(u32, Buf); 8]>;

impl Inner {
    pub(crate) async fn rows_write(
        &self,
        rows: &Rows,
        trace: Option<&Trace>,
        at: u64,
        data: &Pieces,
    ) -> Result<(), BlockError> {
        let row = rows.geometry.row_bytes();
        let (mut next, end) = (at, at + data.len() as u64);
        while next < end {
            let rows_max = if self.is_optimal() { FULL_ROWS_MAX } else { content_rows_max(rows) };
            let n = ((next / row + rows_max) * row).min(end) - next;
            let part = data.slice((next - at) as usize, n as usize);
            if self.write_rows(rows, trace, next, &part).await? {
                next += n;
            }
        }
        Ok(())
    }

    /// Writes rows that fit in one batch. Returns `false` if they no longer fit because a drive failed.
    async fn write_rows(
        &self,
        rows: &Rows,
        trace: Option<&Trace>,
        at: u64,
        data: &Pieces,
    ) -> Result<bool, BlockError> {
        let (first, end) = rows.touched(at, data.len() as u64);
        let _held = self.locks.exclusive(rows.range(first, end)).await;
        loop {
            if !self.serves() {
                return Err(self.failure());
            }
            let (optimal, many) = (self.is_optimal(), end - first > content_rows_max(rows));
            if many && !optimal {
                return Ok(false);
            }
            // A row with content in the journal gets its content there again; for many rows that would be too
            // much.
            while many && (first..end).any(|row| rows.journal.has_content(row)) {
                self.settle_older(rows).await?;
            }
            let Some(change) = self.compute(rows, trace, (at, data), optimal).await? else { continue };
            self.part_from_intents(rows, first..end, &change).await?;
            if self.make(rows, trace, Rc::new(change), optimal).await? {
                return Ok(true);
            }
        }
    }

    /// Zeroes a range: whole rows as zeros, the partial rows before and after as data.
    pub(crate) async fn rows_zero(&self, rows: &Rows, at: u64, len: u64) -> Result<(), BlockError> {
        let row = rows.geometry.row_bytes();
        let end = at + len;
        let (first, last) = (at.next_multiple_of(row).min(end), (end / row * row).max(at));
        if first >= last {
            return self.write_zeros(rows, at, len).await;
        }
        self.write_zeros(rows, at, first - at).await?;
        let mut next = first / row;
        while next < last / row {
            let step = (self.zeros_end(next * row, last) / row).max(next + 1) - next;
            let n = step.min(ZERO_ROWS_MAX);
            let _turn = self.zeros_turn(n * row).await;
            self.zero_rows(rows, next, next + n).await?;
            next += n;
        }
        self.write_zeros(rows, last, end - last).await
    }

    async fn write_zeros(&self, rows: &Rows, at: u64, len: u64) -> Result<(), BlockError> {
        if len == 0 {
            return Ok(());
        }
        let mut zeros = Pieces::new();
        zeros.push_zeros(len as usize);
        self.rows_write(rows, None, at, &zeros).await
    }

    /// Zeros on all drives: the parity of zeros is zeros.
    async fn zero_rows(&self, rows: &Rows, first: u64, end: u64) -> Result<(), BlockError> {
        let _held = self.locks.exclusive(rows.range(first, end)).await;
        let mut change = Change::default();
        for position in 0..self.members.len() as u32 {
            // The drive that is being rebuilt participates up to its mark. Zeros beyond it would do harm: a
            // replay would write them over rebuilt data.
            let active = self.members[position as usize].active().is_some();
            let filled = self.rebuilding.get().filter(|(p, _)| *p == position).map_or(0, |(_, to)| to);
            let until = if active { end } else { end.min(filled / rows.unit()) };
            if first < until {
                change.push(position, first * rows.unit(), New::Zeros((until - first) * rows.unit()));
            }
        }
        self.part_from_intents(rows, first..end, &change).await?;
        self.make(rows, None, Rc::new(change), false).await.map(drop)
    }

    /// The journal must not have both checksums and content of a row: before content, the data of the
    /// checksums are made durable in place.
    async fn part_from_intents(
        &self,
        rows: &Rows,
        touched: std::ops::Range<u64>,
        change: &Change,
    ) -> Result<(), BlockError> {
        let unit = rows.unit();
        let with_content = |row: u64| {
            change.pieces.iter().any(|p| {
                !matches!(p.new, New::Unlogged(_))
                    && p.at < (row + 1) * unit
                    && row * unit < p.at + p.new.len()
            })
        };
        for row in touched {
            while rows.journal.has_intent(row) && with_content(row) {
                self.settle_older(rows).await?;
            }
        }
        Ok(())
    }

    /// Journals a change and writes it in place. Returns `false` if a drive failed in between, so that
    /// checksums in the journal are no longer enough: the full stripes must be written again. Content in the
    /// journal is written in place nevertheless, because a recovery would write it: the next writer of these
    /// rows must find it.
    async fn make(
        &self,
        rows: &Rows,
        trace: Option<&Trace>,
        change: Rc<Change>,
        optimal: bool,
    ) -> Result<bool, BlockError> {
        let journalling = OpenSpan::begin(trace, "stripe_journal", &self.name);
        let ticket = self.journal(rows, &change).await?;
        drop(journalling);
        let whole = !optimal || change.intents.is_empty() || self.is_optimal();
        let _changing = self.changing_all(change.pieces.iter().map(|p| p.at..p.at + p.new.len()));
        let runs = in_place(&change, self.members.len() as u32, whole);
        let outcome = self
            .carry_out(&runs, |run| {
                let drive = self.members[run[0].position as usize].taking_part()?;
                let io = write_run(&drive, self.data_offset + run[0].at, run);
                Some((run[0].position, io.traced(trace, "drive", &drive.info().name)))
            })
            .await;
        rows.journal.placed(ticket);
        outcome.map(|()| whole)
    }

    /// The change of a write, with the parity. `None` if a drive failed meanwhile: the write must be planned
    /// again. The caller holds the rows.
    async fn compute(
        &self,
        rows: &Rows,
        trace: Option<&Trace>,
        (at, data): (u64, &Pieces),
        optimal: bool,
    ) -> Result<Option<Change>, BlockError> {
        let (first, end) = rows.touched(at, data.len() as u64);
        let mut begun = Vec::with_capacity((end - first) as usize);
        for row in first..end {
            begun.push(self.begin_row(rows, trace, row, (at, data))?);
        }
        let mut change = Change::default();
        for RowWrite { plan, new, reads } in begun {
            let Some(old) = self.end_reads(rows, plan.row, reads).await? else { return Ok(None) };
            let parities = new_parities(rows, &plan, &new, old);
            let intent = optimal && plan.way == Way::FullRow && !rows.journal.has_content(plan.row);
            if intent {
                change.intents.push(intent_of(rows, plan.row, &new, &parities));
            }
            let wrap = |data: Data| if intent { New::Unlogged(data) } else { New::Content(data) };
            let on_drive = rows.geometry.row_on_drive(plan.row);
            let missing = self.missing_in(rows, plan.row);
            for (k, span, data) in new {
                let position = rows.geometry.drive_of(plan.row, k);
                if missing & 1 << position == 0 {
                    change.push(position, on_drive + u64::from(span.from), wrap(data));
                }
            }
            for (position, buf) in parities {
                change.push(position, on_drive + u64::from(plan.hull.from), wrap(buf.freeze()));
            }
        }
        Ok(Some(change))
    }

    /// Plans a row and starts its reads.
    fn begin_row(
        &self,
        rows: &Rows,
        trace: Option<&Trace>,
        row: u64,
        (at, data): (u64, &Pieces),
    ) -> Result<RowWrite, BlockError> {
        let geometry = &rows.geometry;
        let (row_at, unit, end) = (row * geometry.row_bytes(), rows.unit(), at + data.len() as u64);
        let mut written: SmallVec<[Span; 32]> = SmallVec::new();
        let mut new = SmallVec::new();
        for k in 0..geometry.data_units() {
            let unit_at = row_at + u64::from(k) * unit;
            let (from, to) = (at.clamp(unit_at, unit_at + unit), end.clamp(unit_at, unit_at + unit));
            if from >= to {
                written.push(Span::NONE);
                continue;
            }
            let span = Span::new((from - unit_at) as u32, (to - unit_at) as u32);
            written.push(span);
            new.push((k, span, data.slice((from - at) as usize, span.len() as usize).joined()));
        }
        let missing = self.missing_in(rows, row);
        let plan = Plan::new(geometry, row, &written, missing).ok_or_else(|| self.failure())?;
        let mut reads = SmallVec::new();
        for (position, span) in plan.reads() {
            let drive = self.in_row(rows, row, position).ok_or_else(|| self.failure())?;
            let io = drive.read(self.on_drive(rows, row, span.from), Buf::new(span.len() as usize));
            reads.push((position, span, io.traced(trace, "drive", &drive.info().name)));
        }
        Ok(RowWrite { plan, new, reads })
    }

    /// Waits for the reads of a row. Unreadable blocks are reconstructed and rewritten. `None` if a drive is
    /// gone.
    async fn end_reads(
        &self,
        rows: &Rows,
        row: u64,
        reads: SmallVec<[(u32, Span, Io<Filled>); 8]>,
    ) -> Result<Option<Old>, BlockError> {
        let mut old = Old::new();
        let mut unreadable: SmallVec<[(u32, Span); 2]> = SmallVec::new();
        let mut gone = false;
        for (position, span, io) in reads {
            let Filled { buf, result } = io.await;
            match result {
                Ok(()) => old.push((position, buf)),
                Err(error) if error.is_of_drive() => {
                    self.drop_member(position as usize, &error).await?;
                    gone = true;
                }
                Err(_) => {
                    self.members[position as usize].count_error();
                    unreadable.push((position, span));
                }
            }
        }
        if gone {
            return Ok(None);
        }
        for (position, span) in unreadable {
            let buf = self.recover_span(rows, row, position, span).await?;
            let again = Buf::copy_of(&buf).freeze();
            self.write_again(rows, row, position, span, again).await?;
            old.push((position, buf));
        }
        Ok(Some(old))
    }

    pub(crate) async fn rows_flush(&self, rows: &Rows) -> Result<(), BlockError> {
        self.settle(rows).await?;
        // If another operation dropped a drive meanwhile, or lost ranges were written, the write is
        // acknowledged only after the labels record it.
        self.relabel().await
    }
}

/// The checksums of a full stripe's new content.
fn intent_of(rows: &Rows, row: u64, new: &[(u32, Span, Data)], parities: &[(u32, Buf)]) -> Intent {
    let (geometry, lines) = (&rows.geometry, (rows.unit() / crate::BLOCK_LEN) as usize);
    let mut sums = vec![0; geometry.width() as usize * lines];
    let units = new.iter().map(|(k, _, data)| (geometry.drive_of(row, *k), &data[..]));
    for (position, unit) in units.chain(parities.iter().map(|(position, buf)| (*position, &buf[..]))) {
        let blocks = unit.chunks(crate::BLOCK_LEN as usize);
        sums[position as usize * lines..].iter_mut().zip(blocks).for_each(|(sum, b)| *sum = checksum(b));
    }
    Intent { row, sums }
}

/// Adjacent pieces of one drive; pieces of zeros stay separate.
type Run<'a> = SmallVec<[&'a Piece; 16]>;

/// The writes in place of a change, drive by drive; adjacent ones are joined. Without `whole`, only those
/// whose content is in the journal.
fn in_place(change: &Change, width: u32, whole: bool) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::with_capacity(change.pieces.len());
    for position in 0..width {
        let first = runs.len();
        let takes =
            |piece: &&Piece| piece.position == position && (whole || !matches!(piece.new, New::Unlogged(_)));
        for piece in change.pieces.iter().filter(takes) {
            match runs[first..].last_mut() {
                Some(run) if follows(run, piece) => run.push(piece),
                _ => runs.push(SmallVec::from_slice(&[piece])),
            }
        }
    }
    runs
}

/// Whether a piece can join a run.
fn follows(run: &Run<'_>, piece: &Piece) -> bool {
    let last = run[run.len() - 1];
    let zeros = |p: &Piece| matches!(p.new, New::Zeros(_));
    !zeros(last)
        && !zeros(piece)
        && last.at + last.new.len() == piece.at
        && piece.at + piece.new.len() - run[0].at <= SEGMENT_BYTES_MAX as u64
}

fn write_run(drive: &Drive, at: u64, run: &Run<'_>) -> Io<Result<(), DriveError>> {
    if let [Piece { new: New::Zeros(len), .. }] = run[..] {
        return drive.zero(at, *len);
    }
    let data = |piece: &&Piece| match &piece.new {
        New::Content(data) | New::Unlogged(data) => Some(data.clone()),
        New::Zeros(_) => None,
    };
    segments::write(drive, at, &run.iter().filter_map(data).collect::<Segment>())
}

/// The parities of a row over the plan's hull, for the drives that are present.
fn new_parities(
    rows: &Rows,
    plan: &Plan,
    new: &[(u32, Span, Data)],
    mut old: Old,
) -> SmallVec<[(u32, Buf); 2]> {
    let geometry = &rows.geometry;
    let there = |position: &u32| !plan.write(*position).is_empty();
    let p_drive = Some(geometry.p_drive(plan.row)).filter(there);
    let q_drive = geometry.q_drive(plan.row).filter(there);
    match plan.way {
        Way::NoParity => SmallVec::new(),
        Way::ReadModifyWrite => modified(rows, plan, new, old, (p_drive, q_drive)),
        Way::FullRow if new.iter().all(|(_, _, data)| data.is_shared_zeros()) => {
            zero_parities(plan.hull, (p_drive, q_drive))
        }
        Way::FullRow => {
            let units: SmallVec<[&[u8]; 32]> = new.iter().map(|(_, _, data)| &data[..]).collect();
            parities_of(&units, (p_drive, q_drive))
        }
        Way::Reconstruct | Way::Recover => {
            if plan.way == Way::Recover {
                recover_missing(rows, plan, &mut old);
            }
            let units: SmallVec<[Buf; 32]> =
                (0..geometry.data_units()).map(|k| overlaid(rows, plan, k, new, &old)).collect();
            if units.iter().all(Buf::is_shared_zeros) {
                return zero_parities(plan.hull, (p_drive, q_drive));
            }
            let units: SmallVec<[&[u8]; 32]> = units.iter().map(|u| &u[..]).collect();
            parities_of(&units, (p_drive, q_drive))
        }
    }
}

/// The parity of zeros is zeros; nothing is computed.
fn zero_parities(hull: Span, (p_drive, q_drive): (Option<u32>, Option<u32>)) -> SmallVec<[(u32, Buf); 2]> {
    p_drive.into_iter().chain(q_drive).map(|drive| (drive, Buf::shared_zeros(hull.len() as usize))).collect()
}

/// Parity from all data units.
pub(crate) fn parities_of(
    units: &[&[u8]],
    (p_drive, q_drive): (Option<u32>, Option<u32>),
) -> SmallVec<[(u32, Buf); 2]> {
    let len = units[0].len();
    let mut out = SmallVec::new();
    match (p_drive, q_drive) {
        (Some(p_drive), Some(q_drive)) => {
            let (mut p_buf, mut q_buf) = (Buf::new(len), Buf::new(len));
            pq(units, &mut p_buf, &mut q_buf);
            out.push((p_drive, p_buf));
            out.push((q_drive, q_buf));
        }
        (Some(p_drive), None) => {
            let mut p_buf = Buf::new(len);
            p(units, &mut p_buf);
            out.push((p_drive, p_buf));
        }
        (None, Some(q_drive)) => {
            let mut q_buf = Buf::new(len);
            q(units, &mut q_buf);
            out.push((q_drive, q_buf));
        }
        (None, None) => {}
    }
    out
}

/// Parity from the old parity and the changes.
fn modified(
    rows: &Rows,
    plan: &Plan,
    new: &[(u32, Span, Data)],
    mut old: Old,
    (p_drive, q_drive): (Option<u32>, Option<u32>),
) -> SmallVec<[(u32, Buf); 2]> {
    let mut take = |position: u32| {
        let i = old.iter().position(|(p, _)| *p == position).expect("the plan had it read");
        old.swap_remove(i).1
    };
    let mut p_buf = p_drive.map(|d| (d, take(d)));
    let mut q_buf = q_drive.map(|d| (d, take(d)));
    for (k, span, data) in new {
        let mut delta = take(rows.geometry.drive_of(plan.row, *k));
        if !data.is_shared_zeros() {
            xor_into(&mut delta, data);
        }
        if delta.is_shared_zeros() {
            continue;
        }
        let within = (span.from - plan.hull.from) as usize..(span.to - plan.hull.from) as usize;
        if let Some((_, p_buf)) = &mut p_buf {
            xor_into(&mut p_buf[within.clone()], &delta);
        }
        if let Some((_, q_buf)) = &mut q_buf {
            mul_xor_into(&mut q_buf[within], &delta, q_coefficient(*k as usize));
        }
    }
    p_buf.into_iter().chain(q_buf).collect()
}

/// Reconstructs the missing data units, over the hull.
fn recover_missing(rows: &Rows, plan: &Plan, old: &mut Old) {
    let geometry = &rows.geometry;
    let missing = (0..geometry.data_units()).map(|k| geometry.drive_of(plan.row, k));
    let missing: SmallVec<[u32; 2]> = missing.filter(|d| !old.iter().any(|(p, _)| p == d)).collect();
    for position in missing {
        let buf = recovered(rows, plan.row, position, plan.hull, old);
        old.push((position, buf));
    }
}

/// The new content of a data unit over the hull: what was read, overlaid with what is written.
fn overlaid(rows: &Rows, plan: &Plan, k: u32, new: &[(u32, Span, Data)], old: &Old) -> Buf {
    let position = rows.geometry.drive_of(plan.row, k);
    let read = old.iter().find(|(p, _)| *p == position);
    let written = new.iter().filter(|(n, _, _)| *n == k);
    if read.is_none_or(|(_, buf)| buf.is_shared_zeros())
        && written.clone().all(|(_, _, data)| data.is_shared_zeros())
    {
        return Buf::shared_zeros(plan.hull.len() as usize);
    }
    let mut unit = Buf::new(plan.hull.len() as usize);
    if let Some((_, buf)) = read {
        // A reconstructed unit has the whole hull.
        let read = plan.read(position);
        let from = if read.is_empty() { 0 } else { (read.from - plan.hull.from) as usize };
        unit[from..from + buf.len()].copy_from_slice(buf);
    }
    for (_, span, data) in written {
        let from = (span.from - plan.hull.from) as usize;
        unit[from..from + data.len()].copy_from_slice(data);
    }
    unit
}
