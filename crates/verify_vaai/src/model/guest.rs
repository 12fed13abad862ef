//! A VM that reads and writes its disk at random and knows what it wrote last.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use block::Pieces;
use futures::future::try_join_all;
use lab_tools::datastore::{Content, Datastore, File, Mirror, StoreError};
use world::{Instant, Rng, World};

/// What it reads and writes at a time.
pub(super) const BLOCK: u64 = 4096;

/// Where its disk is.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// On one datastore.
    Plain(&'a Datastore, &'a File),
    /// On its way from the one to the other.
    Moving(&'a Mirror, [(&'a Datastore, &'a File); 2]),
}

/// One request.
#[derive(Clone, Copy, Debug)]
struct Took {
    began: Instant,
    ended: Instant,
}

/// The VM.
pub(super) struct Guest {
    world: World,
    /// What the disk held before.
    base: Content,
    len_bytes: u64,
    rng: RefCell<Rng>,
    /// The last write of each block that was written.
    versions: RefCell<BTreeMap<u64, u64>>,
    /// Blocks with a request in flight: of two writes at once nobody knows which is the last.
    busy: RefCell<BTreeSet<u64>>,
    ended: Cell<bool>,
    took: RefCell<Vec<Took>>,
    wrong: Cell<u64>,
}

/// Blocks that were read back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) compared: u64,
    pub(super) wrong: u64,
}

async fn read(store: &Datastore, file: &File, offset: u64) -> Result<Pieces, StoreError> {
    let (at, _) = file.place(offset).unwrap_or_default();
    store.locks().read(at, BLOCK).await
}

async fn write(store: &Datastore, file: &File, offset: u64, data: Pieces) -> Result<(), StoreError> {
    let (at, _) = file.place(offset).unwrap_or_default();
    store.locks().write(at, data).await
}

impl Place<'_> {
    async fn read(self, offset: u64) -> Result<Pieces, StoreError> {
        let (Place::Plain(store, file) | Place::Moving(_, [(store, file), _])) = self;
        read(store, file, offset).await
    }

    async fn write(self, offset: u64, data: Pieces) -> Result<(), StoreError> {
        match self {
            Place::Plain(store, file) => write(store, file, offset, data).await,
            Place::Moving(mirror, [old, new]) => {
                let writing = mirror.write(offset).await;
                let (to_old, to_new) = (write(old.0, old.1, offset, data.clone()), async {
                    if writing.to_both { write(new.0, new.1, offset, data.clone()).await } else { Ok(()) }
                });
                futures::future::try_join(to_old, to_new).await.map(drop)
            }
        }
    }
}

impl Guest {
    pub(super) fn new(world: &World, base: Content, len_bytes: u64) -> Guest {
        Guest {
            world: world.clone(),
            base,
            len_bytes,
            rng: RefCell::new(world.random("a guest")),
            versions: RefCell::default(),
            busy: RefCell::default(),
            ended: Cell::new(false),
            took: RefCell::default(),
            wrong: Cell::new(0),
        }
    }

    /// What a block must hold.
    fn content(&self, offset: u64) -> Content {
        match self.versions.borrow().get(&offset) {
            Some(version) => Content::Pattern { key: !version, used_bytes: u64::MAX },
            None => self.base,
        }
    }

    /// Works until it is ended, with so many requests at once and this pause between two of them.
    pub(super) async fn run(
        &self,
        place: Place<'_>,
        (outstanding, pause): (usize, Duration),
    ) -> Result<(), StoreError> {
        try_join_all((0..outstanding).map(|_| Box::pin(self.work(place, pause)))).await.map(drop)
    }

    pub(super) fn end(&self) {
        self.ended.set(true);
    }

    async fn work(&self, place: Place<'_>, pause: Duration) -> Result<(), StoreError> {
        while !self.ended.get() {
            let (share, is_write) = {
                let mut rng = self.rng.borrow_mut();
                (2.0 * rng.f64(), rng.bool())
            };
            self.world.sleep(pause.mul_f64(share)).await;
            let offset = self.rng.borrow_mut().u64(0..self.len_bytes / BLOCK) * BLOCK;
            if !self.busy.borrow_mut().insert(offset) {
                continue;
            }
            let began = self.world.now();
            if is_write {
                self.write(place, offset).await?;
            } else {
                let data = place.read(offset).await?.joined();
                self.wrong.set(self.wrong.get() + self.content(offset).differences(offset, &data));
            }
            self.took.borrow_mut().push(Took { began, ended: self.world.now() });
            self.busy.borrow_mut().remove(&offset);
        }
        Ok(())
    }

    async fn write(&self, place: Place<'_>, offset: u64) -> Result<(), StoreError> {
        let version = self.rng.borrow_mut().u64(..);
        let content = Content::Pattern { key: !version, used_bytes: u64::MAX };
        place.write(offset, content.bytes(offset, BLOCK)).await?;
        self.versions.borrow_mut().insert(offset, version);
        Ok(())
    }

    /// Mean and longest response of what was in flight at some time in between.
    pub(super) fn responses(&self, from: Instant, to: Instant) -> (f64, f64) {
        let took = self.took.borrow();
        let within = took.iter().filter(|took| took.ended >= from && took.began < to);
        let all: Vec<f64> = within.map(|took| took.ended.since(took.began).as_secs_f64()).collect();
        let longest = all.iter().copied().fold(0.0, f64::max);
        (all.iter().sum::<f64>() / all.len().max(1) as f64, longest)
    }

    /// Compares all of the disk, here, with what was written last; with what was read wrong before.
    pub(super) async fn verify(&self, store: &Datastore, file: &File) -> Result<Found, StoreError> {
        let found = Cell::new(Found { compared: 0, wrong: self.wrong.get() });
        let steps = lab_tools::hosts::steps(&[(0, self.len_bytes)], 1 << 20);
        store
            .at_once(steps, |(offset, len)| {
                let found = &found;
                async move {
                    let (at, _) = file.place(offset).unwrap_or_default();
                    let data = store.locks().read(at, len).await?.joined();
                    for (n, block) in data.chunks(BLOCK as usize).enumerate() {
                        let at = offset + n as u64 * BLOCK;
                        let Found { compared, wrong } = found.get();
                        let wrong = wrong + self.content(at).differences(at, block);
                        found.set(Found { compared: compared + 1, wrong });
                    }
                    Ok(())
                }
            })
            .await?;
        Ok(found.get())
    }
}
