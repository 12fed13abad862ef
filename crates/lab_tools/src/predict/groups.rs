//! What a group gives by how many servers share it, as it was measured: nothing is carried over from groups
//! that fewer share.
//!
//! Two laws, and the points say which:
//!
//! * **hits**: a group with k servers needs `a + b/n` for an I/O, for each server's share of the cache falls
//!   as 1/n and with it what the cache has;
//! * **memory**: the cache is full of writes. Every server waits for the same memory and the array destages
//!   of each in turn, so all get the same rate x, that of the fullest groups, and of each as much waits: a
//!   share of the memory that falls as 1/n. The drives destage row by row: a row costs a seek and something
//!   for each dirty block in it, and has the fewer of them the more servers there are. So a block costs
//!   `1/x = a + b·n` with k servers on the fullest groups, less by a factor where not all are full.

use std::collections::BTreeMap;

use super::Sample;
use super::line::Line;

/// Points that a class's line is laid through: those nearest to what is predicted.
const NEAREST: usize = 3;

/// How a group's rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    /// With each server's share of the cache.
    Hits,
    /// With its share of the memory that writes may hold.
    Memory,
}

/// A rate of groups that bounded their servers: of which state, and which of its kinds of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounding {
    pub(super) state: usize,
    pub(super) kind: usize,
}

/// What a write of each server takes when so many have their data there: `each_s + more_s · n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Falling {
    each_s: f64,
    more_s: f64,
    /// With fewer it was not seen to bound anybody, and does not.
    entry: Entry,
}

impl Falling {
    fn at_s(&self, share_of: u32) -> f64 {
        self.each_s + self.more_s * f64::from(share_of)
    }
}

/// What an I/O needs of a group: a line through the states nearest to what is predicted, and what was seen
/// before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Nearing {
    line: Line,
    from: u32,
    seen_s: BTreeMap<u32, f64>,
    entry: Entry,
}

/// Where a class begins to bound its servers: between the most servers that it did not bound and the fewest
/// that it did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// With so many and fewer it bounded nobody; 0 where no state tells.
    free_to: u32,
    /// With so many it did.
    from: u32,
    /// The share of the reads that the cache had then; 0 where nobody knows.
    hit_share: f64,
}

impl Entry {
    /// Nobody saw whether the class bounds so many.
    fn is_unseen(self, servers: u32) -> bool {
        servers > self.free_to && servers < self.from
    }

    /// What of the reads misses the cache with so many servers, over what does with the first that the class
    /// bounded: each server's share of the cache falls as 1/n. None where nothing is known of hits.
    fn misses(self, servers: u32) -> Option<f64> {
        let known = self.hit_share > 0.0 && self.hit_share < 1.0;
        let hits = (self.hit_share * f64::from(self.from) / f64::from(servers)).min(1.0);
        known.then(|| (1.0 - hits) / (1.0 - self.hit_share))
    }
}

impl Nearing {
    fn most_per_s(&self, servers: u32) -> f64 {
        if servers >= self.from {
            return 1.0 / self.line.at(servers);
        }
        let (below, above) = (self.seen_s.range(..=servers).next_back(), self.seen_s.range(servers..).next());
        match (below, above) {
            (Some((low, low_s)), Some((high, high_s))) if low < high => {
                // Straight over 1/n, as the misses are.
                let share = |n: u32| 1.0 / f64::from(n);
                let part = (share(*low) - share(servers)) / (share(*low) - share(*high));
                1.0 / (low_s + part * (high_s - low_s))
            }
            (Some((_, each_s)), _) => 1.0 / each_s,
            (None, Some((_, first_s))) if self.entry.is_unseen(servers) => {
                let misses = self.entry.misses(servers).unwrap_or(0.0);
                1.0 / (first_s * misses)
            }
            // Only groups that are not alike were seen with so many.
            (None, Some(_)) if servers >= self.entry.from => 1.0 / self.line.at(servers),
            // Where it was seen not to bound anybody, it does not.
            _ => f64::INFINITY,
        }
    }
}

/// Where the groups differ, what the fullest and the others give over what they give among their like, as
/// logarithms: the array's own work for all of them shares what it may have under way. What the fullest lose
/// is in proportion to how uneven the servers lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mixed {
    fullest_log: f64,
    others_log: f64,
}

impl Mixed {
    fn of(self, kind: usize, shares: &[(u32, u32)]) -> f64 {
        match (shares.len(), kind) {
            (0 | 1, _) => 1.0,
            (_, 0) => (self.fullest_log * uneven(shares)).exp(),
            _ => self.others_log.exp(),
        }
    }
}

