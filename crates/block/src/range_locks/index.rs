//! An index of many locks by their ranges: a treap whose nodes know the last end below them, so that the
//! locks on a range are found without looking at the others. Its nodes are kept by slot: once it has grown to
//! the number of locks, it allocates nothing.

use std::ops::Range;

use super::NONE;

#[derive(Clone, Debug)]
struct Node {
    range: Range<u64>,
    /// The last end in this node and below it.
    max_end: u64,
    priority: u64,
    /// Nodes whose ranges begin earlier, and later.
    left: usize,
    right: usize,
}

/// Ranges by slot.
#[derive(Debug)]
pub(super) struct Index {
    nodes: Vec<Node>,
    root: usize,
    /// What was inserted so far: priorities derive from it.
    inserted: u64,
}

impl Default for Index {
    fn default() -> Index {
        Index { nodes: Vec::new(), root: NONE, inserted: 0 }
    }
}

impl Index {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.root = NONE;
    }

    pub(super) fn insert(&mut self, slot: usize, range: Range<u64>) {
        self.inserted += 1;
        let vacant = Node { range: 0..0, max_end: 0, priority: 0, left: NONE, right: NONE };
        if self.nodes.len() <= slot {
            self.nodes.resize(slot + 1, vacant);
        }
        let (max_end, priority) = (range.end, mixed(self.inserted));
        self.nodes[slot] = Node { range, max_end, priority, left: NONE, right: NONE };
        self.root = self.insert_below(self.root, slot);
    }

    pub(super) fn remove(&mut self, slot: usize) {
        self.root = self.remove_below(self.root, slot);
    }

    /// Gives the slots whose ranges overlap this one, in no useful order. Returns how many it looked at.
    pub(super) fn overlapping(&self, range: &Range<u64>, found: &mut impl FnMut(usize)) -> usize {
        self.look(self.root, range, found)
    }

    fn look(&self, at: usize, range: &Range<u64>, found: &mut impl FnMut(usize)) -> usize {
        let Some(node) = self.nodes.get(at).filter(|node| range.start < node.max_end) else { return 1 };
        let mut looked = 1 + self.look(node.left, range, found);
        if node.range.start < range.end {
            if super::overlap(&node.range, range) {
                found(at);
            }
            looked += self.look(node.right, range, found);
        }
        looked
    }

    fn key(&self, slot: usize) -> (u64, usize) {
        (self.nodes[slot].range.start, slot)
    }

    fn max_end(&self, at: usize) -> u64 {
        self.nodes.get(at).map_or(0, |node| node.max_end)
    }

    fn update(&mut self, at: usize) {
        let node = &self.nodes[at];
        let below = self.max_end(node.left).max(self.max_end(node.right));
        self.nodes[at].max_end = below.max(self.nodes[at].range.end);
    }

    fn insert_below(&mut self, at: usize, new: usize) -> usize {
        if at == NONE {
            return new;
        }
        if self.nodes[new].priority > self.nodes[at].priority {
            let (left, right) = self.split(at, new);
            (self.nodes[new].left, self.nodes[new].right) = (left, right);
            self.update(new);
            return new;
        }
        if self.key(new) < self.key(at) {
            self.nodes[at].left = self.insert_below(self.nodes[at].left, new);
        } else {
            self.nodes[at].right = self.insert_below(self.nodes[at].right, new);
        }
        self.update(at);
        at
    }

    /// What is before a node, and what is behind it.
    fn split(&mut self, at: usize, by: usize) -> (usize, usize) {
        if at == NONE {
            return (NONE, NONE);
        }
        let parts = if self.key(at) < self.key(by) {
            let (left, right) = self.split(self.nodes[at].right, by);
            self.nodes[at].right = left;
            (at, right)
        } else {
            let (left, right) = self.split(self.nodes[at].left, by);
            self.nodes[at].left = right;
            (left, at)
        };
        self.update(at);
        parts
    }

    fn remove_below(&mut self, at: usize, gone: usize) -> usize {
        if at == gone {
            return self.merge(self.nodes[at].left, self.nodes[at].right);
        }
        if self.key(gone) < self.key(at) {
            self.nodes[at].left = self.remove_below(self.nodes[at].left, gone);
        } else {
            self.nodes[at].right = self.remove_below(self.nodes[at].right, gone);
        }
        self.update(at);
        at
    }

    fn merge(&mut self, left: usize, right: usize) -> usize {
        if left == NONE || right == NONE {
            return left.min(right);
        }
        let top = if self.nodes[left].priority > self.nodes[right].priority {
            self.nodes[left].right = self.merge(self.nodes[left].right, right);
            left
        } else {
            self.nodes[right].left = self.merge(left, self.nodes[right].left);
            right
        };
        self.update(top);
        top
    }
}

/// A number without a pattern, the same in every run (the finalizer of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
