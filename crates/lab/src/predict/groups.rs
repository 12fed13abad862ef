//! What a group gives by how many servers share it, as it was measured: nothing is carried over from groups that fewer share.
//!
//! Two laws, and the points say which:
//!
//! * **hits**: a group with k servers needs `a + b/n` for an I/O, for each server's share of the cache falls as 1/n and with it what the
//!   cache has;
//! * **memory**: the cache is full of writes, and a group destages `c + B·m` per second with the share m of that memory: the more waits for
//!   it, the longer its runs and the shorter its seeks. Every server waits for the same memory, so all get the same rate x, and the groups
//!   share the memory so that each destages what its servers write: `Σ m_k(x) = 1`.

use std::collections::BTreeMap;

use super::Sample;
use super::line::Line;

/// Points that a class's line is laid through: those nearest to what is predicted.
const NEAREST: usize = 3;
/// Points that tell a floor from the bend of the law.
const FLOOR_POINTS: usize = 3;
/// What emptier groups hold of the memory, over what is measured by, is between nothing and this.
const OTHERS_MAX: f64 = 3.0;
/// Halvings in the search for the common rate: to a billionth.
const HALVINGS: usize = 40;

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

/// What a group destages: `floor + growing · m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Destaging {
    floor_per_s: f64,
    growing_per_s: f64,
    /// The same without a floor.
    proportion_per_s: f64,
}

/// What an I/O needs of a group: a line through the states nearest to what is predicted, and what was seen before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Nearing {
    line: Line,
    from: u32,
    before_s: BTreeMap<u32, f64>,
}

impl Nearing {
    fn most_per_s(&self, servers: u32) -> f64 {
        match servers < self.from {
            // Where it was not seen to bound anybody, it does not.
            true => self.before_s.get(&servers).map_or(f64::INFINITY, |each_s| 1.0 / each_s),
            false => 1.0 / self.line.at(servers),
        }
    }
}

/// Where the groups differ, what the fullest and the others give over what they give among their like, as logarithms: the array's own work for all
/// of them shares what it may have under way. What the fullest lose is in proportion to how many others there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mixed {
    fullest_log: f64,
    others_log: f64,
}

impl Mixed {
    fn of(self, kind: usize, shares: &[(u32, u32)]) -> f64 {
        match (shares.len(), kind) {
            (0 | 1, _) => 1.0,
            (_, 0) => (self.fullest_log * emptier(shares)).exp(),
            _ => self.others_log.exp(),
        }
    }
}

/// What emptier groups hold of the memory: as their law says or in proportion to their rate, times a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Others {
    in_proportion: bool,
    by: f64,
}

