//! Drives as hardware: the time that a request takes. Pure: no clock, no world; the caller passes the time.
//!
//! ```text
//!             submit(now, request)                    wake(now), at due_ns
//!                    │                                       │
//!   HardDisk:  segments ──hit──> bus ──> done at      queue ──choose──> arm, rotation ──> done at
//!              (on-drive cache)                        FCFS, LOOK, SPTF    Mechanics: Geometry, SeekCurve
//!   Flash:     units ──> link ──> done at
//! ```
//!
//! A drive is described by [`DriveParameters`] (a file of the catalogue, a constant of [`catalogue`]);
//! [`DriveModel`] is one in operation. A request that is given to it is answered with the time of its
//! completion, now or when the mechanism comes to it: the mechanism serves one request at a time and is never
//! interrupted, except in reading ahead.
//!
//! Time is in integer nanoseconds, the angle of the platters is time modulo one revolution, and nothing is
//! drawn: the same requests at the same times give the same completions.

pub mod catalogue;
mod curve;
mod datasheet;
mod flash;
mod geometry;
mod hard_disk;
mod limits;
mod mechanics;
mod model;
mod parameters;
mod queue;
mod reading;
mod request;
mod segments;
mod writes;
mod zone_map;

pub use curve::SeekCurve;
pub use datasheet::Datasheet;
pub use flash::Flash;
pub use geometry::{Geometry, Place};
pub use hard_disk::HardDisk;
pub use limits::ParameterError;
pub use mechanics::Mechanics;
pub use model::{DriveModel, Prepared};
pub use parameters::{
    AfterReadOrWrite, BLOCK_BYTES, Defect, DriveParameters, ExtraDisconnect, FastWrite, FlashParameters,
    HardDiskParameters, HeadOrder, Overheads, ReadAhead, Scheduling, Seek, SegmentParameters, Spares, Zone,
};
pub use request::{Completion, Kind, Request, Usage};

#[cfg(test)]
mod tests;
