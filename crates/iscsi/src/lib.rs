//! iSCSI (RFC 7143, error recovery level 0): PDUs, login, sessions; a target and an initiator.
//!
//! The target serves whatever implements [`Target`] (the array); it knows sessions, sequence numbers and data transfer, and
//! nothing of what a command means.

pub mod target;
