//! Somebody copies large files to a server, beside its load: until all is copied, or until he stops.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::Result;
use futures::future::join_all;

use super::super::scenario::Fileserver;
use super::layout::{Range, system_record};
use super::server::Server;
use super::volume::FIRST_RECORD;

/// Of one file: a multiple of every block of a virtual disk.
const FILE_BYTES: u64 = 64 << 20;

/// What he copies, and how far he is.
pub(super) struct Copier {
    server: Rc<Server>,
    request_bytes: u64,
    requests: usize,
    left_bytes: Cell<u64>,
    stopped: Cell<bool>,
    /// Copies that go on.
    active: Cell<u32>,
    copied_bytes: Cell<u64>,
    /// Record and place of each file.
    files: RefCell<Vec<(u64, Range)>>,
}

impl Copier {
    pub(super) fn new(scenario: &Fileserver, server: &Rc<Server>) -> Rc<Copier> {
        Rc::new(Copier {
            server: server.clone(),
            request_bytes: scenario.server.request_bytes.0,
            requests: scenario.client.requests as usize,
            left_bytes: Cell::default(),
            stopped: Cell::default(),
            active: Cell::default(),
            copied_bytes: Cell::default(),
            files: RefCell::default(),
        })
    }

    /// So much is to be copied, by so many copies at a time: each is one call of [`Copier::copy`].
    pub(super) fn begin(&self, bytes: u64, copies: u32) {
        self.left_bytes.set(bytes);
        self.stopped.set(false);
        self.active.set(copies);
    }

    pub(super) fn stop(&self) {
        self.stopped.set(true);
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.get() > 0
    }

    /// What the server took of it.
    pub(super) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.get()
    }

    /// All files, which are his no more.
    pub(super) fn take_files(&self) -> Vec<(u64, Range)> {
        self.files.take()
    }

    /// One file after the other.
    pub(super) async fn copy(&self) -> Result<()> {
        while !self.stopped.get() && self.left_bytes.get() > 0 {
            let bytes = FILE_BYTES.min(self.left_bytes.get());
            self.left_bytes.set(self.left_bytes.get() - bytes);
            let at = self.server.replace(None, bytes);
            let file = Range { at, bytes };
            let record = FIRST_RECORD + self.files.borrow().len() as u64;
            self.files.borrow_mut().push((record, file));
            // Some requests at once: each takes the next part.
            let next = Cell::new(file.at);
            let requests = (0..self.requests).map(|_| self.send(&next, file.end()));
            join_all(requests).await;
            self.server.note([system_record(record)], (None, at));
        }
        self.active.set(self.active.get() - 1);
        Ok(())
    }

    /// One request after the other, until somebody has sent the last part.
    async fn send(&self, next: &Cell<u64>, end: u64) {
        while !self.stopped.get() && next.get() < end {
            let part = Range { at: next.get(), bytes: self.request_bytes.min(end - next.get()) };
            next.set(part.end());
            self.server.take(part).await;
            self.copied_bytes.set(self.copied_bytes.get() + part.bytes);
        }
    }
}
