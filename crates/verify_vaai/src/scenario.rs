//! Scenario files: what is done, at which size, and which bounds decide. A file that does not fit is refused
//! with one line that names the place.

use std::ops::RangeInclusive;
use std::time::Duration;

use lab_core::checks::Checks;
use lab_core::scenario::ScenarioFile;
use serde::Deserialize;

use lab_core::claim::Claims;
use lab_core::quantity::{DISK_BYTES_MAX, Size, Time};

use super::model::inputs::Modelled;
use lab_tools::datastore::Patience;
use lab_tools::testbed::embedded::ArrayShape;

/// `vaai.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Vaai {
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
    /// The other operations that hosts leave to the array.
    pub daily: Daily,
    /// The published experiment in virtual time.
    pub model: Modelled,
    /// What is claimed, in the order of the report.
    #[serde(rename = "claim")]
    pub claims: Claims,
}

/// Sizes at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Published {
    /// The eager-zeroed disk.
    pub zeroed_disk: Size,
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
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct PowerOn {
    /// Lock operations on the VM's own files.
    pub file_locks: usize,
    /// Lock operations on shared resources.
    pub shared_locks: usize,
    /// The host's own work before each.
    pub pause: Time,
    /// Reads of the booting guest.
    pub boot_reads: usize,
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

/// The other operations, in virtual time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daily {
    /// How much of all of it the quick form does.
    pub quick_share: f64,
    /// VMs of each host.
    pub vms_per_host: usize,
    /// The host's own work before each lock operation.
    pub pause: Time,
    /// Extents by which a thin disk grows.
    pub growths: usize,
    /// Blocks that are written for the first time.
    pub first_writes: usize,
    /// Reads and writes that a guest keeps in flight.
    pub guest_outstanding: usize,
    /// A guest's own work between two of them.
    pub guest_pause: Time,
    /// Hosts that deploy from one template at once.
    pub deployed: usize,
    /// The disk of each.
    pub deployed_disk: Size,
    /// A disk that moves between LUs.
    pub moved_disk: Size,
    /// What of it is copied at a time.
    pub moved_region: Size,
    /// The disk of a VM that is deleted.
    pub deleted_disk: Size,
    /// That of the VM beside it, and of a template whose clone is deleted.
    pub other_disk: Size,
}

/// Less than what one segment copies is no region, and no disk.
const PART_BYTES_MIN: u64 = 4 << 20;

impl Daily {
    /// All of it, or the quick form's share.
    pub(crate) fn of(&self, quick: bool) -> Daily {
        if !quick {
            return self.clone();
        }
        let count = |n: usize| ((n as f64 * self.quick_share).round() as usize).max(1);
        let part = |size: Size| {
            let bytes = (size.0 as f64 * self.quick_share) as u64;
            Size((bytes / PART_BYTES_MIN * PART_BYTES_MIN).max(PART_BYTES_MIN))
        };
        Daily {
            vms_per_host: count(self.vms_per_host),
            first_writes: count(self.first_writes),
            deployed_disk: part(self.deployed_disk),
            moved_disk: part(self.moved_disk),
            moved_region: part(self.moved_region),
            deleted_disk: part(self.deleted_disk),
            other_disk: part(self.other_disk),
            ..self.clone()
        }
    }

    fn check(&self, c: &mut Checks) {
        c.share("daily.quick_share", self.quick_share);
        c.range("daily.pause", self.pause, WAIT);
        c.range("daily.guest_pause", self.guest_pause, WAIT);
        c.range("daily.vms_per_host", self.vms_per_host, 1..=60);
        c.range("daily.growths", self.growths, 1..=16);
        c.range("daily.first_writes", self.first_writes, 1..=256);
        c.range("daily.guest_outstanding", self.guest_outstanding, 1..=64);
        c.range("daily.deployed", self.deployed, 1..=16);
        for (key, size) in [
            ("daily.deployed_disk", self.deployed_disk),
            ("daily.moved_disk", self.moved_disk),
            ("daily.moved_region", self.moved_region),
            ("daily.deleted_disk", self.deleted_disk),
            ("daily.other_disk", self.other_disk),
        ] {
            c.multiple(key, size, Size(PART_BYTES_MIN), PART_BYTES_MIN..=256 << 20);
        }
    }
}

/// Between two steps of a host.
pub(crate) const WAIT: RangeInclusive<Time> = Time(Duration::ZERO)..=Time(Duration::from_secs(60));

impl PowerOn {
    fn check(&self, c: &mut Checks) {
        c.range("power_on.shared_locks", self.shared_locks, 0..=1000);
        c.range("power_on.file_locks", self.file_locks, 0..=10_000);
        c.range("power_on.boot_reads", self.boot_reads, 0..=10_000);
        c.range("power_on.boot_writes", self.boot_writes, 0..=10_000);
        for (key, time) in [
            ("power_on.pause", self.pause),
            ("power_on.heartbeat", self.heartbeat),
            ("power_on.backoff_first", self.backoff_first),
            ("power_on.backoff_max", self.backoff_max),
        ] {
            c.range(key, time, WAIT);
        }
        c.must("power_on.heartbeat", self.heartbeat.0 >= Duration::from_millis(1), "be 1 ms or more");
        c.must("power_on.backoff_max", self.backoff_max >= self.backoff_first, "be backoff_first or more");
    }
}

/// Less has no room for a pool's own metadata beside data.
const THIN_POOL_BYTES_MIN: u64 = 64 << 20;

