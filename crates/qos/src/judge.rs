//! Judges all flows when a window has ended, and says what they may claim.

use crate::expected::Claim;
use crate::flow::Flow;
use crate::health::{Health, WINDOW_NS};
use crate::policy::FlowId;
use crate::scheduler::Scheduler;

/// When the window began, and how the reservation clock ran in the one before.
pub(crate) struct Judge {
    since: u64,
    held_ns: u64,
    scale_permille: u32,
}

impl Default for Judge {
    fn default() -> Judge {
        Judge { since: 0, held_ns: 0, scale_permille: 1000 }
    }
}

impl Scheduler {
    /// Ends a window when it is time ([`WINDOW_NS`]); adds the flows about which there is news.
    pub fn close_window(&mut self, now: u64, changed: &mut Vec<(FlowId, Health)>) {
        self.meter.elapse(now);
        let passed = now.saturating_sub(self.judge.since);
        if passed < WINDOW_NS {
            return;
        }
        let held = (self.held_ns - self.judge.held_ns).min(passed);
        self.judge = Judge {
            since: now,
            held_ns: self.held_ns,
            scale_permille: 1000 - (u128::from(held) * 1000 / u128::from(passed)) as u32,
        };
        let unit_bytes = self.settings.unit_bytes;
        self.meter.close(passed, unit_bytes);
        for (number, flow) in self.flows.iter_mut().enumerate().filter(|(_, f)| f.in_use) {
            if let Some(health) = flow.window.close(now, passed, flow.minimum, unit_bytes) {
                changed.push((FlowId(number as u32), health));
            }
        }
    }

    /// How a flow is.
    pub fn health(&self, flow: FlowId) -> Health {
        self.flows[flow.0 as usize].window.health
    }

    /// What each flow may claim of the array: its policy, and what it asked for in the last window; none: all that it could get.
    pub fn claims(&self) -> impl Iterator<Item = (FlowId, Claim)> {
        let claim = |(number, flow): (usize, &Flow)| {
            let policy = &flow.policy;
            let claim = Claim {
                minimum: policy.minimum_iops,
                maximum: policy.maximum_iops,
                weight: u64::from(policy.weight),
                demand: flow.window.demand,
            };
            (FlowId(number as u32), claim)
        };
        self.flows.iter().enumerate().filter(|(_, f)| f.in_use && f.clients > 0).map(claim)
    }

    /// The minimums of all flows that have clients, in units per second.
    pub fn minimums(&self) -> u64 {
        self.flows.iter().filter(|f| f.in_use && f.clients > 0).map(|f| f.policy.minimum_iops).sum()
    }

    /// Of 1000: what of the minimums could be given in the last window. Less means that more is promised than the array gives, and that all
    /// were scaled alike.
    pub fn scale_permille(&self) -> u32 {
        self.judge.scale_permille
    }
}
