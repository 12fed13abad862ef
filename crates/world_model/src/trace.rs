//! The trace: every decision of a run folded into one number, and kept as a list when somebody looks for a
//! difference.

use std::cell::{Cell, RefCell};

/// One decision or operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Virtual time in nanoseconds.
    pub at_ns: u64,
    /// What happened.
    pub what: &'static str,
    /// Which task, disk or connection.
    pub who: u64,
    /// Where, or how many.
    pub value: u64,
}

#[derive(Default)]
pub(crate) struct Trace {
    digest: Cell<u64>,
    list: RefCell<Option<Vec<TraceEntry>>>,
}

impl Trace {
    pub(crate) fn record(&self, at_ns: u64, what: &'static str, who: u64, value: u64) {
        let mut h = self.digest.get();
        for v in [at_ns, digest_of(what.as_bytes()), who, value] {
            h = mix(h, v);
        }
        self.digest.set(h);
        if let Some(list) = &mut *self.list.borrow_mut() {
            list.push(TraceEntry { at_ns, what, who, value });
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.get()
    }

    pub(crate) fn keep(&self) {
        self.list.borrow_mut().get_or_insert_default();
    }

    pub(crate) fn entries(&self) -> Vec<TraceEntry> {
        self.list.borrow().clone().unwrap_or_default()
    }
}

fn mix(h: u64, v: u64) -> u64 {
    // The odd constant is 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
    (h.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Chains of a digest that do not wait for each other: a multiplication takes as long as a processor begins
/// four.
const CHAINS: usize = 4;

/// A digest of bytes, eight at a time in each chain: 4 KiB cost an eighth of a microsecond.
pub(crate) fn digest_of(bytes: &[u8]) -> u64 {
    let (rounds, bytes) = bytes.as_chunks::<{ 8 * CHAINS }>();
    let mut chains: [u64; CHAINS] = std::array::from_fn(|chain| chain as u64);
    for round in rounds {
        let (words, _) = round.as_chunks::<8>();
        for (chain, word) in chains.iter_mut().zip(words) {
            *chain = mix(*chain, u64::from_le_bytes(*word));
        }
    }
    let h = match rounds.len() {
        0 => 0,
        rounds => chains.into_iter().fold(rounds as u64, mix),
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let h = words.iter().fold(h ^ bytes.len() as u64, |h, w| mix(h, u64::from_le_bytes(*w)));
    rest.iter().fold(h, |h, b| mix(h, u64::from(*b)))
}
