//! What the whole of the measured points decides: the form of each demand, which groups bound their servers
//! and by which law, the think time.

use super::groups::{Bounding, Groups, Law};
use super::line::{self, Chosen, Line, Seen};
use super::model::{Model, calibrate, off};
use super::what_if::Changed;
use super::within::Within;
use super::{Place, Ramp, Refusal, Sample, ramp};

/// Resources that never work more than this are left out.
pub(super) const IDLE: f64 = 0.02;
/// A rejected demand does not matter as long as its resource stays below.
pub(super) const HARMLESS: f64 = 0.7;
/// A group bounds its servers when they get less than this of what all the rest lets them have: several times
/// what repeats scatter by.
const BOUNDED: f64 = 0.93;
/// Nothing waits for drives that work less: in a group, where an I/O needs several, that is far below what
/// one drive can.
const BUSY: f64 = 0.5;
/// Writes wait when what they hold of the cache stands at its limit; percent are counted whole.
const AT_LIMIT: f64 = 0.999;
/// The model is held against so many numbers of servers: those nearest to what is predicted.
const NEAREST: usize = 3;
/// How regular services are is sought in quarters.
const REGULAR_STEPS: u32 = 4;
/// A class's last point is left out where so many tell what it would have been.
const LEAVE_OUT_LEAST: usize = 3;

/// What was measured, on average: servers that go to the groups in turn first.
#[derive(Clone, Debug)]
pub(super) struct States {
    pub(super) all: Vec<Sample>,
    pub(super) in_turn: usize,
}

impl States {
    /// Of all samples, or of some that were drawn.
    pub(super) fn of<'a>(
        in_turn: impl IntoIterator<Item = &'a Sample>,
        packed: impl IntoIterator<Item = &'a Sample>,
    ) -> States {
        let mut all = ramp::means(in_turn);
        let in_turn = all.len();
        all.extend(ramp::means(packed));
        States { all, in_turn }
    }

    pub(super) fn in_turn(&self) -> &[Sample] {
        &self.all[..self.in_turn]
    }

    pub(super) fn last(&self) -> &Sample {
        &self.all[self.in_turn - 1]
    }

    /// Those of the ramp from so many servers on that are nearest to what is predicted.
    fn nearest(&self, from: u32) -> Vec<&Sample> {
        let used: Vec<&Sample> = self.in_turn().iter().filter(|state| state.servers >= from).collect();
        used[used.len().saturating_sub(NEAREST)..].to_vec()
    }
}

/// A demand that was not taken.
#[derive(Clone, Debug)]
pub(super) enum Rejected {
    /// It does nothing.
    Idle,
    /// It is no line, and how much it is at most.
    NoLine { refusal: Refusal, most_s: f64 },
}

/// Bootstrap samples only move the numbers of this.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) forms: Vec<Result<Chosen, Rejected>>,
    pub(super) law: Law,
    /// Rates of groups that bounded their servers.
    pub(super) bounding: Vec<Bounding>,
    /// States of the ramp in which no group bounded anybody.
    pub(super) free: Vec<usize>,
    pub(super) think_s: f64,
    /// How regular services are: see the model.
    pub(super) regular: f64,
    /// The first number of servers that all demands hold for.
    pub(super) from: u32,
    /// How far the model is off the states nearest to what is predicted.
    pub(super) off: f64,
    /// Other hardware than was measured.
    pub(super) changed: Option<Changed>,
}

fn seen(ramp: &Ramp, states: &States, k: usize) -> Vec<Seen> {
    let one = |mean: &Sample| {
        let utilisation = mean.utilisation[k];
        let of = match ramp.resources[k].place {
            Place::Shared => 1.0,
            Place::Server => f64::from(mean.servers),
        };
        Seen { servers: mean.servers, utilisation, demand_s: utilisation * of / mean.iops }
    };
    states.in_turn().iter().map(one).collect()
}

