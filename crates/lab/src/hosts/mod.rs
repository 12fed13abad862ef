//! Hosts: threads with iSCSI sessions, the commands that they send, and what they spend.

pub(crate) mod cdb;
mod disk;
mod identify;
mod login;
mod meter;
mod plan;
mod thread;

pub(crate) use disk::{Disk, DiskError, OUT_OF_SPACE, THRESHOLD_REACHED};
pub(crate) use login::{INITIATOR, login_of};
pub(crate) use meter::{Reading, Spent, sum, thread_cpu};
pub(crate) use plan::{Capabilities, Steps, segments, steps};
pub(crate) use thread::HostThread;
