//! What a run gave, window by window: the whole of `results.json`. No wall time is in it.

use serde::Serialize;

use super::copies::SpentBy;
use super::disk::Format;

/// Which configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in super::super) struct Which {
    pub(in super::super) format: Format,
    /// Whether the disk's write cache is switched on in the servers.
    pub(in super::super) os_cache: bool,
}

impl Which {
    pub(in super::super) const DYNAMIC: Which = Which { format: Format::Dynamic, os_cache: false };
    pub(in super::super) const VHDX: Which = Which { format: Format::Vhdx, os_cache: false };
    pub(in super::super) const FIXED: Which = Which { format: Format::Fixed, os_cache: false };
    pub(in super::super) const CACHED: Which = Which { format: Format::Fixed, os_cache: true };

    pub(in super::super) fn name(&self) -> &'static str {
        match (self.format, self.os_cache) {
            (Format::Dynamic, false) => "dynamic",
            (Format::Dynamic, true) => "dynamic, write cache on",
            (Format::Vhdx, false) => "dynamic VHDX",
            (Format::Vhdx, true) => "dynamic VHDX, write cache on",
            (Format::Fixed, false) => "fixed",
            (Format::Fixed, true) => "fixed, write cache on",
        }
    }
}

/// A server in one interval.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct ServerWindow {
    pub(in super::super) tool_mb_per_s: f64,
    pub(in super::super) cpu_percent: f64,
    pub(in super::super) available_mb: f64,
    pub(in super::super) queue: f64,
    pub(in super::super) queue_max: u32,
    pub(in super::super) read_ms: f64,
    pub(in super::super) write_ms: f64,
    pub(in super::super) received_mb_per_s: f64,
    pub(in super::super) sent_mb_per_s: f64,
}

/// All servers and their hosts in one interval.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct HostWindow {
    /// Its end.
    pub(in super::super) at_s: f64,
    pub(in super::super) servers: Vec<ServerWindow>,
    /// Of the hosts on average.
    pub(in super::super) logical_percent: f64,
    pub(in super::super) root_percent: f64,
    /// What a host has beside the memory of its servers, which is theirs from beginning to end.
    pub(in super::super) available_mb: f64,
}

/// A LU in one interval.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct LuWindow {
    pub(in super::super) read_iops: f64,
    pub(in super::super) write_iops: f64,
    pub(in super::super) read_mb_per_s: f64,
    pub(in super::super) write_mb_per_s: f64,
    /// None: nothing was written.
    pub(in super::super) write_hit_percent: Option<f64>,
}

/// The array in one interval.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct ArrayWindow {
    /// Its end.
    pub(in super::super) at_s: f64,
    /// The data LU of each server.
    pub(in super::super) lus: Vec<LuWindow>,
    pub(in super::super) controller_percent: Vec<f64>,
    pub(in super::super) pending_percent: f64,
    /// Of the drives of each group, on average.
    pub(in super::super) drive_percent: Vec<f64>,
    /// Commands in the drives of each group, all together.
    pub(in super::super) group_queue: Vec<f64>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Course {
    pub(in super::super) which: Which,
    pub(in super::super) seed: u64,
    pub(in super::super) hosts: Vec<HostWindow>,
    pub(in super::super) arrays: Vec<ArrayWindow>,
    /// Files that each server's clients copied.
    pub(in super::super) files: Vec<u64>,
    /// Blocks by which each virtual disk grew.
    pub(in super::super) grown_blocks: Vec<u64>,
    /// While it was counted.
    pub(in super::super) commands: Commands,
}

/// Commands of all servers to their LUs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(in super::super) struct Commands {
    /// With what guests read and write.
    pub(in super::super) payload: u64,
    /// Of these: across the units of 4 KiB of the array's cache.
    pub(in super::super) crooked: u64,
    /// With what virtual disks, and the host's file system for them, keep besides.
    pub(in super::super) besides: u64,
}

