//! Offsets of frames in a ring; pure arithmetic.

/// A ring of frames. A frame never wraps: the rest before the end is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ring {
    len: u64,
    head: u64,
    used: u64,
}

/// The offset of a frame, and the room that it takes including what was skipped before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) place: u64,
    pub(crate) bytes: u64,
}

impl Ring {
    pub(crate) fn new(len: u64) -> Ring {
        Ring { len, head: 0, used: 0 }
    }

    /// The offset of a frame of `len` bytes; `None` if there is no room.
    pub(crate) fn room_for(&self, len: u64) -> Option<Taken> {
        let skipped = if self.head + len > self.len { self.len - self.head } else { 0 };
        let place = if skipped > 0 { 0 } else { self.head };
        let bytes = skipped + len;
        (self.used + bytes <= self.len).then_some(Taken { place, bytes })
    }

    pub(crate) fn take(&mut self, taken: Taken) {
        self.head = (self.head + taken.bytes) % self.len;
        self.used += taken.bytes;
    }

    /// Frees the oldest frames, `bytes` in total.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        assert!(bytes <= self.used, "more of the ring is freed than was reserved");
        self.used -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_each_other_and_skip_the_end() {
        let mut ring = Ring::new(100);
        let take = |ring: &mut Ring, len| {
            let taken = ring.room_for(len)?;
            ring.take(taken);
            Some((taken.place, taken.bytes))
        };
        assert_eq!(take(&mut ring, 40), Some((0, 40)));
        assert_eq!(take(&mut ring, 40), Some((40, 40)));
        assert_eq!(take(&mut ring, 30), None);
        ring.give_back(40);
        assert_eq!(take(&mut ring, 30), Some((0, 50)));
        assert_eq!(take(&mut ring, 20), None);
        ring.give_back(40);
        assert_eq!(take(&mut ring, 20), Some((30, 20)));
    }
}
