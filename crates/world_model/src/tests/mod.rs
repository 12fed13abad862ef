//! The model, tested against its own promises.

mod disks;
mod runs;
mod sockets;
