//! What the schedulers of this controller have of policies that others have, too.

use qos::{Part, Room, Terms};
use stack::Service;

use super::apply::Setting;
use crate::config::{Config, PolicyConfig, Sharing};
use crate::control::{PlaceDemand, PlaceParts};
use crate::controller::{Controller, State};
use crate::place::Place;

/// What a scheduler has of an aggregated policy from this declaration on, until it is divided anew; none: all
/// of it.
pub(super) fn part_here(
    service: &Service,
    setting: &Setting<'_>,
    place: &Place,
    policy: &PolicyConfig,
) -> Option<Part> {
    let name = &policy.name;
    let places = setting.is.places_of(name);
    if places < 2 {
        return None;
    }
    let terms = |config: &Config, policy: &PolicyConfig| Terms::of(&policy.policy(), config.qos.unit_bytes);
    let (is, places) = (terms(setting.config, policy), places as u64);
    let before = setting.before.policy(name).filter(|before| before.sharing == Sharing::Aggregated);
    let Some(was) = before.map(|before| terms(setting.before, before)) else { return Some(is.even(places)) };
    let whole = || (setting.was.places_of(name) == 1 && setting.was.is_in(name, place)).then(|| was.whole());
    Some(match (service.part(name).or_else(whole), setting.was.places_of(name)) {
        (Some(part), _) => was.become_of(&is, &part, places),
        (None, 0) => is.even(places),
        (None, _) => is.newcomer(places),
    })
}

/// Takes the parts of schedulers here, and says what is asked of each.
pub(crate) fn take_parts(controller: &Controller, all: Vec<PlaceParts>) -> Vec<PlaceDemand> {
    let state = controller.state();
    let demand = |PlaceParts { place, mut parts, found }: PlaceParts| {
        // One that is not spread here any more, or not yet, has what its declaration said.
        let is_spread = |name: &String| state.spread.get(name).is_some_and(|places| places.contains(&place));
        parts.iter_mut().filter(|(name, _)| !is_spread(name)).for_each(|(_, part)| *part = None);
        let Some(service) = service_of(&state, controller.index, &place) else {
            let uses = parts.into_iter().map(|(name, _)| (name, None)).collect();
            return PlaceDemand { place, room: Room::default(), uses, found: None };
        };
        found.iter().for_each(|found| service.begin_with(found));
        let (room, uses) = service.take_parts(&parts);
        PlaceDemand { place, room, uses, found: service.found() }
    };
    all.into_iter().map(demand).collect()
}

fn service_of<'a>(state: &'a State, controller: usize, place: &Place) -> Option<&'a Service> {
    match place {
        Place::Pool(pool) => state.services.get(pool).map(|of| &*of.service),
        Place::Images(of) => state.image_service.as_deref().filter(|_| *of == controller),
    }
}
