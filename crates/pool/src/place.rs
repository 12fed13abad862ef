//! Runs placement: ends an interval, asks the planner, moves pages, and keeps the decisions for the status.

use std::ops::ControlFlow;

use raid::GroupId;
use world::yield_now;

use crate::inner::Inner;
use crate::placed::{ClassHeat, Decision, HeatReport, Placed};
use crate::placement::{ACCESS, Class, Plan, Tier, Warm, entrance, plan};
use crate::relocate::{BATCH_REFS_MAX, Destination};
use crate::space::heat::{Accesses, Survey};
use crate::{Pool, PoolError};

/// Decisions that are kept: two and a half hours with two classes and intervals of five minutes.
const DECISIONS_MAX: usize = 30;

impl Pool {
    /// Sets the class of a group. New pages go to the fastest class with less than 90 % used. The pool does
    /// not store it: the caller sets it after every opening.
    ///
    /// # Errors
    ///
    /// No such group.
    pub fn set_class(&self, group: GroupId, class: Class) -> Result<(), PoolError> {
        let position = self.0.position(group)?;
        let first = self.0.areas()[position].first_page();
        self.0.space.borrow_mut().set_class(first, class);
        Ok(())
    }

    /// The classes of its groups, the fastest first.
    pub fn classes(&self) -> Vec<Class> {
        let space = self.0.space.borrow();
        Class::ALL.into_iter().filter(|c| space.areas().any(|a| a.class == *c)).collect()
    }

    /// The heat of the pool.
    pub fn heat(&self) -> HeatReport {
        let placement = &self.0.placement;
        HeatReport {
            intervals: placement.intervals.get(),
            classes: placement.classes.borrow().clone(),
            placed: placement.placed.get(),
            decisions: placement.decisions.borrow().iter().copied().collect(),
        }
    }

    /// Ends an interval without moving pages.
    pub async fn end_interval(&self) {
        self.0.survey().await;
    }

    /// Ends an interval, and moves pages between neighbouring classes as planned. `pace` is as in
    /// [`Pool::evacuate`].
    ///
    /// # Errors
    /// [`PoolError::Busy`] if another job moves pages: this interval then moves none. A page that cannot be
    /// read or written stays, and is reported.
    pub async fn place(
        &self,
        mut pace: impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Placed, PoolError> {
        let inner = &self.0;
        let tiers = inner.survey().await;
        let _moving = inner.begin_moving("a placement")?;
        let (mut placed, mut failure) = (Placed::default(), None);
        for pair in tiers.windows(2) {
            let [(upper, above), (lower, below)] = pair else { continue };
            let plan = plan(above, below);
            inner.note_decision((*upper, above), (*lower, below), &plan);
            let ways = [(plan.demote, *lower, true), (plan.promote, *upper, false)];
            for (pages, class, down) in ways {
                let moved = inner.move_to(pages, class, &mut pace).await?;
                placed.bytes += moved.pages * inner.page_bytes;
                *(if down { &mut placed.demoted } else { &mut placed.promoted }) += moved.pages;
                inner.note_placed(moved.pages, down);
                failure = failure.or(moved.failure);
                if moved.stopped {
                    return Ok(placed);
                }
            }
        }
        failure.map_or(Ok(placed), |error| Err(PoolError::Block(error)))
    }
}

/// The result for the pages of one plan in one direction.
#[derive(Default)]
struct Gone {
    pages: u64,
    stopped: bool,
    failure: Option<block::BlockError>,
}

impl Inner {
    /// Ends an interval: reads all pages' heat and halves it. Returns the classes, the fastest first.
    async fn survey(&self) -> Vec<(Class, Tier)> {
        let accesses = self.space.borrow_mut().take_accesses();
        let mut surveys: [Survey; 3] = Default::default();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.space.borrow_mut().survey(from, &mut surveys);
            yield_now().await;
        }
        let tiers = Class::ALL.into_iter().zip(surveys.map(Survey::tier));
        let tiers: Vec<(Class, Tier)> = tiers.filter(|(_, tier)| tier.pages > 0).collect();
        self.placement.intervals.set(self.placement.intervals.get() + 1);
        *self.placement.classes.borrow_mut() = class_heats(&tiers, &accesses);
        tiers
    }

    /// Moves pages to a class, as far as they still exist and have room.
    async fn move_to(
        self: &std::rc::Rc<Self>,
        mut pages: Vec<u32>,
        class: Class,
        pace: &mut impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Gone, block::BlockError> {
        let mut gone = Gone::default();
        pages.sort_unstable();
        let mut rest = pages.as_slice();
        while !rest.is_empty() && !gone.stopped {
            let (now, later) = rest.split_at(self.batch_len(rest));
            rest = later;
            let batch = self.relocate_pages(now.to_vec(), Destination::Class(class), pace).await?;
            gone.pages += batch.moved;
            gone.stopped = batch.stopped;
            gone.failure = batch.failure.or(gone.failure);
        }
        if gone.pages > 0 {
            // The room that they left is available for the other direction.
            self.commit().await?;
        }
        Ok(gone)
    }

    /// The number of these pages to look up at once: as many as a batch may have references.
    fn batch_len(&self, pages: &[u32]) -> usize {
        let space = self.space.borrow();
        let mut refs = 0;
        let fits = |page: &&u32| {
            refs += if space.has(**page) { u64::from(space.refs(**page)) } else { 0 };
            refs <= BATCH_REFS_MAX
        };
        pages.iter().take_while(fits).count().max(1)
    }

    fn note_placed(&self, pages: u64, down: bool) {
        let mut placed = self.placement.placed.get();
        placed.bytes += pages * self.page_bytes;
        *(if down { &mut placed.demoted } else { &mut placed.promoted }) += pages;
        self.placement.placed.set(placed);
    }

    fn note_decision(&self, (upper, above): (Class, &Tier), (lower, below): (Class, &Tier), plan: &Plan) {
        let mut decisions = self.placement.decisions.borrow_mut();
        decisions.truncate(DECISIONS_MAX - 1);
        decisions.push_front(Decision {
            interval: self.placement.intervals.get(),
            upper,
            lower,
            reason: plan.reason,
            hottest_below: in_accesses(below.hottest.first()),
            coldest_above: in_accesses(above.coldest.first()),
            threshold: rounded_up(plan.threshold),
            promote: plan.promote.len() as u32,
            demote: plan.demote.len() as u32,
        });
    }
}

fn in_accesses(warm: Option<&Warm>) -> u32 {
    warm.map_or(0, |w| w.heat / ACCESS)
}

fn rounded_up(heat: u64) -> u32 {
    u32::try_from(heat.div_ceil(ACCESS.into())).unwrap_or(u32::MAX)
}

fn class_heats(tiers: &[(Class, Tier)], accesses: &[Accesses; 3]) -> Vec<ClassHeat> {
    let all: u64 = accesses.iter().map(|a| a.reads + a.writes).sum();
    let of = |(i, (class, tier)): (usize, &(Class, Tier))| {
        let Accesses { reads, writes } = accesses[*class as usize];
        let last = i + 1 == tiers.len();
        ClassHeat {
            class: *class,
            pages: tier.pages.into(),
            used_pages: tier.used.into(),
            reads,
            writes,
            share_permille: ((reads + writes) * 1000).checked_div(all).unwrap_or(0) as u32,
            hottest: in_accesses(tier.hottest.first()),
            coldest: in_accesses(tier.coldest.first()),
            threshold: if last { 0 } else { rounded_up(entrance(tier)) },
        }
    };
    tiers.iter().enumerate().map(of).collect()
}
