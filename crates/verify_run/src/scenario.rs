//! A scenario as a person writes it, key by key. `docs/verify_run.md` describes the keys; [`super::plan`]
//! checks what they say together.

use std::path::PathBuf;

use array::config::{CachePolicy, Level};
use lab_core::bound::{Bound, End};
use lab_core::claim::{About, Kind, Published};
use lab_core::quantity::{Size, Time};
use lab_core::record::World;
use serde::Deserialize;

/// The scenario that `masu run --new` writes.
pub const EXAMPLE: &str = include_str!("../../../scenarios/run.toml");
/// Where it lies in the repository.
pub const EXAMPLE_PATH: &str = "scenarios/run.toml";

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Written {
    pub name: String,
    /// The question that the report answers.
    pub question: String,
    /// How it is measured.
    #[serde(default)]
    pub run: RunTable,
    /// The arrays that are compared; none: the LUs of `--target`.
    #[serde(default, rename = "array")]
    pub arrays: Vec<ArrayTable>,
    /// The volumes, the same on every array.
    #[serde(rename = "volume")]
    pub volumes: Vec<VolumeTable>,
    /// Hosts; a volume that none names is on a host of its own.
    #[serde(default, rename = "host")]
    pub hosts: Vec<HostTable>,
    /// What the hosts do.
    #[serde(rename = "load")]
    pub loads: Vec<LoadTable>,
    /// One after the other.
    #[serde(rename = "phase")]
    pub phases: Vec<PhaseTable>,
    /// How many volumes a load can have.
    pub search: Option<SearchTable>,
    /// What is claimed, the most important first.
    #[serde(rename = "claim")]
    pub claims: Vec<ClaimTable>,
}

/// `[run]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunTable {
    /// Before the first phase, with its loads.
    pub warm_up: Time,
    /// At the beginning of each phase, not counted.
    pub settle: Time,
    /// What a sample is measured over.
    pub window: Time,
    /// Each array is run so often, with other seeds.
    pub repeats: usize,
    /// What is drawn over time.
    pub figures: Vec<Quantity>,
}

impl Default for RunTable {
    fn default() -> RunTable {
        let time = |s| Time(std::time::Duration::from_secs(s));
        RunTable {
            warm_up: time(2),
            settle: time(1),
            window: time(1),
            repeats: 1,
            figures: vec![Quantity::Rate, Quantity::ResponseMean],
        }
    }
}

/// `[[array]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct ArrayTable {
    pub name: String,
    /// What is not said here is as on this array.
    pub like: Option<String>,
    /// Of its controller; 0: none.
    pub cache: Option<Size>,
    #[serde(default, rename = "drive")]
    pub drives: Vec<DriveTable>,
    /// RAID groups.
    #[serde(default, rename = "group")]
    pub groups: Vec<GroupTable>,
    #[serde(default, rename = "pool")]
    pub pools: Vec<PoolTable>,
    /// Drives in no group, of which one takes the place of a drive that fails.
    pub spares: Option<Vec<String>>,
}

/// `[[array.drive]]`: several alike are called `d1`, `d2`, ….
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct DriveTable {
    pub name: String,
    /// How many of them.
    pub count: Option<usize>,
    /// Of the catalogue, or a file that describes one, beside the scenario or where masu runs.
    pub model: Option<String>,
    /// A file or a block device; only in the real world.
    pub path: Option<PathBuf>,
    /// Of a new file.
    pub size: Option<Size>,
}

/// `[[array.group]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct GroupTable {
    pub name: String,
    /// RAID level.
    pub level: Level,
    /// Drives, or the name that several have together.
    pub drives: Vec<String>,
    pub stripe_unit: Option<Size>,
}

/// `[[array.pool]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct PoolTable {
    pub name: String,
    /// Its groups when it begins.
    pub groups: Vec<String>,
    /// Page size.
    pub page: Option<Size>,
}

