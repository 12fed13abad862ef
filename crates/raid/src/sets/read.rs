//! Reads: from the least loaded mirror; from another one if it fails. Where mirrors may differ, from the
//! preferred one.

use block::{BlockError, Buf, Data, Pieces};
use smallvec::SmallVec;
use world::{BUF_LEN_MAX, DriveError, Filled, Io, Trace};

use super::{Extent, Sets};
use crate::BLOCK_LEN;
use crate::inner::Inner;

/// A read in flight, and its member.
struct Begun {
    extent: Extent,
    member: usize,
    io: Io<Filled>,
}

impl Inner {
    pub(crate) async fn sets_read(
        &self,
        sets: &Sets,
        trace: Option<&Trace>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let end = at + len as u64;
        let mut next = at;
        while next < end {
            let n = (end - next).min(BUF_LEN_MAX as u64);
            self.sets_read_step(sets, trace, next, n, out).await?;
            next += n;
        }
        Ok(())
    }

    async fn sets_read_step(
        &self,
        sets: &Sets,
        trace: Option<&Trace>,
        at: u64,
        len: u64,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let mut begun: SmallVec<[Begun; 4]> = SmallVec::new();
        for extent in sets.extents(at, len).flat_map(|extent| self.parts_to_read(sets, extent)) {
            let member = self.choose_mirror(sets, extent, &[]).ok_or_else(|| self.failure())?;
            let io = self.begin_read(member, trace, extent)?;
            begun.push(Begun { extent, member, io });
        }
        let mut filled: SmallVec<[(Extent, Data); 4]> = SmallVec::new();
        for Begun { extent, member, io } in begun {
            let data = match io.unless_slow().await {
                Ok(ended) => self.end_read(member, ended),
                Err(io) => match self.read_other_mirror(sets, extent, member).await {
                    Some(data) => {
                        self.count_read_ended(member);
                        Ok(data)
                    }
                    None => self.end_read(member, io.await),
                },
            };
            let data = match data {
                Ok(data) => data,
                Err(error) => self.read_elsewhere(sets, extent, member, error).await?,
            };
            filled.push((extent, data));
        }
        if sets.count == 1 || filled.len() == 1 {
            filled.into_iter().for_each(|(_, data)| out.push(data));
            return Ok(());
        }
        for run in sets.runs(at, len) {
            // Parts end where units do.
            let (extent, data) = filled
                .iter()
                .find(|(e, _)| e.set == run.set && (e.from..e.from + e.len).contains(&run.from))
                .expect("every run lies in an extent");
            let from = (run.from - extent.from) as usize;
            out.push(data.slice(from..from + run.len as usize));
        }
        Ok(())
    }

    /// Reads from another mirror while `slow` is unresponsive. `None` if mirrors may differ there: then only
    /// the preferred one counts, until it is dropped.
    async fn read_other_mirror(&self, sets: &Sets, extent: Extent, slow: usize) -> Option<Data> {
        if self.is_pinned(extent.from, extent.len) {
            return None;
        }
        let answers = |m: &usize| *m != slow && !self.members[*m].is_slow();
        for m in sets.members(extent.set).filter(answers) {
            let Some(drive) = self.members[m].active() else { continue };
            let io = drive.read(self.data_offset + extent.from, Buf::new(extent.len as usize));
            if let Ok(Filled { buf, result: Ok(()) }) = io.unless_slow().await {
                return Some(buf.freeze());
            }
        }
        None
    }

    /// Reads from the remaining mirrors after `member` failed, and rewrites its unreadable blocks.
    async fn read_elsewhere(
        &self,
        sets: &Sets,
        extent: Extent,
        member: usize,
        error: DriveError,
    ) -> Result<Data, BlockError> {
        if self.is_pinned(extent.from, extent.len) && !error.is_of_drive() && extent.len > BLOCK_LEN {
            return Box::pin(self.read_blocks(sets, extent)).await;
        }
        let mut unreadable: SmallVec<[usize; 2]> = SmallVec::new();
        let mut failed = (member, error);
        loop {
            let (m, error) = failed;
            match &error {
                error if error.is_of_drive() => self.drop_member(m, error).await?,
                _ => {
                    self.members[m].count_error();
                    unreadable.push(m);
                }
            }
            let Some(next) = self.choose_mirror(sets, extent, &unreadable) else {
                return Err(self.unhelped(sets.address(extent.set, extent.from), &error));
            };
            match self.read_from(next, extent.from, extent.len as usize).await {
                Ok(data) => {
                    for &bad in &unreadable {
                        self.rewrite(sets, next, bad, extent).await?;
                    }
                    return Ok(data);
                }
                Err(error) => failed = (next, error),
            }
        }
    }

