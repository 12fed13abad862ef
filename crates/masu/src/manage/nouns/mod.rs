//! The nouns of the command line and their columns: one table for each. Pure: from the status to values.

mod caching;
mod drives;
mod events;
mod hosts;
mod jobs;
mod lus;
mod nodes;
mod pools;
mod qos;
mod tokens;

pub(crate) use caching::{PARTITION, partitions};
pub(crate) use drives::{DRIVE, GROUP, HEALTH, MEMBER, members};
pub(crate) use events::EVENT;
pub(crate) use hosts::{HOST, PORT, SESSION};
pub(crate) use jobs::JOB;
pub(crate) use lus::{IMAGE, SNAPSHOT, VOLUME, snapshots, volumes};
pub(crate) use nodes::NODE;
pub(crate) use pools::{POOL, POOL_GROUP};
pub(crate) use qos::{POLICY, SERVICE, services};
pub(crate) use tokens::TOKEN;

#[cfg(test)]
mod tests;
