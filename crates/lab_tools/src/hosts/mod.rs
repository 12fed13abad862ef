//! Hosts: threads with iSCSI sessions, the commands that they send, and what they spend.

pub mod cdb;
mod connection;
mod disk;
mod identify;
mod login;
mod meter;
pub mod modelled;
mod plan;
mod thread;

pub use connection::Connection;
pub use disk::{Disk, DiskError, OUT_OF_SPACE, THRESHOLD_REACHED};
pub use login::{INITIATOR, login_of};
pub use meter::{Reading, Spent, sum, thread_cpu};
pub use plan::{Capabilities, Steps, segments, steps};
pub use thread::HostThread;