    /// Reads block by block, each from the first mirror in their order that can, while mirrors may differ:
    /// what the preferred one can read stays what it was read as.
    async fn read_blocks(&self, sets: &Sets, extent: Extent) -> Result<Data, BlockError> {
        let mut whole = Buf::new(extent.len as usize);
        let (mut from, end) = (extent.from, extent.from + extent.len);
        while from < end {
            let len = ((from + 1).next_multiple_of(BLOCK_LEN)).min(end) - from;
            let block = Extent { from, len, ..extent };
            let member = self.choose_mirror(sets, block, &[]).ok_or_else(|| self.failure())?;
            let data = match self.read_from(member, from, len as usize).await {
                Ok(data) => data,
                Err(error) => self.read_elsewhere(sets, block, member, error).await?,
            };
            let at = (from - extent.from) as usize;
            whole[at..at + len as usize].copy_from_slice(&data);
            from += len;
        }
        Ok(whole.freeze())
    }

    /// The responsive mirror of a set with the fewest reads in flight; equal ones take turns. If mirrors may
    /// differ there, always the preferred one.
    fn choose_mirror(&self, sets: &Sets, extent: Extent, except: &[usize]) -> Option<usize> {
        let members = sets.members(extent.set);
        if sets.copies == 1 {
            return members.into_iter().find(|m| !except.contains(m) && self.members[*m].active().is_some());
        }
        let can_read = |m: &usize| !except.contains(m) && self.members[*m].active().is_some();
        if self.is_pinned(extent.from, extent.len) {
            return self.preferred_order(sets, extent.set, extent.from).find(can_read);
        }
        let n = sets.copies;
        let start = self.turn.replace((self.turn.get() + 1) % n);
        let candidates = (0..n).map(|i| members.start + (start + i) % n).filter(can_read);
        candidates.min_by_key(|&m| (self.members[m].is_slow(), self.members[m].reads_in_flight.get()))
    }

    fn begin_read(&self, m: usize, trace: Option<&Trace>, extent: Extent) -> Result<Io<Filled>, BlockError> {
        let drive = self.serving(m)?;
        let flight = &self.members[m].reads_in_flight;
        flight.set(flight.get() + 1);
        let io = drive.read(self.data_offset + extent.from, Buf::new(extent.len as usize));
        Ok(io.traced(trace, "drive", &drive.info().name))
    }

    fn end_read(&self, m: usize, ended: Filled) -> Result<Data, DriveError> {
        self.count_read_ended(m);
        ended.result.map(|()| ended.buf.freeze())
    }

    fn count_read_ended(&self, m: usize) {
        let flight = &self.members[m].reads_in_flight;
        flight.set(flight.get() - 1);
    }

    /// Reads from a member, which may be gone by now.
    pub(crate) async fn read_from(&self, m: usize, from: u64, len: usize) -> Result<Data, DriveError> {
        let drive = self.members[m].drive.borrow().clone();
        let Some(drive) = drive else {
            return Err(DriveError::Gone { drive: format!("position {m}"), cause: "no drive".to_owned() });
        };
        let flight = &self.members[m].reads_in_flight;
        flight.set(flight.get() + 1);
        let ended = drive.read(self.data_offset + from, Buf::new(len)).await;
        self.end_read(m, ended)
    }

    /// Rewrites a block that `bad` cannot read with the content of `good`. Reads it again while holding the
    /// range, because it may have been overwritten since.
    async fn rewrite(&self, sets: &Sets, good: usize, bad: usize, extent: Extent) -> Result<(), BlockError> {
        let _held = self.locks.exclusive(sets.around(extent.from, extent.len)).await;
        let Some(drive) = self.members[bad].active() else { return Ok(()) };
        let Ok(data) = self.read_from(good, extent.from, extent.len as usize).await else { return Ok(()) };
        self.count_repair();
        match drive.write(self.data_offset + extent.from, data).await {
            Ok(()) => Ok(()),
            Err(error) => self.drop_member(bad, &error).await,
        }
    }
}
