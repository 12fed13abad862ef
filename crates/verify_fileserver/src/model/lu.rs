//! A LU as the host reaches it: port, controller, the array's own code; and what the array tells the host.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use array::{LocalSession, Lun};
use block::Pieces;
use scsi::{Request, Response, Status};

use super::fabric::{COMMAND_BYTES, Fabric};
use super::layout::Range;
use lab_tools::hosts::cdb;
use lab_tools::testbed;

/// Force unit access: byte 1 of WRITE(16) (SBC-4 5.34).
const FUA: u8 = 1 << 3;
const BLOCK_BYTES: u64 = 512;
/// Of one UNMAP: MAXIMUM UNMAP LBA COUNT of the array (block limits page).
const UNMAP_BYTES_MAX: u64 = 512 << 20;
/// Attentions in a row that are heard: an array has a few to say.
const ATTENTIONS_MAX: usize = 8;
const UNIT_ATTENTION: u8 = 0x06;
/// SPACE ALLOCATION FAILED, WRITE PROTECT (SBC-4 4.7).
const NO_SPACE: u16 = 0x2707;

/// How an I/O of the guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// SPACE ALLOCATION FAILED, WRITE PROTECT (SBC-4 4.7): the pool has no page.
    NoSpace,
}

/// When a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// Before it ends: it carries FUA.
    AtOnce,
    /// After a flush.
    Later,
}

/// A LU of one host.
pub(super) struct Lu {
    pub(super) fabric: Rc<Fabric>,
    session: LocalSession,
    /// Which of the controllers owns it.
    controller: usize,
    tag: Cell<u64>,
    /// Unit attentions: when, and which.
    heard: RefCell<Vec<(u64, u16)>>,
    pages: RefCell<Option<Pages>>,
    /// When a write was refused for the first time, for the pool had no page.
    refused_ns: Cell<Option<u64>>,
}

/// Which pages the LU has taken of its pool, as far as its host can know: it has written to them.
#[derive(Debug)]
struct Pages {
    page_bytes: u64,
    taken: BTreeSet<u64>,
    /// Writes that were refused although all of their pages were taken.
    wrongly_refused: u64,
}

impl Lu {
    pub(super) fn new(fabric: &Rc<Fabric>, session: LocalSession, controller: usize) -> Lu {
        Lu {
            fabric: fabric.clone(),
            session,
            controller,
            tag: Cell::default(),
            heard: RefCell::default(),
            pages: RefCell::default(),
            refused_ns: Cell::default(),
        }
    }

    /// From now on notes which pages are taken; those up to here are.
    pub(super) fn watch_pages(&self, page_bytes: u64, end: u64) {
        let taken = (0..end.div_ceil(page_bytes)).collect();
        *self.pages.borrow_mut() = Some(Pages { page_bytes, taken, wrongly_refused: 0 });
    }

    /// Writes that were refused although their pages were taken.
    pub(super) fn wrongly_refused(&self) -> u64 {
        self.pages.borrow().as_ref().map_or(0, |pages| pages.wrongly_refused)
    }

    /// When a write was refused for the first time.
    pub(super) fn first_refused(&self) -> Option<u64> {
        self.refused_ns.get()
    }

    /// When the host heard a unit attention with this code, every time.
    pub(super) fn heard(&self, code: u16) -> Vec<u64> {
        self.heard.borrow().iter().filter(|(_, heard)| *heard == code).map(|(at_ns, _)| *at_ns).collect()
    }

    pub(super) async fn read(&self, range: Range) -> Result<Ended> {
        self.command(testbed::read(range.at, range.bytes, self.next_tag()), (0, range.bytes)).await
    }

    /// Writes zeros: content is not modelled.
    pub(super) async fn write(&self, range: Range, durable: Durable) -> Result<Ended> {
        let zeros = Pieces::from(self.fabric.zeros.slice(0..range.bytes as usize));
        let mut request = testbed::write(range.at, zeros, self.next_tag());
        if durable == Durable::AtOnce {
            request.cdb[1] |= FUA;
        }
        let ended = self.command(request, (range.bytes, 0)).await?;
        if ended == Ended::NoSpace && self.refused_ns.get().is_none() {
            self.refused_ns.set(Some(self.fabric.world.now().0));
        }
        if let Some(pages) = &mut *self.pages.borrow_mut() {
            pages.note(range, ended);
        }
        Ok(ended)
    }

    pub(super) async fn flush(&self) -> Result<()> {
        self.command(testbed::flush(self.next_tag()), (0, 0)).await.map(|_| ())
    }

    /// Gives a range back.
    pub(super) async fn unmap(&self, range: Range) -> Result<()> {
        for part in range.parts(UNMAP_BYTES_MAX) {
            let (command, list) = cdb::unmap(&[(part.at / BLOCK_BYTES, (part.bytes / BLOCK_BYTES) as u32)]);
            let bytes = list.len() as u64;
            let request =
                Request { tag: self.next_tag(), ..Request::new(command, Pieces::copy_of(&list), 0) };
            self.command(request, (bytes, 0)).await?;
            if let Some(pages) = &mut *self.pages.borrow_mut() {
                pages.forget(part);
            }
        }
        Ok(())
    }