impl Vaai {
    /// How long hosts wait for locks: in the model, a RESERVATION CONFLICT has a wait of its own.
    pub(crate) fn patience(&self, is_model: bool) -> Patience {
        let own = &self.power_on;
        let conflict = is_model.then_some(self.model.conflict_wait.0);
        Patience { first: own.backoff_first.0, max: own.backoff_max.0, conflict }
    }

    /// A published size, scaled to whole MiB, at least `least`.
    pub fn scaled(&self, size: Size, least_bytes: u64) -> u64 {
        let scaled = (size.0 as f64 * self.run.scale) as u64;
        (scaled >> 20 << 20).max(least_bytes)
    }
}

impl ScenarioFile for Vaai {
    const BUILT_IN: (&'static str, &'static str) =
        (include_str!("../../../scenarios/vaai.toml"), "scenarios/vaai.toml");
    const MEASURES: &'static [&'static str] = &super::measures::MEASURES;

    fn claims(&self) -> &Claims {
        &self.claims
    }

    fn check(&self, c: &mut Checks) {
        let (run, p, thin, steps) = (&self.run, &self.published, &self.thin, &self.paper_steps);
        c.share("run.scale", run.scale);
        self.power_on.check(c);
        for (key, size) in [
            ("published.zeroed_disk", p.zeroed_disk),
            ("published.template", p.template),
            ("published.vm_disk", p.vm_disk),
        ] {
            c.multiple(key, size, Size(1 << 20), 1 << 20..=1 << 40);
        }
        // What the quick form measures is multiplied.
        let quick_bytes = p.zeroed_disk.0.min(p.template.0) as f64 * self.model.quick_share;
        let has_some = quick_bytes >= (1 << 20) as f64;
        c.must("model.quick_share", has_some, "leave 1 MiB of published.zeroed_disk and published.template");
        c.range("run.outstanding", run.outstanding, 1..=256);
        c.range("run.samples", run.samples, 1..=100_000);
        c.multiple("run.transfer", run.transfer, Size(4096), 4096..=world::BUF_LEN_MAX as u64);
        c.range("published.hosts", p.hosts, 1..=64);
        c.range("published.vms_per_host", p.vms_per_host, 1..=200);
        c.range("published.template_used_percent", p.template_used_percent, 1..=100);
        c.range("thin.metadata_percent_max", thin.metadata_percent_max, 1..=100);
        c.range("thin.threshold_percent", thin.threshold_percent, 1..=99);
        c.multiple("thin.pool", thin.pool, Size(1 << 20), THIN_POOL_BYTES_MIN..=1 << 40);
        c.multiple("thin.promised", thin.promised, Size(1 << 20), 0..=DISK_BYTES_MAX);
        c.must("thin.promised", thin.promised > thin.pool, "be more than thin.pool");
        c.multiple("paper_steps.write_same", steps.write_same, Size(4096), 4096..=1 << 30);
        c.multiple("paper_steps.copy_segment", steps.copy_segment, Size(4096), 4096..=1 << 30);
        c.range("paper_steps.segments_per_command", steps.segments_per_command, 1..=65_536);
        self.daily.check(c);
        self.model.check(c);
        c.range("array.segment_bytes_max", self.array.segment_bytes_max, 88..=65_535);
        c.power_of_two("array.page", self.array.page, 4096..=1 << 20);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn refused(from: &str, to: &str) -> String {
        assert!(Vaai::BUILT_IN.0.contains(from), "{from:?} stands in the scenario");
        Vaai::parse(&Vaai::BUILT_IN.0.replacen(from, to, 1), "my.toml").expect_err(to).to_string()
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
        let line = Vaai::BUILT_IN.0.lines().position(|l| l.starts_with("outstanding")).expect("there") + 1;
        assert!(said.starts_with(&format!("my.toml:{line}: ")), "{said}");
        assert!(said.contains("`outstandng`") && !said.contains('\n'), "{said}");
    }

    #[test]
    fn values_that_make_no_sense_are_refused_in_one_line() {
        for (from, to, expected) in [
            ("scale = 0.02", "scale = 2", "run.scale"),
            ("zeroed_disk = \"100GiB\"", "zeroed_disk = \"0\"", "published.zeroed_disk"),
            ("template = \"50GiB\"", "template = 513", "published.template"),
            ("quick_share = 0.0625", "quick_share = 1e-9", "model.quick_share"),
            ("segment_bytes_max = 1448", "segment_bytes_max = 0", "array.segment_bytes_max"),
            ("backoff_max = \"64ms\"", "backoff_max = \"1ms\"", "power_on.backoff_max"),
            ("heartbeat = \"300ms\"", "heartbeat = \"0s\"", "power_on.heartbeat"),
            ("page = \"1MiB\"", "page = \"1MX\"", "invalid size"),
            ("pause = \"11ms\"", "pause = \"11\"", "invalid time"),
            ("write_same = \"1MiB\"", "write_same = 0", "paper_steps"),
            ("pool = \"256MiB\"", "pool = \"1MiB\"", "thin"),
            ("\"zeroing.paper.time\"", "\"zeroing.paper.tim\"", "unknown claim"),
            ("\"zeroing.paper.time\"", "\"zeroing.paper.cpu\"", "twice"),
            ("at_least = 95", "", "must have one of"),
            ("drives = \"memory\"", "drives = \"tape\"", "tape"),
        ] {
            let said = refused(from, to);
            assert!(said.contains(expected) && !said.contains('\n'), "{to}: {said}");
        }
        let said = Vaai::load(Some(Path::new("/nowhere/x.toml"))).expect_err("not there").to_string();
        assert!(said.starts_with("/nowhere/x.toml: "), "{said}");
    }
}
