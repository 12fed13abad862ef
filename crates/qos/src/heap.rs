//! A heap of numbered things by key, from which each can be taken and moved by its number: no scan, no
//! allocation but when numbers grow.

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

/// The smallest key first; of equal keys the smaller number.
#[derive(Default)]
pub(crate) struct Heap {
    order: Vec<(u64, u32)>,
    place: Vec<u32>,
}

impl Heap {
    /// Room for numbers below `count`.
    pub(crate) fn grow(&mut self, count: usize) {
        self.place.resize(count.max(self.place.len()), NOWHERE);
        self.order.reserve(count.saturating_sub(self.order.len()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The smallest key, and whose it is.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.order.first().copied()
    }

    /// Puts a number in with this key, or moves it there.
    pub(crate) fn set(&mut self, number: u32, key: u64) {
        let place = match self.place[number as usize] {
            NOWHERE => {
                self.order.push((key, number));
                self.order.len() - 1
            }
            place => {
                self.order[place as usize].0 = key;
                place as usize
            }
        };
        self.settle(place);
    }

    /// Whether a number is in.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.place[number as usize] != NOWHERE
    }

    /// All that are in, in no order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.order.iter().map(|(_, number)| *number)
    }

    /// Takes a number out, if it is in.
    pub(crate) fn remove(&mut self, number: u32) {
        let place = std::mem::replace(&mut self.place[number as usize], NOWHERE);
        if place == NOWHERE {
            return;
        }
        self.order.swap_remove(place as usize);
        if (place as usize) < self.order.len() {
            self.settle(place as usize);
        }
    }

    /// Moves what is at `at` to where it belongs.
    fn settle(&mut self, at: usize) {
        let item = self.order[at];
        let mut hole = at;
        while hole > 0 && item < self.order[(hole - 1) / 2] {
            self.put((hole - 1) / 2, hole);
            hole = (hole - 1) / 2;
        }
        while let Some(child) = self.smaller_child(hole).filter(|c| self.order[*c] < item) {
            self.put(child, hole);
            hole = child;
        }
        self.order[hole] = item;
        self.place[item.1 as usize] = hole as u32;
    }

    fn put(&mut self, from: usize, to: usize) {
        let item = self.order[from];
        self.order[to] = item;
        self.place[item.1 as usize] = to as u32;
    }

    fn smaller_child(&self, of: usize) -> Option<usize> {
        let (left, right) = (2 * of + 1, 2 * of + 2);
        match (self.order.get(left), self.order.get(right)) {
            (Some(l), Some(r)) => Some(if r < l { right } else { left }),
            (Some(_), None) => Some(left),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_heap_agrees_with_a_sorted_map() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut heap, mut keys) = (Heap::default(), BTreeMap::new());
        heap.grow(50);
        for _ in 0..20_000 {
            let number = rng.u32(..50);
            match rng.u8(..3) {
                0 => {
                    heap.remove(number);
                    keys.remove(&number);
                }
                _ => {
                    let key = rng.u64(..40);
                    heap.set(number, key);
                    keys.insert(number, key);
                }
            }
            assert_eq!(heap.first(), keys.iter().map(|(n, k)| (*k, *n)).min());
            assert_eq!(heap.is_empty(), keys.is_empty());
            assert_eq!(heap.has(number), keys.contains_key(&number));
        }
    }
}
