//! The folders of a tree: one chain that reaches the lowest level, the others where files are.

use world::Rng;

/// Levels of a tree: at most as many as a path of 4096 bytes has room for with names of five.
pub(super) const LEVELS_MAX: u32 = 128;
/// How deep files lie: a Poisson distribution of this mean, as studies of many thousand file systems fit it
/// (2007); with 25 levels it is cut where one in ten million lies deeper. What the published file servers
/// measured is not known: chosen.
const DEPTH_MEAN: f64 = 6.5;

/// The folders of one tree. Folder 0 is its top, on level 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    parents: Vec<u32>,
    levels: Vec<u32>,
    /// The folders of each level, level 1 first.
    of_level: Vec<Vec<u32>>,
}

impl Folders {
    /// Draws so many folders on so many levels, two at least; as many folders as levels at least.
    pub fn draw(levels: u32, folders: u32, rng: &mut Rng) -> Folders {
        let mut out = Folders {
            parents: Vec::with_capacity(folders as usize),
            levels: Vec::with_capacity(folders as usize),
            of_level: vec![vec![]; levels as usize],
        };
        for level in 1..=levels {
            out.add(level, level.saturating_sub(2));
        }
        for _ in levels..folders {
            // The top of a tree is one.
            let level = depth(levels, rng).max(2);
            let above = &out.of_level[level as usize - 2];
            let parent = above[rng.usize(..above.len())];
            out.add(level, parent);
        }
        out
    }

    fn add(&mut self, level: u32, parent: u32) {
        let number = self.parents.len() as u32;
        self.parents.push(parent);
        self.levels.push(level);
        self.of_level[level as usize - 1].push(number);
    }

    /// Where a file lies.
    pub fn place(&self, rng: &mut Rng) -> u32 {
        let level = depth(self.of_level.len() as u32, rng);
        let there = &self.of_level[level as usize - 1];
        there[rng.usize(..there.len())]
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.parents.len() as u32
    }

    /// Never: a tree has a top.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The level of a folder; the top is on 1.
    pub fn level(&self, folder: u32) -> u32 {
        self.levels[folder as usize]
    }

    /// The way from the top to a folder, both included.
    pub fn way(&self, folder: u32) -> Vec<u32> {
        let mut way = vec![folder];
        let mut at = folder;
        while at != 0 {
            at = self.parents[at as usize];
            way.push(at);
        }
        way.reverse();
        way
    }

    /// The path of a folder below the top of its tree; empty for the top.
    pub fn path(&self, folder: u32) -> String {
        let names: Vec<String> = self.way(folder)[1..].iter().map(|number| folder_name(*number)).collect();
        names.join("/")
    }
}

/// How a folder is called.
pub(super) fn folder_name(number: u32) -> String {
    format!("d{number:03}")
}

/// A level, from 1.
fn depth(levels: u32, rng: &mut Rng) -> u32 {
    let (mut left, mut term, mut level) = (rng.f64(), (-DEPTH_MEAN).exp(), 1);
    while left > term && level < levels {
        left -= term;
        term *= DEPTH_MEAN / f64::from(level);
        level += 1;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_levels_and_its_folders() {
        for seed in 0..20 {
            let folders = Folders::draw(25, 49, &mut Rng::with_seed(seed));
            assert_eq!(folders.len(), 49);
            assert_eq!((0..49).map(|f| folders.level(f)).max(), Some(25));
            assert_eq!((0..49).filter(|f| folders.level(*f) == 1).count(), 1);
            for folder in 0..49 {
                let way = folders.way(folder);
                assert_eq!(way.len() as u32, folders.level(folder));
                assert_eq!(way[0], 0);
            }
        }
    }

    #[test]
    fn files_lie_where_the_distribution_says() {
        let mut rng = Rng::with_seed(7);
        let folders = Folders::draw(25, 49, &mut rng);
        let mean = (0..20_000).map(|_| f64::from(folders.level(folders.place(&mut rng)))).sum::<f64>() / 2e4;
        // Level 1 is depth 0.
        assert!((mean - (DEPTH_MEAN + 1.0)).abs() < 0.1, "{mean}");
    }
}
