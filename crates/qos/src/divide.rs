//! Divides aggregated policies among the schedulers (*places*) that have their volumes, every [`ROUND_NS`].
//!
//! * A minimum goes to the places that ask, evenly by the clients that ask there ([`expected_with_floor`]),
//!   up to what each asks for and can give: a pool that does all that it can has what other minimums leave.
//!   What no place can give is divided nevertheless, so that the sum is the minimum: schedulers then report
//!   it.
//! * A maximum likewise ([`slices`]), and so that its sum is never exceeded while parts change.
//! * A place that does not answer keeps its part. Its part of the minimum is given to the others, too, after
//!   [`SILENT_NS`]; of the maximum it may go on to use all that it had.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::expected::{Claim, expected_with_floor};
use crate::health::WINDOW_NS;
use crate::part::{Part, PartUse, Room, Slice, Terms};
use crate::slices::{Ask, slices};

/// How often policies are divided.
pub const ROUND_NS: u64 = 500_000_000;
/// A place that was not heard of for so long does not count as asking.
pub const SILENT_NS: u64 = 3_000_000_000;
/// Who asked for less than it may have may have so much more in the next round.
const GROWTH_PERCENT: u64 = 125;
/// A place gives its part of a minimum if it serves so much of it.
const GIVEN_PERCENT: u64 = 97;
/// The rounds after which one that does not is taken to give what it serves, and so much more.
const SHORT_ROUNDS: u32 = 2;
const USABLE_PERCENT: u64 = 105;
/// Rounds in the window over which a minimum is judged, and what of it must be served then.
const WINDOW_ROUNDS: usize = (WINDOW_NS / ROUND_NS) as usize;
const MET_PERCENT: u64 = 98;
/// So long something counts that ended in a place that is gone.
const GONE_NS: u64 = WINDOW_NS + ROUND_NS;

/// A declared policy: its terms, and where its volumes are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Spread<K> {
    pub terms: Terms,
    pub places: BTreeSet<K>,
}

/// The parts of a place, by policy; none: it is only asked.
pub type Parts = Vec<(String, Option<Part>)>;

/// What is known of all places.
#[derive(Debug)]
pub struct Divider<K> {
    places: BTreeMap<K, Place>,
    policies: BTreeMap<String, Known<K>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    holder: usize,
    room: Room,
}

/// What is known of a policy.
#[derive(Debug)]
struct Known<K> {
    parts: BTreeMap<K, State>,
    /// What it got in the last rounds, in sum.
    served: VecDeque<u64>,
    /// What counted of maximum and bandwidth in places that are gone, and since when they are.
    gone: Vec<(u64, [u64; 2])>,
}

/// A policy in a place.
#[derive(Clone, Copy, Debug)]
struct State {
    heard_at: u64,
    usage: PartUse,
    sent: Option<Part>,
    /// On average over the last rounds, bytes per second.
    served: u64,
    short_rounds: u32,
    /// What it can give of the minimum, if that is less than its part.
    usable: Option<u64>,
}

impl<K> Default for Known<K> {
    fn default() -> Known<K> {
        Known { parts: BTreeMap::new(), served: VecDeque::new(), gone: Vec::new() }
    }
}

