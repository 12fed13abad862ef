//! The kinds of disk that are compared, and the set of files on each.

use serde::Serialize;

use super::super::scenario::Fileserver;
use lab_tools::files::{Plan, SetError, SetSpec};

/// A format of virtual disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// What the published experiment had.
    Vhd,
    /// What replaced it.
    Vhdx,
}

impl Format {
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Vhd => "VHD",
            Format::Vhdx => "VHDX",
        }
    }

    /// The ending of a file.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Format::Vhd => "vhd",
            Format::Vhdx => "vhdx",
        }
    }
}

/// What differs between configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Kind {
    pub(super) format: Format,
    /// Whether it grows.
    pub(super) dynamic: bool,
}

impl Kind {
    /// Of each format the one that grows, and the fixed one.
    pub(super) fn of(formats: &[Format]) -> Vec<Kind> {
        let both = |format: &Format| [true, false].map(|dynamic| Kind { format: *format, dynamic });
        formats.iter().flat_map(both).collect()
    }

    pub(super) fn name(self) -> String {
        format!("{} {}", if self.dynamic { "dynamic" } else { "fixed" }, self.format.name())
    }

    /// The same colour for the same kind everywhere.
    pub(super) fn color(self) -> &'static str {
        match (self.format, self.dynamic) {
            (Format::Vhd, true) => "orange",
            (Format::Vhd, false) => "blue",
            (Format::Vhdx, true) => "vermillion",
            (Format::Vhdx, false) => "sky",
        }
    }
}

/// The sizes of a run.
pub(super) struct Sizes {
    /// The set: one tree for each worker, and dummies that no worker touches.
    pub(super) plan: Plan,
    /// Bytes of all its files.
    pub(super) set_bytes: u64,
    /// Of the virtual disk.
    pub(super) disk_bytes: u64,
    /// Of the LU below it.
    pub(super) lu_bytes: u64,
}

/// Disks are whole so many bytes, and so many at least.
const DISK_STEP_BYTES: u64 = 64 << 20;
const DISK_BYTES_MIN: u64 = 256 << 20;
/// Of the set: room for what is written anew, and for the file system's own.
const DISK_TIMES: u64 = 3;
/// Of the LU, beside the disk: the host's file system, tables of the format.
const LU_MORE_BYTES: u64 = 256 << 20;

impl Sizes {
    /// Of the published server's set so much; the workers have a tree each, with as many targets as come on
    /// it.
    pub(super) fn of(
        scenario: &Fileserver,
        scale: f64,
        workers: u32,
        cache_bytes: u64,
        seed: u64,
    ) -> Result<Sizes, SetError> {
        let published = SetSpec::published(seed);
        let targets_all = f64::from(published.trees) * f64::from(published.targets) * scale;
        let targets = ((targets_all / f64::from(workers)).round() as u32).clamp(1, published.targets);
        let files = targets * published.files / published.targets;
        let share = f64::from(targets) * f64::from(workers)
            / (f64::from(published.trees) * f64::from(published.targets));
        let bytes = (published.target_bytes as f64 * share) as u64;
        // Dummies are read before a run, so that nothing of the set is in the array's memory: twice what that
        // holds.
        let tree_bytes = (bytes / u64::from(workers)).max(1);
        let dummy_trees =
            (2 * cache_bytes).div_ceil(tree_bytes).min(u64::from(scenario.published.dummy_trees)) as u32;
        let spec = SetSpec {
            trees: workers,
            dummy_trees,
            files,
            targets,
            target_bytes: bytes.max(u64::from(workers) * u64::from(targets) * published.target_bytes_min),
            ..published
        };
        let plan = Plan::new(spec)?;
        let of_tree = |number| plan.tree(number).files.iter().map(|file| file.bytes).sum::<u64>();
        let set_bytes = (0..plan.spec().all_trees()).map(of_tree).sum::<u64>();
        let disk_bytes = (DISK_TIMES * set_bytes).max(DISK_BYTES_MIN).next_multiple_of(DISK_STEP_BYTES);
        Ok(Sizes {
            set_bytes,
            disk_bytes,
            lu_bytes: disk_bytes + LU_MORE_BYTES + disk_bytes / 16 / 512 * 512,
            plan,
        })
    }
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;

    use super::*;

    #[test]
    fn a_scaled_set_is_the_published_one_in_small() {
        let (scenario, _) = Fileserver::load(None).expect("built in");
        for scale in [1e-6, 0.0005, 0.004, 0.02] {
            let sizes = Sizes::of(&scenario, scale, 16, 16 << 20, 1).expect("a set");
            let spec = sizes.plan.spec();
            // A worker has a tree of its own, of which a quarter are targets.
            assert_eq!((spec.trees, spec.files), (16, 4 * spec.targets));
            let asked = 128_053_899_719.0 * scale;
            let least = 16.0 * 1e6;
            assert!(
                spec.target_bytes as f64 > 0.7 * asked
                    && spec.target_bytes as f64 <= (1.3 * asked).max(least * 1.1)
            );
            assert!(
                sizes.disk_bytes >= 3 * sizes.set_bytes && sizes.disk_bytes.is_multiple_of(DISK_STEP_BYTES)
            );
            assert!(sizes.lu_bytes > sizes.disk_bytes && sizes.lu_bytes.is_multiple_of(512));
        }
        // Dummies fill the cache twice.
        let sizes = Sizes::of(&scenario, 0.004, 16, 64 << 20, 1).expect("a set");
        let spec = sizes.plan.spec();
        assert!(u64::from(spec.dummy_trees) * spec.target_bytes / 16 >= 128 << 20);
    }

    #[test]
    fn each_format_is_there_growing_and_fixed() {
        let names: Vec<String> = Kind::of(&[Format::Vhd, Format::Vhdx]).into_iter().map(Kind::name).collect();
        assert_eq!(names, ["dynamic VHD", "fixed VHD", "dynamic VHDX", "fixed VHDX"]);
    }
}