/// Some servers on one array.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct RampStep {
    /// How many controllers own their LUs.
    pub(in super::super) owners: usize,
    pub(in super::super) servers: u32,
    pub(in super::super) course: Course,
}

fn mean<T>(list: &[T], of: impl Fn(&T) -> f64) -> f64 {
    list.iter().map(of).sum::<f64>() / list.len().max(1) as f64
}

impl Course {
    /// Of a server on average, in each of the array's windows: what servers count more often is averaged.
    pub(in super::super) fn of_servers(&self, of: impl Fn(&ServerWindow) -> f64 + Copy) -> Vec<f64> {
        let per = (self.hosts.len() / self.arrays.len().max(1)).max(1);
        self.hosts.chunks(per).map(|windows| mean(windows, |w| mean(&w.servers, of))).collect()
    }

    pub(in super::super) fn of_host(&self, of: impl Fn(&HostWindow) -> f64 + Copy) -> Vec<f64> {
        let per = (self.hosts.len() / self.arrays.len().max(1)).max(1);
        self.hosts.chunks(per).map(|windows| mean(windows, of)).collect()
    }

    /// Of a LU on average, in each window.
    pub(in super::super) fn of_lus(&self, of: impl Fn(&LuWindow) -> f64 + Copy) -> Vec<f64> {
        self.arrays.iter().map(|w| mean(&w.lus, of)).collect()
    }

    /// Of the LUs that were written to on average, in each window in which one was.
    pub(in super::super) fn write_hits(&self) -> Vec<f64> {
        let written = |w: &ArrayWindow| w.lus.iter().filter_map(|lu| lu.write_hit_percent).collect();
        let windows = self.arrays.iter().map(written).filter(|lus: &Vec<f64>| !lus.is_empty());
        windows.map(|lus| mean(&lus, |percent| *percent)).collect()
    }

    /// Of the array, in each window.
    pub(in super::super) fn of_array(&self, of: impl Fn(&ArrayWindow) -> f64) -> Vec<f64> {
        self.arrays.iter().map(of).collect()
    }
}

/// A second of a pool that grows.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct GrowthWindow {
    pub(in super::super) at_s: f64,
    pub(in super::super) read_mb_per_s: f64,
    pub(in super::super) write_mb_per_s: f64,
    pub(in super::super) read_ms: f64,
    pub(in super::super) used_percent: f64,
    /// Writes that were refused in it.
    pub(in super::super) refused: u64,
    /// Requests to write that the server held back at its end, because too much of its cache was dirty.
    pub(in super::super) held_back: u32,
    /// What the server discarded in it of what its clients had been told is written.
    pub(in super::super) lost_mb: f64,
    /// Files of which something was discarded for the first time.
    pub(in super::super) lost_files: u64,
}

/// A run on a pool that is over-committed.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Growth {
    /// `in_time` or `full`.
    pub(in super::super) name: &'static str,
    pub(in super::super) windows: Vec<GrowthWindow>,
    pub(in super::super) promised_bytes: u64,
    pub(in super::super) pool_bytes: u64,
    /// Blocks by which the virtual disk grew.
    pub(in super::super) grown_blocks: u64,
    /// When the pool got a second group.
    pub(in super::super) expanded_s: f64,
    /// When the array said that the pool is filling up.
    pub(in super::super) warned_s: Option<f64>,
    /// The first and the last write that was refused.
    pub(in super::super) refused_s: Option<(f64, f64)>,
}

/// A stage of a run in which everything grows.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct StageSpan {
    pub(in super::super) stage: Stage,
    pub(in super::super) from_s: f64,
    pub(in super::super) to_s: f64,
    /// What was done in it took so long.
    pub(in super::super) took_s: Option<f64>,
    /// Of the pool, at its end.
    pub(in super::super) used_bytes: u64,
    pub(in super::super) size_bytes: u64,
}

