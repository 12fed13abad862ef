//! Policies: minimum, maximum, bandwidth, weight and burst of a flow.

/// Weight of a flow without a policy, and of a policy without a weight.
pub const WEIGHT_DEFAULT: u32 = 100;
/// With this weight a request of one unit still moves a tag of the weight phase (8,192 x 16 / 10,000 = 13).
pub const WEIGHT_MAX: u32 = 10_000;
/// Units per second: with a unit of 1 MiB this is 2^50 bytes per second, which tags can still add to the
/// longest request.
pub const RATE_MAX: u64 = 1 << 30;

/// An instance of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// A policy. Rates are units of work per second: normalised IOPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Rate that it receives on demand; 0: none.
    pub minimum_iops: u64,
    /// Rate that it never exceeds.
    pub maximum_iops: Option<u64>,
    /// Bytes per second that it never exceeds.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Its share of the remaining capacity, relative to the other weights.
    pub weight: u32,
    /// Units by which it may be ahead in the weight phase after it was idle.
    pub burst_units: u64,
}

/// Why a policy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The minimum exceeds the maximum.
    #[error("minimum {minimum} exceeds maximum {maximum}")]
    MinimumOverMaximum {
        /// Units per second.
        minimum: u64,
        /// Units per second.
        maximum: u64,
    },
    /// Weight 0 starves a flow; above the limit two weights cannot be distinguished.
    #[error("invalid weight {0}: must be 1 to {WEIGHT_MAX}")]
    Weight(u32),
    /// A rate of 0 never serves a request; the limit is beyond all arrays.
    #[error("invalid {what} {value}: must be 1 to {max}")]
    Rate {
        /// Name of the property.
        what: &'static str,
        /// The given value.
        value: u64,
        /// The maximum value.
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
    /// A policy without minimum and maximum, with the default weight.
    pub fn none() -> Policy {
        Policy::default()
    }

    /// Whether it equals [`Policy::none`].
    pub fn is_none(&self) -> bool {
        *self == Policy::none()
    }

    /// Validates the values.
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
        check(over, Some("minimum 3001 exceeds maximum 3000"));
        check(Policy { maximum_iops: Some(0), ..none }, Some("invalid maximum 0: must be 1 to 1073741824"));
        check(Policy { weight: 0, ..none }, Some("invalid weight 0: must be 1 to 10000"));
        check(Policy { weight: WEIGHT_MAX + 1, ..none }, Some("invalid weight 10001: must be 1 to 10000"));
    }
}