/// By the servers on a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Groups {
    Hits {
        by_each: BTreeMap<u32, Nearing>,
        mixed: Mixed,
    },
    /// How much more all get where only some groups are the fullest: by the servers on these, as a logarithm
    /// for all groups.
    Memory {
        by_each: BTreeMap<u32, Falling>,
        emptier_log: BTreeMap<u32, f64>,
    },
}

impl Groups {
    /// From the states that were measured.
    pub(super) fn fit(law: Law, states: &[Sample], bounding: &[Bounding]) -> Groups {
        match law {
            Law::Hits => {
                let by_each = hits(states, bounding);
                let mixed = mixed(states, bounding, &by_each);
                Groups::Hits { by_each, mixed }
            }
            Law::Memory => {
                let by_each = falling(states, bounding);
                let emptier_log = beside_emptier(states, bounding, &by_each);
                Groups::Memory { by_each, emptier_log }
            }
        }
    }

    /// The same with groups that many times as fast: both laws are in proportion.
    pub(super) fn faster(mut self, times: f64) -> Groups {
        match &mut self {
            Groups::Hits { by_each, .. } => {
                for seen in by_each.values_mut() {
                    seen.line = seen.line.faster(times);
                    seen.seen_s.values_mut().for_each(|each_s| *each_s /= times);
                }
            }
            Groups::Memory { by_each, .. } => {
                for line in by_each.values_mut() {
                    (line.each_s, line.more_s) = (line.each_s / times, line.more_s / times);
                }
            }
        }
        self
    }

    /// Whether no state tells if a group bounds its servers when so many have their data there, nor what of
    /// their data the cache has then: somewhere between two measured numbers the cache no longer holds all.
    pub(super) fn is_unknown(&self, share_of: u32, shares: &[(u32, u32)]) -> bool {
        let unseen = |entry: &Entry| entry.is_unseen(share_of);
        match self {
            Groups::Hits { by_each, .. } => shares.iter().any(|(_, each)| {
                by_each
                    .get(each)
                    .is_some_and(|seen| unseen(&seen.entry) && seen.entry.misses(share_of).is_none())
            }),
            Groups::Memory { by_each, .. } => {
                let fullest = shares.first().and_then(|(_, each)| by_each.get(each));
                fullest.is_some_and(|seen| unseen(&seen.entry))
            }
        }
    }

    /// Whether a group with so many servers bounds them.
    pub(super) fn bounds(&self, each: u32) -> bool {
        match self {
            Groups::Hits { by_each, .. } => by_each.contains_key(&each),
            Groups::Memory { by_each, .. } => by_each.contains_key(&each),
        }
    }

    /// What one group of each share gives at most, in I/Os per second, when so many servers have their data
    /// there.
    pub(super) fn most_per_s(&self, share_of: u32, shares: &[(u32, u32)]) -> Vec<f64> {
        match self {
            Groups::Hits { by_each, mixed } => {
                let most = |(kind, (_, each)): (usize, &(u32, u32))| {
                    mixed.of(kind, shares)
                        * by_each.get(each).map_or(f64::INFINITY, |seen| seen.most_per_s(share_of))
                };
                shares.iter().enumerate().map(most).collect()
            }
            Groups::Memory { by_each, emptier_log } => {
                let line = shares.first().and_then(|(_, fullest)| by_each.get(fullest));
                let line = line.filter(|line| line.entry.from <= share_of);
                let fullest = shares.first().map_or(0, |(_, each)| *each);
                let more = (nearest(emptier_log, fullest).unwrap_or(0.0) * emptier(shares)).exp();
                let x = line.map_or(f64::INFINITY, |line| more / line.at_s(share_of));
                shares.iter().map(|(_, each)| f64::from(*each) * x).collect()
            }
        }
    }
}