impl Plan {
    pub(super) fn make(ramp: &Ramp, states: &States) -> Result<Plan, Refusal> {
        let forms: Vec<Result<Chosen, Rejected>> =
            (0..ramp.resources.len()).map(|k| form(ramp, states, k)).collect();
        for (k, form) in forms.iter().enumerate() {
            let busiest = states.in_turn().iter().map(|mean| mean.utilisation[k]).fold(0.0, f64::max);
            if let Err(Rejected::NoLine { refusal, .. }) = form
                && busiest >= HARMLESS
            {
                return Err(refusal.clone());
            }
        }
        let from = forms.iter().flatten().map(|chosen| chosen.from).max().unwrap_or(1);
        let mut plan = Plan {
            forms,
            law: Law::Hits,
            bounding: vec![],
            // Fewest servers, fewest waits: a first idea of what everything but the groups lets them have.
            free: vec![0],
            think_s: 0.0,
            regular: 0.0,
            from,
            off: 0.0,
            changed: None,
        };
        for _ in 0..2 {
            plan.settle(ramp, states)?;
        }
        plan.off = off(&plan.model(ramp, states), &states.nearest(from))?;
        Ok(plan)
    }

    /// The think time from the free states, and from it which states are free.
    fn settle(&mut self, ramp: &Ramp, states: &States) -> Result<(), Refusal> {
        let mut free = Model { groups: None, ..self.model(ramp, states) };
        let calm: Vec<&Sample> = self.free.iter().map(|at| &states.all[*at]).collect();
        let mut nearest = f64::INFINITY;
        for step in 0..=REGULAR_STEPS {
            free.regular = f64::from(step) / f64::from(REGULAR_STEPS);
            let off = calibrate(&mut free, &calm, None)?;
            if off < nearest {
                (nearest, self.think_s, self.regular) = (off, free.think_s, free.regular);
            }
        }
        (free.think_s, free.regular) = (self.think_s, self.regular);
        let mut bounding = Vec::new();
        for (state, mean) in states.all.iter().enumerate() {
            let answer = free.answer_as(mean)?;
            for (kind, (shared, let_have)) in mean.groups.iter().zip(&answer.groups).enumerate() {
                let is_busy = shared.utilisation >= BUSY || is_at_limit(ramp, mean);
                if is_busy && shared.iops < BOUNDED * let_have {
                    bounding.push(Bounding { state, kind });
                }
            }
        }
        let is_free = |at: &usize| bounding.iter().all(|point| point.state != *at);
        self.free = (0..states.in_turn).filter(is_free).collect();
        if self.free.is_empty() {
            self.free.push(0);
        }
        let full = |point: &&Bounding| is_at_limit(ramp, &states.all[point.state]);
        let at_limit = bounding.iter().filter(full).count();
        self.law = if 2 * at_limit > bounding.len() { Law::Memory } else { Law::Hits };
        bounding.retain(|point| full(&point) == (self.law == Law::Memory));
        self.bounding = bounding;
        Ok(())
    }

