//! One step of a rebuild or a scrub of rows. The rows are held.

use block::{BlockError, Buf, Data};
use futures::future::join_all;
use parity::{Fit, Place, Role, Span, fits, locate};
use smallvec::SmallVec;

use super::Rows;
use super::write::parities_of;
use crate::BLOCK_LEN;
use crate::contents::{Contents, is_zero};
use crate::inner::Inner;
use crate::upkeep::Scrubbed;

impl Inner {
    /// Rebuilds the drive at `position` from `from` on, in whole units: from the other drives, or with zeros
    /// where zeros are known. Then advances the mark. Returns the length.
    pub(crate) async fn rows_rebuild_step(
        &self,
        rows: &Rows,
        position: usize,
        from: u64,
    ) -> Result<u64, BlockError> {
        let row = |at: u64| at / rows.unit();
        let drive = self.members[position].rebuilding();
        let range = |len| rows.range(row(from), row(from + len));
        let (len, all_zeros) = self.plan_step(drive.as_ref(), from, range);
        let _held = self.locks.exclusive(range(len)).await;
        if all_zeros && self.contents_of(range(len)) == Contents::Zeros {
            self.fill_zeros(position, from, len).await?;
            self.rebuilt(position, from..from + len);
            return Ok(len);
        }
        // The range may have been written since it was known to be zeros: take only an ordinary step.
        let len = len.min(self.rebuild_step());
        let fills =
            (row(from)..row(from + len)).map(async |r| match self.contents_of(rows.range(r, r + 1)) {
                Contents::Zeros => self.fill_zeros(position, r * rows.unit(), rows.unit()).await,
                Contents::Kept | Contents::Free => self.rebuild_row(rows, r, position as u32).await,
            });
        join_all(fills).await.into_iter().collect::<Result<(), _>>()?;
        self.rebuilt(position, from..from + len);
        Ok(len)
    }

    async fn rebuild_row(&self, rows: &Rows, row: u64, position: u32) -> Result<(), BlockError> {
        let whole = Span::new(0, rows.geometry.unit_bytes());
        match self.recover_span(rows, row, position, whole).await {
            Ok(buf) if self.is_cheaply_zero(position, &buf) => {
                self.fill_zeros(position as usize, row * rows.unit(), rows.unit()).await
            }
            Ok(buf) => self.fill_span(rows, row, position, whole.from, buf.freeze()).await,
            Err(BlockError::Unreadable { .. }) => self.rebuild_blocks(rows, row, position).await,
            Err(error) => Err(error),
        }
    }

    fn is_cheaply_zero(&self, position: u32, bytes: &[u8]) -> bool {
        let drive = self.members[position as usize].rebuilding();
        drive.is_some_and(|d| d.info().cheap_zero) && is_zero(bytes)
    }