/// What a class of groups was seen to need: the servers in all, and the time per I/O.
fn hits(states: &[Sample], bounding: &[Bounding]) -> BTreeMap<u32, Nearing> {
    let mut seen: BTreeMap<u32, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    let alike = |point: &&Bounding| states[point.state].groups.len() == 1;
    for point in bounding.iter().filter(alike) {
        let state = &states[point.state];
        let shared = &state.groups[point.kind];
        seen.entry(shared.each).or_default().entry(state.share_of).or_default().push(1.0 / shared.iops);
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let seen: BTreeMap<u32, BTreeMap<u32, f64>> = seen
        .iter()
        .map(|(each, by)| (*each, by.iter().map(|(servers, values)| (*servers, mean(values))).collect()))
        .collect();
    let nearest = |by_servers: &BTreeMap<u32, f64>| -> Vec<(f64, f64, f64)> {
        let nearest = by_servers.iter().rev().take(NEAREST);
        let at = |(servers, each_s): (&u32, &f64)| {
            (1.0 / f64::from(*servers), *each_s, each_s.powi(-2) * nearness(*servers))
        };
        nearest.map(at).collect()
    };
    let lines: BTreeMap<u32, Line> = seen
        .iter()
        .filter(|(_, by_servers)| by_servers.len() > 1)
        .map(|(each, by_servers)| {
            let (each_s, share_s) = straight(&nearest(by_servers));
            (*each, Line { each_s, share_s })
        })
        .collect();
    // One point says how much; that the cache has less with more servers, the others say.
    let falls =
        lines.values().map(|line| line.share_s / line.each_s).sum::<f64>() / lines.len().max(1) as f64;
    let single = |by_servers: &BTreeMap<u32, f64>| {
        let (share, each_s, _) = nearest(by_servers)[0];
        let each_s = each_s / (1.0 + falls * share);
        Line { each_s, share_s: falls * each_s }
    };
    let nearing = |(each, by_servers): (u32, BTreeMap<u32, f64>)| {
        let line = lines.get(&each).copied().unwrap_or_else(|| single(&by_servers));
        let from = by_servers.keys().nth(by_servers.len().saturating_sub(NEAREST)).copied().unwrap_or(0);
        (each, Nearing { line, from, seen_s: by_servers, entry: entry(states, bounding, each) })
    };
    seen.into_iter().map(nearing).collect()
}

/// From the states in which the groups differ, against what is known among their like.
fn mixed(states: &[Sample], bounding: &[Bounding], by_each: &BTreeMap<u32, Nearing>) -> Mixed {
    let (mut fullest, mut others) = (Vec::new(), Vec::new());
    for point in bounding.iter().filter(|point| states[point.state].groups.len() > 1) {
        let state = &states[point.state];
        let shared = &state.groups[point.kind];
        let Some(alike) = by_each.get(&shared.each) else { continue };
        let more = (shared.iops * alike.line.at(state.share_of)).ln();
        if point.kind > 0 {
            others.push(more);
            continue;
        }
        fullest.push((uneven(&state.shares()), more, 1.0));
    }
    Mixed {
        fullest_log: proportion(&fullest),
        others_log: others.iter().sum::<f64>() / others.len().max(1) as f64,
    }
}

/// How uneven the servers lie: that the fullest groups have one of so many more, times the square of the
/// share of the others. A group that is the fullest alone loses most, one that is among many hardly anything:
/// on four groups with 2 servers or 1, one loses 19 %, two 9 %, three 1 %; with 3 or 2: 8, 4, 1 %.
fn uneven(shares: &[(u32, u32)]) -> f64 {
    let fullest = shares.first().map_or(1, |(_, each)| *each);
    emptier(shares).powi(2) / f64::from(fullest.max(1))
}

/// Of the groups in use, the share that is not the fullest.
fn emptier(shares: &[(u32, u32)]) -> f64 {
    let all: u32 = shares.iter().map(|(count, _)| count).sum();
    1.0 - f64::from(shares.first().map_or(0, |(count, _)| *count)) / f64::from(all.max(1))
}

/// From the states in which all groups in use have as many servers.
fn falling(states: &[Sample], bounding: &[Bounding]) -> BTreeMap<u32, Falling> {
    let mut seen: BTreeMap<u32, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for point in bounding.iter().filter(|point| states[point.state].groups.len() == 1) {
        let state = &states[point.state];
        let at_s = each_s(state);
        let weight = nearness(state.servers) / (at_s * at_s);
        seen.entry(state.groups[0].each).or_default().push((f64::from(state.share_of), at_s, weight));
    }
    let differ = |points: &[(f64, f64, f64)]| points.iter().any(|point| point.0 != points[0].0);
    // With more servers a row never has more blocks.
    let line = |points: &Vec<(f64, f64, f64)>| match straight(points) {
        (each_s, more_s) if more_s > 0.0 && each_s >= 0.0 => (each_s, more_s),
        (_, more_s) if more_s > 0.0 => (0.0, proportion(points)),
        _ => (weighted_mean(points), 0.0),
    };
    let lines: BTreeMap<u32, (f64, f64)> = seen
        .iter()
        .filter(|(_, points)| differ(points))
        .map(|(each, points)| (*each, line(points)))
        .collect();
    // A class with points at one place falls as the nearest one does; where none tells, all servers share
    // what was measured.
    let lent = |each: u32, points: &Vec<(f64, f64, f64)>| {
        let (each_s, more_s) = nearest(&lines, each).unwrap_or((0.0, 1.0));
        let (n, at_s) = (points[0].0, weighted_mean(points));
        let times = at_s / (each_s + more_s * n);
        (each_s * times, more_s * times)
    };
    let class = |(each, points): (&u32, &Vec<(f64, f64, f64)>)| {
        let (each_s, more_s) = lines.get(each).copied().unwrap_or_else(|| lent(*each, points));
        (*each, Falling { each_s, more_s, entry: entry(states, bounding, *each) })
    };
    seen.iter().map(class).collect()
}

/// The value of the nearest class.
fn nearest<T: Copy>(by_each: &BTreeMap<u32, T>, each: u32) -> Option<T> {
    by_each.iter().min_by_key(|(other, _)| other.abs_diff(each)).map(|(_, value)| *value)
}

/// Where groups with so many servers began to bound them.
fn entry(states: &[Sample], bounding: &[Bounding], each: u32) -> Entry {
    let kind_of = |state: &Sample| state.groups.iter().position(|shared| shared.each == each);
    let bounds = |at: usize, kind: usize| bounding.contains(&Bounding { state: at, kind });
    let of_class = || states.iter().enumerate().filter_map(|(at, state)| Some((at, state, kind_of(state)?)));
    let first =
        of_class().filter(|(at, _, kind)| bounds(*at, *kind)).min_by_key(|(_, state, _)| state.share_of);
    let Some((_, first, _)) = first else { return Entry::default() };
    let free = of_class().filter(|(at, state, kind)| !bounds(*at, *kind) && state.share_of < first.share_of);
    Entry {
        free_to: free.map(|(_, state, _)| state.share_of).max().unwrap_or(0),
        from: first.share_of,
        hit_share: first.hit_share,
    }
}

fn each_s(state: &Sample) -> f64 {
    f64::from(state.servers) / state.iops
}

/// What a point weighs: the more servers, the nearer to what is predicted, and both laws bend.
fn nearness(servers: u32) -> f64 {
    f64::from(servers).powi(6)
}

/// How much more all get where only some groups are the fullest, from the states in which the groups differ.
fn beside_emptier(
    states: &[Sample],
    bounding: &[Bounding],
    by_each: &BTreeMap<u32, Falling>,
) -> BTreeMap<u32, f64> {
    let mut seen: BTreeMap<u32, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for point in bounding.iter().filter(|p| p.kind == 0 && states[p.state].groups.len() > 1) {
        let state = &states[point.state];
        let Some(alike) = by_each.get(&state.groups[0].each) else { continue };
        let more_log = (alike.at_s(state.share_of) / each_s(state)).ln();
        let at = (emptier(&state.shares()), more_log, nearness(state.servers));
        seen.entry(state.groups[0].each).or_default().push(at);
    }
    seen.into_iter().map(|(each, points)| (each, proportion(&points))).collect()
}

/// The slope of least squares through 0 and (x, y, weight); 0 where nothing tells one.
fn proportion(points: &[(f64, f64, f64)]) -> f64 {
    let sum = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let square = sum(|(x, _, w)| w * x * x);
    if square > 0.0 { sum(|(x, y, w)| w * x * y) / square } else { 0.0 }
}

/// The line of least squares through (x, y, weight): its value at 0 and its slope.
fn straight(points: &[(f64, f64, f64)]) -> (f64, f64) {
    let w: f64 = points.iter().map(|(_, _, w)| w).sum();
    let mean = |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.2 * of(p)).sum::<f64>() / w;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let (xx, xy) = (mean(&|p| (p.0 - x).powi(2)), mean(&|p| (p.0 - x) * (p.1 - y)));
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    (y - slope * x, slope)
}