    /// The model of this plan, with the numbers of some states.
    pub(super) fn model<'a>(&self, ramp: &'a Ramp, states: &States) -> Model<'a> {
        self.model_from(ramp, states, &self.bounding)
    }

    fn model_from<'a>(&self, ramp: &'a Ramp, states: &States, bounding: &[Bounding]) -> Model<'a> {
        let line = |k: usize| -> Option<Line> {
            let chosen = self.forms[k].as_ref().ok()?;
            let mut seen = seen(ramp, states, k);
            seen.retain(|seen| seen.servers >= chosen.from);
            let times = self.changed.as_ref().map_or(1.0, |changed| changed.resources[k]);
            Some(line::fit(&seen, chosen.form).faster(times))
        };
        let lines = (0..ramp.resources.len()).map(line).collect();
        let times = self.changed.as_ref().map_or(1.0, |changed| changed.group);
        let groups = Some(Groups::fit(self.law, &states.all, bounding).faster(times));
        Model { ramp, lines, groups, think_s: self.think_s, regular: self.regular }
    }

    /// What was measured, beside what this model says of the same; other hardware was not measured.
    pub(super) fn within<'s>(&self, model: &Model<'_>, states: &'s States) -> Result<Within<'s>, Refusal> {
        let measured = if self.changed.is_none() { states.in_turn() } else { &[] };
        let modelled = measured.iter().map(|state| Ok(model.answer_as(state)?.iops));
        Ok(Within::new(measured, modelled.collect::<Result<Vec<f64>, Refusal>>()?))
    }

    /// How far off each kind of group's last state is when it is left out, and every packed one as the model
    /// has it.
    pub(super) fn errors(&self, ramp: &Ramp, states: &States) -> Result<Vec<f64>, Refusal> {
        let each = |point: &Bounding| states.all[point.state].groups[point.kind].each;
        let mut kinds: Vec<u32> = self.bounding.iter().map(each).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let last = |point: &Bounding| (states.all[point.state].share_of, states.all[point.state].servers);
        let mut errors = Vec::new();
        for kind in kinds {
            let is_of = |point: &&Bounding| {
                each(point) == kind && point.kind == 0 && states.all[point.state].groups.len() == 1
            };
            let of: Vec<&Bounding> = self.bounding.iter().filter(is_of).collect();
            let Some(last) = of.iter().max_by_key(|point| last(point)) else { continue };
            if of.len() < LEAVE_OUT_LEAST {
                continue;
            }
            let rest: Vec<Bounding> =
                self.bounding.iter().filter(|point| point.state != last.state).copied().collect();
            let state = &states.all[last.state];
            let answer = self.model_from(ramp, states, &rest).answer_as(state)?;
            errors.push(answer.iops / state.iops - 1.0);
        }
        let model = self.model(ramp, states);
        let packed = &states.all[states.in_turn..];
        let most = packed.iter().map(|state| state.servers).max().unwrap_or(0);
        // What only a few do says little of what many will, and the laws hardly follow it.
        for state in packed.iter().filter(|state| 2 * state.servers > most) {
            errors.push(model.answer_as(state)?.iops / state.iops - 1.0);
        }
        Ok(errors)
    }

    /// Whether the last state with so many servers on a group has the cache nearly full of writes, but none
    /// wait yet.
    pub(super) fn nearly_full(&self, ramp: &Ramp, states: &States, each: u32, near: f64) -> Option<f64> {
        let limit = ramp.write_limit.filter(|_| self.law == Law::Hits)?;
        let of = self.bounding.iter().filter(|p| states.all[p.state].groups[p.kind].each == each);
        let last = of.max_by_key(|point| states.all[point.state].servers)?;
        let share = states.all[last.state].pending / limit;
        (near..AT_LIMIT).contains(&share).then_some(share)
    }
}

fn is_at_limit(ramp: &Ramp, state: &Sample) -> bool {
    ramp.write_limit.is_some_and(|limit| state.pending >= AT_LIMIT * limit)
}

fn form(ramp: &Ramp, states: &States, k: usize) -> Result<Chosen, Rejected> {
    let seen = seen(ramp, states, k);
    let busiest = seen.iter().map(|s| s.utilisation).fold(0.0, f64::max);
    if busiest < IDLE {
        return Err(Rejected::Idle);
    }
    line::choose(&seen).map_err(|off| {
        let demands = || seen.iter().map(|s| s.demand_s);
        let most_s = demands().fold(0.0, f64::max);
        let refusal = Refusal::NotALine {
            resource: ramp.resources[k].name.clone(),
            least_us: demands().fold(f64::INFINITY, f64::min) * 1e6,
            most_us: most_s * 1e6,
            off_percent: off * 100.0,
            utilisation_percent: busiest * 100.0,
        };
        Rejected::NoLine { refusal, most_s }
    })
}
