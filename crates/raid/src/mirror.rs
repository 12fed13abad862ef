//! RAID 1: writes go to all drives at once, reads to the one with the least to do.
//!
//! * Overlapping writes take turns ([`crate::ranges`]): otherwise two mirrors could end with different winners.
//! * A drive on which a write failed while another took it is dropped before the write is acknowledged.
//! * A read that meets a medium error is answered by another mirror, and the bad place is written again from there.
//! * After a power cut, mirrors may differ where writes were not flushed. Then all reads go to one mirror, so that a
//!   block that was read once reads the same for ever; see `Label::mirrors_may_differ`.

use block::{BlockError, Buf, Data, Pieces};
use smallvec::SmallVec;
use world::{BUF_LEN_MAX, Drive, DriveError, Io};

use crate::group::Inner;
use crate::segments::{Segments, segments};

type Writes = SmallVec<[(usize, Io<Result<(), DriveError>>); 8]>;

impl Inner {
    pub(crate) async fn mirror_read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        let end = at + len as u64;
        let mut next = at;
        while next < end {
            let n = (end - next).min(BUF_LEN_MAX as u64);
            out.push(self.mirror_read_one(next, n as usize).await?);
            next += n;
        }
        Ok(())
    }

    async fn mirror_read_one(&self, at: u64, len: usize) -> Result<Data, BlockError> {
        let mut unreadable: SmallVec<[usize; 2]> = SmallVec::new();
        let mut medium = None;
        while let Some(m) = self.choose_mirror(&unreadable) {
            match self.read_from(m, at, len).await {
                Ok(data) => {
                    for &bad in &unreadable {
                        self.rewrite(m, bad, at, len).await?;
                    }
                    return Ok(data);
                }
                Err(error @ DriveError::Gone { .. }) => self.drop_member(m, &error).await?,
                Err(error) => {
                    medium = Some(error);
                    unreadable.push(m);
                }
            }
        }
        match medium {
            Some(error) => Err(BlockError::Unreadable { at, cause: error.to_string() }),
            None => Err(self.failure()),
        }
    }

    /// The mirror with the fewest reads in flight; equal ones take turns. With mirrors that may differ always the first.
    fn choose_mirror(&self, except: &[usize]) -> Option<usize> {
        let n = self.members.len();
        let start = if self.pinned.get() { 0 } else { self.turn.replace((self.turn.get() + 1) % n) };
        let candidates = (0..n)
            .map(|i| (start + i) % n)
            .filter(|m| !except.contains(m) && self.members[*m].active().is_some());
        if self.pinned.get() {
            return candidates.min();
        }
        candidates.min_by_key(|&m| self.members[m].reads_in_flight.get())
    }

    pub(crate) async fn read_from(&self, m: usize, at: u64, len: usize) -> Result<Data, DriveError> {
        let member = &self.members[m];
        let drive = member.drive.as_ref().expect("an active member has a drive");
        member.reads_in_flight.set(member.reads_in_flight.get() + 1);
        let filled = drive.read(self.data_offset + at, Buf::new(len)).await;
        member.reads_in_flight.set(member.reads_in_flight.get() - 1);
        filled.result.map(|()| filled.buf.freeze())
    }

    /// Writes what `good` holds over a place that `bad` cannot read. The range is held, and read again under it: the
    /// content may have been overwritten since.
    async fn rewrite(&self, good: usize, bad: usize, at: u64, len: usize) -> Result<(), BlockError> {
        let _held = self.writes.hold(at, len as u64).await;
        let Some(drive) = self.members[bad].active() else { return Ok(()) };
        let Ok(data) = self.read_from(good, at, len).await else { return Ok(()) };
        self.count_repair();
        match drive.write(self.data_offset + at, data).await {
            Ok(()) => Ok(()),
            Err(error) => self.drop_member(bad, &error).await,
        }
    }

    pub(crate) async fn mirror_write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.mirrors_begin_to_differ().await?;
        let _held = self.writes.hold(at, data.len() as u64).await;
        let parts: Segments = segments(data, self.geometry.block_bytes as usize);
        let mut writes = Writes::new();
        for (m, drive) in self.active() {
            let mut to = self.data_offset + at;
            for part in &parts {
                writes.push((m, drive.write(to, part.clone())));
                to += part.len() as u64;
            }
        }
        self.mirror_await(writes).await
    }

    pub(crate) async fn mirror_zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.mirrors_begin_to_differ().await?;
        let _held = self.writes.hold(at, len).await;
        let writes = self.active().map(|(m, drive)| (m, drive.zero(self.data_offset + at, len))).collect();
        self.mirror_await(writes).await
    }

    pub(crate) async fn mirror_flush(&self) -> Result<(), BlockError> {
        let flushes = self.active().map(|(m, drive)| (m, drive.flush())).collect();
        self.mirror_await(flushes).await?;
        // A drive that another operation dropped in the meantime: what it missed is acknowledged only with the label.
        self.relabel().await
    }

    fn active(&self) -> impl Iterator<Item = (usize, &Drive)> {
        self.members.iter().enumerate().filter_map(|(m, member)| member.active().map(|drive| (m, drive)))
    }

    /// Waits for all. Drives that failed are dropped when another one succeeded.
    async fn mirror_await(&self, writes: Writes) -> Result<(), BlockError> {
        let mut failed: SmallVec<[(usize, DriveError); 2]> = SmallVec::new();
        let mut tried = 0_u32;
        for (m, io) in writes {
            tried |= 1 << m;
            if let Err(error) = io.await
                && !failed.iter().any(|(f, _)| *f == m)
            {
                failed.push((m, error));
            }
        }
        if tried == 0 {
            return Err(self.failure());
        }
        if failed.len() < tried.count_ones() as usize {
            for (m, error) in failed {
                self.drop_member(m, &error).await?;
            }
            return Ok(());
        }
        // Nobody took it. The mirrors may hold different parts of it now.
        self.pinned.set(true);
        let (_, first) = &failed[0];
        let outcome = BlockError::from(first.clone());
        for (m, error) in &failed {
            if matches!(error, DriveError::Gone { .. }) {
                self.drop_member(*m, error).await?;
            }
        }
        Err(outcome)
    }
}
