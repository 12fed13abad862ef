//! Admission: are the minimums over-committed?

/// Warning: the minimums exceed the measured capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overcommitted {
    /// Sum of the minimums, in units per second.
    pub minimums: u64,
    /// Measured capacity, in units per second.
    pub capacity: u64,
}

impl std::fmt::Display for Overcommitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Overcommitted { minimums, capacity } = self;
        let percent = u128::from(*capacity) * 100 / u128::from((*minimums).max(1));
        write!(
            f,
            "the minimums are over-committed: {minimums} IOPS in total, {capacity} IOPS measured; under full load each gets {percent} % of its minimum"
        )
    }
}

/// Returns the warning if the minimums exceed the capacity.
pub fn admit(capacity: u64, minimums: u64) -> Option<Overcommitted> {
    (minimums > capacity).then_some(Overcommitted { minimums, capacity })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_names_the_numbers() {
        assert_eq!(admit(17_090, 17_090), None);
        let text = admit(17_090, 30_000).expect("a warning").to_string();
        assert_eq!(
            text,
            "the minimums are over-committed: 30000 IOPS in total, 17090 IOPS measured; under full load each gets 56 % of its minimum"
        );
    }
}
