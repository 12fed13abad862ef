//! What a disk is: size, blocks, cache, and how long it takes.

use std::time::Duration;

use crate::drives::{DriveParameters, FlashParameters, HardDiskParameters, ParameterError, Prepared};

/// How long a disk takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Every operation takes as long, and does not wait for others.
    Fixed {
        /// How long.
        latency: Duration,
        /// Up to this much is added, drawn from the stream `latency`: operations overtake each other.
        jitter: Duration,
    },
    /// As a drive of this kind takes: operations queue in it and are served as it chooses.
    Drive(Prepared),
}

/// What a disk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Size in bytes.
    pub len_bytes: u64,
    /// The unit of addresses and lengths: 512 or 4096.
    pub block_bytes: u32,
    /// How long operations take.
    pub timing: Timing,
    /// The size of the volatile write cache; 0: none.
    pub cache_bytes: u64,
    /// Whether what is written is kept; if not, reads give zeros, and terabytes cost no memory. (Zeros cost none anyway.)
    pub keeps_content: bool,
}

impl DiskSpec {
    /// A disk with blocks of 512 bytes, a constant latency of 100 µs (a flash drive's, in round figures) and a volatile
    /// cache of 16 MiB.
    pub fn new(len_bytes: u64) -> DiskSpec {
        DiskSpec {
            len_bytes,
            block_bytes: 512,
            timing: Timing::Fixed { latency: Duration::from_micros(100), jitter: Duration::ZERO },
            cache_bytes: 16 << 20,
            keeps_content: true,
        }
    }

    /// A drive as its parameters describe it, in its whole size. It has a volatile cache if it acknowledges writes that a loss of power takes.
    pub fn drive(parameters: &DriveParameters) -> Result<DiskSpec, ParameterError> {
        let prepared = Prepared::new(parameters)?;
        Ok(DiskSpec {
            len_bytes: prepared.len_bytes(),
            block_bytes: 512,
            cache_bytes: prepared.volatile_bytes(),
            timing: Timing::Drive(prepared),
            keeps_content: true,
        })
    }

    /// A drive with platters ([`crate::drives::catalogue`] has some). Panics on parameters that no drive can have;
    /// [`DiskSpec::drive`] says what is wrong with them.
    pub fn mechanical(parameters: &HardDiskParameters) -> DiskSpec {
        DiskSpec::drive(&DriveParameters::HardDisk(parameters.clone())).expect("a drive can be like this")
    }

    /// A drive with flash. Panics like [`DiskSpec::mechanical`].
    pub fn flash(parameters: &FlashParameters) -> DiskSpec {
        DiskSpec::drive(&DriveParameters::Flash(parameters.clone())).expect("a drive can be like this")
    }

    /// With this constant latency.
    pub fn with_latency(self, latency: Duration) -> DiskSpec {
        let jitter = match self.timing {
            Timing::Fixed { jitter, .. } => jitter,
            Timing::Drive(_) => Duration::ZERO,
        };
        DiskSpec { timing: Timing::Fixed { latency, jitter }, ..self }
    }

    /// With up to this much more latency, drawn. Panics for a drive whose timing is modelled: nothing in it is drawn.
    pub fn with_jitter(self, jitter: Duration) -> DiskSpec {
        let Timing::Fixed { latency, .. } = self.timing else {
            panic!("a drive with modelled timing has no jitter");
        };
        DiskSpec { timing: Timing::Fixed { latency, jitter }, ..self }
    }

    /// With a volatile cache of this size.
    pub fn with_cache_bytes(self, cache_bytes: u64) -> DiskSpec {
        DiskSpec { cache_bytes, ..self }
    }

    /// With blocks of this size.
    pub fn with_block_bytes(self, block_bytes: u32) -> DiskSpec {
        DiskSpec { block_bytes, ..self }
    }

    /// Only so much of it, from the outermost track of a drive with platters.
    pub fn with_len_bytes(self, len_bytes: u64) -> DiskSpec {
        DiskSpec { len_bytes, ..self }
    }

    /// Keeping nothing of what is written.
    pub fn without_content(self) -> DiskSpec {
        DiskSpec { keeps_content: false, ..self }
    }
}
