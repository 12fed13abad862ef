//! Partitions of the caches.

use admin::{CachePartition, CacheTraffic, Status};
use serde::Serialize;

use crate::table::column::{Column, Kind, Noun, share};

/// A partition: the sum over the controllers' caches.
#[derive(Clone, Serialize)]
pub(crate) struct PartitionRow {
    name: String,
    /// Reserved for its volumes, on each controller.
    minimum_bytes: u64,
    used_bytes: u64,
    pending_bytes: u64,
    evictions: u64,
    /// Whose content it holds.
    volumes: Vec<String>,
    #[serde(flatten)]
    traffic: CacheTraffic,
}

/// The partitions of an array, each once.
pub(crate) fn partitions(status: Status) -> Vec<PartitionRow> {
    let mut rows: Vec<PartitionRow> = Vec::new();
    for cache in status.caches {
        for partition in cache.partitions {
            let of = |v: &&admin::CachedVolume| v.partition == partition.name;
            let volumes = cache.volumes.iter().filter(of).map(|v| v.volume.clone()).collect::<Vec<_>>();
            match rows.iter_mut().find(|row| row.name == partition.name) {
                Some(row) => row.add(&partition, volumes),
                None => rows.push(PartitionRow {
                    name: partition.name,
                    minimum_bytes: partition.minimum_bytes,
                    used_bytes: partition.used_bytes,
                    pending_bytes: partition.pending_bytes,
                    evictions: partition.evictions,
                    volumes,
                    traffic: partition.traffic,
                }),
            }
        }
    }
    rows
}

impl PartitionRow {
    fn add(&mut self, other: &CachePartition, volumes: Vec<String>) {
        self.used_bytes += other.used_bytes;
        self.pending_bytes += other.pending_bytes;
        self.evictions += other.evictions;
        self.volumes.extend(volumes);
        let (t, o) = (&mut self.traffic, &other.traffic);
        t.read_bytes += o.read_bytes;
        t.read_hit_bytes += o.read_hit_bytes;
        t.write_bytes += o.write_bytes;
        t.write_hit_bytes += o.write_hit_bytes;
        t.destaged_bytes += o.destaged_bytes;
        t.ahead_bytes += o.ahead_bytes;
        t.ahead_used_bytes += o.ahead_used_bytes;
    }
}

static PARTITION_COLUMNS: [Column<PartitionRow>; 13] = [
    Column::shown("name", Kind::Text, |p| (&p.name).into()),
    Column::shown("minimum", Kind::Bytes, |p| p.minimum_bytes.into()),
    Column::shown("cached", Kind::Bytes, |p| p.used_bytes.into()),
    Column::shown("dirty", Kind::Bytes, |p| p.pending_bytes.into()),
    Column::shown("read", Kind::Bytes, |p| p.traffic.read_bytes.into()),
    Column::shown("read-hits", Kind::Percent, |p| share(p.traffic.read_hit_bytes, p.traffic.read_bytes)),
    Column::new("written", Kind::Bytes, |p| p.traffic.write_bytes.into()),
    Column::new("write-hits", Kind::Percent, |p| share(p.traffic.write_hit_bytes, p.traffic.write_bytes)),
    Column::new("destaged", Kind::Bytes, |p| p.traffic.destaged_bytes.into()),
    Column::new("read-ahead", Kind::Bytes, |p| p.traffic.ahead_bytes.into()),
    Column::new("read-ahead-hits", Kind::Percent, |p| {
        share(p.traffic.ahead_used_bytes, p.traffic.ahead_bytes)
    }),
    Column::new("evictions", Kind::Number, |p| p.evictions.into()),
    Column::shown("volumes", Kind::Names, |p| (&p.volumes).into()),
];

/// `masu cache partition`.
pub(crate) static PARTITION: Noun<PartitionRow> = Noun {
    one: "partition",
    many: "partitions",
    columns: &PARTITION_COLUMNS,
    hint: "; declare a cache in array.toml with [cache] memory = \"256MiB\"",
    is_sorted: false,
};
