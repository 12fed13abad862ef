//! One point: the servers of one pattern on one layout.

use super::bed::Shape;
use super::results::{Layout, Pattern};
use super::scenario::Sanboot;

/// Which point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Which {
    pub(super) pattern: Pattern,
    pub(super) layout: Layout,
    pub(super) servers: u32,
    pub(super) repeat: u32,
    /// So many servers on each group; none: the groups in turn.
    pub(super) packing: Vec<u32>,
    /// Their files are together as long as those of so many servers; 0: each is as long as the scenario says.
    pub(super) files_of: u32,
}

impl Which {
    /// The first repeat of so many servers that go to the groups in turn, with files as the scenario says.
    pub(super) fn in_turn(pattern: Pattern, layout: Layout, servers: u32) -> Which {
        Which { pattern, layout, servers, repeat: 0, packing: vec![], files_of: 0 }
    }

    pub(super) fn lu_of(&self, server: u32) -> u32 {
        Shape::of(self.layout).map_or(server, |shape| shape.lu_of(server, &self.packing))
    }

    /// The scenario with files as long as they are here.
    pub(super) fn with_files(&self, sanboot: &Sanboot) -> Sanboot {
        let mut with = sanboot.clone();
        if self.files_of > 0 {
            let longer = sanboot.published.file.0 / u64::from(self.servers) * u64::from(self.files_of);
            with.published.file.0 = (longer >> 20 << 20).min(sanboot.array.lu.0);
        }
        with
    }
}

/// A number of its own for each point of a run.
pub(super) fn seed_of(seed: u64, which: &Which) -> u64 {
    let parts = [which.pattern as u64, which.layout as u64, which.servers.into(), which.repeat.into()];
    let packing = which.packing.iter().map(|servers| u64::from(*servers));
    let longer = (which.files_of > 0).then_some(which.files_of.into());
    parts.into_iter().chain(packing).chain(longer).fold(seed, |h, part| {
        // The odd constant is 2^64 divided by the golden ratio.
        (h.rotate_left(23) ^ (part + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_a_seed_of_its_own() {
        let mut seeds = Vec::new();
        for pattern in Pattern::ALL {
            for layout in Layout::ALL {
                for servers in 1..=16 {
                    let first = Which::in_turn(pattern, layout, servers);
                    seeds.extend((0..3).map(|repeat| seed_of(1, &Which { repeat, ..first.clone() })));
                }
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6 * 4 * 16 * 3);
    }
}
