//! Texts of `/proc` (proc(5)) that both the watch over a run and the samplers read.

/// A number of KiB of `/proc/meminfo`.
pub fn memory_kib(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Processor time of a process in ticks, from its `/proc/PID/stat`.
pub fn own_ticks(stat: &str) -> Option<u64> {
    ticks::<2>(stat)
}

/// The same, with those of its children that have ended and were waited for.
pub fn ticks_with_children(stat: &str) -> Option<u64> {
    ticks::<4>(stat)
}

/// Fields 14 to 17 of the line are user and system time, then the children's: so many of them together. They
/// stand after the name in parentheses, which may hold anything.
fn ticks<const FIELDS: usize>(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    (0..FIELDS).try_fold(0_u64, |sum, _| sum.checked_add(fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guest of a run, a program that it started, was taken for somebody else's work.
    #[test]
    fn the_work_of_children_is_a_runs_own() {
        let stat = "12 (a (b) c) S 1 1 1 0 -1 4 5 6 7 8 90 10 4000 200 20";
        assert_eq!((own_ticks(stat), ticks_with_children(stat)), (Some(100), Some(4300)));
        assert_eq!(ticks_with_children("12 (x) S 1 1 1 0 -1 4 5 6 7 8 90 10 4000"), None);
    }
}
