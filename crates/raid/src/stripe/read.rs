//! Reads: each unit from its drive, or reconstructed from the others of its row.

use std::pin::pin;
use std::rc::Rc;

use block::{BlockError, Buf, Data, Pieces};
use futures::future::{Either, select};
use parity::{Place, Role, Span, Unit, recover};
use smallvec::SmallVec;
use world::{BUF_LEN_MAX, DriveError, Filled, Io, Trace};

use super::Rows;
use crate::inner::Inner;

/// A requested part of a unit.
#[derive(Clone, Copy)]
struct Run {
    place: Place,
    position: u32,
    span: Span,
    /// The read that returns it; `None` if the drive is missing in the row.
    read: Option<(usize, usize)>,
}

/// Adjacent runs of one drive, read at once.
struct Extent {
    position: u32,
    from: u64,
    len: u64,
}

/// The outcome of a read from a slow drive.
enum Around {
    Recovered(Data),
    Answered(Filled),
}

impl Inner {
    pub(crate) async fn rows_read(
        self: &Rc<Self>,
        rows: &Rc<Rows>,
        trace: Option<&Trace>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let end = at + len as u64;
        let mut next = at;
        while next < end {
            let n = (end - next).min(BUF_LEN_MAX as u64);
            self.rows_read_step(rows, trace, next, n, out).await?;
            next += n;
        }
        Ok(())
    }

    async fn rows_read_step(
        self: &Rc<Self>,
        rows: &Rc<Rows>,
        trace: Option<&Trace>,
        at: u64,
        len: u64,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let (runs, extents) = self.plan_read(rows, at, len);
        let mut reads: SmallVec<[Io<Filled>; 8]> = SmallVec::new();
        for extent in &extents {
            let drive = self.members[extent.position as usize].taking_part().ok_or_else(|| self.failure())?;
            let io = drive.read(self.data_offset + extent.from, Buf::new(extent.len as usize));
            reads.push(io.traced(trace, "drive", &drive.info().name));
        }
        let mut filled: SmallVec<[Option<Data>; 8]> = SmallVec::new();
        for (extent, io) in extents.iter().zip(reads) {
            let Filled { buf, result } = match io.unless_slow().await {
                Ok(filled) => filled,
                Err(io) => match self.read_around(rows, extent, io).await? {
                    Around::Recovered(data) => {
                        filled.push(Some(data));
                        continue;
                    }
                    Around::Answered(filled) => filled,
                },
            };
            filled.push(match result {
                Ok(()) => Some(buf.freeze()),
                Err(error) if error.is_of_drive() => {
                    let (own, m) = (self.clone(), extent.position as usize);
                    self.overdue
                        .in_time(&self.world, async move { own.drop_member(m, &error).await })
                        .await?;
                    None
                }
                Err(_) => {
                    self.members[extent.position as usize].count_error();
                    None
                }
            });
        }
        for run in runs {
            let read = run.read.and_then(|(i, from)| filled[i].as_ref().map(|data| (data, from)));
            match read {
                Some((data, from)) => out.push(data.slice(from..from + run.span.len() as usize)),
                None => {
                    // The caller holds the row and may rewrite it.
                    let (own, rows) = (self.clone(), rows.clone());
                    out.push(
                        self.overdue
                            .in_time(&self.world, async move { own.read_recovered(&rows, run).await })
                            .await?,
                    );
                }
            }
        }
        Ok(())
    }

    /// Reconstructs the content of a slow drive from the others, unless the drive answers first. An error
    /// after the drive's deadline, if the group cannot do without it.
    async fn read_around(&self, rows: &Rows, extent: &Extent, io: Io<Filled>) -> Result<Around, BlockError> {
        let Some(drive) = self.members[extent.position as usize].drive.borrow().clone() else {
            return Ok(Around::Answered(io.await));
        };
        let late = self.world.sleep(drive.patience().drop);
        let recovered = pin!(self.recover_extent(rows, extent));
        let (io, late) = match select(select(recovered, io), late).await {
            Either::Left((Either::Left((Some(data), _)), _)) => return Ok(Around::Recovered(data)),
            Either::Left((Either::Left((None, io)), late)) => (io, late),
            Either::Left((Either::Right((filled, _)), _)) => return Ok(Around::Answered(filled)),
            Either::Right(_) => return Err(drive.silent().into()),
        };
        match select(io, late).await {
            Either::Left((filled, _)) => Ok(Around::Answered(filled)),
            Either::Right(_) => Err(drive.silent().into()),
        }
    }

