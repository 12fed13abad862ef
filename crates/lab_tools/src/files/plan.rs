//! What is in a set: for each tree a few integers, from which the sizes of all files follow to the byte.
//!
//! Target files are what a load uses: those of `target_bytes_min` or more. Their sizes are drawn, and what is
//! above the minimum is scaled by one rational number so that the targets of the used trees have exactly the
//! bytes that are asked for: a file gets the difference of two whole quotients, prefix · total / sum, as
//! lines are drawn in pixels, and all differences together are the total.

use serde::{Deserialize, Serialize};
use world::Rng;

use super::content::seed_of;
use super::folders::{Folders, LEVELS_MAX};
use super::sizes::{Draw, PUBLISHED, SizeError, Sizes};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    /// Random seed.
    pub seed: u64,
    /// Trees that a load uses.
    pub trees: u32,
    /// Trees that no load touches.
    pub dummy_trees: u32,
    /// Files of a tree.
    pub files: u32,
    /// Of these, targets.
    pub targets: u32,
    /// The least size of a target; other files are smaller.
    pub target_bytes_min: u64,
    /// Bytes of all targets of the used trees together.
    pub target_bytes: u64,
    /// Levels of a tree.
    pub levels: u32,
    /// Folders of a tree.
    pub folders: u32,
    /// How long files are.
    pub sizes: Sizes,
}

/// Trees of a set, and files of a tree: together within what a directory tree of a file system holds without
/// trouble.
const TREES_MAX: u32 = 100_000;
const FILES_MAX: u32 = 100_000;
/// 2^53: sums are exact as doubles, too.
const BYTES_MAX: u64 = 1 << 53;

/// Why the parameters of a set are invalid.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum SetError {
    #[error("{0}")]
    Number(&'static str),
    /// The distribution.
    #[error("sizes: {0}")]
    Sizes(#[from] SizeError),
}

impl SetSpec {
    /// The set of the published file servers, as one of them has it: 300 trees, of which 128 are used.
    pub fn published(seed: u64) -> SetSpec {
        SetSpec {
            seed,
            trees: 128,
            dummy_trees: 172,
            files: 4000,
            targets: 1000,
            target_bytes_min: 50_000,
            target_bytes: 128_053_899_719,
            levels: 25,
            folders: 49,
            sizes: PUBLISHED,
        }
    }

    /// The same with fewer trees, the bytes in proportion.
    #[must_use]
    pub fn with_trees(self, trees: u32, dummy_trees: u32) -> SetSpec {
        let scaled = u128::from(self.target_bytes) * u128::from(trees) / u128::from(self.trees.max(1));
        SetSpec { trees, dummy_trees, target_bytes: scaled as u64, ..self }
    }

    /// Trees in all.
    pub fn all_trees(&self) -> u32 {
        self.trees + self.dummy_trees
    }

    /// Whether it can be planned.
    pub fn check(&self) -> Result<(), SetError> {
        let wrong = |cause| Err(SetError::Number(cause));
        self.sizes.check()?;
        if self.trees == 0 || self.trees > TREES_MAX || self.dummy_trees > TREES_MAX {
            return wrong("invalid number of trees or dummies: must be 1 to 100,000 each");
        }
        if self.files > FILES_MAX || self.targets == 0 || self.targets > self.files {
            return wrong("a tree has up to 100,000 files, of which one or more are targets");
        }
        if !(2..=LEVELS_MAX).contains(&self.levels) || !(self.levels..=999).contains(&self.folders) {
            return wrong("invalid tree: must have 2 to 128 levels, and at least as many folders, up to 999");
        }
        if self.target_bytes > BYTES_MAX {
            return wrong("targets too large: the limit is 2^53 bytes in total");
        }
        let files = u64::from(self.trees) * u64::from(self.targets);
        if files.checked_mul(self.target_bytes_min).is_none_or(|least| least > self.target_bytes) {
            return wrong("the targets have fewer bytes together than by their least size");
        }
        if Draw::at_least(&self.sizes, self.target_bytes_min).is_empty() {
            return wrong("no size is as long as a target");
        }
        if self.files > self.targets && Draw::below(&self.sizes, self.target_bytes_min).is_empty() {
            return wrong("all sizes are as long as a target: then all files are targets");
        }
        Ok(())
    }
}

/// A set that is planned.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: SetSpec,
    /// What was drawn above the minimum, before each used tree; the last is the whole.
    drawn: Vec<u64>,
}

impl Plan {
    /// Plans it.
    pub fn new(spec: SetSpec) -> Result<Plan, SetError> {
        spec.check()?;
        let mut drawn = vec![0u64];
        let mut sum = 0u64;
        for tree in 0..spec.trees {
            let mut rng = sizes_rng(&spec, tree);
            let draw = Draw::at_least(&spec.sizes, spec.target_bytes_min);
            let own = (0..spec.targets).map(|_| above(&draw, &spec, &mut rng));
            sum = own.fold(sum, u64::saturating_add);
            drawn.push(sum);
        }
        Ok(Plan { spec, drawn })
    }

    /// What was asked for.
    pub fn spec(&self) -> &SetSpec {
        &self.spec
    }

    /// By which factor drawn sizes above the minimum were scaled: near 1 when the distribution gives the
    /// total.
    pub fn scale(&self) -> f64 {
        self.above_all() as f64 / self.whole() as f64
    }

    fn above_all(&self) -> u64 {
        self.spec.target_bytes
            - u64::from(self.spec.trees) * u64::from(self.spec.targets) * self.spec.target_bytes_min
    }

    fn whole(&self) -> u64 {
        self.drawn[self.spec.trees as usize].max(1)
    }

