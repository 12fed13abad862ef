//! What a source has counted, and how two readings become a sample.

use std::collections::BTreeMap;

use super::series::Column;

/// One counter of a reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// What it is about and what it becomes: "disk sda", "await", "ms".
    pub column: Column,
    /// What was counted.
    pub measure: Measure,
}

/// How a sample is made of two readings. All counts only grow; where one is less than before (the device went
/// away and came again, a counter of 32 bits went round) there is a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// As it is at the end.
    Level(f64),
    /// How much more per second, times `scale`.
    Rate {
        /// So far.
        count: u64,
        /// Into the column's unit.
        scale: f64,
    },
    /// How much more of one for each more of another, times `scale`; a gap where there is none more of it.
    Quotient {
        /// So far.
        over: u64,
        /// So far.
        by: u64,
        /// Into the column's unit.
        scale: f64,
    },
}

impl Counter {
    /// What is now.
    pub fn level(resource: &str, metric: &'static str, unit: &'static str, value: f64) -> Counter {
        Counter { column: Column::new(resource, metric, unit), measure: Measure::Level(value) }
    }

    /// What comes per second.
    pub fn rate(
        resource: &str,
        metric: &'static str,
        unit: &'static str,
        (count, scale): (u64, f64),
    ) -> Counter {
        Counter { column: Column::new(resource, metric, unit), measure: Measure::Rate { count, scale } }
    }

    /// One over another.
    pub fn quotient(
        resource: &str,
        metric: &'static str,
        unit: &'static str,
        (over, by, scale): (u64, u64, f64),
    ) -> Counter {
        let measure = Measure::Quotient { over, by, scale };
        Counter { column: Column::new(resource, metric, unit), measure }
    }
}

/// The sample between two readings that are so many seconds apart.
pub(super) fn between(before: &[Counter], after: &[Counter], seconds: f64) -> BTreeMap<Column, f64> {
    let known: BTreeMap<&Column, Measure> = before.iter().map(|c| (&c.column, c.measure)).collect();
    let value = |after: &Counter| -> Option<f64> {
        let before = known.get(&after.column).copied();
        let value = match (before, after.measure) {
            (_, Measure::Level(value)) => value,
            (Some(Measure::Rate { count, .. }), Measure::Rate { count: now, scale }) => {
                now.checked_sub(count)? as f64 * scale / seconds
            }
            (Some(Measure::Quotient { over, by, .. }), Measure::Quotient { over: o, by: b, scale }) => {
                o.checked_sub(over)? as f64 * scale / b.checked_sub(by)? as f64
            }
            _ => return None,
        };
        value.is_finite().then_some(value)
    };
    after.iter().filter_map(|counter| Some((counter.column.clone(), value(counter)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(count: u64, over: u64, by: u64, level: f64) -> Vec<Counter> {
        vec![
            Counter::rate("d", "reads", "IOPS", (count, 1.0)),
            Counter::quotient("d", "await", "ms", (over, by, 1.0)),
            Counter::level("d", "free", "GiB", level),
        ]
    }

    fn values(before: &[Counter], after: &[Counter]) -> Vec<(&'static str, f64)> {
        between(before, after, 2.0).into_iter().map(|(column, value)| (column.metric, value)).collect()
    }

    #[test]
    fn rates_are_per_second_and_quotients_per_event() {
        let sample = values(&reading(10, 100, 10, 3.0), &reading(30, 180, 20, 4.0));
        assert_eq!(sample, [("await", 8.0), ("free", 4.0), ("reads", 10.0)]);
    }

    #[test]
    fn what_went_back_or_has_no_events_is_a_gap() {
        assert_eq!(values(&reading(10, 100, 10, 3.0), &reading(9, 100, 10, 3.0)), [("free", 3.0)]);
        assert_eq!(values(&[], &reading(9, 100, 10, 3.0)), [("free", 3.0)]);
    }
}
