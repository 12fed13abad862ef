//! Volumes, snapshots and images.

use admin::{CachedVolume, Image, Mapping, Status, Volume, VolumeCounters};
use serde::Serialize;

use super::qos::service;
use crate::table::column::{Column, Kind, Noun, Value};

/// A volume, with what a cache has of it.
#[derive(Clone, Serialize)]
pub(crate) struct VolumeRow {
    #[serde(flatten)]
    volume: Volume,
    cache: Option<CachedVolume>,
}

/// The volumes of an array, snapshots among them.
pub(crate) fn volumes(status: Status) -> Vec<VolumeRow> {
    let cached = status.caches.into_iter().flat_map(|cache| cache.volumes);
    let mut cached: std::collections::BTreeMap<String, CachedVolume> =
        cached.map(|volume| (volume.volume.clone(), volume)).collect();
    let row = |volume: Volume| VolumeRow { cache: cached.remove(&volume.name), volume };
    status.volumes.into_iter().map(row).collect()
}

/// The volumes that are snapshots.
pub(crate) fn snapshots(status: Status) -> Vec<VolumeRow> {
    volumes(status).into_iter().filter(|row| row.volume.snapshot_of.is_some()).collect()
}

/// What sees a volume or an image: hosts and LUNs.
fn mapped(mapped_to: &[Mapping]) -> Value {
    Value::Names(mapped_to.iter().map(|m| format!("{}:{}", m.host, m.lun)).collect())
}

fn cached(row: &VolumeRow, value: impl Fn(&CachedVolume) -> Value) -> Value {
    row.cache.as_ref().map_or(Value::None, value)
}

static VOLUME_COLUMNS: [Column<VolumeRow>; 33] = [
    Column::shown("name", Kind::Text, |r| (&r.volume.name).into()),
    Column::shown("pool", Kind::Text, |r| (&r.volume.pool).into()),
    Column::shown("size", Kind::Bytes, |r| r.volume.size_bytes.into()),
    Column::shown("used", Kind::Bytes, |r| r.volume.used_bytes.into()),
    Column::new("exclusive", Kind::Bytes, |r| r.volume.exclusive_bytes.into()),
    Column::new("shared", Kind::Bytes, |r| r.volume.shared_bytes.into()),
    Column::new("provisioning", Kind::Text, |r| (&r.volume.provisioning).into()),
    Column::new("snapshot-of", Kind::Text, |r| r.volume.snapshot_of.as_ref().into()),
    Column::shown("mapped", Kind::Names, |r| mapped(&r.volume.mapped_to)),
    Column::shown("policy", Kind::Text, |r| r.volume.qos.policy.as_ref().into()),
    Column::shown("service", Kind::State, |r| service(&r.volume.qos)),
    Column::new("served-iops", Kind::Number, |r| r.volume.qos.served_iops.into()),
    Column::new("lacks", Kind::Text, |r| r.volume.qos.lacks.as_ref().into()),
    Column::new("waited", Kind::Micros, |r| r.volume.qos.waited_us.into()),
    Column::new("block", Kind::Bytes, |r| r.volume.block_bytes.into()),
    Column::new("naa", Kind::Text, |r| (&r.volume.naa).into()),
    Column::new("cache", Kind::Text, |r| cached(r, |c| (&c.policy).into())),
    Column::new("partition", Kind::Text, |r| cached(r, |c| (&c.partition).into())),
    Column::new("cached", Kind::Bytes, |r| cached(r, |c| c.cached_bytes.into())),
    Column::new("dirty", Kind::Bytes, |r| cached(r, |c| c.pending_bytes.into())),
    Column::new("commands", Kind::Number, |r| r.volume.counters.commands.into()),
    Column::new("reads", Kind::Number, |r| r.volume.counters.reads.into()),
    Column::new("writes", Kind::Number, |r| r.volume.counters.writes.into()),
    Column::new("read", Kind::Bytes, |r| r.volume.counters.read_bytes.into()),
    Column::new("written", Kind::Bytes, |r| r.volume.counters.write_bytes.into()),
    Column::new("zeroed", Kind::Bytes, |r| r.volume.counters.zeroed_bytes.into()),
    Column::new("cloned", Kind::Bytes, |r| r.volume.counters.shared_bytes.into()),
    Column::new("moved", Kind::Bytes, |r| r.volume.counters.moved_bytes.into()),
    Column::new("reclaimed", Kind::Bytes, |r| r.volume.counters.reclaimed_bytes.into()),
    Column::new("compare-misses", Kind::Number, |r| r.volume.counters.compare_misses.into()),
    Column::new("latency-p50", Kind::Micros, |r| p50(&r.volume.counters)),
    Column::new("latency-p99", Kind::Micros, |r| p99(&r.volume.counters)),
    Column::new("waited-requests", Kind::Number, |r| r.volume.qos.waited_requests.into()),
];

