//! Drives, RAID groups and the places in them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::Progress;

/// A drive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Drive {
    /// As declared.
    pub name: String,
    /// Path or kind; while it is not open, as declared.
    pub medium: String,
    /// By what masu knows the block device again when its path changes, such as `wwid: naa.5000c500a1b2c3d4`;
    /// none of other drives, and of devices that nothing identifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Size; 0 while it is not open.
    pub size_bytes: u64,
    /// The group that has or had it as a member.
    pub group: Option<String>,
    /// `active`, `rebuilding`, `missing`, `stale`, `failed`; `spare`, or `free` outside of groups.
    pub state: String,
    /// Why no group can take it, when it is a spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Read operations.
    pub reads: u64,
    /// By `reads`, since the drive was opened.
    pub read_bytes: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Discards.
    pub zeros: u64,
    /// Cache flushes that ended, since the drive was opened.
    pub flushes: u64,
    /// What the drive reports about itself; none where smartctl is not installed, or reads nothing from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<DriveHealth>,
    /// Why smartctl read nothing from it at the last look, of a block device. `health` is then older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_unknown: Option<String>,
}

/// What a drive reports about itself (SMART, the health log of NVMe, log pages of SCSI), read by smartctl
/// every few minutes. A field that the drive does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DriveHealth {
    /// When it was read, in milliseconds since 1970.
    pub read_unix_ms: u64,
    /// `passed`, or `failing`: the drive predicts its own failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assessment: Option<String>,
    /// As its own sensor has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i16>,
    /// The share of its rated endurance that is used; may exceed 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear_percent: Option<u8>,
    /// What is left of its spare blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_spare_percent: Option<u8>,
    /// Hours that it was powered on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// Errors that it could not correct, over its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<u64>,
    /// Sectors that it has replaced by others; of SAS, its grown defects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reallocated_sectors: Option<u64>,
    /// Vendor and type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

impl DriveHealth {
    /// In short, for people.
    pub fn text(&self) -> String {
        let temperature = self.temperature_celsius.map(|celsius| format!("{celsius} °C"));
        let wear = self.wear_percent.map(|percent| format!("{percent} % worn"));
        let parts = [self.assessment.clone(), temperature, wear];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// A RAID group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// As declared.
    pub name: String,
    /// `raid0`, `raid1`, `raid10`, `raid5` or `raid6`.
    pub level: String,
    /// Names of the members that are there, in the order of their positions.
    pub drives: Vec<String>,
    /// Usable size.
    pub size_bytes: u64,
    /// `optimal`, `degraded` or `failed`.
    pub state: String,
    /// How many more drives may fail, whichever they are.
    pub tolerates: u32,
    /// The places of its drives.
    pub members: Vec<Member>,
    /// How far a rebuild is.
    pub rebuild: Option<Progress>,
    /// How far a scrub is.
    pub scrub: Option<Progress>,
    /// Ranges that cannot be read until they are written again.
    pub lost_ranges: usize,
    /// Blocks that the last scrub found to differ between drives, and could not repair.
    #[serde(default)]
    pub differing_blocks: u64,
    /// Why its mirrors, which may differ since an unclean end, are not made equal yet: what lies on them is
    /// to be recovered first.
    #[serde(default)]
    pub resync_waits: Option<String>,
    /// Places written again after a medium error.
    pub repairs: u64,
    /// What of the time hosts keep while a rebuild or scrub runs.
    pub foreground_share_percent: u8,
    /// `fast`, `capacity` or `archive`.
    #[serde(default)]
    pub class: String,
    /// Its declaration lets a start serve what it finds although later writes may be on drives that are away.
    #[serde(default)]
    pub start_degraded: bool,
}

/// A place in a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its number.
    pub position: u32,
    /// Its name; none while the position is empty.
    pub drive: Option<String>,
    /// `active`, `missing`, `stale`, `failed` or `rebuilding`.
    pub state: String,
    /// Why the drive was dropped, when it was.
    pub cause: Option<String>,
    /// Whether its drive does not answer at the moment, and is read around.
    #[serde(default)]
    pub slow: bool,
    /// Operations of the drives in this place that failed, since the group was opened.
    #[serde(default)]
    pub errors: u64,
    /// Operations that were given up because the drive did not answer in time, since it was opened.
    #[serde(default)]
    pub silences: u64,
    /// What 99 of 100 of its reads and writes of the last whole minute did not exceed, in microseconds; none
    /// where there were few.
    #[serde(default)]
    pub p99_us: Option<u64>,
}
