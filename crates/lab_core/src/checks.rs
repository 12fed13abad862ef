//! What the values of a scenario must be, one line each.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::machine;
use crate::quantity::Size;

/// Checks of values; the first failure is reported.
#[derive(Default)]
pub struct Checks {
    fault: Option<String>,
}

impl Checks {
    /// What is wrong.
    pub fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    /// Something that must be so: `must` goes on after "must".
    pub fn must(&mut self, key: &str, holds: bool, must: &str) {
        if !holds && self.fault.is_none() {
            self.fault = Some(format!("invalid {key}: must {must}"));
        }
    }

    fn value(&mut self, key: &str, value: impl Display, holds: bool, must: impl Display) {
        self.must(&format!("{key} {value}"), holds, &format!("be {must}"));
    }

    /// A value from a range, both ends included.
    pub fn range<T: PartialOrd + Display>(&mut self, key: &str, value: T, range: RangeInclusive<T>) {
        let holds = range.contains(&value);
        self.value(key, value, holds, format_args!("in {} to {}", range.start(), range.end()));
    }

    /// A cache whose frames the run takes from the memory of this machine.
    pub fn cache(&mut self, key: &str, size: Size, range: RangeInclusive<Size>) {
        self.range(key, size, range);
        self.in_memory(key, size, machine::memory_bytes());
    }

    /// The same on a machine with so much memory; nobody knows how much where it is `None`.
    fn in_memory(&mut self, key: &str, size: Size, memory_bytes: Option<u64>) {
        let memory = memory_bytes.unwrap_or(u64::MAX);
        let must = format_args!("be less: this machine has {} MiB of memory", memory >> 20);
        self.must(&format!("{key} {size}"), size.0 <= memory, &must.to_string());
    }

    /// A part of a whole.
    pub fn share(&mut self, key: &str, share: f64) {
        self.value(key, share, share > 0.0 && share <= 1.0, "in (0, 1]");
    }

    /// A size from a range in whole units.
    pub fn multiple(&mut self, key: &str, size: Size, unit: Size, range: RangeInclusive<u64>) {
        let holds = size.0.is_multiple_of(unit.0) && range.contains(&size.0);
        let (least, most) = (Size(*range.start()), Size(*range.end()));
        self.value(key, size, holds, format_args!("a multiple of {unit} in {least} to {most}"));
    }

    /// A size from a range that is a power of two.
    pub fn power_of_two(&mut self, key: &str, size: Size, range: RangeInclusive<u64>) {
        let holds = size.0.is_power_of_two() && range.contains(&size.0);
        let (least, most) = (Size(*range.start()), Size(*range.end()));
        self.value(key, size, holds, format_args!("a power of two in {least} to {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(of: impl Fn(&mut Checks)) -> Option<String> {
        let mut checks = Checks::default();
        of(&mut checks);
        checks.fault()
    }

    #[test]
    fn the_first_value_that_fails_is_told_with_what_it_must_be() {
        for (said, expected) in [
            (check(|c| c.range("run.repeats", 0, 1..=9)), "invalid run.repeats 0: must be in 1 to 9"),
            (check(|c| c.share("run.scale", 2.0)), "invalid run.scale 2: must be in (0, 1]"),
            (check(|c| c.share("run.scale", f64::NAN)), "invalid run.scale NaN: must be in (0, 1]"),
            (
                check(|c| c.multiple("page", Size(5000), Size(4096), 4096..=1 << 20)),
                "invalid page 5000 B: must be a multiple of 4 KiB in 4 KiB to 1 MiB",
            ),
            (
                check(|c| c.in_memory("cache", Size(64 << 30), Some(14 << 30))),
                "invalid cache 64 GiB: must be less: this machine has 14336 MiB of memory",
            ),
            (
                check(|c| c.power_of_two("page", Size(3 << 20), 4096..=4 << 20)),
                "invalid page 3 MiB: must be a power of two in 4 KiB to 4 MiB",
            ),
            (check(|c| c.must("thin", false, "have a pool")), "invalid thin: must have a pool"),
        ] {
            assert_eq!(said.as_deref(), Some(expected));
        }
        let both = check(|c| {
            c.range("first", 2, 0..=1);
            c.range("second", 2, 0..=1);
        });
        assert_eq!(both.as_deref(), Some("invalid first 2: must be in 0 to 1"));
        let at_the_ends = check(|c| {
            c.range("a", 1, 1..=1);
            c.share("b", 1.0);
            c.multiple("c", Size(4096), Size(4096), 4096..=4096);
            c.power_of_two("d", Size(4096), 4096..=4096);
        });
        assert_eq!(at_the_ends, None);
    }
}