/// What is done in a stage, while the clients go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Stage {
    /// Nothing: with what the others are compared.
    AsMade,
    /// Large files are copied until the pool, which promises more than it has, refuses a write.
    FillingUp,
    /// Nobody does anything about it.
    Full,
    /// A group joins the pool.
    GroupJoined,
    /// The LU has a new length, and its host hears of it.
    LuGrown,
    /// The virtual disk is grown.
    DiskGrown,
    /// Partition and file system are grown.
    VolumeGrown,
    /// Large files are copied.
    Filled,
    /// They are deleted, and the disk is told.
    Deleted,
    /// The file of the virtual disk is compacted.
    Compacted,
}

impl Stage {
    pub(in super::super) const ALL: [Stage; 10] = [
        Stage::AsMade,
        Stage::FillingUp,
        Stage::Full,
        Stage::GroupJoined,
        Stage::LuGrown,
        Stage::DiskGrown,
        Stage::VolumeGrown,
        Stage::Filled,
        Stage::Deleted,
        Stage::Compacted,
    ];

    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Stage::AsMade => "as made",
            Stage::GroupJoined => "a group joins the pool",
            Stage::LuGrown => "LU grown",
            Stage::DiskGrown => "virtual disk grown",
            Stage::VolumeGrown => "partition and file system grown",
            Stage::Filled => "filled",
            Stage::Deleted => "deleted, UNMAP",
            Stage::Compacted => "compacted",
            Stage::FillingUp => "filling up",
            Stage::Full => "full",
        }
    }
}

/// A second of such a run: the load of the clients alone, and beside it what is copied.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct StagedWindow {
    pub(in super::super) load: GrowthWindow,
    pub(in super::super) copied_mb_per_s: f64,
    /// Time that workers spent on files, and what these take where nothing grows; none: not compared.
    pub(in super::super) spent: Option<SpentBy>,
}

/// A run in which everything grows, stage by stage.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Staged {
    pub(in super::super) format: Format,
    pub(in super::super) stages: Vec<StageSpan>,
    pub(in super::super) windows: Vec<StagedWindow>,
    /// From the growth of the LU until its host has heard of it and asked for its length.
    pub(in super::super) seen_s: Option<f64>,
    /// What was copied and deleted; without what had not been written yet.
    pub(in super::super) deleted_bytes: u64,
    /// By how much the virtual disk's file was shorter then.
    pub(in super::super) shrunk_bytes: u64,
    /// By how much it was shorter when it had been compacted, and what came back to the pool.
    pub(in super::super) compacted_bytes: u64,
    pub(in super::super) returned_bytes: u64,
    /// What clients had taken of the released blocks before.
    pub(in super::super) reused_bytes: u64,
    /// When hosts heard that a threshold is crossed.
    pub(in super::super) warned_s: Vec<f64>,
    /// The first write that was refused.
    pub(in super::super) refused_s: Option<f64>,
    /// Writes that were refused although their pages were taken.
    pub(in super::super) wrongly_refused: u64,
}

impl Staged {
    /// The seconds that lie in some of its stages as a whole.
    pub(in super::super) fn seconds(&self, of: &[Stage]) -> Vec<&StagedWindow> {
        let spans = self.stages.iter().filter(|span| of.contains(&span.stage));
        let within =
            |span: &StageSpan, at_s: f64| at_s - 1.0 >= span.from_s - 1e-6 && at_s <= span.to_s + 1e-6;
        spans.flat_map(|span| self.windows.iter().filter(|w| within(span, w.load.at_s))).collect()
    }

    pub(in super::super) fn format_name(&self) -> &'static str {
        match self.format {
            Format::Vhdx => "dynamic VHDX",
            _ => "dynamic VHD",
        }
    }

    pub(in super::super) fn span(&self, of: Stage) -> Option<&StageSpan> {
        self.stages.iter().find(|span| span.stage == of)
    }
}
