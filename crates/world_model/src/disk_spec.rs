//! The specification of a disk: size, blocks, cache, timing.

use std::time::Duration;

use crate::drives::{DriveParameters, FlashParameters, HardDiskParameters, ParameterError, Prepared};

/// The timing of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Every operation takes the same time, independent of others.
    Fixed {
        /// From submission to completion.
        latency: Duration,
        /// Up to this much is added, drawn from the stream `latency`: operations overtake each other.
        jitter: Duration,
    },
    /// As this drive model: operations queue and are served in its order.
    Drive(Prepared),
}

/// The specification of a disk.
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
    /// Whether written content is kept; otherwise reads return zeros, and terabytes cost no memory. (Zeros
    /// never cost memory.)
    pub keeps_content: bool,
}

impl DiskSpec {
    /// A disk with blocks of 512 bytes, a constant latency of 100 µs (a flash drive's, in round figures) and
    /// a volatile cache of 16 MiB.
    pub fn new(len_bytes: u64) -> DiskSpec {
        DiskSpec {
            len_bytes,
            block_bytes: 512,
            timing: Timing::Fixed { latency: Duration::from_micros(100), jitter: Duration::ZERO },
            cache_bytes: 16 << 20,
            keeps_content: true,
        }
    }

    /// A drive with these parameters, in its full size. It has a volatile cache if it acknowledges writes
    /// that a power failure can lose.
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

    /// A hard disk ([`crate::drives::catalogue`] has some). Panics on invalid parameters; [`DiskSpec::drive`]
    /// returns the error instead.
    pub fn mechanical(parameters: &HardDiskParameters) -> DiskSpec {
        DiskSpec::drive(&DriveParameters::HardDisk(parameters.clone())).expect("a drive can be like this")
    }

    /// A flash drive. Panics as [`DiskSpec::mechanical`].
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

    /// With up to this much additional latency, drawn. Panics for a modelled drive, whose timing has no
    /// random part.
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

    /// Only this much of it, from the outermost track of a hard disk.
    pub fn with_len_bytes(self, len_bytes: u64) -> DiskSpec {
        DiskSpec { len_bytes, ..self }
    }

    /// Without keeping written content.
    pub fn without_content(self) -> DiskSpec {
        DiskSpec { keeps_content: false, ..self }
    }
}
