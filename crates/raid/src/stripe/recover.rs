//! Recovery after a power failure: valid batches of the journal are written in place again; rows with intents
//! get new parity.

use std::collections::BTreeMap;

use block::{BlockError, Buf, Data};
use parity::Span;
use smallvec::SmallVec;
use world::{BUF_LEN_MAX, Drive, DriveError};

use super::Rows;
use super::journal::{Entry, Frame, Kind, await_failed, decode};
use super::read::recovered;
use super::rows::Operations;
use super::write::parities_of;
use crate::inner::Inner;
use crate::{BLOCK_LEN, GroupId};

/// A ring as read, with its frames.
struct Scanned {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
}

/// The recovery plan.
#[derive(Debug, Default, PartialEq, Eq)]
struct Replay {
    /// Entries to write in place, batch by batch: position and entry.
    batches: Vec<Vec<(u32, Entry)>>,
    /// Rows that were being overwritten: the checksums of their blocks, by position.
    intents: BTreeMap<u64, Vec<u32>>,
}

/// The valid batches: those that every present participant has completely, from the oldest that any of them
/// still needed.
fn decide(frames: &[&Frame], (group_id, epoch): (GroupId, u64), present: u32) -> Replay {
    let ours = || frames.iter().filter(|f| f.batch.group_id == group_id && f.batch.journal_epoch == epoch);
    let oldest = ours().map(|f| f.batch.oldest).max().unwrap_or(0);
    let mut batches: BTreeMap<u64, Vec<&Frame>> = BTreeMap::new();
    for frame in ours().filter(|f| f.batch.number >= oldest) {
        batches.entry(frame.batch.number).or_default().push(frame);
    }
    let mut replay = Replay::default();
    for frames in batches.values() {
        let has = frames.iter().fold(0, |set, f| set | 1 << f.position);
        if frames[0].batch.participants & present & !has != 0 {
            continue;
        }
        let mut entries = Vec::new();
        for (position, entry) in frames.iter().flat_map(|f| f.entries.iter().map(|e| (f.position, e))) {
            match &entry.kind {
                Kind::Intent(sums) => {
                    replay.intents.insert(entry.at, sums.clone());
                }
                Kind::Content(_) | Kind::Zeros => entries.push((position, entry.clone())),
            }
        }
        replay.batches.push(entries);
    }
    replay
}

impl Inner {
    /// Makes data and parity of all rows agree, from the journal. Called before any user operation; may be
    /// interrupted and repeated.
    pub(crate) async fn rows_recover(&self, rows: &Rows) -> Result<(), BlockError> {
        let mut rings: BTreeMap<u32, Scanned> = BTreeMap::new();
        for (position, member) in (0..).zip(&self.members) {
            let Some(drive) = member.taking_part() else { continue };
            match self.scan(rows, position, &drive).await {
                Ok(scanned) => drop(rings.insert(position, scanned)),
                // The ring of this drive cannot be read, so its data in place cannot be trusted.
                Err(error) => drop(self.mark_failed(position as usize, &error)),
            }
        }
        if !self.serves() {
            return Err(self.failure());
        }
        // A killed process left frames in the drives' caches. What is replayed from them must not become
        // durable before they are.
        self.settle(rows).await?;
        // A missing drive must not return after a power failure in the middle of this: with its frames, other
        // batches would be valid.
        self.relabel().await?;
        let there = (0..).zip(&self.members).filter(|(_, m)| m.taking_part().is_some());
        let present = there.fold(0, |set, (p, _): (u32, _)| set | 1 << p);
        let frames: Vec<&Frame> = rings.values().flat_map(|r| &r.frames).collect();
        let journal = (rows.journal.group_id(), rows.journal.epoch());
        let replay = decide(&frames, journal, present);
        if frames.iter().all(|f| f.batch.group_id != journal.0 || f.batch.journal_epoch != journal.1) {
            return Ok(());
        }
        for batch in &replay.batches {
            self.replay(&rings, batch).await?;
        }
        rows.journal.count(|c| c.replayed = replay.batches.iter().filter(|b| !b.is_empty()).count() as u64);
        let rows_end = self.data_len / rows.unit();
        for (row, sums) in replay.intents.range(..rows_end) {
            self.recover_row(rows, *row, sums).await?;
        }
        self.settle(rows).await?;
        rows.journal.begin_epoch();
        self.label_changed();
        Ok(())
    }

    /// Reads the ring of a drive and decodes its frames.
    async fn scan(&self, rows: &Rows, position: u32, drive: &Drive) -> Result<Scanned, DriveError> {
        let mut bytes = Vec::with_capacity(rows.journal.len() as usize);
        while (bytes.len() as u64) < rows.journal.len() {
            let n = (rows.journal.len() as usize - bytes.len()).min(BUF_LEN_MAX);
            let ended = drive.read(rows.journal.offset() + bytes.len() as u64, Buf::new(n)).await;
            ended.result?;
            bytes.extend_from_slice(&ended.buf);
        }
        let mut frames = Vec::new();
        let mut place = 0;
        while place < bytes.len() {
            match decode(&bytes, place, position, self.data_len) {
                Some(frame) if frame.is_aligned(drive.info().block_bytes) => {
                    place += frame.len as usize;
                    frames.push(frame);
                }
                _ => place += BLOCK_LEN as usize,
            }
        }
        Ok(Scanned { bytes, frames })
    }

