//! The content of a disk: on the medium, in the cache, and after a power failure.

use std::collections::VecDeque;

use world::{Data, Rng};

use crate::image::Image;

/// The unit in which a write is torn, and in which the medium fails: the smallest that any disk writes at
/// once.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// The physical sector of most disks of today: they tear a write only here.
pub(crate) const PHYSICAL_BYTES: u64 = 4096;

/// What a write puts on a disk.
#[derive(Clone)]
pub(crate) enum Content {
    Bytes(Data),
    Zeros(u64),
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Content::Bytes(data) => data.len() as u64,
            Content::Zeros(len) => *len,
        }
    }

    fn put(&self, image: &mut Image, at: u64) {
        match self {
            Content::Bytes(data) if !data.is_shared_zeros() => image.write(at, data),
            Content::Bytes(_) | Content::Zeros(_) => image.zero(at, self.len()),
        }
    }

    /// Those of the pieces of `piece` bytes (counted on the disk) for which `kept` says so.
    fn put_pieces(&self, image: &mut Image, at: u64, piece: u64, mut kept: impl FnMut() -> bool) {
        let end = at + self.len();
        let mut from = at;
        while from < end {
            let to = (from / piece * piece + piece).min(end);
            match self {
                _ if !kept() => {}
                Content::Bytes(data) => image.write(from, &data[(from - at) as usize..(to - at) as usize]),
                Content::Zeros(_) => image.zero(from, to - from),
            }
            from = to;
        }
    }
}

/// A write whose survival is open.
#[derive(Clone)]
pub(crate) struct Doubtful {
    pub(crate) at: u64,
    pub(crate) content: Content,
}

/// Content and cache. A copy shares its content with the original until either changes it.
#[derive(Clone)]
pub(crate) struct Store {
    current: Image,
    /// Kept only with a cache; without one, `current` is durable.
    durable: Image,
    cache: VecDeque<Doubtful>,
    /// The number of the oldest write in the cache.
    cache_first: u64,
    cache_used_bytes: u64,
    cache_max_bytes: u64,
    /// Written content is discarded; reads return zeros.
    keeps: bool,
}

impl Store {
    pub(crate) fn new(cache_max_bytes: u64, keeps: bool) -> Store {
        Store {
            current: Image::default(),
            durable: Image::default(),
            cache: VecDeque::new(),
            cache_first: 0,
            cache_used_bytes: 0,
            cache_max_bytes,
            keeps,
        }
    }

    /// The content goes to a disk with this cache, where all of it is durable.
    pub(crate) fn move_to(&mut self, cache_max_bytes: u64, keeps: bool) {
        let current = std::mem::take(&mut self.current);
        *self = Store { durable: current.clone(), current, ..Store::new(cache_max_bytes, keeps) };
    }

    /// Changes the content of medium and cache.
    pub(crate) fn poke(&mut self, at: u64, bytes: &[u8]) {
        self.current.write(at, bytes);
        self.durable.write(at, bytes);
    }

    /// The number that the next completed write will have.
    pub(crate) fn next_write(&self) -> u64 {
        self.cache_first + self.cache.len() as u64
    }

    pub(crate) fn read(&self, at: u64, to: &mut [u8]) {
        self.current.read(at, to);
    }

    /// Whether the range has never been written: it reads as zeros.
    pub(crate) fn has_nothing(&self, at: u64, len: u64) -> bool {
        self.current.has_nothing(at, len)
    }

    /// Whether a part of the range has no content, so that a write to it needs room.
    pub(crate) fn has_hole(&self, at: u64, len: u64) -> bool {
        self.current.has_hole(at, len)
    }

    /// A write completes.
    pub(crate) fn put(&mut self, at: u64, content: Content) {
        if !self.keeps {
            return;
        }
        content.put(&mut self.current, at);
        if self.cache_max_bytes == 0 {
            return;
        }
        self.cache_used_bytes += content.len();
        self.cache.push_back(Doubtful { at, content });
        while self.cache_used_bytes > self.cache_max_bytes {
            self.destage();
        }
    }

    /// Makes all writes before `number` durable.
    pub(crate) fn flush_before(&mut self, number: u64) {
        while self.cache_first < number && !self.cache.is_empty() {
            self.destage();
        }
    }

    fn destage(&mut self) {
        let Some(oldest) = self.cache.pop_front() else { return };
        self.cache_first += 1;
        self.cache_used_bytes -= oldest.content.len();
        oldest.content.put(&mut self.durable, oldest.at);
    }

    /// Power failure; `in_flight` had been submitted.
    pub(crate) fn cut(&mut self, in_flight: Vec<Doubtful>, rng: &mut Rng) {
        let with_cache = self.cache_max_bytes > 0;
        let medium = if with_cache { &mut self.durable } else { &mut self.current };
        let way = rng.u8(..5);
        let cached = self.cache.drain(..);
        for write in cached.chain(in_flight) {
            match way {
                0 => {}
                1 => write.content.put(medium, write.at),
                2 if rng.bool() => write.content.put(medium, write.at),
                2 => {}
                3 => write.content.put_pieces(medium, write.at, SECTOR_BYTES, || rng.bool()),
                _ => write.content.put_pieces(medium, write.at, PHYSICAL_BYTES, || rng.bool()),
            }
        }
        self.cache_first = 0;
        self.cache_used_bytes = 0;
        if with_cache {
            self.current = self.durable.clone();
        }
    }
}
