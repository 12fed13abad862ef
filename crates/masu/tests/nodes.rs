//! Nodes that share drives: real processes of `masu serve --registry`, with a registry in a directory and a
//! host that writes over all portals; the owner is killed, stopped, continued, and loses its registry. What
//! was acknowledged must be there at the next owner.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "hosts and processes of the real world"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use block::Pieces;
use futures::future::{Either, select};
use iscsi::initiator::{Options, Session};
use rustix::fs::{Mode, OFlags};
use scsi::Lun;
use world::World;

#[path = "nodes/asking.rs"]
mod asking;
#[path = "nodes/claims.rs"]
mod claims;
#[path = "nodes/controllers.rs"]
mod controllers;
#[path = "nodes/damage.rs"]
mod damage;
#[path = "nodes/host.rs"]
mod host;
#[path = "nodes/joining.rs"]
mod joining;
#[path = "nodes/link.rs"]
mod link;
#[path = "nodes/moves.rs"]
mod moves;
#[path = "nodes/ownership.rs"]
mod ownership;
#[path = "nodes/paths.rs"]
mod paths;
#[path = "nodes/processes.rs"]
mod processes;
#[path = "nodes/rbd_and_etcd.rs"]
mod rbd_and_etcd;
#[path = "nodes/reservations.rs"]
mod reservations;
#[path = "nodes/rolling_upgrade.rs"]
mod rolling_upgrade;
#[path = "nodes/state_key.rs"]
mod state_key;
#[path = "nodes/trusted_etcd.rs"]
mod trusted_etcd;
#[path = "nodes/what_it_opens.rs"]
mod what_it_opens;

use host::*;
use processes::*;
