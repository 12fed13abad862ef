//! Times of I/Os that ended: how many in a stretch, and the longest stretch without one. Pure.

/// How many lie in it; they are in order, or not.
pub(super) fn count_in(times: &[u64], from: u64, to: u64) -> usize {
    times.iter().filter(|at| (from..to).contains(*at)).count()
}

/// The longest stretch without one between `from` and `to`, of times in order. It counts from the last one
/// before `from`; the last stretch ends at `to`.
pub(super) fn longest(times: &[u64], from: u64, to: u64) -> u64 {
    let before = times.iter().copied().rfind(|at| *at <= from).unwrap_or(from);
    let own = times.iter().copied().filter(|at| (from..=to).contains(at));
    let (last, longest) = own.fold((before, 0), |(last, longest), at| (at, longest.max(at - last)));
    longest.max(to.saturating_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stretch_begins_with_the_last_before_and_ends_with_the_run() {
        let times = [10, 20, 30, 90, 100];
        assert_eq!(longest(&times, 35, 100), 60, "from the one at 30");
        assert_eq!(longest(&times, 95, 200), 100, "nobody was served again");
        assert_eq!(longest(&times, 0, 30), 10);
        assert_eq!(longest(&[], 5, 25), 20);
        assert_eq!(count_in(&times, 20, 90), 2);
    }
}