fn weighted_mean(points: &[(f64, f64, f64)]) -> f64 {
    points.iter().map(|(_, y, w)| y * w).sum::<f64>() / points.iter().map(|(_, _, w)| w).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::Shared;
    use super::*;

    fn state(shares: &[(u32, u32, f64)]) -> Sample {
        let groups: Vec<Shared> = shares
            .iter()
            .map(|(count, each, iops)| Shared { each: *each, count: *count, iops: *iops, utilisation: 0.9 })
            .collect();
        let servers = groups.iter().map(|s| s.count * s.each).sum();
        let iops = groups.iter().map(|s| f64::from(s.count) * s.iops).sum();
        Sample {
            servers,
            repeat: 0,
            iops,
            utilisation: vec![],
            groups,
            pending: 0.7,
            hit_share: 0.0,
            share_of: servers,
        }
    }

    fn fitted(law: Law, states: &[Sample]) -> Groups {
        let kinds =
            |(state, s): (usize, &Sample)| (0..s.groups.len()).map(move |kind| Bounding { state, kind });
        Groups::fit(law, states, &states.iter().enumerate().flat_map(kinds).collect::<Vec<_>>())
    }

    #[test]
    fn a_share_of_the_cache_that_falls_is_followed_and_lent_to_a_class_with_one_point() {
        let rate = |a: f64, n: f64| 1.0 / (a * (1.0 - 0.9 / n));
        let states = [(2, 1), (4, 2), (6, 3)]
            .map(|(n, count)| state(&[(count, 2, rate(1e-3, f64::from(n)))]))
            .to_vec();
        let one = state(&[(1, 4, rate(2e-3, 4.0))]);
        let groups = fitted(Law::Hits, &[states, vec![one]].concat());
        let [full] = groups.most_per_s(16, &[(4, 4)])[..] else { panic!("one kind") };
        assert!((full / rate(2e-3, 16.0) - 1.0).abs() < 1e-9, "{full}");
        assert!(groups.bounds(2) && !groups.bounds(3));
        assert_eq!(groups.most_per_s(12, &[(4, 3)]), [f64::INFINITY]);
    }

    #[test]
    fn what_the_fullest_groups_lose_grows_with_the_square_of_the_share_of_the_others() {
        // Each class alone gives the same with any number of servers: only the mixture is to be seen.
        let loss = |emptier: f64, each: f64| 1.0 - 0.6 * emptier * emptier / each;
        let alike =
            [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)].map(|(each, count)| state(&[(count, each, 700.0)]));
        let mixed = [1, 2].map(|full| {
            let emptier = f64::from(4 - full) / 4.0;
            state(&[(full, 2, 700.0 * loss(emptier, 2.0)), (4 - full, 1, 700.0)])
        });
        let groups = fitted(Law::Hits, &[&alike[..], &mixed[..]].concat());
        for (full, each) in [(3, 2), (3, 3), (2, 3)] {
            let emptier = f64::from(4 - full) / 4.0;
            let most = groups.most_per_s(full * each, &[(full, each), (4 - full, each - 1)])[0];
            let wanted = 700.0 * loss(emptier, f64::from(each));
            assert!((most / wanted - 1.0).abs() < 0.02, "{full} with {each}: {most} of {wanted}");
        }
    }

    #[test]
    fn all_servers_get_what_the_fullest_groups_let_them_and_longer_files_stand_for_more_servers() {
        // Alike: a millisecond and 0.1 ms for each server with two on a group; a fifth more where half of the
        // groups have fewer.
        let x = |n: f64, emptier: f64| 1e4 / (10.0 + n) * 1.2_f64.powf(2.0 * emptier);
        let mut states =
            [1, 2, 3].map(|count| state(&[(count, 2, 2.0 * x(f64::from(2 * count), 0.0))])).to_vec();
        states.push(Sample { share_of: 16, ..state(&[(3, 2, 2.0 * x(16.0, 0.0))]) });
        states.push(state(&[(2, 2, 2.0 * x(6.0, 0.5)), (2, 1, x(6.0, 0.5))]));
        let groups = fitted(Law::Memory, &states);
        let [full, lone] = groups.most_per_s(10, &[(2, 2), (6, 1)])[..] else { panic!("two kinds") };
        assert!(
            (full / (2.0 * x(10.0, 0.75)) - 1.0).abs() < 1e-6 && (lone / full - 0.5).abs() < 1e-6,
            "{full} {lone}"
        );
        // With one place only, a class falls as the nearest one.
        states.push(state(&[(2, 3, 3.0 * 700.0)]));
        let [full] = fitted(Law::Memory, &states).most_per_s(12, &[(4, 3)])[..] else { panic!("one kind") };
        assert!((full / (3.0 * 700.0 * 16.0 / 22.0) - 1.0).abs() < 1e-6, "{full}");
        assert_eq!(groups.most_per_s(12, &[(4, 3)]), [f64::INFINITY]);
    }
}
