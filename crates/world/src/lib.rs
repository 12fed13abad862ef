//! The only seam to everything that is not deterministic: time, tasks, randomness, drives and sockets.
//!
//! Everything above this crate is plain `async` Rust on one thread per controller (futures are `!Send`) and
//! gets a [`World`]: the real one (`world_real`: io_uring, TCP) or the modelled one (`world_model`: virtual
//! time, modelled drives, faults). No type parameter distinguishes them: a world is a handle, and so are its
//! [`Drive`]s, [`Stream`]s and [`Listener`]s.
//!
//! # The contract
//!
//! * **Operations are submitted when called, and completed through a concrete future**, [`Io`]. Two drive
//!   operations run at once when both were called before the first is awaited; no `join` is needed, and
//!   nothing is allocated: the completion cells are recycled ([`io::Completions`]), and an operation that
//!   ends at once needs none.
//! * **An operation owns its buffers** until it completes ([`Buf`] to be filled, [`Data`] to be written).
//!   Dropping the future abandons the outcome, not the operation: the world keeps the buffers until the
//!   kernel is done with them.
//! * **Every operation of a drive has a deadline** ([`Patience`]): a drive that is silent is an error value
//!   after it, too.
//! * Handles have cached, validated facts ([`DriveInfo`]); a caller that breaks an alignment or a bound has a
//!   bug, and the handle asserts it. What a drive or a peer does wrong is an error value.
//! * Tasks run on the thread that spawned them, in turn, never concurrently. A task that panics takes its
//!   world down.

mod buf;
mod deadline;
mod digest;
mod drive;
pub mod io;
mod latency;
mod net;
mod rbd_image;
mod shelf;
mod stage;
pub mod sync;
mod task;
mod time;
mod trace;
mod world;

pub use buf::{BUF_LEN_MAX, Buf, Data};
pub use deadline::{Patience, Silence};
pub use digest::fnv1a;
pub use drive::{
    Drive, DriveBackend, DriveCounts, DriveError, DriveInfo, DriveSpec, FenceError, Filled, ImageAccess,
    OpenError, VECTORED_MAX,
};
pub use io::Io;
pub use net::{
    Batch, Listener, ListenerBackend, NetError, Piece, Received, Sent, Stream, StreamBackend, StreamOptions,
    TcpCounts,
};
pub use rbd_image::RbdImage;
pub use shelf::release_idle;
pub use stage::{Kind, LATENCY_BUCKETS, LatencyCounts, LatencyHistogram, MEASURED_ONE_IN, Stage};
pub use task::{TaskBackend, yield_now};
pub use time::Instant;
pub use trace::{OpenSpan, Recorded, SPANS_MAX, SpanRecord, Trace};
pub use world::{World, WorldBackend};

/// The generator of a random stream: seeded from the world's seed and the stream's name, see
/// [`World::random`].
pub type Rng = fastrand::Rng;
