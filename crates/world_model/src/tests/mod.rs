//! The model, tested against its own promises.

mod disks;
mod drives;
mod forks;
mod machines;
mod ports;
mod runs;
mod sockets;