/// What a volume is promised, and may not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTable {
    /// IOPS, normalised to 8 KiB.
    pub minimum: Option<u64>,
    /// IOPS, normalised to 8 KiB.
    pub maximum: Option<u64>,
    /// Bytes per second.
    pub bandwidth: Option<Size>,
    /// Part of what is left.
    pub weight: Option<u32>,
}

/// `[[volume]]`: several alike are called `vm1`, `vm2`, ….
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct VolumeTable {
    pub name: String,
    /// How many of them.
    pub count: Option<usize>,
    /// Where it lies; none where there is one pool.
    pub pool: Option<String>,
    /// Its size; a LU of `--target` must have as much, and is used whole.
    pub size: Size,
    /// Takes space as it is written.
    #[serde(default)]
    pub thin: bool,
    /// What the cache does with writes.
    #[serde(default)]
    pub cache: CachePolicy,
    /// From the beginning on.
    pub policy: Option<PolicyTable>,
}

/// `[[host]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct HostTable {
    pub name: String,
    /// What it uses: volumes, or the name that several have together.
    pub volumes: Vec<String>,
}

/// `[[load]]`: the same on each of its volumes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct LoadTable {
    pub name: String,
    /// Volumes, or the name that several have together.
    pub volumes: Vec<String>,
    /// Access specifications in Iometer's terms, as `masu load --access` takes them.
    #[serde(default)]
    pub access: Vec<String>,
    /// A job file of fio, beside the scenario.
    pub fio: Option<PathBuf>,
    /// A configuration file of Iometer, beside the scenario.
    pub icf: Option<PathBuf>,
    /// Only this job, or access specification, of the file.
    pub job: Option<String>,
    /// In flight on each volume.
    pub outstanding: Option<u16>,
    /// I/Os per second on each volume, whether the array keeps up or not.
    pub rate: Option<f64>,
    /// As independent users come, and not at the same distance.
    #[serde(default)]
    pub poisson: bool,
    /// Only the first part of each volume.
    pub span: Option<Size>,
}

/// `[[phase]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct PhaseTable {
    pub name: String,
    /// How long.
    pub time: Time,
    /// Which loads run.
    pub loads: Vec<String>,
    /// Policies from now on, until another phase changes them.
    #[serde(default)]
    pub policies: Vec<NewPolicy>,
    /// Drives that are pulled when it begins.
    #[serde(default)]
    pub pull: Vec<String>,
    /// Groups that pools get when it begins.
    #[serde(default)]
    pub grow: Vec<Grow>,
}

/// `policies = [{ volumes = ["vm"], maximum = 500 }]`; without a rate: no policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// Volumes, or the name that several have together.
    pub volumes: Vec<String>,
    /// See [`PolicyTable`].
    pub minimum: Option<u64>,
    /// See [`PolicyTable`].
    pub maximum: Option<u64>,
    /// See [`PolicyTable`].
    pub bandwidth: Option<Size>,
    /// See [`PolicyTable`].
    pub weight: Option<u32>,
}

/// `grow = [{ pool = "p", group = "g2" }]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Grow {
    pub pool: String,
    /// A group of the array that is in no pool.
    pub group: String,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// I/Os per second.
    Rate,
    /// 10⁶ bytes per second.
    Throughput,
    /// Response time, mean.
    ResponseMean,
    /// Median.
    ResponseP50,
    /// 99 %.
    ResponseP99,
    /// The longest.
    ResponseMax,
    /// I/Os that ended otherwise than well.
    Failed,
    /// Of the bytes read, those that the array's cache had.
    ReadHits,
    /// From the pulling of drives until all groups are optimal again; of several such times the longest.
    RebuildTime,
    /// The most volumes of the load of `[search]` with which its bound holds.
    LargestCount,
}

