//! The declaration of an array, `array.toml`: types, checks, and the one reader that knows places. No
//! engine is here: the array converts what it takes to its engines' terms.
//!
//! Each object is one struct: what a person writes, what the API changes, what the array is started with and
//! what it keeps.
//!
//! `docs/array_toml.md` is the reference of the file, which `reference` makes of these types, their comments,
//! defaults and limits.

mod array;
mod caching;
mod change;
mod check;
mod drives;
mod files;
mod hosts;
mod ids;
mod images;
mod made;
mod names;
mod policies;
mod pools;
mod read;
pub mod reference;
mod schema;
mod size;
mod traces;

#[cfg(test)]
mod tests;

pub use array::Config;
pub use caching::{
    CACHE_BYTES_MIN, CachePolicy, CacheSettings, DIRECT_BYTES_DEFAULT, FRAME_BYTES, PARTITION_DEFAULT,
    PARTITION_NONE, PARTITIONS_MAX, PartitionConfig, READ_AHEAD_BYTES_DEFAULT, READ_AHEAD_PERCENT,
};
pub use check::{ConfigError, check_names, new_name};
pub use drives::{
    Class, DriveConfig, FOREGROUND_SHARE_PERCENT_DEFAULT, GroupConfig, Level, stripe_unit_bytes_default,
};
pub use files::{must_be_file, read_small, read_small_text};
pub use hosts::{ChapConfig, HostConfig, LUN_MAX, PortalConfig, SECRET_LEN, one_socket};
pub use ids::{ArrayId, GroupId, JournalId};
pub use images::{FileFormat, ImageConfig};
pub use made::{DeletedGroup, Identities, ImportedDrives, Made, MadeGroup, NotOpen, RAW_FILE_TO_DO, RawFile};
pub use names::normalised as normalised_name;
pub use policies::{PolicyConfig, QosSettings, Sharing};
pub use pools::{
    BLOCK_BYTES_DEFAULT, CRITICAL_THRESHOLD_PERCENT_DEFAULT, PAGE_BYTES, PAGE_BYTES_DEFAULT,
    PHYSICAL_BLOCK_BYTES_DEFAULT, PoolConfig, Provisioning, SOFT_THRESHOLD_PERCENT_DEFAULT, VolumeConfig,
};
pub use qos::Policy;
pub use read::{DeclarationError, Place, place_in};
pub use schema::NAME_LEN_MAX;
pub use traces::TraceSettings;
pub use units::{exact_bytes, format_bytes, parse_bytes};
