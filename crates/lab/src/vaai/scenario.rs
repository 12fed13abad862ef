//! Scenario files: what is done, at which size, and which bounds decide. A file that does not fit is refused with one line
//! that names the place.

use std::path::Path;

use lab_core::scenario::{ScenarioError, parse, text_of};
use serde::Deserialize;

use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};

use super::measures::MEASURES;
use crate::testbed::embedded::ArrayShape;

/// The scenario of `masu verify vaai`, as built in.
const VAAI: &str = include_str!("../../../../scenarios/vaai.toml");
/// Where the built-in scenario lies in the repository.
const VAAI_PATH: &str = "scenarios/vaai.toml";

/// `vaai.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vaai {
    /// Its name.
    pub name: String,
    /// The question that the report answers.
    pub question: String,
    /// Sizes of the published experiment.
    pub published: Published,
    /// How it is run.
    pub run: Run,
    /// The array under test.
    pub array: ArrayShape,
    /// The steps of the published experiment.
    pub paper_steps: PaperSteps,
    /// What a power-on is.
    pub power_on: PowerOn,
    /// Thin provisioning.
    pub thin: Thin,
    /// What is claimed, in the order of the report.
    #[serde(rename = "claim")]
    pub claims: Claims,
}

/// Sizes at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The eager-zeroed disk.
    pub zeroed_disk: Size,
    /// The template.
    pub template: Size,
    /// How much of it holds data.
    pub template_used_percent: u64,
    /// Hosts that power on.
    pub hosts: usize,
    /// VMs of each.
    pub vms_per_host: usize,
    /// Size promised to each VM.
    pub vm_disk: Size,
}

/// How it is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Share of the published sizes.
    pub scale: f64,
    /// Commands in flight per host.
    pub outstanding: usize,
    /// Bytes of one read or write without offload.
    pub transfer: Size,
    /// Blocks read back after each operation.
    pub samples: usize,
}

/// The steps of the published experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperSteps {
    /// Bytes of one WRITE SAME.
    pub write_same: Size,
    /// Bytes of one segment of EXTENDED COPY.
    pub copy_segment: Size,
    /// Segments of one EXTENDED COPY.
    pub segments_per_command: usize,
}

/// A power-on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerOn {
    /// Lock operations on the VM's own files.
    pub file_locks: usize,
    /// Lock operations on shared resources.
    pub shared_locks: usize,
    /// The host's own work before each.
    pub pause: Time,
    /// Reads of the booting guest.
    pub boot_reads: usize,
    /// Its writes.
    pub boot_writes: usize,
    /// Time between two renewals of a host's heartbeat.
    pub heartbeat: Time,
    /// Longest wait after the first conflict.
    pub backoff_first: Time,
    /// Longest wait at all.
    pub backoff_max: Time,
}

/// Thin provisioning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thin {
    /// Size of the pool.
    pub pool: Size,
    /// Size of the volume on it.
    pub promised: Size,
    /// Its soft threshold.
    pub threshold_percent: u8,
    /// Of the pool, what its metadata may take.
    pub metadata_percent_max: u64,
}

/// Less has no room for a pool's own metadata beside data.
const THIN_POOL_BYTES_MIN: u64 = 64 << 20;

impl Vaai {
    /// The built-in one, or the file that replaces it, and its text.
    pub fn load(path: Option<&Path>) -> Result<(Vaai, String), ScenarioError> {
        let (text, path) = text_of(path, (VAAI, VAAI_PATH))?;
        Ok((Vaai::parse(&text, &path)?, text))
    }

