//! Logical units: volumes and images, their mappings and counters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::latency::Latencies;
use crate::missing::ImageFault;
use crate::qos::VolumeQos;

/// A volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// As declared.
    pub name: String,
    /// The pool that its pages come from.
    pub pool: String,
    /// The volume of which it is a snapshot; that one may be deleted by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_of: Option<String>,
    /// Capacity that hosts see.
    pub size_bytes: u64,
    /// Pages that are mapped, whether shared or not.
    pub used_bytes: u64,
    /// Of these, in pages that other volumes use, too.
    pub shared_bytes: u64,
    /// Of these, in pages that nobody else uses: what deleting the volume gives back.
    pub exclusive_bytes: u64,
    /// `thin` or `thick`.
    pub provisioning: String,
    /// Logical block length.
    pub block_bytes: u32,
    /// NAA identifier.
    pub naa: String,
    /// Hosts and LUNs.
    pub mapped_to: Vec<Mapping>,
    /// How the service stands that it is promised.
    #[serde(default)]
    pub qos: VolumeQos,
    /// What was done with it.
    pub counters: VolumeCounters,
}

/// A virtual disk in a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Image {
    /// As declared.
    pub name: String,
    /// Path of the file that holds it.
    pub file: String,
    /// The controller that serves it.
    pub controller: usize,
    /// Hosts may read it only.
    pub read_only: bool,
    /// Hosts and LUNs.
    pub mapped_to: Vec<Mapping>,
    /// Why it is not served; nothing while it is.
    pub error: Option<String>,
    /// What is wrong with it while it is served.
    #[serde(default)]
    pub trouble: Option<String>,
    /// What kind of `error` or `trouble` it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ImageFault>,
    /// Its format, as in `vhdx, dynamic`; empty while it is not open, and what follows is 0 then.
    pub format: String,
    /// The files of its parents, the nearest first.
    pub parents: Vec<String>,
    /// Size of the disk.
    pub size_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Logical block length.
    pub block_bytes: u32,
    /// NAA identifier.
    pub naa: String,
    /// How the service stands that it is promised.
    #[serde(default)]
    pub qos: VolumeQos,
    /// What was done with it.
    pub counters: VolumeCounters,
}

/// A LUN mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mapping {
    /// The declared host.
    pub host: String,
    /// The number by which the host addresses it.
    pub lun: u16,
}

/// A LU's counters: how much was done, and how much of it by offload.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct VolumeCounters {
    /// All commands.
    pub commands: u64,
    /// Of these, reads.
    #[serde(default)]
    pub reads: u64,
    /// Of these, writes.
    #[serde(default)]
    pub writes: u64,
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Bytes written by hosts.
    pub write_bytes: u64,
    /// Bytes zeroed by WRITE SAME.
    pub zeroed_bytes: u64,
    /// Bytes copied by moving them inside the array.
    pub moved_bytes: u64,
    /// Bytes copied by sharing pages.
    pub shared_bytes: u64,
    /// Bytes reclaimed by UNMAP.
    pub reclaimed_bytes: u64,
    /// COMPARE AND WRITE commands that missed.
    pub compare_misses: u64,
    /// Median latency in microseconds.
    pub latency_p50_us: f64,
    /// 99th percentile of latency in microseconds.
    pub latency_p99_us: f64,
    /// All latencies, from the arrival of a command at the LU to its end.
    #[serde(skip)]
    pub latency: Latencies,
}
