//! What the model is made of: the table `[model]` of the scenario.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Result;
use lab_core::checks::Checks;
use lab_core::quantity::{Size, Time};
use lab_tools::hosts::modelled::{Carriage, Work};
use serde::Deserialize;
use world_model::Link;

use crate::scenario::WAIT;

/// `[model]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modelled {
    /// Of the published sizes, in the quick form: what it measures is multiplied by as much.
    pub quick_share: f64,
    /// Reads and writes that a host keeps in flight without offload.
    pub outstanding: usize,
    /// Bytes of one of them.
    pub transfer: Size,
    /// Commands that it keeps in flight where the array works.
    pub outstanding_offload: usize,
    /// Drives, stripes and memory.
    pub array: ModelledArray,
    /// The wire between hosts and port, and what iSCSI negotiates.
    pub network: Network,
    /// What a command costs a host, by the measurement of this code.
    pub host: Costs,
    /// How many times as long the published host works for the same, with all of its processors.
    pub host_times: f64,
    /// Its processors: a command has one of them, for as many times as long.
    pub processors: usize,
    /// Its sessions: LUs are dealt out to them, and the commands of each take turns on one processor.
    pub sessions: usize,
    /// What it costs the array's controller.
    pub controller: Costs,
    /// What a power-on takes by itself, when nobody else is on the LU.
    pub power_on: Time,
    /// What a host waits after a RESERVATION CONFLICT, plus or minus a fifth.
    pub conflict_wait: Time,
}

/// `[model.array]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelledArray {
    /// Model of the drives of the first pool, and their number.
    pub drive: String,
    /// See above.
    pub drives: u32,
    /// The same of the second pool.
    pub second_drive: String,
    /// See above.
    pub second_drives: u32,
    /// Of both groups.
    pub stripe_unit: Size,
    /// Memory of the controller.
    pub cache: Size,
}

/// `[model.network]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Speed of the Ethernet, in Gbit/s.
    pub gbit: u32,
    /// Bytes of a frame's payload.
    pub mtu: u32,
    /// Segments of data that one acknowledgement follows.
    pub segments_per_ack: f64,
    /// FirstBurstLength of the sessions.
    pub first_burst: Size,
    /// MaxBurstLength of the sessions.
    pub burst: Size,
}

/// What a processor can work for a command, or for a MiB.
const WORK: RangeInclusive<Time> = Time(Duration::ZERO)..=Time(Duration::from_secs(1));

/// What a processor works for a command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Whatever it is.
    pub command: Time,
    /// Besides, for each MiB that it sends.
    pub sent_per_mib: Time,
    /// Besides, for each MiB that it receives.
    pub received_per_mib: Time,
}

impl Costs {
    fn work(&self) -> Work {
        Work {
            command: self.command.0,
            sent_per_mib: self.sent_per_mib.0,
            received_per_mib: self.received_per_mib.0,
        }
    }
}

impl Modelled {
    /// How commands travel.
    pub(super) fn carriage(&self) -> Result<Carriage> {
        let network = &self.network;
        Ok(Carriage {
            link: Link::ethernet(network.gbit, network.mtu)?,
            unsolicited_bytes: network.first_burst.0,
            burst_bytes: network.burst.0,
            segments_per_ack: network.segments_per_ack,
        })
    }

    /// The work of one processor of the host.
    pub(super) fn host_work(&self) -> Work {
        self.host.work().times(self.host_times * self.processors as f64)
    }

    pub(super) fn controller_work(&self) -> Work {
        self.controller.work()
    }

    /// The host's own work before each of so many steps of a power-on.
    pub(crate) fn pause(&self, steps: usize) -> Duration {
        self.power_on.0 / (steps.max(1) as u32)
    }

    /// What its values must be.
    pub(crate) fn check(&self, c: &mut Checks) {
        c.share("model.quick_share", self.quick_share);
        c.range("model.outstanding", self.outstanding, 1..=256);
        c.range("model.outstanding_offload", self.outstanding_offload, 1..=256);
        c.multiple("model.transfer", self.transfer, Size(4096), 4096..=world::BUF_LEN_MAX as u64);
        c.range("model.host_times", self.host_times, 0.01..=1000.0);
        c.range("model.power_on", self.power_on, Time(Duration::ZERO)..=Time(Duration::from_secs(3600)));
        c.range("model.conflict_wait", self.conflict_wait, WAIT);
        for (of, work) in [("host", &self.host), ("controller", &self.controller)] {
            let costs = [
                ("command", work.command),
                ("sent_per_mib", work.sent_per_mib),
                ("received_per_mib", work.received_per_mib),
            ];
            costs.into_iter().for_each(|(key, cost)| c.range(&format!("model.{of}.{key}"), cost, WORK));
        }
        c.range("model.processors", self.processors, 1..=256);
        c.range("model.sessions", self.sessions, 1..=self.processors.max(1));
        for (key, drives) in [
            ("model.array.drives", self.array.drives),
            ("model.array.second_drives", self.array.second_drives),
        ] {
            // A group of RAID 1+0.
            c.range(key, drives, 4..=32);
            c.must(key, drives.is_multiple_of(2), "be even: RAID 1+0");
        }
        c.power_of_two("model.array.stripe_unit", self.array.stripe_unit, 4096..=1 << 20);
        c.multiple("model.array.cache", self.array.cache, Size(1 << 20), 64 << 20..=64 << 30);
        c.cache("model.array.cache", self.array.cache, Size(64 << 20)..=Size(64 << 30));
        let network = &self.network;
        c.range("model.network.segments_per_ack", network.segments_per_ack, 1.0..=100.0);
        c.range("model.network.burst", network.burst.0, 512..=16 << 20);
        c.range("model.network.first_burst", network.first_burst.0, 512..=network.burst.0);
        let link = Link::ethernet(network.gbit, network.mtu);
        let fault = link.as_ref().map_or_else(ToString::to_string, |_| String::new());
        c.must("model.network", link.is_ok(), &fault);
    }
}
