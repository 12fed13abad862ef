//! What a worker does next. Pure.
//!
//! A unit of work is one tree: its target files in a random order, each once, read with the probability that
//! is asked for and written otherwise. Trees are dealt out to the workers of all clients in turn, so every
//! target of the set is used exactly once.

use world::Rng;

use lab_tools::files::Plan;

/// One step: a file that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which file of the tree.
    pub(crate) file: u32,
    /// From the server; else to it.
    pub(crate) reads: bool,
}

/// The trees of one of so many workers, in its order.
pub(crate) fn trees_of(trees: u32, (worker, workers): (u32, u32)) -> impl Iterator<Item = u32> {
    (worker..trees).step_by(workers.max(1) as usize)
}

/// A unit: all targets of a tree.
pub(crate) fn unit(plan: &Plan, (seed, tree): (u64, u32), read_share: f64) -> Vec<Step> {
    // The odd constant is 2^64 divided by the golden ratio: neighbouring trees have streams that are far from
    // each other.
    let mut rng = Rng::with_seed(seed ^ (u64::from(tree) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut files: Vec<u32> = (0..plan.spec().targets).collect();
    rng.shuffle(&mut files);
    files.into_iter().map(|file| Step { file, reads: rng.f64() < read_share }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_tools::files::SetSpec;

    #[test]
    fn every_target_is_used_exactly_once() {
        let plan = Plan::new(SetSpec::published(1).with_trees(20, 0)).expect("a plan");
        let (mut seen, mut reads) = (vec![0u8; 20_000], 0);
        for worker in 0..16 {
            for tree in trees_of(20, (worker, 16)) {
                for step in unit(&plan, (7, tree), 0.8) {
                    seen[(tree * 1000 + step.file) as usize] += 1;
                    reads += u32::from(step.reads);
                }
            }
        }
        assert!(seen.iter().all(|times| *times == 1));
        // The standard deviation is 57.
        assert!((15_700..16_300).contains(&reads), "{reads}");
        assert_eq!(unit(&plan, (7, 3), 0.8), unit(&plan, (7, 3), 0.8));
        assert_ne!(unit(&plan, (7, 3), 0.8), unit(&plan, (8, 3), 0.8));
    }
}
