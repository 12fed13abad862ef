//! The declaration's terms in those of the engines, and the other way round.

use cache::{CacheConfig, WritePolicy};
use status::ImageFault;
use vdisk::{ImageTrouble, VdiskError};

use crate::config::{self, CachePolicy, CacheSettings, Class, Config, FileFormat, Level, Provisioning};

// The declaration is checked by what the cache holds to.
const _: () = assert!(config::FRAME_BYTES == cache::FRAME_BYTES as u64);
const _: () = assert!(config::PARTITIONS_MAX == cache::PARTITIONS_MAX);

/// A function from one enum to another with the same variants.
macro_rules! same {
    ($name:ident: $from:ty => $to:ty { $($variant:ident),+ }) => {
        pub(crate) fn $name(term: $from) -> $to {
            match term {
                $(<$from>::$variant => <$to>::$variant),+
            }
        }
    };
}

same!(level: Level => raid::Level { Raid0, Raid1, Raid10, Raid5, Raid6 });
same!(declared_level: raid::Level => Level { Raid0, Raid1, Raid10, Raid5, Raid6 });
same!(class: Class => pool::Class { Fast, Capacity, Archive });
same!(provisioning: Provisioning => pool::Provisioning { Thin, Thick });
same!(declared_provisioning: pool::Provisioning => Provisioning { Thin, Thick });
same!(format: FileFormat => vdisk::FileFormat { Raw, VhdFixed, VhdDynamic, VhdDifferencing, Vhdx });
same!(declared_format: vdisk::FileFormat => FileFormat { Raw, VhdFixed, VhdDynamic, VhdDifferencing, Vhdx });

/// The owner that this array writes on labels.
pub(crate) fn array_id(config: &Config) -> raid::ArrayId {
    raid::ArrayId(config.id.0)
}

pub(crate) fn group_id(id: config::GroupId) -> raid::GroupId {
    raid::GroupId(id.0)
}

pub(crate) fn cache_config(settings: &CacheSettings) -> CacheConfig {
    CacheConfig {
        memory_bytes: settings.memory_bytes,
        read_ahead_percent: config::READ_AHEAD_PERCENT,
        read_ahead_bytes_max: settings.read_ahead_bytes,
        direct_bytes: settings.direct_bytes,
        ..CacheConfig::default()
    }
}

pub(crate) fn image_fault(trouble: &ImageTrouble) -> ImageFault {
    match trouble {
        ImageTrouble::Poisoned { .. } => ImageFault::ReadOnly,
        ImageTrouble::FileChanged { .. } => ImageFault::FileChanged,
        ImageTrouble::NoRoom { .. } => ImageFault::NoRoom,
    }
}

pub(crate) fn open_fault(error: &VdiskError) -> ImageFault {
    match error {
        VdiskError::Open(error) if error.is_absent => ImageFault::Absent,
        VdiskError::Parent { .. } => ImageFault::Parent,
        _ => ImageFault::Unknown,
    }
}

pub(crate) fn write_policy(policy: CachePolicy) -> WritePolicy {
    match policy {
        CachePolicy::WriteBack => WritePolicy::Back,
        CachePolicy::WriteThrough => WritePolicy::Through,
        CachePolicy::Off => WritePolicy::Off,
    }
}

pub(crate) fn cache_policy(policy: WritePolicy) -> CachePolicy {
    match policy {
        WritePolicy::Back => CachePolicy::WriteBack,
        WritePolicy::Through => CachePolicy::WriteThrough,
        WritePolicy::Off => CachePolicy::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_checked_by_the_drives_that_a_level_needs() {
        assert!(Level::ALL.into_iter().all(|declared| declared.drives_min() == level(declared).drives_min()));
    }

    #[test]
    fn a_declaration_is_checked_by_the_memory_that_the_cache_has_for_frames() {
        for memory_bytes in [8 << 20, 16 << 20, (100 << 20) + 12_345, 3 << 30] {
            let settings = CacheSettings::new(memory_bytes);
            assert_eq!(settings.frames_bytes(), cache_config(&settings).frames_bytes(), "{memory_bytes}");
        }
    }
}