    /// Rebuilds a row with an unreadable block on another drive: block by block, to lose as little as
    /// possible.
    async fn rebuild_blocks(&self, rows: &Rows, row: u64, position: u32) -> Result<(), BlockError> {
        for from in (0..rows.geometry.unit_bytes()).step_by(BLOCK_LEN as usize) {
            let span = Span::new(from, from + BLOCK_LEN as u32);
            match self.recover_span(rows, row, position, span).await {
                Ok(buf) => self.fill_span(rows, row, position, from, buf.freeze()).await?,
                Err(BlockError::Unreadable { .. }) => {
                    self.lose_line(rows, row, span, 1 << position).await?;
                    let zeros = Buf::zeroed(BLOCK_LEN as usize);
                    self.fill_span(rows, row, position, from, zeros.freeze()).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn fill_span(
        &self,
        rows: &Rows,
        row: u64,
        position: u32,
        from: u32,
        data: Data,
    ) -> Result<(), BlockError> {
        let Some(drive) = self.members[position as usize].taking_part() else { return Ok(()) };
        match drive.write(self.on_drive(rows, row, from), data).await {
            Ok(()) => Ok(()),
            Err(error) => self.drop_member(position as usize, &error).await,
        }
    }

    /// Handles a line of a row (one block of every unit) that cannot be reconstructed because its drive is
    /// one of `unknown` or cannot read it: the data are recorded as lost and become zeros, and parity
    /// follows. The caller holds the row.
    pub(crate) async fn lose_line(
        &self,
        rows: &Rows,
        row: u64,
        span: Span,
        unknown: u32,
    ) -> Result<(), BlockError> {
        let geometry = &rows.geometry;
        let mut units: SmallVec<[Buf; 32]> = SmallVec::new();
        let mut zeroed: SmallVec<[u32; 4]> = SmallVec::new();
        for k in 0..geometry.data_units() {
            let position = geometry.drive_of(row, k);
            let read = match self.in_row(rows, row, position).filter(|_| unknown & 1 << position == 0) {
                Some(drive) => {
                    let ended =
                        drive.read(self.on_drive(rows, row, span.from), Buf::new(span.len() as usize));
                    let ended = ended.await;
                    match ended.result {
                        Ok(()) => Some(ended.buf),
                        // Not lost yet: try the row again without the drive.
                        Err(error) if error.is_of_drive() => {
                            self.drop_member(position as usize, &error).await?;
                            return Err(error.into());
                        }
                        Err(_) => None,
                    }
                }
                None => None,
            };
            units.push(match read {
                Some(buf) => buf,
                None => {
                    let at = geometry.address(Place { row, data: k, within: span.from });
                    self.lose(at, span.len().into()).await?;
                    zeroed.push(position);
                    Buf::zeroed(span.len() as usize)
                }
            });
        }
        for position in zeroed {
            let zeros = Buf::zeroed(span.len() as usize).freeze();
            self.write_line(rows, row, position, span, zeros).await?;
        }
        let units: SmallVec<[&[u8]; 32]> = units.iter().map(|u| &u[..]).collect();
        for (position, buf) in parities_of(&units, (Some(geometry.p_drive(row)), geometry.q_drive(row))) {
            self.write_line(rows, row, position, span, buf.freeze()).await?;
        }
        Ok(())
    }

    /// Writes a block of a unit in place, if its drive participates.
    async fn write_line(
        &self,
        rows: &Rows,
        row: u64,
        position: u32,
        span: Span,
        data: Data,
    ) -> Result<(), BlockError> {
        let _changing = self.changing(row * rows.unit()..(row + 1) * rows.unit());
        match self.in_row(rows, row, position) {
            Some(_) => self.fill_span(rows, row, position, span.from, data).await,
            None => Ok(()),
        }
    }

    /// Compares data and parity of the rows in `from..from + len` (whole units) of the drives' data, and
    /// repairs what is known to be wrong.
    pub(crate) async fn rows_scrub_step(
        &self,
        rows: &Rows,
        from: u64,
        len: u64,
        scrubbed: &mut Scrubbed,
    ) -> Result<(), BlockError> {
        let (first, end) = (from / rows.unit(), (from + len) / rows.unit());
        let _held = self.locks.exclusive(rows.range(first, end)).await;
        for row in first..end {
            self.scrub_row(rows, row, scrubbed).await?;
        }
        Ok(())
    }

    async fn scrub_row(&self, rows: &Rows, row: u64, scrubbed: &mut Scrubbed) -> Result<(), BlockError> {
        let whole = Span::new(0, rows.geometry.unit_bytes());
        let there = (0..self.members.len() as u32).filter_map(|p| Some((p, self.in_row(rows, row, p)?)));
        let reads: SmallVec<[_; 32]> = there
            .map(|(p, drive)| (p, drive.read(self.on_drive(rows, row, 0), Buf::new(whole.len() as usize))))
            .collect();
        let mut units: SmallVec<[(u32, Buf); 32]> = SmallVec::new();
        let mut unreadable: SmallVec<[u32; 2]> = SmallVec::new();
        for (position, io) in reads {
            let ended = io.await;
            match ended.result {
                Ok(()) => units.push((position, ended.buf)),
                Err(error) if error.is_of_drive() => self.drop_member(position as usize, &error).await?,
                Err(_) => unreadable.push(position),
            }
        }
        scrubbed.compared_bytes += units.len() as u64 * u64::from(whole.len());
        for position in &unreadable {
            self.scrub_unreadable(rows, row, *position, scrubbed).await?;
        }
        // Missing units cannot be compared, and repaired ones match.
        if units.len() == self.members.len() {
            for from in (0..whole.len()).step_by(BLOCK_LEN as usize) {
                self.scrub_line(rows, row, Span::new(from, from + BLOCK_LEN as u32), &units, scrubbed)
                    .await?;
            }
        }
        Ok(())
    }

    /// Finds the unreadable blocks of a unit and rewrites them from the others.
    async fn scrub_unreadable(
        &self,
        rows: &Rows,
        row: u64,
        position: u32,
        scrubbed: &mut Scrubbed,
    ) -> Result<(), BlockError> {
        for from in (0..rows.geometry.unit_bytes()).step_by(BLOCK_LEN as usize) {
            let Some(drive) = self.in_row(rows, row, position) else { return Ok(()) };
            let ended = drive.read(self.on_drive(rows, row, from), Buf::new(BLOCK_LEN as usize)).await;
            if ended.result.is_ok() {
                continue;
            }
            let span = Span::new(from, from + BLOCK_LEN as u32);
            match self.recover_span(rows, row, position, span).await {
                Ok(buf) => {
                    scrubbed.repaired += 1;
                    self.write_again(rows, row, position, span, buf.freeze()).await?;
                }
                Err(BlockError::Unreadable { .. }) => scrubbed.unrepaired += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn scrub_line(
        &self,
        rows: &Rows,
        row: u64,
        span: Span,
        units: &[(u32, Buf)],
        scrubbed: &mut Scrubbed,
    ) -> Result<(), BlockError> {
        let geometry = &rows.geometry;
        let line = |position: u32| {
            let (_, buf) = units.iter().find(|(p, _)| *p == position).expect("all units were read");
            &buf[span.from as usize..span.to as usize]
        };
        let data: SmallVec<[&[u8]; 32]> =
            (0..geometry.data_units()).map(|k| line(geometry.drive_of(row, k))).collect();
        let p_drive = geometry.p_drive(row);
        let fit = match geometry.q_drive(row) {
            None if fits(&data, line(p_drive)) => Fit::Whole,
            None => Fit::Several,
            Some(q_drive) => locate(&data, line(p_drive), line(q_drive)),
        };
        let _changing =
            (!matches!(fit, Fit::Whole)).then(|| self.changing(row * rows.unit()..(row + 1) * rows.unit()));
        match fit {
            Fit::Whole => return Ok(()),
            Fit::Wrong(Role::Data(k)) => {
                let position = geometry.drive_of(row, k);
                let buf = self.recover_span(rows, row, position, span).await?;
                self.fill_span(rows, row, position, span.from, buf.freeze()).await?;
            }
            // The content is not in use: free ranges and zeros become zeros, and so does their parity.
            Fit::Several if self.contents_of(rows.range(row, row + 1)) != Contents::Kept => {
                for position in 0..self.members.len() as u32 {
                    let zeros = Buf::zeroed(span.len() as usize).freeze();
                    self.fill_span(rows, row, position, span.from, zeros).await?;
                }
            }
            // Level 5, or two drives: a unit is wrong, and redundancy cannot decide which.
            Fit::Several => {
                scrubbed.differs(geometry.address(Place { row, data: 0, within: span.from }));
                return Ok(());
            }
            Fit::Wrong(Role::P | Role::Q) => {
                for (position, buf) in parities_of(&data, (Some(p_drive), geometry.q_drive(row))) {
                    self.fill_span(rows, row, position, span.from, buf.freeze()).await?;
                }
            }
        }
        scrubbed.mismatches += 1;
        scrubbed.repaired += 1;
        self.count_repair();
        Ok(())
    }
}