    /// The content of an extent, reconstructed from the other drives of its rows while all of them answer.
    /// May be dropped at any time.
    async fn recover_extent(&self, rows: &Rows, extent: &Extent) -> Option<Data> {
        let mut whole = Buf::new(extent.len as usize);
        let (mut at, end, unit) = (extent.from, extent.from + extent.len, rows.unit());
        while at < end {
            let (row, within) = (at / unit, at % unit);
            let n = (unit - within).min(end - at);
            let span = Span::new(within as u32, (within + n) as u32);
            let _held = self.locks.exclusive(rows.range(row, row + 1)).await;
            let slow = (0..).zip(&self.members).filter(|(_, m)| m.is_slow());
            let out = slow.fold(1 << extent.position, |set, (p, _): (u32, _)| set | 1 << p);
            let known = self.known_units(rows, row, out)?;
            let begin = |p: u32| {
                let drive = self.in_row(rows, row, p)?;
                Some((p, drive.read(self.on_drive(rows, row, span.from), Buf::new(n as usize))))
            };
            let reads: Option<SmallVec<[_; 8]>> = known.into_iter().map(begin).collect();
            let mut units: SmallVec<[(u32, Buf); 8]> = SmallVec::new();
            for (p, io) in reads? {
                match io.unless_slow().await {
                    Ok(Filled { buf, result: Ok(()) }) => units.push((p, buf)),
                    _ => return None,
                }
            }
            let unit = recovered(rows, row, extent.position, span, &units);
            whole[(at - extent.from) as usize..][..n as usize].copy_from_slice(&unit);
            at += n;
        }
        Some(whole.freeze())
    }

    /// The parts of units in a range, and the reads that return them.
    fn plan_read(&self, rows: &Rows, at: u64, len: u64) -> (SmallVec<[Run; 8]>, SmallVec<[Extent; 8]>) {
        let (geometry, unit, end) = (&rows.geometry, rows.unit(), at + len);
        let mut runs: SmallVec<[Run; 8]> = SmallVec::new();
        let mut extents: SmallVec<[Extent; 8]> = SmallVec::new();
        let mut last = [None; crate::DRIVES_MAX];
        let mut next = at;
        while next < end {
            let place = geometry.locate(next);
            let n = (unit - u64::from(place.within)).min(end - next);
            let span = Span::new(place.within, place.within + n as u32);
            let position = geometry.drive_of(place.row, place.data);
            let from = geometry.row_on_drive(place.row) + u64::from(place.within);
            let read = (self.missing_in(rows, place.row) & 1 << position == 0).then(|| {
                let i = match last[position as usize] {
                    Some(i) if extents_meet(&extents, i, from) => i,
                    _ => {
                        extents.push(Extent { position, from, len: 0 });
                        extents.len() - 1
                    }
                };
                last[position as usize] = Some(i);
                extents[i].len += n;
                (i, (from - extents[i].from) as usize)
            });
            runs.push(Run { place, position, span, read });
            next += n;
        }
        (runs, extents)
    }

    /// Reconstructs the content of a drive. If the drive is present but cannot read the block, rewrites it.
    async fn read_recovered(&self, rows: &Rows, run: Run) -> Result<Data, BlockError> {
        let _held = self.locks.exclusive(rows.range(run.place.row, run.place.row + 1)).await;
        let buf = self.recover_span(rows, run.place.row, run.position, run.span).await?;
        let data = buf.freeze();
        match self.write_again(rows, run.place.row, run.position, run.span, data.clone()).await {
            // The block stays unreadable, and its content is known.
            Ok(()) | Err(BlockError::NoRoom { .. }) => Ok(data),
            Err(error) => Err(error),
        }
    }