/// By the servers on a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Groups {
    Hits { by_each: BTreeMap<u32, Nearing>, mixed: Mixed },
    Memory { by_each: BTreeMap<u32, Destaging>, others: Others },
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
                let by_each = destaging(states, bounding);
                let others = others(states, bounding, &by_each);
                Groups::Memory { by_each, others }
            }
        }
    }

    /// The same with groups that many times as fast: both laws are in proportion.
    pub(super) fn faster(mut self, times: f64) -> Groups {
        match &mut self {
            Groups::Hits { by_each, .. } => {
                for seen in by_each.values_mut() {
                    seen.line = seen.line.faster(times);
                    seen.before_s.values_mut().for_each(|each_s| *each_s /= times);
                }
            }
            Groups::Memory { by_each, .. } => {
                for line in by_each.values_mut() {
                    line.floor_per_s *= times;
                    line.growing_per_s *= times;
                    line.proportion_per_s *= times;
                }
            }
        }
        self
    }

    /// Whether a group with so many servers bounds them.
    pub(super) fn bounds(&self, each: u32) -> bool {
        match self {
            Groups::Hits { by_each, .. } => by_each.contains_key(&each),
            Groups::Memory { by_each, .. } => by_each.contains_key(&each),
        }
    }

    /// What one group of each share gives at most, in I/Os per second.
    pub(super) fn most_per_s(&self, servers: u32, shares: &[(u32, u32)]) -> Vec<f64> {
        match self {
            Groups::Hits { by_each, mixed } => {
                let most = |(kind, (_, each)): (usize, &(u32, u32))| {
                    mixed.of(kind, shares)
                        * by_each.get(each).map_or(f64::INFINITY, |seen| seen.most_per_s(servers))
                };
                shares.iter().enumerate().map(most).collect()
            }
            Groups::Memory { by_each, others } => {
                let x = common_rate(by_each, *others, shares);
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
        seen.entry(shared.each).or_default().entry(state.servers).or_default().push(1.0 / shared.iops);
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let seen: BTreeMap<u32, BTreeMap<u32, f64>> = seen
        .iter()
        .map(|(each, by)| (*each, by.iter().map(|(servers, values)| (*servers, mean(values))).collect()))
        .collect();
    let nearest = |by_servers: &BTreeMap<u32, f64>| -> Vec<(f64, f64, f64)> {
        let nearest = by_servers.iter().rev().take(NEAREST);
        nearest.map(|(servers, each_s)| (1.0 / f64::from(*servers), *each_s, each_s.powi(-2))).collect()
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
        (each, Nearing { line, from, before_s: by_servers })
    };
    seen.into_iter().map(nearing).collect()
}

/// From the states in which the groups differ, against what is known among their like.
fn mixed(states: &[Sample], bounding: &[Bounding], by_each: &BTreeMap<u32, Nearing>) -> Mixed {
    let (mut product, mut square, mut others) = (0.0, 0.0, Vec::new());
    for point in bounding.iter().filter(|point| states[point.state].groups.len() > 1) {
        let state = &states[point.state];
        let shared = &state.groups[point.kind];
        let Some(alike) = by_each.get(&shared.each) else { continue };
        let more = (shared.iops * alike.line.at(state.servers)).ln();
        if point.kind > 0 {
            others.push(more);
            continue;
        }
        let emptier = emptier(&state.shares());
        product += more * emptier;
        square += emptier * emptier;
    }
    let fullest_log = if square > 0.0 { product / square } else { 0.0 };
    Mixed { fullest_log, others_log: others.iter().sum::<f64>() / others.len().max(1) as f64 }
}

/// Of the groups in use, the share that is not the fullest.
fn emptier(shares: &[(u32, u32)]) -> f64 {
    let all: u32 = shares.iter().map(|(count, _)| count).sum();
    1.0 - f64::from(shares.first().map_or(0, |(count, _)| *count)) / f64::from(all.max(1))
}

/// From the states in which all groups in use have as many servers, so that each has the same share of the memory.
fn destaging(states: &[Sample], bounding: &[Bounding]) -> BTreeMap<u32, Destaging> {
    let mut seen: BTreeMap<u32, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for point in bounding.iter().filter(|point| states[point.state].groups.len() == 1) {
        let shared = &states[point.state].groups[0];
        let count = f64::from(shared.count);
        // Relative distances; the more groups share the memory, the nearer to what is predicted, and the law bends.
        let weight = (count.powi(3) / shared.iops).powi(2);
        seen.entry(shared.each).or_default().push((1.0 / count, shared.iops, weight));
    }
    let with_floor = |floor_per_s: f64, points: &[(f64, f64, f64)]| Destaging {
        floor_per_s,
        growing_per_s: slope_from(floor_per_s, points),
        proportion_per_s: slope_from(0.0, points),
    };
    let of = |points: &Vec<(f64, f64, f64)>| {
        let (floor, growing) = straight(points);
        let floor = if growing < 0.0 { weighted_mean(points) } else { floor.max(0.0) };
        with_floor(floor, points)
    };
    let most = seen.values().map(Vec::len).max().unwrap_or(0).min(FLOOR_POINTS);
    let enough = seen.iter().filter(|(_, points)| points.len() >= most.max(2));
    let lines: BTreeMap<u32, Destaging> = enough.map(|(each, points)| (*each, of(points))).collect();
    // Lone blocks cost the same however many share the group: where points are too few for a floor, that of the nearest class is taken.
    let borrowed = |each: &u32, points: &Vec<(f64, f64, f64)>| {
        let nearest = lines.iter().min_by_key(|(other, _)| other.abs_diff(*each));
        let least = points.iter().map(|(_, rate, _)| *rate).fold(f64::INFINITY, f64::min);
        with_floor(nearest.map_or(0.0, |(_, line)| line.floor_per_s).min(least), points)
    };
    seen.iter()
        .map(|(each, p)| (*each, lines.get(each).copied().unwrap_or_else(|| borrowed(each, p))))
        .collect()
}

/// What emptier groups hold of the memory beside fuller ones: from the states in which the groups differ, the measure that is nearer to them.
fn others(states: &[Sample], bounding: &[Bounding], by_each: &BTreeMap<u32, Destaging>) -> Others {
    let fits = [false, true].map(|in_proportion| {
        let mut held = Vec::new();
        for point in bounding.iter().filter(|p| p.kind == 0 && states[p.state].groups.len() > 1) {
            let state = &states[point.state];
            let x = state.iops / f64::from(state.servers);
            let shares = state.shares();
            let each = |(count, each): &(u32, u32), in_proportion| {
                let line = by_each.get(each)?;
                Some(f64::from(*count) * line.memory(f64::from(*each) * x, in_proportion))
            };
            let Some(full) = each(&shares[0], false) else { continue };
            held.push((1.0 - full, shares[1..].iter().filter_map(|share| each(share, in_proportion)).sum()));
        }
        let product: f64 = held.iter().map(|(left, emptier): &(f64, f64)| left * emptier).sum();
        let square: f64 = held.iter().map(|(_, emptier)| emptier * emptier).sum();
        let by = if square > 0.0 { (product / square).clamp(0.0, OTHERS_MAX) } else { 1.0 };
        let off: f64 = held.iter().map(|(left, emptier)| (left - by * emptier).powi(2)).sum();
        (off, Others { in_proportion, by })
    });
    if fits[1].0 < fits[0].0 { fits[1].1 } else { fits[0].1 }
}

impl Destaging {
    /// The share of the memory with which a group destages so much.
    fn memory(&self, per_s: f64, in_proportion: bool) -> f64 {
        if in_proportion {
            return per_s / self.proportion_per_s.max(f64::MIN_POSITIVE);
        }
        match per_s <= self.floor_per_s {
            true => 0.0,
            false => (per_s - self.floor_per_s) / self.growing_per_s.max(f64::MIN_POSITIVE),
        }
    }
}

/// What every server gets when the groups share all of the memory.
fn common_rate(by_each: &BTreeMap<u32, Destaging>, others: Others, shares: &[(u32, u32)]) -> f64 {
    let fullest = shares.iter().map(|(_, each)| *each).max().unwrap_or(0);
    let held = |x: f64| -> f64 {
        let of = |(count, each): &(u32, u32)| {
            let (by, in_proportion) = match *each < fullest {
                true => (others.by, others.in_proportion),
                false => (1.0, false),
            };
            let memory = |line: &Destaging| line.memory(f64::from(*each) * x, in_proportion);
            by_each.get(each).map_or(0.0, |line| by * f64::from(*count) * memory(line))
        };
        shares.iter().map(of).sum()
    };
    let most = by_each.values().map(|line| line.floor_per_s + line.growing_per_s).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, most);
    if held(high) <= 1.0 {
        return f64::INFINITY;
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if held(middle) <= 1.0 { low = middle } else { high = middle }
    }
    low
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

/// The slope of the best line with this value at 0.
fn slope_from(floor: f64, points: &[(f64, f64, f64)]) -> f64 {
    let (product, square) =
        points.iter().fold((0.0, 0.0), |(p, s), (x, y, w)| (p + w * x * (y - floor), s + w * x * x));
    (product / square).max(0.0)
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
        Sample { servers, repeat: 0, iops, utilisation: vec![], groups, pending: 0.7 }
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
    fn groups_share_the_memory_so_that_all_servers_get_the_same() {
        // 100 + 800·m with one server, 60 + 400·m with two.
        let rate =
            |each: u32, count: f64| if each == 1 { 100.0 + 800.0 / count } else { 60.0 + 400.0 / count };
        let states: Vec<Sample> = [(1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3)]
            .map(|(each, count)| state(&[(count, each, rate(each, f64::from(count)))]))
            .to_vec();
        let groups = fitted(Law::Memory, &states);
        // One group with two, three with one: (2x − 60)/400 + 3·(x − 100)/800 = 1.
        let x = (1.0 + 60.0 / 400.0 + 300.0 / 800.0) / (2.0 / 400.0 + 3.0 / 800.0);
        let [full, lone] = groups.most_per_s(5, &[(1, 2), (3, 1)])[..] else { panic!("two kinds") };
        assert!((full / (2.0 * x) - 1.0).abs() < 1e-6 && (lone / x - 1.0).abs() < 1e-6, "{full} {lone} {x}");
        // What emptier groups hold more than that is learnt where it was measured.
        let mut mixed = states;
        mixed.push(state(&[(1, 2, 1.8 * x), (3, 1, 0.9 * x)]));
        let [full, _] = fitted(Law::Memory, &mixed).most_per_s(5, &[(1, 2), (3, 1)])[..] else {
            panic!("two")
        };
        assert!((full / (1.8 * x) - 1.0).abs() < 1e-6, "{full}");
    }
}
