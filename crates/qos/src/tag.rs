//! A tag: a point that advances by work divided by a rate, exactly: the remainder of the division is carried.

/// Nanoseconds of a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// Maximum charge of one step: with 10^9 it stays below 2^63.
const STEP_BYTES_MAX: u64 = 8 << 30;
/// Points of a virtual tag per byte at weight 1: at 10 GB/s a tag of weight 1 lasts three years, one of the
/// largest weight still advances.
const SHARE_SCALE: u64 = 16;

/// A tag in nanoseconds, or in points of work by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) at: u64,
    rest: u64,
}

impl Tag {
    /// A tag at this point.
    pub(crate) fn at(at: u64) -> Tag {
        Tag { at, rest: 0 }
    }

    /// Advances by the time that `bytes` take at `bytes_per_s`.
    pub(crate) fn spend(&mut self, bytes: u64, bytes_per_s: u64) {
        self.advance(bytes, SECOND_NS, bytes_per_s);
    }

    /// Advances by `bytes` divided by the weight.
    pub(crate) fn share(&mut self, bytes: u64, weight: u32) {
        self.advance(bytes, SHARE_SCALE, u64::from(weight));
    }

    fn advance(&mut self, bytes: u64, scale: u64, rate: u64) {
        let mut left = bytes;
        loop {
            let step = left.min(STEP_BYTES_MAX);
            let total = step * scale + self.rest;
            self.at = self.at.saturating_add(total / rate);
            self.rest = total % rate;
            left -= step;
            if left == 0 {
                return;
            }
        }
    }

    /// Raises it to at least this point.
    pub(crate) fn raise_to(&mut self, floor: u64) {
        if self.at < floor {
            *self = Tag::at(floor);
        }
    }

    /// Lowers it to at most this point.
    pub(crate) fn lower_to(&mut self, ceiling: u64) {
        if self.at > ceiling {
            *self = Tag::at(ceiling);
        }
    }
}

/// How far `bytes` move a virtual tag of this weight.
pub(crate) fn share_of(bytes: u64, weight: u32) -> u64 {
    bytes.min(STEP_BYTES_MAX) * SHARE_SCALE / u64::from(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_to_rounding() {
        let mut tag = Tag::default();
        // 3,000 units of 8 KiB in a second, one by one: a second to the nanosecond, though one takes
        // 333,333.3 ns.
        (0..3000).for_each(|_| tag.spend(8192, 3000 * 8192));
        assert_eq!(tag, Tag::at(SECOND_NS));
        let mut tag = Tag::default();
        tag.spend(64 << 30, 1 << 30);
        assert_eq!(tag, Tag::at(64 * SECOND_NS));
        let mut tag = Tag::default();
        (0..7).for_each(|_| tag.share(8192, 7));
        assert_eq!(tag, Tag::at(8192 * SHARE_SCALE));
    }
}
