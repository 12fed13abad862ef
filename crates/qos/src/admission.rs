//! Whether what is promised fits.

/// More is promised than the array can do: a warning, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overcommitted {
    /// The sum of the minimums, in units per second.
    pub minimums: u64,
    /// What the array can do.
    pub capacity: u64,
}

impl std::fmt::Display for Overcommitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Overcommitted { minimums, capacity } = self;
        let percent = u128::from(*capacity) * 100 / u128::from((*minimums).max(1));
        write!(
            f,
            "the minimums are {minimums} IOPS together, and {capacity} IOPS were measured: when all ask, each gets {percent} % of its minimum"
        )
    }
}

/// The warning, when there is one.
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
            "the minimums are 30000 IOPS together, and 17090 IOPS were measured: when all ask, each gets 56 % of its minimum"
        );
    }
}
