//! Queues of slots that are linked through arrays: no allocation, removal from the middle at once.

use super::index::NONE;

/// The links of all slots. A slot is in at most one queue over the same links.
pub(crate) struct Links {
    /// By slot: the neighbour towards the newest, and towards the oldest.
    list: Vec<[u32; 2]>,
}

/// One queue: enters at the newest end, leaves at the oldest.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Links {
    pub(crate) fn new(capacity: u32) -> Links {
        Links { list: Vec::with_capacity(capacity as usize) }
    }

    /// The next slot towards the newest, [`NONE`] behind the newest.
    #[cfg(test)]
    pub(crate) fn newer(&self, slot: u32) -> u32 {
        self.list[slot as usize][0]
    }
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { newest: NONE, oldest: NONE, len: 0 }
    }
}

impl Queue {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The slot that leaves next, [`NONE`] when there is none.
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// The slot that entered last, [`NONE`] when there is none.
    #[cfg(test)]
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    pub(crate) fn push(&mut self, links: &mut Links, slot: u32) {
        if links.list.len() <= slot as usize {
            links.list.resize(slot as usize + 1, [NONE; 2]);
        }
        links.list[slot as usize] = [NONE, self.newest];
        match self.newest {
            NONE => self.oldest = slot,
            newest => links.list[newest as usize][0] = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, links: &mut Links, slot: u32) {
        let [newer, older] = links.list[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => links.list[newer as usize][1] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links.list[older as usize][0] = newer,
        }
        self.len -= 1;
    }
}
