//! The declaration of an array, `array.toml`: types, checks, and the one reader that knows places. No
//! engine is here: the array converts what it takes to its engines' terms.
//!
//! Each object is one struct: what a person writes, what the API changes, what the array is started with and
//! what it keeps.
//!
//! ```toml
//! target = "iqn.2026-11.net.example:masu"
//! discovery_chap = true    # hosts that have a secret prove it before they are told the target's name and portals
//! drive_slow_ms = 2000     # a drive that does not answer for so long is read around, where others have its data
//! drive_drop_ms = 10000    # and dropped, where its group can do without it
//! spares = ["s0"]          # any group that loses a drive takes one
//!
//! [[portal]]
//! listen = "127.0.0.1:3260"
//!
//! [[drive]]
//! name = "d0"
//! file = "d0.img"          # or device = "/dev/sdb", or memory = true
//! size = "64GiB"
//!
//! [[group]]
//! name = "g0"
//! level = "raid5"          # raid0, raid1, raid10, raid5, raid6
//! drives = ["d0", "d1", "d2", "d3"]
//! foreground_share = 70    # percent of the time that hosts keep while it is rebuilt or scrubbed
//! class = "capacity"       # or fast, or archive: in a pool with groups of several classes hot pages move to the faster ones
//!
//! [cache]                  # of each controller; without it nothing is cached
//! memory = "1GiB"
//! direct = "256KiB"        # reads and writes of this size and more pass by it
//! ssds = ["s1"]            # keeps what the memory gives up; its content is lost
//!
//! [qos]                    # what holds for all policies; these are the values when nothing is said
//! unit = "8KiB"            # a request counts as one for each such part: normalised IOPS
//! depth = 64               # requests that a pool with policies works on at once at most; the scheduler finds how many it needs
//! floor = 2                # percent of a pool that the volumes without a minimum share at least
//! background_minimum = 1280    # of rebuilds, evacuations and their like, in each pool
//! background_weight = 100
//!
//! [[policy]]
//! name = "gold"
//! minimum = 3000           # normalised IOPS that a volume gets when it asks for them
//! maximum = 5000           # and no more than these
//! bandwidth = "40MiB"      # in a second at most
//! weight = 200             # of what is left; 100 is that of volumes without a policy
//! burst = 0                # normalised IOPS that it may be ahead after it was idle
//! sharing = "dedicated"    # or aggregated: the volumes of a pool that have it share it
//!
//! [[cache.partition]]
//! name = "gold"
//! minimum = "256MiB"       # that others leave to its volumes when they need it
//!
//! [[pool]]
//! name = "p0"
//! groups = ["g0"]
//! journal = "j0"           # a group of its own: what hosts write is durable on it before it is in place
//! soft_threshold_percent = 80      # warnings, to hosts, too
//! critical_threshold_percent = 95
//!
//! [[volume]]
//! name = "v0"
//! pool = "p0"
//! size = "10GiB"
//! cache = "write-back"     # or write-through, or off
//! partition = "gold"       # of the cache
//! policy = "gold"
//!
//! [[image]]                # a virtual disk in a file, VHD or VHDX, which hosts see like a volume
//! name = "i0"
//! file = "i0.vhdx"         # its parents are found by what it says of them
//! format = "vhdx"          # or raw, vhd-fixed, vhd-dynamic, vhd-differencing; fixed when it is declared first
//! parents_in = ["golden"]  # directories in which its parents may lie, beside its own
//! read_only = false
//! controller = 0           # that serves it
//! policy = "gold"          # among the images of that controller
//!
//! [[host]]
//! name = "kvm1"
//! initiator = "iqn.2004-10.com.example:kvm1"
//! chap = { name = "kvm1", secret = "twelve bytes or more" }
//! luns = { 0 = "v0" }
//! ```

mod array;
mod caching;
mod change;
mod check;
mod drives;
mod hosts;
mod ids;
mod images;
mod made;
mod names;
mod policies;
mod pools;
mod read;
mod size;

#[cfg(test)]
mod tests;

pub use array::Config;
pub use caching::{
    CACHE_BYTES_MIN, CachePolicy, CacheSettings, DIRECT_BYTES_DEFAULT, FRAME_BYTES, PARTITION_DEFAULT,
    PARTITION_NONE, PARTITIONS_MAX, PartitionConfig, READ_AHEAD_BYTES_DEFAULT, READ_AHEAD_PERCENT,
};
pub use check::{ConfigError, NAME_LEN_MAX};
pub use drives::{
    Class, DriveConfig, FOREGROUND_SHARE_PERCENT_DEFAULT, GroupConfig, Level, stripe_unit_bytes_default,
};
pub use hosts::{ChapConfig, HostConfig, LUN_MAX, PortalConfig, SECRET_LEN};
pub use ids::{ArrayId, GroupId};
pub use images::{FileFormat, ImageConfig};
pub use made::{Made, MadeGroup};
pub use names::normalised as normalised_name;
pub use policies::{PolicyConfig, QosSettings, Sharing};
pub use pools::{
    BLOCK_BYTES_DEFAULT, CRITICAL_THRESHOLD_PERCENT_DEFAULT, PAGE_BYTES_DEFAULT,
    PHYSICAL_BLOCK_BYTES_DEFAULT, PoolConfig, Provisioning, SOFT_THRESHOLD_PERCENT_DEFAULT, VolumeConfig,
};
pub use qos::Policy;
pub use read::{DeclarationError, place_in};
pub use units::{format_bytes, parse_bytes};
