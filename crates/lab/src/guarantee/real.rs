//! The same in real time: initiators over iSCSI, the array's controller on a thread, modelled drives that take their time.

use anyhow::{Result, bail};

use super::run::Run;
use super::scenario::Qos;
use crate::interrupt::Stop;

/// Runs it.
pub(super) fn run(_qos: &Qos, _seed: u64, _stop: &Stop) -> Result<Run> {
    bail!("not yet")
}
