//! A file in memory over a template that is shared: thousands of images are changed in a second, each from
//! the same beginning.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io};

const PAGE: usize = 4096;

/// What a file holds; clones share it.
#[derive(Clone)]
pub(crate) struct File(Rc<Content>);

struct Content {
    template: Rc<[u8]>,
    pages: RefCell<BTreeMap<u64, Box<[u8; PAGE]>>>,
    len: Cell<u64>,
    /// From here on there is no room.
    room: Cell<u64>,
    /// Nothing is answered: writes are carried out or are not, in turn.
    silent: Cell<bool>,
    given_up: Cell<u32>,
    /// Writes and flushes fail.
    failing: Cell<bool>,
}

impl File {
    pub(crate) fn new(template: Rc<[u8]>) -> File {
        let len = Cell::new(template.len() as u64);
        let (pages, room) = (RefCell::default(), Cell::new(u64::MAX));
        File(Rc::new(Content {
            template,
            pages,
            len,
            room,
            silent: Cell::default(),
            given_up: Cell::default(),
            failing: Cell::default(),
        }))
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len.get()
    }

    /// What was written behind this byte would have no room.
    pub(crate) fn set_room(&self, bytes: u64) {
        self.0.room.set(bytes);
    }

    /// From here on it does not answer, or does again.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.0.silent.set(silent);
    }

    /// From here on its writes and flushes fail, or succeed again.
    pub(crate) fn set_failing(&self, failing: bool) {
        self.0.failing.set(failing);
    }

    fn check_failing(&self, at: u64) -> Result<(), DriveError> {
        match self.0.failing.get() {
            true => Err(DriveError::Medium { drive: "image".into(), at }),
            false => Ok(()),
        }
    }

    fn answer(&self) -> Result<(), DriveError> {
        match self.0.silent.get() {
            true => Err(DriveError::Silent { drive: "image".into(), secs: 10 }),
            false => Ok(()),
        }
    }

    pub(crate) fn peek(&self, at: u64, bytes: &mut [u8]) {
        let pages = self.0.pages.borrow();
        let (mut here, end) = (at, at + bytes.len() as u64);
        while here < end {
            let (page, from) = (here / PAGE as u64, (here % PAGE as u64) as usize);
            let n = ((PAGE - from) as u64).min(end - here) as usize;
            let to = &mut bytes[(here - at) as usize..][..n];
            match pages.get(&page) {
                Some(content) => to.copy_from_slice(&content[from..from + n]),
                None => {
                    let begin = (here as usize).min(self.0.template.len());
                    let there = n.min(self.0.template.len() - begin);
                    to[..there].copy_from_slice(&self.0.template[begin..begin + there]);
                    to[there..].fill(0);
                }
            }
            here += n as u64;
        }
    }

    pub(crate) fn poke(&self, at: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let here = at + done as u64;
            let (page, from) = (here / PAGE as u64, (here % PAGE as u64) as usize);
            let n = (PAGE - from).min(bytes.len() - done);
            let mut pages = self.0.pages.borrow_mut();
            let content = pages.entry(page).or_insert_with(|| {
                let mut content = Box::new([0; PAGE]);
                let begin = (page as usize * PAGE).min(self.0.template.len());
                let end = (begin + PAGE).min(self.0.template.len());
                content[..end - begin].copy_from_slice(&self.0.template[begin..end]);
                content
            });
            content[from..from + n].copy_from_slice(&bytes[done..done + n]);
            done += n;
        }
    }

    /// All of it, as a template of others.
    pub(crate) fn whole(&self) -> Rc<[u8]> {
        let mut bytes = vec![0; self.len() as usize];
        self.peek(0, &mut bytes);
        bytes.into()
    }

    pub(crate) fn drive(&self) -> Drive {
        let info = DriveInfo {
            name: "image".into(),
            len_bytes: self.len(),
            block_bytes: 512,
            volatile_cache: true,
            cheap_zero: true,
        };
        Drive::new(info, Box::new(self.clone()))
    }

    fn check_room(&self, end: u64) -> Result<(), DriveError> {
        match end > self.0.room.get() {
            true => Err(DriveError::NoRoom { drive: "image".into(), at: end }),
            false => Ok(()),
        }
    }
}

impl DriveBackend for File {
    fn read(&self, at: u64, mut buf: Buf) -> Io<Filled> {
        self.peek(at, &mut buf);
        Io::ready(Filled { buf, result: self.answer() })
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        let written = self.check_failing(at).and(self.check_room(at + data.len() as u64));
        let lost =
            self.0.silent.get() && self.0.given_up.replace(self.0.given_up.get() + 1).is_multiple_of(2);
        if written.is_ok() && !lost {
            self.poke(at, &data);
        }
        Io::ready(written.and(self.answer()))
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        // A file of a test has no more pages than its tests touch: what is beyond the template and not
        // written is zeros.
        let (mut here, end) = (at, at + len);
        while here < end {
            let n = (PAGE as u64 - here % PAGE as u64).min(end - here);
            let is_known = self.0.pages.borrow().contains_key(&(here / PAGE as u64));
            if is_known || here < self.0.template.len() as u64 {
                self.poke(here, &vec![0; n as usize]);
                here += n;
            } else {
                let next = self
                    .0
                    .pages
                    .borrow()
                    .range(here / PAGE as u64..)
                    .next()
                    .map(|(page, _)| page * PAGE as u64);
                here = next.unwrap_or(end).clamp(here + n, end.max(here + n));
            }
        }
        Io::ready(self.answer())
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        Io::ready(self.check_failing(0).and(self.answer()))
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }

    fn set_len(&self, len_bytes: u64) -> Option<Io<Result<(), DriveError>>> {
        // As ext4 has it with blocks of 4 KiB.
        const FILE_BYTES_MAX: u64 = 16 << 40;
        let set = match len_bytes > FILE_BYTES_MAX {
            true => Err(DriveError::NoRoom { drive: "image".into(), at: len_bytes }),
            false => self.answer(),
        };
        if set.is_ok() {
            self.0.len.set(len_bytes);
            self.0.pages.borrow_mut().retain(|page, _| page * (PAGE as u64) < len_bytes);
        }
        Some(Io::ready(set))
    }

    fn lengthen(&self, len_bytes: u64, tail: Data) -> Option<Io<Result<(), DriveError>>> {
        let at = len_bytes - tail.len() as u64;
        let written = self.check_failing(at).and(self.check_room(len_bytes));
        if written.is_ok() {
            self.0.len.set(len_bytes);
            self.poke(at, &tail);
        }
        Some(Io::ready(written.and(self.answer())))
    }
}