impl<K: Ord + Clone> Default for Divider<K> {
    fn default() -> Divider<K> {
        Divider { places: BTreeMap::new(), policies: BTreeMap::new() }
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(of) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

impl State {
    fn new(now: u64, usage: PartUse) -> State {
        let served = usage.served_bytes_per_s;
        State { heard_at: now, usage, sent: None, served, short_rounds: 0, usable: None }
    }

    fn observe(&mut self, now: u64, usage: PartUse) {
        (self.heard_at, self.usage) = (now, usage);
        self.served = self.served / 2 + usage.served_bytes_per_s / 2;
        let part = usage.part.map_or(0, |part| part.minimum_bytes_per_s);
        let is_given = self.served.max(usage.served_bytes_per_s) >= percent(part, GIVEN_PERCENT);
        self.short_rounds = match usage.is_hungry && !usage.is_held && !is_given {
            true => self.short_rounds.saturating_add(1),
            false => 0,
        };
        self.usable = match self.usable {
            _ if self.short_rounds >= SHORT_ROUNDS => Some(percent(self.served, USABLE_PERCENT)),
            Some(usable) if usage.is_hungry && is_given => {
                Some(percent(usable, GROWTH_PERCENT).saturating_add(1))
            }
            Some(_) if !usage.is_hungry => None,
            usable => usable,
        };
    }

    fn is_silent(&self, now: u64) -> bool {
        now.saturating_sub(self.heard_at) > SILENT_NS
    }

    fn weight(&self) -> u64 {
        u64::from(self.usage.asking.max(1))
    }

    /// What it may ask for in the next round; none: all that it can get.
    fn demand(&self) -> Option<u64> {
        let grown = percent(self.usage.served_bytes_per_s, GROWTH_PERCENT);
        (!self.usage.is_hungry).then_some(grown)
    }

    /// What others cannot have in its place.
    fn takes(&self) -> u64 {
        let part = self.sent.or(self.usage.part).map_or(0, |part| part.minimum_bytes_per_s);
        part.min(self.demand().unwrap_or(u64::MAX))
    }

    /// What may count of its maximums at most.
    fn counts(&self) -> [u64; 2] {
        let window = |of: fn(&Part) -> Option<Slice>| {
            let parts = [self.sent, self.usage.part];
            parts.iter().flatten().filter_map(of).map(|slice| slice.window_bytes).max().unwrap_or(0)
        };
        [
            window(|part| part.maximum).max(self.usage.counted_bytes),
            window(|part| part.bandwidth).max(self.usage.counted_bandwidth_bytes),
        ]
    }
}

impl<K: Ord + Clone> Known<K> {
    /// A place has it no more: what ended there still counts, and what is below may end.
    fn leave(&mut self, now: u64, place: &K) {
        if let Some(state) = self.parts.remove(place) {
            self.gone.push((now, state.counts()));
        }
    }

    /// What still counts of places that are gone: it ended by then, evenly in the last five seconds but for
    /// what ends in a round.
    fn gone_counts(&self, now: u64, which: usize) -> u64 {
        let counts = |(since, counts): &(u64, [u64; 2])| {
            let left_ns = GONE_NS.saturating_sub(now.saturating_sub(*since)).min(WINDOW_NS);
            (u128::from(counts[which]) * u128::from(left_ns) / u128::from(WINDOW_NS)) as u64
        };
        sum(self.gone.iter().map(counts))
    }

    /// Whether it gets its minimum in sum, or asks for less.
    fn is_met(&self, now: u64, minimum: u64) -> bool {
        let asks = self.parts.values().any(|state| state.usage.is_hungry && !state.is_silent(now));
        let served = sum(self.served.iter().copied()) / self.served.len().max(1) as u64;
        !asks || self.served.len() < WINDOW_ROUNDS || served >= percent(minimum, MET_PERCENT)
    }

    /// The parts of the minimum, where `room` is what a place can give; silent places keep theirs.
    fn minimums(&self, now: u64, minimum: u64, room: impl Fn(&K) -> Option<u64>) -> BTreeMap<K, u64> {
        let heard: Vec<(&K, &State)> = self.parts.iter().filter(|(_, state)| !state.is_silent(now)).collect();
        let claim = |(place, state): &(&K, &State)| Claim {
            minimum: 0,
            maximum: [state.usable, room(place)].into_iter().flatten().min(),
            weight: state.weight(),
            demand: state.demand(),
        };
        let claims: Vec<Claim> = heard.iter().map(claim).collect();
        let mut rates = expected_with_floor(minimum, 0, &claims).rates;
        // What no place can give, of those that want it; or else what nobody asks for, so that who begins to
        // finds some.
        let left = minimum.saturating_sub(sum(rates.iter().copied()));
        let asks = |(_, state): &(&K, &State)| state.usage.is_hungry;
        let any = heard.iter().any(asks);
        let takers: Vec<u64> =
            heard.iter().map(|one| if !any || asks(one) { one.1.weight() } else { 0 }).collect();
        let weights = takers.iter().copied().map(u128::from).sum::<u128>().max(1);
        for (rate, weight) in rates.iter_mut().zip(&takers) {
            *rate += (u128::from(left) * u128::from(*weight) / weights) as u64;
        }
        heard.into_iter().map(|(place, _)| place.clone()).zip(rates).collect()
    }

    fn asks(&self, now: u64, which: usize, (minimums, busy): (&BTreeMap<K, u64>, &BTreeSet<K>)) -> Vec<Ask> {
        let ask = |(place, state): (&K, &State)| {
            let of = |part: &Part| [part.maximum, part.bandwidth][which];
            let slices = [state.sent, state.usage.part].map(|part| part.as_ref().and_then(of));
            let minimum = minimums.get(place).copied().unwrap_or(0);
            let grown = percent(state.usage.served_bytes_per_s, GROWTH_PERCENT).max(minimum);
            Ask {
                // Units and bytes differ: that a maximum precedes a bandwidth is not known here.
                minimum: if which == 0 { minimum } else { 0 },
                weight: state.weight(),
                // What does not wait for its part has enough of it.
                demand: (!state.usage.is_hungry || !state.usage.is_held).then_some(grown),
                rate: slices[0].or(slices[1]).map_or(0, |slice| slice.bytes_per_s),
                in_force: slices.iter().flatten().map(|slice| slice.window_bytes).max().unwrap_or(u64::MAX),
                counted: [state.usage.counted_bytes, state.usage.counted_bandwidth_bytes][which],
                is_silent: state.is_silent(now) || busy.contains(place),
            }
        };
        self.parts.iter().map(ask).collect()
    }
}

impl<K: Ord + Clone> Divider<K> {
    /// A place is at this controller from now on. If another one had it, nothing is known of what is in force
    /// there, and what ended counts.
    pub fn hold(&mut self, now: u64, place: &K, holder: usize) {
        if self.places.get(place).is_some_and(|known| known.holder != holder) {
            self.places.insert(place.clone(), Place { holder, room: Room::default() });
            self.policies.values_mut().for_each(|policy| policy.leave(now, place));
        }
    }

    /// What a place says: of itself, and of each policy that it was asked for; none: nothing there has it.
    /// `holder` is the controller that has the place.
    pub fn observe(
        &mut self,
        now: u64,
        (place, holder): (&K, usize),
        room: Room,
        uses: Vec<(String, Option<PartUse>)>,
    ) {
        let known = self.places.entry(place.clone()).or_insert(Place { holder, room });
        // Of one that had it before, this says nothing any more.
        if known.holder != holder {
            return;
        }
        known.room = Room {
            capacity_bytes_per_s: match (known.room.capacity_bytes_per_s, room.capacity_bytes_per_s) {
                (Some(was), Some(is)) => Some(was / 2 + is / 2),
                (_, is) => is,
            },
            ..room
        };
        for (name, usage) in uses {
            let policy = self.policies.entry(name).or_default();
            let nothing = Part {
                maximum: Some(Slice::default()),
                bandwidth: Some(Slice::default()),
                ..Part::default()
            };
            let usage = usage.unwrap_or(PartUse { part: Some(nothing), ..PartUse::default() });
            match policy.parts.get_mut(place) {
                Some(state) => state.observe(now, usage),
                None => _ = policy.parts.insert(place.clone(), State::new(now, usage)),
            }
        }
    }

    /// The parts of all policies, by place. Places that are busy, because they have not answered the last
    /// message, get no other part: which of the last two is in force there is not known.
    pub fn divide(
        &mut self,
        now: u64,
        declared: &BTreeMap<String, Spread<K>>,
        busy: &BTreeSet<K>,
    ) -> BTreeMap<K, Parts> {
        self.forget(now, declared);
        let mut all: BTreeMap<K, Parts> = BTreeMap::new();
        for (name, Spread { terms, places }) in declared {
            let parts = self.divide_one(now, (name, terms), places, busy);
            for place in places.difference(busy) {
                all.entry(place.clone()).or_default().push((name.clone(), parts.get(place).copied()));
            }
        }
        all
    }

    /// Forgets what is not declared any more.
    fn forget(&mut self, now: u64, declared: &BTreeMap<String, Spread<K>>) {
        self.policies.retain(|name, _| declared.contains_key(name));
        self.places.retain(|place, _| declared.values().any(|of| of.places.contains(place)));
        for (name, policy) in &mut self.policies {
            let places = &declared[name].places;
            let gone: Vec<K> = policy.parts.keys().filter(|place| !places.contains(place)).cloned().collect();
            gone.iter().for_each(|place| policy.leave(now, place));
            policy.gone.retain(|(since, _)| now.saturating_sub(*since) < GONE_NS);
        }
    }

    fn divide_one(
        &mut self,
        now: u64,
        (name, terms): (&str, &Terms),
        places: &BTreeSet<K>,
        busy: &BTreeSet<K>,
    ) -> BTreeMap<K, Part> {
        let room = |place: &K| {
            let Place { room, .. } = self.places.get(place)?;
            let others = self.policies.iter().filter(|(other, _)| *other != name);
            let taken = sum(others.filter_map(|(_, of)| of.parts.get(place)).map(State::takes));
            let claimed = room.claimed_bytes_per_s.saturating_add(taken);
            room.capacity_bytes_per_s.map(|capacity| capacity.saturating_sub(claimed))
        };
        let Some(policy) = self.policies.get(name) else { return BTreeMap::new() };
        let minimums = policy.minimums(now, terms.minimum, room);
        let Some(policy) = self.policies.get_mut(name) else { return BTreeMap::new() };
        policy.served.push_back(sum(policy.parts.values().map(|state| state.usage.served_bytes_per_s)));
        if policy.served.len() > WINDOW_ROUNDS {
            policy.served.pop_front();
        }
        let is_met = policy.is_met(now, terms.minimum);
        // What is in force where nobody answered yet is not known.
        let knows_all = places.iter().all(|place| policy.parts.contains_key(place));
        let limits = [terms.maximum, terms.bandwidth].into_iter().enumerate().map(|(which, total)| {
            let total = total?;
            let gone = if knows_all { policy.gone_counts(now, which) } else { u64::MAX };
            Some(slices(total, gone, &policy.asks(now, which, (&minimums, busy))))
        });
        let limits: Vec<Option<Vec<Slice>>> = limits.collect();
        let mut parts = BTreeMap::new();
        let all = policy.parts.iter_mut().enumerate();
        for (number, (place, state)) in all.filter(|(_, (place, _))| !busy.contains(*place)) {
            let kept = state.sent.or(state.usage.part).map_or(0, |part| part.minimum_bytes_per_s);
            let part = Part {
                minimum_bytes_per_s: minimums.get(place).copied().unwrap_or(kept),
                maximum: limits[0].as_ref().map(|slices| slices[number]),
                bandwidth: limits[1].as_ref().map(|slices| slices[number]),
                is_met,
            };
            state.sent = Some(part);
            parts.insert(place.clone(), part);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place with so many clients that ask.
    fn uses(asking: u32, served_bytes_per_s: u64, is_hungry: bool) -> PartUse {
        PartUse { part: Some(Part::default()), served_bytes_per_s, asking, is_hungry, ..PartUse::default() }
    }

    fn full(capacity: u64, claimed_bytes_per_s: u64) -> Room {
        Room { capacity_bytes_per_s: Some(capacity), claimed_bytes_per_s }
    }

    /// The parts of a minimum of 1000 after places have told this.
    fn check(places: &[(PartUse, Room)], expected: &[u64]) {
        let mut divider = Divider::default();
        let terms = Terms { minimum: 1000, ..Terms::default() };
        let declared = [("p".to_owned(), Spread { terms, places: (0..places.len()).collect() })].into();
        for (place, (usage, room)) in places.iter().enumerate() {
            divider.observe(ROUND_NS, (&place, place), *room, vec![("p".to_owned(), Some(*usage))]);
        }
        let parts = divider.divide(ROUND_NS, &declared, &BTreeSet::new());
        let minimum = |parts: &Parts| parts[0].1.expect("a part").minimum_bytes_per_s;
        assert_eq!(parts.values().map(minimum).collect::<Vec<_>>(), expected, "{places:?}");
    }

    #[test]
    fn a_minimum_goes_to_who_asks_and_can_give_it() {
        let idle = Room::default();
        // Evenly by clients; nobody; one; and as far as they ask.
        check(&[(uses(1, 0, true), idle), (uses(3, 0, true), idle)], &[250, 750]);
        check(&[(uses(0, 0, false), idle), (uses(0, 0, false), idle)], &[500, 500]);
        check(&[(uses(0, 0, false), idle), (uses(1, 0, true), idle)], &[0, 1000]);
        check(&[(uses(1, 80, false), idle), (uses(1, 0, true), idle)], &[100, 900]);
        // What a pool that is full can give, beside other minimums.
        check(&[(uses(1, 0, true), full(900, 600)), (uses(1, 0, true), idle)], &[300, 700]);
        // More than all can give: in sum it is the minimum.
        check(&[(uses(1, 0, true), full(900, 600)), (uses(1, 0, true), full(100, 0))], &[600, 400]);
        check(&[(uses(1, 0, true), full(0, 0)), (uses(0, 0, false), idle)], &[1000, 0]);
    }

    #[test]
    fn a_place_is_only_asked_until_it_has_told_something_and_not_at_all_while_it_is_busy() {
        let mut divider = Divider::default();
        let terms = Terms { minimum: 10, maximum: Some(1000), ..Terms::default() };
        let declared: BTreeMap<_, _> = [("p".to_owned(), Spread { terms, places: ["a", "b"].into() })].into();
        let parts = divider.divide(0, &declared, &BTreeSet::new());
        assert_eq!(parts, ["a", "b"].map(|place| (place, vec![("p".to_owned(), None)])).into());
        let even = PartUse { part: Some(terms.even(2)), ..uses(1, 500, true) };
        divider.observe(1, (&"a", 0), Room::default(), vec![("p".to_owned(), Some(even))]);
        let parts = divider.divide(1, &declared, &BTreeSet::new());
        let slice = parts["a"][0].1.expect("a part").maximum.expect("a maximum");
        assert_eq!((slice.window_bytes, parts["b"][0].1), (2500, None), "what `b` has is not known");
        // Nothing there has the policy: its pool is not open.
        divider.observe(1, (&"b", 1), Room::default(), vec![("p".to_owned(), None)]);
        let parts = divider.divide(2, &declared, &["b"].into());
        assert_eq!(parts.keys().collect::<Vec<_>>(), [&"a"]);
        assert!(parts["a"][0].1.expect("a part").maximum.expect("a maximum").window_bytes > 4000);
    }

    #[test]
    fn what_ended_in_a_pool_that_has_moved_counts_for_five_seconds() {
        let mut divider = Divider::default();
        let terms = Terms { maximum: Some(1000), ..Terms::default() };
        let declared: BTreeMap<_, _> = [("p".to_owned(), Spread { terms, places: ["a", "b"].into() })].into();
        let used =
            |part: Part, counted_bytes| PartUse { part: Some(part), counted_bytes, ..uses(1, 900, true) };
        let mut window = |second: u64, holder: usize, part: Part, counted: u64| {
            let now = second * 1_000_000_000;
            if divider.places.contains_key("a") && divider.places["a"].holder != holder {
                divider.hold(now, &"a", holder);
                let parts = divider.divide(now, &declared, &BTreeSet::new());
                assert_eq!(parts["a"], vec![("p".to_owned(), None)], "what is in force there is not known");
            }
            for (place, holder, usage) in
                [("a", holder, used(part, counted)), ("b", 0, used(terms.newcomer(2), 0))]
            {
                divider.observe(now, (&place, holder), Room::default(), vec![("p".to_owned(), Some(usage))]);
            }
            let parts = divider.divide(now, &declared, &BTreeSet::new());
            let windows = ["a", "b"].map(|place| parts[place][0].1.expect("a part").maximum.expect("one"));
            windows.iter().map(|slice| slice.window_bytes).sum::<u64>()
        };
        // Half of it is the other one's: a tenth of what counts leaves, and half of that may start.
        assert_eq!(window(1, 0, terms.whole(), 5000), 4750);
        let moved = terms.newcomer(2);
        assert_eq!(window(2, 1, moved, 0), 0);
        assert_eq!([3, 4].map(|second| window(second, 1, moved, 0)), [500, 1500]);
        assert_eq!(window(8, 1, moved, 0), 5000);
    }
}
