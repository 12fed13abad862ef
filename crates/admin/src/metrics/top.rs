//! The objects that metrics name. Each costs a hundred series: of thousands only the busiest have their own,
//! and the others are summed.

use std::collections::BTreeSet;

/// The busiest `count` of all, by what they did since the start. One that is named already stays until
/// another has done twice as much: each exchange looks like a restart to who reads the counters.
pub(super) fn busiest<'a>(
    named: &BTreeSet<String>,
    all: impl Iterator<Item = (&'a str, u64)>,
    count: usize,
) -> BTreeSet<String> {
    let weighed = all.map(|(name, load)| match named.contains(name) {
        true => (load.saturating_mul(2), true, name),
        false => (load, false, name),
    });
    let mut weighed: Vec<_> = weighed.collect();
    if weighed.len() > count {
        weighed.sort_unstable_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(b.2)));
        weighed.truncate(count);
    }
    weighed.into_iter().map(|(_, _, name)| name.to_owned()).collect()
}

/// The objects of each kind that have series of their own.
#[derive(Default)]
pub(crate) struct Named {
    pub(super) lus: BTreeSet<String>,
    pub(super) hosts: BTreeSet<String>,
    pub(super) drives: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(named: &[&str], all: &[(&str, u64)], count: usize, expected: &[&str]) {
        let named = named.iter().map(|name| (*name).to_owned()).collect();
        let chosen = busiest(&named, all.iter().copied(), count);
        assert!(chosen.iter().eq(expected.iter()), "{chosen:?}");
    }

    #[test]
    fn the_busiest_are_named_and_stay_until_another_did_twice_as_much() {
        check(&[], &[("a", 1), ("b", 3), ("c", 2)], 2, &["b", "c"]);
        check(&[], &[("a", 0), ("b", 0), ("c", 0)], 2, &["a", "b"]);
        check(&["a"], &[("a", 2), ("b", 4), ("c", 3)], 1, &["a"]);
        check(&["a"], &[("a", 2), ("b", 5), ("c", 3)], 1, &["b"]);
        check(&["gone"], &[("a", 2)], 5, &["a"]);
        check(&[], &[("a", 2)], 0, &[]);
    }
}