    fn scaled(&self, prefix: u64) -> u64 {
        (u128::from(prefix) * u128::from(self.above_all()) / u128::from(self.whole())) as u64
    }

    /// Bytes of the targets of a used tree.
    pub fn target_bytes_of(&self, tree: u32) -> u64 {
        let [from, to] = [tree, tree + 1].map(|t| self.scaled(self.drawn[t as usize]));
        to - from + u64::from(self.spec.targets) * self.spec.target_bytes_min
    }

    /// A tree with all its files, the targets first. Dummies are numbered after the used ones.
    pub fn tree(&self, number: u32) -> Tree {
        let spec = &self.spec;
        let mut rng = sizes_rng(spec, number);
        let draw = Draw::at_least(&spec.sizes, spec.target_bytes_min);
        // Dummies are scaled as the others are.
        let mut prefix = self.drawn.get(number as usize).copied().unwrap_or_default();
        let mut bytes = Vec::with_capacity(spec.files as usize);
        for _ in 0..spec.targets {
            let next = prefix.saturating_add(above(&draw, spec, &mut rng));
            bytes.push(spec.target_bytes_min + self.scaled(next) - self.scaled(prefix));
            prefix = next;
        }
        let draw = Draw::below(&spec.sizes, spec.target_bytes_min);
        let most = spec.target_bytes_min.saturating_sub(1);
        bytes.extend((spec.targets..spec.files).map(|_| (draw.one(&mut rng) as u64).min(most)));
        let mut rng = Rng::with_seed(seed_of(spec.seed, &[u64::from(number) + 1, FOLDERS_SALT]));
        let folders = Folders::draw(spec.levels, spec.folders, &mut rng);
        let file = |bytes| File { folder: folders.place(&mut rng), bytes };
        let files = bytes.into_iter().map(file).collect();
        Tree { number, folders, files, targets: spec.targets }
    }
}

const SIZES_SALT: u64 = 0x0073_697a_6573;
const FOLDERS_SALT: u64 = 0x666f_6c64_6572;

fn sizes_rng(spec: &SetSpec, tree: u32) -> Rng {
    Rng::with_seed(seed_of(spec.seed, &[u64::from(tree) + 1, SIZES_SALT]))
}

/// What a target that was drawn has above the least size.
fn above(draw: &Draw<'_>, spec: &SetSpec, rng: &mut Rng) -> u64 {
    (draw.one(rng) as u64).saturating_sub(spec.target_bytes_min)
}

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// The folder that holds it.
    pub folder: u32,
    /// Its length.
    pub bytes: u64,
}

/// One tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Tree {
    pub number: u32,
    pub folders: Folders,
    /// Its files, the targets first.
    pub files: Vec<File>,
    targets: u32,
}

impl Tree {
    /// The files that a load uses.
    pub fn targets(&self) -> &[File] {
        &self.files[..self.targets as usize]
    }

    /// How the folder of the tree is called.
    pub fn name(number: u32) -> String {
        format!("tree{number:04}")
    }

    /// How a file is called.
    pub fn file_name(file: u32) -> String {
        format!("f{file:05}.txt")
    }

    /// The path of a file below the folder of all trees.
    pub fn path(&self, file: u32) -> String {
        let below = self.folders.path(self.files[file as usize].folder);
        let between = if below.is_empty() { "" } else { "/" };
        format!("{}/{below}{between}{}", Tree::name(self.number), Tree::file_name(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_set_is_exact_to_the_byte() {
        let plan = Plan::new(SetSpec::published(1)).expect("a plan");
        let spec = plan.spec();
        let (mut files, mut bytes) = (0, 0);
        for tree in 0..spec.trees {
            let own: u64 = plan.tree(tree).targets().iter().map(|f| f.bytes).sum();
            assert_eq!(own, plan.target_bytes_of(tree));
            (files, bytes) = (files + 1000, bytes + own);
        }
        assert_eq!((files, bytes), (128_000, 128_053_899_719));
        // The distribution gives the total nearly by itself.
        assert!((0.5..2.0).contains(&plan.scale()), "{}", plan.scale());
    }

    #[test]
    fn a_tree_is_the_same_whenever_it_is_made_and_another_with_another_seed() {
        let plan = |seed| Plan::new(SetSpec::published(seed).with_trees(3, 1)).expect("a plan");
        let tree = plan(5).tree(2);
        assert_eq!(tree, plan(5).tree(2));
        assert_ne!(tree.files, plan(6).tree(2).files);
        assert_eq!((tree.files.len(), tree.targets().len(), tree.folders.len()), (4000, 1000, 49));
        assert!(tree.targets().iter().all(|f| f.bytes >= 50_000));
        assert!(tree.files[1000..].iter().all(|f| f.bytes < 50_000));
        assert!(tree.path(7).starts_with("tree0002/") && tree.path(7).ends_with("f00007.txt"));
        // A dummy has files, too.
        assert_eq!(plan(5).tree(3).files.len(), 4000);
    }

    #[test]
    fn sets_that_cannot_be_are_refused() {
        let changes: [fn(&mut SetSpec); 7] = [
            |s| s.trees = 0,
            |s| s.targets = 5000,
            |s| s.target_bytes = 1000,
            |s| s.levels = 0,
            |s| s.folders = 10,
            |s| s.target_bytes_min = u64::MAX,
            |s| s.sizes = Sizes::Pareto { least_bytes: 60_000.0, alpha: 2.0 },
        ];
        for change in changes {
            let mut spec = SetSpec::published(1);
            change(&mut spec);
            assert!(Plan::new(spec.clone()).is_err(), "{spec:?}");
        }
    }
}
