//! The model world: a deterministic executor in virtual time, modelled drives and sockets, faults and power
//! cuts.
//!
//! ```text
//!   harness ── Model (seed, trace) ── run / run_until_crash ──> World ──> the code under test
//!      │            │                                             │
//!      │            └── Net: links, resets, silence  <────────────┤ connect, listen
//!      └── Disk: spec, faults, peek ── Disks (power)  <───────────┘ open_drive(Modelled { name })
//! ```
//!
//! The harness owns the disks. A run is one life of the process: it ends when its main future ends, or with a
//! power cut, and everything that it made is dropped; the disks stay, and the next run finds on them what the
//! fault model (see [`disk`]) allows.
//!
//! ```
//! use world::{Buf, DriveSpec};
//! use world_model::{DiskSpec, Model, Outcome};
//!
//! let model = Model::new(7);
//! let disk = model.disk("d0", DiskSpec::new(1 << 20));
//! model.disks().cut_power_after(1); // right after the first write (or zero, or flush) has completed
//! let outcome = model.run_until_crash(async |world| {
//!     let drive = world.open_now(&DriveSpec::Modelled { name: "d0".into() }).unwrap();
//!     drive.write(0, Buf::zeroed(512).freeze()).await.unwrap();
//! });
//! assert!(matches!(outcome, Outcome::PowerCut));
//! model.reboot();
//! model.run(async |world| assert_eq!(world.now().0, 0));
//! assert_eq!(disk.peek(0, 512), vec![0; 512]);
//! println!("digest {:016x}", model.digest());
//! ```
//!
//! # Forks
//!
//! To cut the power at every persistence point of a run, the run need not be repeated:
//! [`Disks::watch_points`] stops at each of them, [`Disks::image`] takes what the disks hold (sharing content
//! until it is written, and free to go to another thread), and [`Model::from_image`] goes on from there in a
//! model of its own.
//!
//! # What a run promises
//!
//! * The same seed and the same code give the same run, to the last scheduling decision; [`Model::digest`]
//!   proves it. Randomness is split into named streams (`schedule`, `latency`, `segments`, `power`, and those
//!   of the code), so that drawing from one does not move another.
//! * Time stands still while a task is ready. Timers fire in the order (deadline, order of arming), one at a
//!   time; the new time is published before anybody is woken.
//! * Which of the ready tasks runs next is drawn from the seed.
//! * A run in which nothing can happen any more (a deadlock) and a run that polls for ever without letting
//!   time pass panic; so does a task that panics. The seed is printed with every panic.

#![forbid(unsafe_code)]

mod clockwork;
mod core;
pub mod disk;
mod disk_spec;
pub mod drives;
mod fork;
mod image;
mod in_flight;
pub mod links;
mod machine;
mod model;
mod modelled_drive;
pub mod net;
mod net_spec;
mod pipe;
mod power;
mod process;
mod rack;
mod ready;
pub mod station;
mod store;
mod timeline;
mod trace;
mod wire;

pub use disk::Disk;
pub use disk_spec::{DiskSpec, Timing};
pub use fork::{DisksImage, Loss};
pub use links::{FibreChannel, Link};
pub use machine::{Machine, Thread};
pub use model::{Model, Outcome};
pub use net::{Net, PortUsage};
pub use net_spec::NetSpec;
pub use rack::Disks;
pub use trace::TraceEntry;
pub use wire::Carried;

#[cfg(test)]
mod tests;
