//! What a scheduler tells of the flows that have parts of policies, and of itself.

use crate::capacity::Told;
use crate::part::{PartUse, Room};
use crate::policy::FlowId;
use crate::scheduler::Scheduler;
use crate::tag::SECOND_NS;

/// A flow with outstanding requests for this part of an interval wants all that it can get, and a scheduler
/// with waiting ones does all that it can.
const BUSY_PERCENT: u64 = 90;
/// What a minimum is claimed to be beyond its demand in the last window.
const GROWTH_PERCENT: u64 = 125;
/// A flow without a response for this long is idle.
const AWAKE_NS: u64 = SECOND_NS;

impl Scheduler {
    /// What has happened since this was called last: to the scheduler, and to these flows.
    pub fn tell(&mut self, now: u64, flows: &[FlowId]) -> (Room, Vec<PartUse>) {
        self.meter.elapse(now);
        let passed_ns = now.saturating_sub(self.told.since).max(1);
        let asking = self.asking(flows);
        let uses =
            flows.iter().zip(asking).map(|(flow, asking)| self.tell_flow(now, passed_ns, *flow, asking));
        let uses = uses.collect();
        let waited_ns = self.meter.waited_ns - self.told.waited_ns;
        let served = self.meter.served_total_bytes - self.told.served_bytes;
        self.told =
            Told { since: now, waited_ns: self.meter.waited_ns, served_bytes: self.meter.served_total_bytes };
        (self.room(now, flows, (waited_ns, served, passed_ns)), uses)
    }

    /// How many clients of each flow have asked.
    fn asking(&mut self, flows: &[FlowId]) -> Vec<u32> {
        let mut asking = vec![0; flows.len()];
        for client in self.clients.iter_mut().filter(|client| client.in_use) {
            let Some(at) = flows.iter().position(|flow| flow.0 == client.flow) else { continue };
            let charged = std::mem::replace(&mut client.told_bytes, client.counts.charged_bytes);
            asking[at] += u32::from(client.waiting + client.below > 0 || charged < client.told_bytes);
        }
        asking
    }

    fn tell_flow(&mut self, now: u64, passed_ns: u64, flow: FlowId, asking: u32) -> PartUse {
        let known = &mut self.flows[flow.0 as usize];
        let (counted_bytes, counted_bandwidth_bytes) = known.counted(now);
        let (busy_ns, served) = (known.window.busy_total_ns(now), known.window.served_total_bytes);
        let was = std::mem::take(&mut known.interval);
        (known.interval.busy_ns, known.interval.served_bytes) = (busy_ns, served);
        let now_held = known.waiting > 0 && known.free_at(now) > now;
        PartUse {
            part: known.part,
            served_bytes_per_s: per_s(served - was.served_bytes, passed_ns),
            asking,
            is_hungry: busy_ns - was.busy_ns >= passed_ns / 100 * BUSY_PERCENT,
            is_held: was.is_held || now_held,
            counted_bytes,
            counted_bandwidth_bytes,
        }
    }

    fn room(&self, now: u64, flows: &[FlowId], (waited_ns, served, passed_ns): (u64, u64, u64)) -> Room {
        let unit_bytes = self.settings.unit_bytes;
        let (mut claimed_bytes_per_s, mut has_free) = (0_u64, false);
        for (number, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.in_use) {
            if flows.contains(&FlowId(number as u32)) {
                continue;
            }
            if flow.minimum == 0 {
                has_free |= flow.outstanding() > 0;
            } else if flow.outstanding() > 0 || flow.is_awake(now, AWAKE_NS) {
                let demand = flow
                    .window
                    .demand
                    .map_or(u64::MAX, |units| units.saturating_mul(unit_bytes) / 100 * GROWTH_PERCENT);
                claimed_bytes_per_s = claimed_bytes_per_s.saturating_add(flow.minimum.min(demand));
            }
        }
        let floor_percent = if has_free { u64::from(self.settings.floor_percent) } else { 0 };
        let is_full = waited_ns >= passed_ns / 100 * BUSY_PERCENT;
        let capacity = per_s(served, passed_ns);
        Room {
            capacity_bytes_per_s: is_full.then(|| capacity - capacity / 100 * floor_percent),
            claimed_bytes_per_s,
        }
    }
}

fn per_s(bytes: u64, passed_ns: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(SECOND_NS) / u128::from(passed_ns)).unwrap_or(u64::MAX)
}