    /// How long it is: READ CAPACITY(16).
    pub(super) async fn capacity_bytes(&self) -> Result<u64> {
        const ANSWER_BYTES: u32 = 32;
        let request = Request {
            tag: self.next_tag(),
            ..Request::new(cdb::read_capacity(), Pieces::new(), ANSWER_BYTES)
        };
        let response = self.execute(request).await?;
        let data = response.data_in.joined();
        ensure!(
            response.status == Status::Good && data.len() >= 8,
            "READ CAPACITY(16): the array answered {}",
            testbed::answer(response.status, &response.sense)
        );
        let last = u64::from_be_bytes(std::array::from_fn(|n| data[n]));
        Ok((last + 1) * BLOCK_BYTES)
    }

    fn next_tag(&self) -> u64 {
        self.tag.set(self.tag.get() + 1);
        self.tag.get()
    }

    /// One command, with so many bytes to the array and from it.
    async fn command(&self, request: Request, (to, from): (u64, u64)) -> Result<Ended> {
        let fabric = &*self.fabric;
        let controller = &fabric.controllers[self.controller];
        fabric.cross(&controller.inbound, COMMAND_BYTES + to).await;
        let work = fabric.costs.command + fabric.costs.per_kib * (to + from) / 1024;
        fabric.at(&controller.cores, work).await;
        let (cdb, is_write) = (request.cdb, !request.data_out.is_empty());
        let response = self.execute(request).await?;
        let ended = match (response.status, codes(&response.sense)) {
            (Status::Good, _) => Ended::Done,
            (_, Some((_, NO_SPACE))) if is_write => Ended::NoSpace,
            (status, _) => {
                bail!(
                    "command {:02x}h: the array answered {}",
                    cdb[0],
                    testbed::answer(status, &response.sense)
                )
            }
        };
        fabric.cross(&controller.outbound, COMMAND_BYTES + from).await;
        Ok(ended)
    }

    /// What the array tells besides is noted, and the command sent again (SPC-5 5.14).
    async fn execute(&self, request: Request) -> Result<Response> {
        for _ in 0..ATTENTIONS_MAX {
            let response = self.session.execute(Lun(0), request.clone()).await;
            match codes(&response.sense) {
                Some((UNIT_ATTENTION, code)) if response.status == Status::CheckCondition => {
                    self.heard.borrow_mut().push((self.fabric.world.now().0, code));
                }
                _ => return Ok(response),
            }
        }
        bail!("the array has one unit attention after the other: {:04x?}", self.heard.borrow())
    }
}

/// Sense key and additional sense code with its qualifier, of fixed format (key in byte 2, codes in bytes 12
/// and 13) or descriptor format (bytes 1 to 3; SPC-5 4.4).
fn codes(sense: &[u8]) -> Option<(u8, u16)> {
    let (key, codes) = match sense.first().map(|byte| byte & 0x7f) {
        Some(0x72) => (sense.get(1)?, sense.get(2..4)?),
        _ => (sense.get(2)?, sense.get(12..14)?),
    };
    Some((key & 0xf, u16::from_be_bytes([codes[0], codes[1]])))
}

impl Pages {
    fn of(&self, range: Range) -> std::ops::Range<u64> {
        range.at / self.page_bytes..range.end().div_ceil(self.page_bytes)
    }

    fn note(&mut self, range: Range, ended: Ended) {
        let mut pages = self.of(range);
        match ended {
            Ended::Done => self.taken.extend(pages),
            Ended::NoSpace => self.wrongly_refused += u64::from(pages.all(|page| self.taken.contains(&page))),
        }
    }

    /// Of a range that was given back: only whole pages are.
    fn forget(&mut self, range: Range) {
        let whole = range.at.div_ceil(self.page_bytes)..range.end() / self.page_bytes;
        whole.for_each(|page| _ = self.taken.remove(&page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_write_is_wrong_only_if_all_of_its_pages_were_taken() {
        let mut pages = Pages { page_bytes: 100, taken: [0, 1].into(), wrongly_refused: 0 };
        let mut note = |at, bytes, ended| {
            pages.note(Range { at, bytes }, ended);
            pages.wrongly_refused
        };
        assert_eq!(note(150, 100, Ended::NoSpace), 0);
        assert_eq!(note(50, 100, Ended::NoSpace), 1);
        assert_eq!(note(200, 1, Ended::Done), 1);
        assert_eq!(note(150, 100, Ended::NoSpace), 2);
        pages.forget(Range { at: 50, bytes: 220 });
        assert_eq!(pages.taken, [0, 2].into());
    }

    #[test]
    fn both_formats_of_sense_data_are_read() {
        let mut fixed = [0; 18];
        (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, 0x06, 0x2a, 0x09);
        assert_eq!(codes(&fixed), Some((6, 0x2a09)));
        assert_eq!(codes(&[0x72, 0x07, 0x27, 0x07]), Some((7, NO_SPACE)));
        assert_eq!(codes(&[]), None);
    }
}