    /// Rewrites an unreadable block with the reconstructed content. The caller holds the row.
    pub(crate) async fn write_again(
        &self,
        rows: &Rows,
        row: u64,
        position: u32,
        span: Span,
        data: Data,
    ) -> Result<(), BlockError> {
        let Some(drive) = self.in_row(rows, row, position) else { return Ok(()) };
        self.count_repair();
        match drive.write(self.on_drive(rows, row, span.from), data).await {
            Ok(()) => Ok(()),
            Err(error @ DriveError::NoRoom { .. }) => Err(error.into()),
            Err(error) => self.drop_member(position as usize, &error).await,
        }
    }

    /// The content of `span` of one unit (data or parity) of a row, reconstructed from as many other drives
    /// as there are data units, data first. The caller holds the row.
    pub(crate) async fn recover_span(
        &self,
        rows: &Rows,
        row: u64,
        position: u32,
        span: Span,
    ) -> Result<Buf, BlockError> {
        let mut unreadable = 1_u32 << position;
        loop {
            let known = self.known_units(rows, row, unreadable).ok_or_else(|| {
                let data = match rows.geometry.role_of(row, position) {
                    Role::Data(data) => data,
                    Role::P | Role::Q => 0,
                };
                let at = rows.geometry.address(Place { row, data, within: span.from });
                let cause = format!("group {}: too few readable drives in this stripe", self.name);
                BlockError::Unreadable { at, cause: cause.into() }
            })?;
            let mut reads: SmallVec<[(u32, Io<Filled>); 8]> = SmallVec::new();
            for p in known {
                let drive = self.in_row(rows, row, p).ok_or_else(|| self.failure())?;
                reads.push((
                    p,
                    drive.read(self.on_drive(rows, row, span.from), Buf::new(span.len() as usize)),
                ));
            }
            let mut units: SmallVec<[(u32, Buf); 8]> = SmallVec::new();
            let before = unreadable;
            for (p, io) in reads {
                let Filled { buf, result } = io.await;
                match result {
                    Ok(()) => units.push((p, buf)),
                    Err(error) => {
                        unreadable |= 1 << p;
                        if error.is_of_drive() {
                            self.drop_member(p as usize, &error).await?;
                        }
                    }
                }
            }
            if unreadable == before {
                return Ok(recovered(rows, row, position, span, &units));
            }
        }
    }

    /// The units from which any other unit of a row can be computed: as many as there are data units, parity
    /// only where data are missing. `None` if too few are left.
    fn known_units(&self, rows: &Rows, row: u64, unreadable: u32) -> Option<SmallVec<[u32; 32]>> {
        let geometry = &rows.geometry;
        let out = self.missing_in(rows, row) | unreadable;
        let data = (0..geometry.data_units()).map(|k| geometry.drive_of(row, k));
        let parity = std::iter::once(geometry.p_drive(row)).chain(geometry.q_drive(row));
        let there = data.chain(parity).filter(|p| out & 1 << p == 0);
        let known: SmallVec<[u32; 32]> = there.take(geometry.data_units() as usize).collect();
        (known.len() == geometry.data_units() as usize).then_some(known)
    }
}

fn extents_meet(extents: &[Extent], i: usize, from: u64) -> bool {
    extents[i].from + extents[i].len == from && extents[i].len < BUF_LEN_MAX as u64 / 2
}

/// Computes one unit from enough others, over their length.
pub(crate) fn recovered(rows: &Rows, row: u64, position: u32, span: Span, units: &[(u32, Buf)]) -> Buf {
    let geometry = &rows.geometry;
    let mut wanted = Buf::new(span.len() as usize);
    {
        let mut slot = Some(&mut wanted[..]);
        let mut unit = |p: Option<u32>| match p {
            Some(p) if p == position => Unit::Wanted(slot.take().expect("a drive has one unit of a row")),
            Some(p) => match units.iter().find(|(q, _)| *q == p) {
                Some((_, buf)) => Unit::Known(&buf[..]),
                None => Unit::Unknown,
            },
            None => Unit::Unknown,
        };
        let mut data: SmallVec<[Unit<'_>; 32]> =
            (0..geometry.data_units()).map(|k| unit(Some(geometry.drive_of(row, k)))).collect();
        let mut p = unit(Some(geometry.p_drive(row)));
        let mut q = unit(geometry.q_drive(row));
        recover(&mut data, &mut p, &mut q).expect("as many units are known as there are data units");
    }
    wanted
}