    /// One from its text.
    pub fn parse(text: &str, path: &str) -> Result<Vaai, ScenarioError> {
        let vaai: Vaai = parse(text, path)?;
        vaai.check(path)?;
        Ok(vaai)
    }

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        let wrong =
            |key, cause: &str| Err(ScenarioError::Value { path: path.into(), key, cause: cause.into() });
        if !(self.run.scale > 0.0 && self.run.scale <= 1.0) {
            return wrong("run.scale", "is over 0 and at most 1");
        }
        if !(1..=256).contains(&self.run.outstanding) {
            return wrong("run.outstanding", "is between 1 and 256");
        }
        let transfer = self.run.transfer.0;
        if !transfer.is_multiple_of(4096) || !(4096..=world::BUF_LEN_MAX as u64).contains(&transfer) {
            return wrong("run.transfer", "is a multiple of 4 KiB, at most 8 MiB");
        }
        if !(1..=64).contains(&self.published.hosts) || !(1..=200).contains(&self.published.vms_per_host) {
            return wrong("published.hosts", "are 1 to 64, with 1 to 200 VMs each");
        }
        if !(1..=100).contains(&self.published.template_used_percent) {
            return wrong("published.template_used_percent", "is between 1 and 100");
        }
        if !(1..=99).contains(&self.thin.threshold_percent) || self.thin.promised <= self.thin.pool {
            return wrong("thin", "needs a threshold of 1 to 99 % and promises more than the pool holds");
        }
        if self.thin.pool.0 < THIN_POOL_BYTES_MIN
            || !self.thin.pool.0.is_multiple_of(1 << 20)
            || !self.thin.promised.0.is_multiple_of(1 << 20)
        {
            return wrong("thin", "needs whole MiB, and a pool of 64 MiB or more");
        }
        self.check_steps(path)?;
        if !self.array.page.0.is_power_of_two() || self.array.page.0 > 1 << 20 || self.array.page.0 < 4096 {
            return wrong("array.page", "is a power of two between 4 KiB and 1 MiB");
        }
        match self.claims.fault(&MEASURES) {
            Some(cause) => wrong("claim", &cause),
            None => Ok(()),
        }
    }

    fn check_steps(&self, path: &str) -> Result<(), ScenarioError> {
        let wrong =
            |key, cause: &str| Err(ScenarioError::Value { path: path.into(), key, cause: cause.into() });
        let steps = &self.paper_steps;
        let whole = |size: Size| size.0 > 0 && size.0.is_multiple_of(4096);
        if !whole(steps.write_same) || !whole(steps.copy_segment) || steps.segments_per_command == 0 {
            return wrong(
                "paper_steps",
                "are positive multiples of 4 KiB, with one segment or more per command",
            );
        }
        if !(1..=100_000).contains(&self.run.samples) {
            return wrong("run.samples", "is between 1 and 100000");
        }
        Ok(())
    }

    /// A published size, scaled to whole MiB, at least `least`.
    pub fn scaled(&self, size: Size, least_bytes: u64) -> u64 {
        let scaled = (size.0 as f64 * self.run.scale) as u64;
        (scaled >> 20 << 20).max(least_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str) -> String {
        assert!(VAAI.contains(from), "{from:?} stands in the scenario");
        Vaai::parse(&VAAI.replacen(from, to, 1), "my.toml").expect_err(to).to_string()
    }

    #[test]
    fn the_built_in_scenario_reads() {
        let (vaai, _) = Vaai::load(None).expect("built in");
        assert_eq!(vaai.published.zeroed_disk, Size(100 << 30));
        assert_eq!(vaai.scaled(vaai.published.zeroed_disk, 0), 2 << 30);
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_line() {
        let said = refused("outstanding = 32", "outstandng = 32");
        let line = VAAI.lines().position(|l| l.starts_with("outstanding")).expect("there") + 1;
        assert!(said.starts_with(&format!("my.toml:{line}: ")), "{said}");
        assert!(said.contains("`outstandng`") && !said.contains('\n'), "{said}");
    }

    #[test]
    fn values_that_make_no_sense_are_refused_in_one_line() {
        for (from, to, expected) in [
            ("scale = 0.02", "scale = 2", "run.scale"),
            ("page = \"1MiB\"", "page = \"1MB\"", "is no size"),
            ("pause = \"11ms\"", "pause = \"11\"", "is no time"),
            ("write_same = \"1MiB\"", "write_same = 0", "paper_steps"),
            ("pool = \"256MiB\"", "pool = \"1MiB\"", "thin"),
            ("\"zeroing.paper.time\"", "\"zeroing.paper.tim\"", "is not measured"),
            ("\"zeroing.paper.time\"", "\"zeroing.paper.cpu\"", "twice"),
            ("at_least = 95", "", "needs one of"),
            ("drives = \"memory\"", "drives = \"tape\"", "tape"),
        ] {
            let said = refused(from, to);
            assert!(said.contains(expected) && !said.contains('\n'), "{to}: {said}");
        }
        let said = Vaai::load(Some(Path::new("/nowhere/x.toml"))).expect_err("not there").to_string();
        assert!(said.starts_with("/nowhere/x.toml: "), "{said}");
    }
}