/// No command has no latency.
fn p50(counters: &VolumeCounters) -> Value {
    if counters.commands == 0 { Value::None } else { counters.latency_p50_us.into() }
}

fn p99(counters: &VolumeCounters) -> Value {
    if counters.commands == 0 { Value::None } else { counters.latency_p99_us.into() }
}

/// `masu volume`.
pub(crate) static VOLUME: Noun<VolumeRow> = Noun {
    one: "volume",
    many: "volumes",
    columns: &VOLUME_COLUMNS,
    hint: "; create one with masu volume create NAME --size 10GiB",
    is_sorted: true,
};

static SNAPSHOT_COLUMNS: [Column<VolumeRow>; 13] = [
    Column::shown("name", Kind::Text, |r| (&r.volume.name).into()),
    Column::shown("snapshot-of", Kind::Text, |r| r.volume.snapshot_of.as_ref().into()),
    Column::shown("pool", Kind::Text, |r| (&r.volume.pool).into()),
    Column::shown("size", Kind::Bytes, |r| r.volume.size_bytes.into()),
    Column::new("used", Kind::Bytes, |r| r.volume.used_bytes.into()),
    Column::shown("exclusive", Kind::Bytes, |r| r.volume.exclusive_bytes.into()),
    Column::new("shared", Kind::Bytes, |r| r.volume.shared_bytes.into()),
    Column::shown("mapped", Kind::Names, |r| mapped(&r.volume.mapped_to)),
    Column::new("policy", Kind::Text, |r| r.volume.qos.policy.as_ref().into()),
    Column::new("service", Kind::State, |r| service(&r.volume.qos)),
    Column::new("block", Kind::Bytes, |r| r.volume.block_bytes.into()),
    Column::new("naa", Kind::Text, |r| (&r.volume.naa).into()),
    Column::new("commands", Kind::Number, |r| r.volume.counters.commands.into()),
];

/// `masu snapshot`.
pub(crate) static SNAPSHOT: Noun<VolumeRow> = Noun {
    one: "snapshot",
    many: "snapshots",
    columns: &SNAPSHOT_COLUMNS,
    hint: "; create one with masu snapshot create VOLUME NAME",
    is_sorted: true,
};

fn image_state(image: &Image) -> &'static str {
    match (&image.error, &image.trouble, image.read_only) {
        (Some(_), ..) => "not served",
        (None, Some(_), _) => "in trouble",
        (None, None, true) => "read only",
        (None, None, false) => "served",
    }
}

static IMAGE_COLUMNS: [Column<Image>; 25] = [
    Column::shown("name", Kind::Text, |i| (&i.name).into()),
    Column::shown("state", Kind::State, |i| image_state(i).into()),
    Column::shown("format", Kind::Text, |i| (&i.format).into()),
    Column::shown("size", Kind::Bytes, |i| i.size_bytes.into()),
    Column::shown("length", Kind::Bytes, |i| i.file_bytes.into()),
    Column::shown("mapped", Kind::Names, |i| mapped(&i.mapped_to)),
    Column::new("policy", Kind::Text, |i| i.qos.policy.as_ref().into()),
    Column::new("service", Kind::State, |i| service(&i.qos)),
    Column::shown("file", Kind::Text, |i| (&i.file).into()),
    Column::new("parents", Kind::Names, |i| (&i.parents).into()),
    Column::new("cause", Kind::Text, |i| i.error.as_ref().or(i.trouble.as_ref()).into()),
    Column::new("controller", Kind::Number, |i| i.controller.into()),
    Column::new("block", Kind::Bytes, |i| i.block_bytes.into()),
    Column::new("naa", Kind::Text, |i| (&i.naa).into()),
    Column::new("commands", Kind::Number, |i| i.counters.commands.into()),
    Column::new("reads", Kind::Number, |i| i.counters.reads.into()),
    Column::new("writes", Kind::Number, |i| i.counters.writes.into()),
    Column::new("read", Kind::Bytes, |i| i.counters.read_bytes.into()),
    Column::new("written", Kind::Bytes, |i| i.counters.write_bytes.into()),
    Column::new("zeroed", Kind::Bytes, |i| i.counters.zeroed_bytes.into()),
    Column::new("cloned", Kind::Bytes, |i| i.counters.shared_bytes.into()),
    Column::new("moved", Kind::Bytes, |i| i.counters.moved_bytes.into()),
    Column::new("reclaimed", Kind::Bytes, |i| i.counters.reclaimed_bytes.into()),
    Column::new("latency-p50", Kind::Micros, |i| p50(&i.counters)),
    Column::new("latency-p99", Kind::Micros, |i| p99(&i.counters)),
];

/// `masu image`.
pub(crate) static IMAGE: Noun<Image> = Noun {
    one: "image",
    many: "images",
    columns: &IMAGE_COLUMNS,
    hint: "; create one with masu image create NAME FILE",
    is_sorted: true,
};
