//! The command queue: which of the waiting requests is next.

use std::collections::VecDeque;

use super::geometry::Place;
use super::mechanics::{Mechanics, Pass};
use super::parameters::Scheduling;
use super::request::{Kind, Request};

/// A request that waits for the mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) request: Request,
    pub(super) place: Place,
    pub(super) arrived_ns: u64,
    /// Its number in the order of arrival.
    number: u64,
}

impl Queued {
    pub(super) fn pass(&self) -> Pass {
        if self.request.is_read() { Pass::Read } else { Pass::Write }
    }
}

/// What waits: as many as the drive chooses among, and those behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    eligible: Vec<Queued>,
    behind: VecDeque<Queued>,
    depth: usize,
    arrived: u64,
    upwards: bool,
}

/// What the choice depends on.
pub(super) struct Head<'a> {
    pub(super) mechanics: &'a Mechanics,
    /// Cylinder and head.
    pub(super) at: (u32, u32),
    /// When the arm could begin to move.
    pub(super) moves_ns: u64,
    /// The blocks that the head reads or has just read: a read that begins there needs no positioning.
    pub(super) stream: std::ops::Range<u64>,
    /// The block after a write that has just ended: a write that waits there goes on with it.
    pub(super) write_on: Option<u64>,
}

impl Queue {
    pub(super) fn new(depth: usize) -> Queue {
        Queue { depth, upwards: true, ..Queue::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.eligible.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.eligible.len() + self.behind.len()
    }

    pub(super) fn push(&mut self, request: Request, place: Place, arrived_ns: u64) {
        self.arrived += 1;
        let queued = Queued { request, place, arrived_ns, number: self.arrived };
        if self.eligible.len() < self.depth {
            self.eligible.push(queued);
        } else {
            self.behind.push_back(queued);
        }
    }

    /// A read among those eligible that is like this.
    pub(super) fn find_read(&self, is_it: impl Fn(&Request) -> bool) -> Option<usize> {
        self.eligible.iter().position(|queued| queued.request.is_read() && is_it(&queued.request))
    }

    pub(super) fn remove(&mut self, i: usize) -> Queued {
        let queued = self.eligible.swap_remove(i);
        self.eligible.extend(self.behind.pop_front());
        queued
    }

    /// Takes the next one out.
    pub(super) fn choose(&mut self, scheduling: Scheduling, head: &Head<'_>) -> Option<Queued> {
        let all = self.eligible.iter().enumerate();
        let (next, _) = match scheduling {
            Scheduling::Fcfs => all.min_by_key(|(_, queued)| queued.number)?,
            Scheduling::Look => {
                let next = self.look(head).or_else(|| {
                    self.upwards = !self.upwards;
                    self.look(head)
                })?;
                return Some(self.remove(next));
            }
            Scheduling::Sptf { ageing_permille } => {
                let angle_ns = head.mechanics.angle_ns(head.moves_ns);
                all.min_by_key(|(_, queued)| {
                    let waited_ns = head.moves_ns.saturating_sub(queued.arrived_ns);
                    let credit_ns = (waited_ns / 1000).saturating_mul(ageing_permille.into());
                    let cost_ns = i64::from(head.cost_ns(queued, angle_ns));
                    (cost_ns.saturating_sub_unsigned(credit_ns), queued.number)
                })?
            }
        };
        Some(self.remove(next))
    }

    /// The nearest in the arm's direction, the present cylinder included.
    fn look(&self, head: &Head<'_>) -> Option<usize> {
        let distance = |queued: &Queued| match self.upwards {
            true => queued.place.cylinder.checked_sub(head.at.0),
            false => head.at.0.checked_sub(queued.place.cylinder),
        };
        let ahead = self.eligible.iter().enumerate();
        let ahead = ahead.filter_map(|(i, queued)| Some((distance(queued)?, queued.number, i)));
        ahead.min().map(|(_, _, i)| i)
    }
}

impl Head<'_> {
    fn cost_ns(&self, queued: &Queued, angle_ns: u32) -> u32 {
        let block = queued.request.block;
        match queued.request.kind {
            Kind::Read if self.stream.contains(&block) => return 0,
            Kind::Write | Kind::Zero if self.write_on == Some(block) => return 0,
            _ => {}
        }
        self.mechanics.position_ns(self.at, angle_ns, &queued.place, queued.pass())
    }
}
