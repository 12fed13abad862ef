//! The model, tested against its own promises.

mod disks;
mod forks;
mod runs;
mod sockets;
