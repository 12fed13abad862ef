//! One point: the servers of one pattern on one layout.

use array::config::CACHE_BYTES_MIN;

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
    /// Each has the share of the cache that it would have among so many servers; 0: among as many as there
    /// are.
    pub(super) share_of: u32,
    /// The first group has lost a drive, and nothing replaces it.
    pub(super) lost: bool,
}

impl Which {
    /// The first repeat of so many servers that go to the groups in turn, with the cache and files of the
    /// scenario.
    pub(super) fn in_turn(pattern: Pattern, layout: Layout, servers: u32) -> Which {
        Which { pattern, layout, servers, repeat: 0, packing: vec![], share_of: 0, lost: false }
    }

    pub(super) fn lu_of(&self, server: u32) -> u32 {
        Shape::of(self.layout).map_or(server, |shape| shape.lu_of(server, &self.packing))
    }

    /// The scenario with what gives each server its share of the cache.
    pub(super) fn with_share(&self, sanboot: &Sanboot) -> Sanboot {
        let mut with = sanboot.clone();
        if self.share_of == 0 {
            return with;
        }
        let (servers, share_of) = (u64::from(self.servers), u64::from(self.share_of));
        let whole_mib = |bytes: u64| bytes >> 20 << 20;
        match self.pattern.is_mixed() {
            // The heads would go further to read longer files.
            true => {
                let smaller = whole_mib(sanboot.array.cache.0 / share_of * servers);
                with.array.cache.0 = smaller.max(CACHE_BYTES_MIN);
            }
            false => {
                let longer = sanboot.published.file.0 / servers * share_of;
                with.published.file.0 = whole_mib(longer).min(sanboot.array.lu.0);
            }
        }
        with
    }
}

/// A number of its own for each point of a run.
pub(super) fn seed_of(seed: u64, which: &Which) -> u64 {
    let parts = [which.pattern as u64, which.layout as u64, which.servers.into(), which.repeat.into()];
    let packing = which.packing.iter().map(|servers| u64::from(*servers));
    let share = (which.share_of > 0).then_some(which.share_of.into());
    // Beyond any number of servers.
    let lost = which.lost.then_some(1 << 32);
    parts.into_iter().chain(packing).chain(share).chain(lost).fold(seed, |h, part| {
        // The odd constant is 2^64 divided by the golden ratio.
        (h.rotate_left(23) ^ (part + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;

    use super::*;

    #[test]
    fn a_share_of_the_cache_is_a_smaller_cache_for_mixes_and_longer_files_for_writes() {
        let (sanboot, _) = Sanboot::load(None).expect("built in");
        let with = |pattern, share_of| {
            let which = Which { share_of, ..Which::in_turn(pattern, Layout::Raid5x4, 4) };
            let with = which.with_share(&sanboot);
            (with.array.cache.0 >> 20, with.published.file.0 >> 20)
        };
        assert_eq!(with(Pattern::RandomMix, 16), (1024, 3072));
        assert_eq!(with(Pattern::RandomWrite, 16), (4096, 12288));
        for pattern in Pattern::ALL {
            assert_eq!(with(pattern, 0), (4096, 3072));
        }
    }

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
