//! What a flow is promised, and what it may not exceed.

/// The weight of who has no policy, and of a policy that does not name one.
pub const WEIGHT_DEFAULT: u32 = 100;
/// With it a request of one unit still moves a tag of the weight phase (8,192 x 16 / 10,000 = 13).
pub const WEIGHT_MAX: u32 = 10_000;
/// Units per second: with a unit of 1 MiB this is a byte rate of 2^50, which tags can still add to the longest request.
pub const RATE_MAX: u64 = 1 << 30;

/// An instance of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// A policy. Rates are units of work per second: normalised IOPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What it gets in any case when it asks for it; 0: nothing is promised.
    pub minimum_iops: u64,
    /// What it gets at most.
    pub maximum_iops: Option<u64>,
    /// The bytes that it gets at most.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Its part of what is left, beside the weights of the others.
    pub weight: u32,
    /// Units that it may be ahead of the others in the weight phase after it was idle.
    pub burst_units: u64,
}

/// Why a policy cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// More is promised than allowed.
    #[error("minimum {minimum} is over maximum {maximum}")]
    MinimumOverMaximum {
        /// Units per second.
        minimum: u64,
        /// Units per second.
        maximum: u64,
    },
    /// A weight of nothing starves, a large one is not told apart from the next.
    #[error("weight {0} is not between 1 and {WEIGHT_MAX}")]
    Weight(u32),
    /// Nothing would ever be served, or a number is beyond all arrays.
    #[error("{what} {value} is not between 1 and {max}")]
    Rate {
        /// Which one.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// What can be asked for.
        max: u64,
    },
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            minimum_iops: 0,
            maximum_iops: None,
            bandwidth_bytes_per_s: None,
            weight: WEIGHT_DEFAULT,
            burst_units: 0,
        }
    }
}

impl Policy {
    /// Nothing but its part.
    pub fn none() -> Policy {
        Policy::default()
    }

    /// Whether nothing but its part is asked for.
    pub fn is_none(&self) -> bool {
        *self == Policy::none()
    }

    /// Whether it holds together.
    pub fn check(&self) -> Result<(), PolicyError> {
        let bandwidth_max = RATE_MAX << 13;
        let rates = [
            ("maximum", self.maximum_iops, RATE_MAX),
            ("minimum", Some(self.minimum_iops).filter(|m| *m > 0), RATE_MAX),
            ("bandwidth", self.bandwidth_bytes_per_s, bandwidth_max),
        ];
        for (what, value, max) in rates {
            if let Some(value) = value.filter(|v| !(1..=max).contains(v)) {
                return Err(PolicyError::Rate { what, value, max });
            }
        }
        if self.burst_units > RATE_MAX {
            return Err(PolicyError::Rate { what: "burst", value: self.burst_units, max: RATE_MAX });
        }
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(PolicyError::Weight(self.weight));
        }
        match self.maximum_iops {
            Some(maximum) if maximum < self.minimum_iops => {
                Err(PolicyError::MinimumOverMaximum { minimum: self.minimum_iops, maximum })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_cannot_be_kept_is_refused_with_its_numbers() {
        let check = |policy: Policy, text: Option<&str>| {
            assert_eq!(policy.check().map_err(|e| e.to_string()).err().as_deref(), text);
        };
        let none = Policy::none();
        check(none, None);
        check(Policy { minimum_iops: 3000, maximum_iops: Some(3000), ..none }, None);
        let over = Policy { minimum_iops: 3001, maximum_iops: Some(3000), ..none };
        check(over, Some("minimum 3001 is over maximum 3000"));
        check(Policy { maximum_iops: Some(0), ..none }, Some("maximum 0 is not between 1 and 1073741824"));
        check(Policy { weight: 0, ..none }, Some("weight 0 is not between 1 and 10000"));
        check(Policy { weight: WEIGHT_MAX + 1, ..none }, Some("weight 10001 is not between 1 and 10000"));
    }
}
