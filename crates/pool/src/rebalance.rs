//! Rebalance: moves pages from the group with the largest used share to the one with the smallest, until the
//! shares are about equal.

use std::ops::ControlFlow;

use crate::evacuate::{PAUSE, PAUSES_MAX};
use crate::placement::Class;
use crate::relocate::{Destination, Moved};
use crate::space::AreaSpace;
use crate::{Pool, PoolError};

/// Groups whose used shares differ by less than this are balanced: a smaller difference is not worth the
/// copy.
const TOLERANCE_PERCENT: u64 = 2;

/// The next moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// The first pages of the groups.
    from: u32,
    to: u32,
    pages: u32,
}

/// From the fullest group to the emptiest of its class, the number of pages that makes their shares equal;
/// `None` if they are about equal. Placement moves pages between classes.
fn next_step(areas: &[AreaSpace]) -> Option<Step> {
    Class::ALL.into_iter().find_map(|class| next_step_in(areas, class))
}

fn next_step_in(areas: &[AreaSpace], class: Class) -> Option<Step> {
    let open = || areas.iter().filter(|a| !a.closed && a.class == class);
    let share = |a: &&AreaSpace| u64::from(a.used) * (1 << 32) / u64::from(a.pages);
    let (from, to) = (open().max_by_key(share)?, open().min_by_key(share)?);
    let (used, pages) = (u64::from(from.used), u64::from(from.pages));
    let (used_there, pages_there) = (u64::from(to.used), u64::from(to.pages));
    // Condition: used / pages = used_there / pages_there after this many moves.
    let surplus = (used * pages_there).checked_sub(used_there * pages)?;
    let count = (surplus / (pages + pages_there)).min(u64::from(to.free)) as u32;
    let differ = surplus * 100 > TOLERANCE_PERCENT * pages * pages_there;
    (differ && count > 0).then_some(Step { from: from.first, to: to.first, pages: count })
}

impl Pool {
    /// Moves pages from the fullest groups to the emptiest of their class, by used share, until the shares
    /// differ by less than 2 %. `pace` is as in [`Pool::evacuate`].
    ///
    /// # Errors
    ///
    /// Pages of the pool are on the move already, or a group failed.
    pub async fn rebalance(
        &self,
        mut pace: impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Moved, PoolError> {
        let inner = &self.0;
        let _moving = inner.begin_moving("a rebalancing")?;
        let (mut bytes, mut pauses) = (0, 0);
        let mut start: Option<u32> = None;
        loop {
            let areas: Vec<AreaSpace> = inner.space.borrow().areas().collect();
            let Some(step) = next_step(&areas) else { break };
            let from = start.filter(|s| has(&areas, step.from, *s)).unwrap_or(step.from);
            let to = Destination::Group(step.to);
            let batch = inner.relocate(from, step.pages as usize, to, &mut pace).await?;
            bytes += batch.moved * inner.page_bytes;
            start = (batch.next != from).then_some(batch.next);
            if batch.stopped {
                return Ok(Moved { bytes, complete: false });
            }
            if batch.moved > 0 {
                pauses = 0;
            } else if let Some(error) = batch.failure {
                return Err(error.into());
            } else if start.is_none_or(|s| !has(&areas, step.from, s)) {
                pauses += 1;
                inner.commit().await?;
                inner.world.sleep(PAUSE).await;
                if pauses > PAUSES_MAX || pace(0).await.is_break() {
                    return Ok(Moved { bytes, complete: false });
                }
            }
        }
        inner.commit().await?;
        Ok(Moved { bytes, complete: true })
    }
}

/// Whether the group that begins with page `first` has this page.
fn has(areas: &[AreaSpace], first: u32, page: u32) -> bool {
    areas.iter().any(|a| a.first == first && (first..first + a.pages).contains(&page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(first: u32, pages: u32, used: u32) -> AreaSpace {
        AreaSpace { first, pages, used, free: pages - used, closed: false, class: Class::Capacity }
    }

    #[test]
    fn from_the_fullest_to_the_emptiest_until_they_are_alike() {
        let mut areas = [area(0, 1000, 900), area(1000, 1000, 500), area(2000, 500, 0)];
        let step = next_step(&areas).expect("they differ");
        assert_eq!(step, Step { from: 0, to: 2000, pages: 300 });
        let mut steps = 0;
        while let Some(step) = next_step(&areas) {
            let of = |first| areas.iter().position(|a| a.first == first).expect("there");
            let (a, b) = (of(step.from), of(step.to));
            (areas[a].used, areas[a].free) = (areas[a].used - step.pages, areas[a].free + step.pages);
            (areas[b].used, areas[b].free) = (areas[b].used + step.pages, areas[b].free - step.pages);
            steps += 1;
        }
        assert!(steps < 10, "{steps} steps");
        assert!(areas.iter().all(|a| (a.used * 100 / a.pages).abs_diff(56) <= 2), "{areas:?}");
    }

    #[test]
    fn nothing_moves_to_a_group_that_leaves_or_for_less_than_a_page() {
        assert_eq!(next_step(&[area(0, 1000, 900)]), None);
        assert_eq!(next_step(&[area(0, 3, 1), area(3, 3, 0)]), None);
        assert_eq!(next_step(&[area(0, 1000, 900), AreaSpace { closed: true, ..area(1000, 1000, 0) }]), None);
        assert_eq!(next_step(&[area(0, 1000, 510), area(1000, 1000, 500)]), None);
    }
}
