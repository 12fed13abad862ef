//! The real world: io_uring files and sockets, TCP, memory drives and timers; the only crate with unsafe
//! code.
//!
//! ```text
//!   run ──> executor: ready tasks ──poll──> World handles ──submit──> operations (own the buffers)
//!    ^                    ^                                                │ entries of a whole turn
//!    │                    └──wake── completions <──reap── ring <──enter────┘ one system call
//!    └── timers: the next deadline bounds the wait
//! ```
//!
//! One thread, one world, one ring. A turn of the loop runs what is ready, hands everything that was
//! submitted meanwhile to the kernel with one `io_uring_enter`, and reaps what has ended; it sleeps in that
//! same call when nothing is ready. Nothing is allocated per task wake, per poll or per operation in steady
//! state. Why there is a ring of our own and no runtime from a library: `docs/decisions/0001-worlds.md`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is where time, threads, files and sockets come from"
)]

mod aside;
mod clock;
mod connect;
mod error;
mod executor;
mod file_drive;
mod file_open;
mod hold;
mod idle_memory;
mod image_open;
mod listener;
mod local;
mod memory_drive;
mod operations;
mod other_paths;
mod presence;
mod pulse;
mod rbd;
mod reactor;
mod reservation;
mod ring;
mod run;
mod socket;
mod stacks;
mod tcp;
mod term;
mod timers;
mod wake;
mod watch;
mod watchdog;

pub use clock::time_of_day;
pub use error::RunError;
pub use idle_memory::start_releasing_memory;
pub use listener::{bind_listener, is_lent, lend_listener};
pub use other_paths::is_in_use;
pub use rbd::rbd_holder;
pub use reservation::reserve_devices;
pub use run::{Options, ignore_file_size_signal, is_fenced_by_command, raise_open_files_max, run, start};
pub use term::{boot_now, end, guard_term, set_term};
pub use watchdog::{WatchdogLimits, Watched, abort_on_panic, start_watchdog};