    async fn replay(&self, rings: &BTreeMap<u32, Scanned>, batch: &[(u32, Entry)]) -> Result<(), BlockError> {
        let mut writes: Operations = SmallVec::new();
        for (position, entry) in batch {
            let Some(drive) = self.members[*position as usize].taking_part() else { continue };
            let at = self.data_offset + entry.at;
            match &entry.kind {
                Kind::Content(range) => {
                    let bytes = &rings[position].bytes[range.clone()];
                    writes.push((*position, drive.write(at, Data::copy_of(bytes))));
                }
                Kind::Zeros => writes.push((*position, drive.zero(at, entry.len))),
                Kind::Intent(_) => {}
            }
        }
        let failed = await_failed(writes).await;
        match failed.iter().find(|(_, error)| matches!(error, DriveError::NoRoom { .. })) {
            // It is repeated when the group is opened again.
            Some((_, full)) => Err(full.clone().into()),
            None => self.drop_all(failed).await,
        }
    }

    /// Recovers a full stripe that was being overwritten. If all data units are readable, the parity is
    /// computed again. If units are missing: a line of the row whose present blocks are all new determines
    /// the missing ones; any other line is lost.
    async fn recover_row(&self, rows: &Rows, row: u64, sums: &[u32]) -> Result<(), BlockError> {
        let (geometry, unit) = (&rows.geometry, rows.geometry.unit_bytes());
        let mut units: SmallVec<[(u32, Buf); 8]> = SmallVec::new();
        for position in 0..self.members.len() as u32 {
            let Some(drive) = self.in_row(rows, row, position) else { continue };
            let ended = drive.read(self.on_drive(rows, row, 0), Buf::new(unit as usize)).await;
            match ended.result {
                Ok(()) => units.push((position, ended.buf)),
                Err(error) if error.is_of_drive() => self.drop_member(position as usize, &error).await?,
                Err(_) => {}
            }
        }
        let unknown = (0..self.members.len() as u32).filter(|p| !units.iter().any(|(q, _)| q == p));
        let unknown: SmallVec<[u32; 2]> = unknown.collect();
        let missing_data = unknown.iter().any(|p| matches!(geometry.role_of(row, *p), parity::Role::Data(_)));
        for from in (0..unit).step_by(BLOCK_LEN as usize) {
            let span = Span::new(from, from + BLOCK_LEN as u32);
            if !missing_data {
                self.renew_parity(rows, row, span, &units).await?;
            } else if is_new(&units, sums, from) {
                self.write_unknown(rows, row, span, &unknown, &units).await?;
            } else {
                let set = unknown.iter().fold(0, |set, p| set | 1 << p);
                self.lose_line(rows, row, span, set).await?;
            }
        }
        Ok(())
    }

    async fn renew_parity(
        &self,
        rows: &Rows,
        row: u64,
        span: Span,
        units: &[(u32, Buf)],
    ) -> Result<(), BlockError> {
        let geometry = &rows.geometry;
        let line = |position: u32| {
            let unit = units.iter().find(|(p, _)| *p == position);
            unit.map(|(_, buf)| &buf[span.from as usize..span.to as usize])
        };
        let data: SmallVec<[&[u8]; 32]> =
            (0..geometry.data_units()).filter_map(|k| line(geometry.drive_of(row, k))).collect();
        for (position, buf) in parities_of(&data, (Some(geometry.p_drive(row)), geometry.q_drive(row))) {
            if line(position).is_none_or(|old| old[..] != buf[..]) {
                self.write_again(rows, row, position, span, buf.freeze()).await?;
            }
        }
        Ok(())
    }

    /// Units of drives that are present but could not be read.
    async fn write_unknown(
        &self,
        rows: &Rows,
        row: u64,
        span: Span,
        unknown: &[u32],
        units: &[(u32, Buf)],
    ) -> Result<(), BlockError> {
        let lines: SmallVec<[(u32, Buf); 8]> = units
            .iter()
            .map(|(p, buf)| (*p, Buf::copy_of(&buf[span.from as usize..span.to as usize])))
            .collect();
        for position in unknown.iter().filter(|p| self.in_row(rows, row, **p).is_some()) {
            let buf = recovered(rows, row, *position, span, &lines);
            self.write_again(rows, row, *position, span, buf.freeze()).await?;
        }
        Ok(())
    }
}

/// Whether all present blocks of a line are the new ones.
fn is_new(units: &[(u32, Buf)], sums: &[u32], from: u32) -> bool {
    units.iter().all(|(position, buf)| {
        let lines = buf.len() / BLOCK_LEN as usize;
        let line = from as usize / BLOCK_LEN as usize;
        let block = &buf[from as usize..from as usize + BLOCK_LEN as usize];
        let sum = sums.get(*position as usize * lines + line);
        sum.is_some_and(|sum| *sum == super::journal::checksum(block))
    })
}