impl Quantity {
    /// As the scenario writes it.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Rate => "rate",
            Quantity::Throughput => "throughput",
            Quantity::ResponseMean => "response_mean",
            Quantity::ResponseP50 => "response_p50",
            Quantity::ResponseP99 => "response_p99",
            Quantity::ResponseMax => "response_max",
            Quantity::Failed => "failed",
            Quantity::ReadHits => "read_hits",
            Quantity::RebuildTime => "rebuild_time",
            Quantity::LargestCount => "largest_count",
        }
    }

    /// For a person.
    pub fn words(self) -> &'static str {
        match self {
            Quantity::Rate => "rate",
            Quantity::Throughput => "throughput",
            Quantity::ResponseMean => "mean response time",
            Quantity::ResponseP50 => "median response time",
            Quantity::ResponseP99 => "response time, 99th percentile",
            Quantity::ResponseMax => "longest response time",
            Quantity::Failed => "failed I/Os",
            Quantity::ReadHits => "read hits",
            Quantity::RebuildTime => "rebuild time",
            Quantity::LargestCount => "largest count",
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Rate => "IOPS",
            Quantity::Throughput => "MB/s",
            Quantity::ResponseMean
            | Quantity::ResponseP50
            | Quantity::ResponseP99
            | Quantity::ResponseMax => "ms",
            Quantity::Failed => "I/Os",
            Quantity::ReadHits => "%",
            Quantity::RebuildTime => "s",
            Quantity::LargestCount => "volumes",
        }
    }

    /// Whether it has a value in each window.
    pub fn has_windows(self) -> bool {
        !matches!(self, Quantity::RebuildTime | Quantity::LargestCount)
    }

    /// Whether it is a response time.
    pub fn is_response(self) -> bool {
        use Quantity::{ResponseMax, ResponseMean, ResponseP50, ResponseP99};
        matches!(self, ResponseMean | ResponseP50 | ResponseP99 | ResponseMax)
    }

    /// Whether it is one of an array and not of a load.
    pub fn is_of_array(self) -> bool {
        matches!(self, Quantity::ReadHits | Quantity::RebuildTime | Quantity::LargestCount)
    }
}

/// `[search]`: the most volumes of a load with which a bound holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchTable {
    /// Of this load the first so many volumes are used.
    pub load: String,
    /// What must keep to the bound.
    pub metric: Quantity,
    /// Of which load; none: of the one whose volumes are counted.
    pub of: Option<String>,
    /// In which phase; none where there is one.
    pub phase: Option<String>,
    /// It must be this or more.
    pub at_least: Option<f64>,
    /// It must be this or less.
    pub at_most: Option<f64>,
}

/// `[[claim]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimTable {
    /// Unique.
    pub id: String,
    /// In words.
    pub name: String,
    /// What is measured.
    pub metric: Quantity,
    /// Of which load; none: of all that run.
    pub load: Option<String>,
    /// In which phase; none where there is one.
    pub phase: Option<String>,
    /// On which array; none: on each.
    pub array: Option<String>,
    /// Divided by the same at another place.
    pub compared_with: Option<Place>,
    /// It must be this or more.
    pub at_least: Option<f64>,
    /// It must be this or less.
    pub at_most: Option<f64>,
    /// It must be more.
    pub above: Option<f64>,
    /// It must be less.
    pub below: Option<f64>,
    /// What it is about.
    #[serde(default = "promise")]
    pub about: About,
    /// What it can show.
    #[serde(default = "emerges")]
    pub kind: Kind,
    /// The published value.
    pub published: Option<Published>,
    /// Where the bound comes from.
    pub source: String,
    /// Only in this world.
    pub world: Option<World>,
    /// A few words beside its number.
    pub note: Option<String>,
}

fn promise() -> About {
    About::Promise
}

fn emerges() -> Kind {
    Kind::Emerges
}

/// Another place: what is not said is the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Place {
    pub load: Option<String>,
    pub phase: Option<String>,
    pub array: Option<String>,
}

impl SearchTable {
    /// What must hold.
    pub fn bound(&self) -> Bound {
        let end = |value: Option<f64>| value.map(|value| End { value, strict: false });
        Bound { lower: end(self.at_least), upper: end(self.at_most) }
    }
}
