//! Divides policies whose volumes are in several schedulers, every half of a second: the first controller
//! does so for all. A controller that is slow to answer is sent nothing until it has; the others are not kept
//! by it. Without an answer, or without the first controller, the last parts stay in force.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use qos::{Divider, Found, ROUND_NS, Spread, Terms};

use crate::config::Config;
use crate::control::{Control, PlaceDemand, PlaceParts, Reply};
use crate::controller::Controller;
use crate::place::Place;

const ROUND: Duration = Duration::from_nanos(ROUND_NS);

/// What is known of all schedulers, and the controllers that have not answered.
#[derive(Default)]
struct Rounds {
    divider: Divider<Place>,
    busy: BTreeSet<usize>,
    /// What schedulers have found out about their pools: the next one of a pool begins with it.
    found: BTreeMap<Place, Found>,
    /// Places whose scheduler has found something itself, or has heard of it.
    know: BTreeSet<Place>,
}

impl Rounds {
    /// What a place has to hear of its pool.
    fn news_for(&self, place: &Place) -> Option<Found> {
        self.found.get(place).copied().filter(|_| !self.know.contains(place))
    }

    fn take_found(&mut self, place: &Place, found: Option<Found>) {
        match found {
            Some(found) => {
                self.found.insert(place.clone(), found);
                self.know.insert(place.clone());
            }
            None => _ = self.know.remove(place),
        }
    }
}

/// Divides from now on, if this is who does and there is something to divide.
pub(super) fn begin_to_divide(controller: &Rc<Controller>) {
    let mut state = controller.state.borrow_mut();
    if controller.index == 0 && !state.spread.is_empty() && !state.divides {
        state.divides = true;
        controller.world.spawn(divide_task(controller.clone()));
    }
}

async fn divide_task(controller: Rc<Controller>) {
    let rounds = Rc::new(RefCell::new(Rounds::default()));
    loop {
        controller.world.sleep(ROUND).await;
        if controller.stopping.get() || controller.state().spread.is_empty() {
            break;
        }
        round(&controller, &rounds);
    }
    controller.state.borrow_mut().divides = false;
}

/// Sends each controller the parts of its schedulers. What they answer counts in the next round.
fn round(controller: &Rc<Controller>, rounds: &Rc<RefCell<Rounds>>) {
    let all = parts_by_controller(controller, &mut rounds.borrow_mut());
    for (holder, parts) in all {
        let handle = controller.handles()[holder].clone();
        rounds.borrow_mut().busy.insert(holder);
        let (rounds, world) = (rounds.clone(), controller.world.clone());
        controller.world.spawn(async move {
            let answer = handle.ask(Control::PolicyParts(parts)).await;
            let rounds = &mut *rounds.borrow_mut();
            rounds.busy.remove(&holder);
            // One that has stopped says nothing more.
            let Ok(Reply::PolicyDemand(all)) = answer else { return };
            for PlaceDemand { place, room, uses, found } in all {
                rounds.take_found(&place, found);
                rounds.divider.observe(world.now().0, (&place, holder), room, uses);
            }
        });
    }
}

fn parts_by_controller(controller: &Controller, rounds: &mut Rounds) -> BTreeMap<usize, Vec<PlaceParts>> {
    let state = controller.state();
    let config = &state.config;
    let spread = |(name, places): (&String, &BTreeSet<Place>)| {
        let terms = Terms::of(&config.policy(name)?.policy(), config.qos.unit_bytes);
        Some((name.clone(), Spread { terms, places: places.clone() }))
    };
    let declared: BTreeMap<String, Spread<Place>> = state.spread.iter().filter_map(spread).collect();
    let places: BTreeSet<&Place> = declared.values().flat_map(|of| &of.places).collect();
    rounds.found.retain(|place, _| places.contains(place));
    let now = controller.world.now().0;
    for place in &places {
        holder_of(config, place).into_iter().for_each(|holder| rounds.divider.hold(now, place, holder));
    }
    let is_busy =
        |place: &&&Place| holder_of(config, place).is_none_or(|holder| rounds.busy.contains(&holder));
    let busy = places.iter().filter(is_busy).map(|place| (*place).clone()).collect();
    let mut all: BTreeMap<usize, Vec<PlaceParts>> = BTreeMap::new();
    for (place, parts) in rounds.divider.divide(now, &declared, &busy) {
        if let Some(holder) = holder_of(config, &place) {
            let found = rounds.news_for(&place);
            all.entry(holder).or_default().push(PlaceParts { place, parts, found });
        }
    }
    all
}

/// The controller that has a scheduler.
fn holder_of(config: &Config, place: &Place) -> Option<usize> {
    match place {
        Place::Pool(name) => config.pool(name).map(|pool| pool.controller),
        Place::Images(controller) => Some(*controller),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_hears_what_was_found_until_it_says_that_it_knows() {
        let found =
            Found { depth_max: 64, depth: 9, too_shallow: 7, cost_permille: 15, rate: None, shallower: None };
        let (place, other) = (Place::Pool("p".into()), Place::Pool("q".into()));
        let mut rounds = Rounds::default();
        let mut after = |told| {
            rounds.take_found(&place, told);
            (rounds.news_for(&place), rounds.news_for(&other))
        };
        assert_eq!(after(None), (None, None));
        assert_eq!(after(Some(found)), (None, None));
        // Its controller began anew.
        assert_eq!(after(None), (Some(found), None));
        assert_eq!(after(Some(Found { depth: 10, ..found })), (None, None));
        assert_eq!(after(None).0.map(|found| found.depth), Some(10));
    }
}
