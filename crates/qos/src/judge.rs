//! Judges all flows at the end of a window, and computes their claims.

use crate::expected::Claim;
use crate::flow::Flow;
use crate::health::{Health, WINDOW_NS};
use crate::overcommit::{Did, scale_permille};
use crate::policy::FlowId;
use crate::scheduler::Scheduler;

/// Below this pace of the reservation clock, of 1000, the clock tells that minimums are over-committed.
const OVER_PERMILLE: u32 = 980;

/// Start of the window, and the pace of the reservation clock in the previous one.
pub(crate) struct Judge {
    since: u64,
    held_ns: u64,
    scale_permille: u32,
    /// Whether what the pool did in it tells that minimums are over-committed.
    is_over: bool,
}

impl Default for Judge {
    fn default() -> Judge {
        Judge { since: 0, held_ns: 0, scale_permille: 1000, is_over: false }
    }
}

impl Scheduler {
    /// Ends a window when it is over ([`WINDOW_NS`]); appends the flows whose health changed.
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
            is_over: false,
            scale_permille: 1000 - (u128::from(held) * 1000 / u128::from(passed)) as u32,
        };
        let (unit_bytes, is_full) = (self.settings.unit_bytes, self.meter.is_full(passed));
        self.meter.close(passed, unit_bytes);
        let mut did = Did {
            is_full,
            cost_permille: self.depth.cost_permille(),
            floor_percent: self.settings.floor_percent,
            ..Did::default()
        };
        for flow in self.flows.iter_mut().filter(|f| f.in_use) {
            let seen = flow.window.close((now, passed), flow.minimum, flow.part.as_ref(), unit_bytes);
            did.add(seen, flow.minimum > 0, passed);
        }
        let over = self.overcommitted(&did);
        self.judge.is_over = over.is_some();
        if self.judge.scale_permille >= OVER_PERMILLE {
            self.judge.scale_permille = self.judge.scale_permille.min(over.unwrap_or(1000));
        }
        for (number, flow) in self.flows.iter_mut().enumerate().filter(|(_, f)| f.in_use) {
            if let Some(health) = flow.window.judge(flow.part.as_ref(), over.is_some(), unit_bytes) {
                changed.push((FlowId(number as u32), health));
            }
        }
    }

    /// What part of the minimums can be served by what the pool did in the window that has ended, if that
    /// tells that they are over-committed.
    fn overcommitted(&self, did: &Did) -> Option<u32> {
        let asked = self.flows.iter().filter(|f| f.in_use).filter_map(|flow| flow.window.seen().asked());
        let (curve, relief_permille) = (self.depth.curve(), self.depth.knee.relief_permille());
        scale_permille(asked, did, &curve, relief_permille).filter(|_| self.depth.is_settled())
    }

    /// Health of a flow.
    pub fn health(&self, flow: FlowId) -> Health {
        self.flows[flow.0 as usize].window.health
    }

    /// Whether a flow had outstanding requests all through the last window, which hardly waited: only more of
    /// them would bring it more, whatever its weight and its minimum. Not while minimums are over-committed.
    pub fn lacks_outstanding(&self, flow: FlowId) -> bool {
        !self.judge.is_over && self.flows[flow.0 as usize].window.seen().lacks_outstanding()
    }

    /// Claim of each flow: its policy, and its demand in the last window; none: unlimited.
    pub fn claims(&self) -> impl Iterator<Item = (FlowId, Claim)> {
        let unit_bytes = self.settings.unit_bytes;
        let claim = move |(number, flow): (usize, &Flow)| {
            let policy = &flow.policy;
            let part = flow.part.map(|part| part.maximum.map(|slice| slice.bytes_per_s / unit_bytes));
            let claim = Claim {
                minimum: flow.minimum / unit_bytes,
                maximum: part.unwrap_or(policy.maximum_iops),
                weight: u64::from(policy.weight),
                demand: flow.window.demand,
            };
            (FlowId(number as u32), claim)
        };
        self.flows.iter().enumerate().filter(|(_, f)| f.in_use && f.clients > 0).map(claim)
    }

    /// Sum of the minimums of all flows with clients, in units per second.
    pub fn minimums(&self) -> u64 {
        let minimums = self.flows.iter().filter(|f| f.in_use && f.clients > 0).map(|f| f.minimum);
        minimums.sum::<u64>() / self.settings.unit_bytes
    }

    /// Share of the minimums that could be served in the last window, of 1000. A lower value means that
    /// minimums are over-committed, and were all scaled by this factor.
    pub fn scale_permille(&self) -> u32 {
        self.judge.scale_permille
    }
}
