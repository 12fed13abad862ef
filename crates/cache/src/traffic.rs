//! Traffic of units, per partition: a unit that moves to another partition leaves its past traffic behind.

use crate::unit::UnitCounts;

/// Traffic of one unit, or of the units of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Traffic {
    pub read_bytes: u64,
    /// Of these, bytes found in memory.
    pub read_hit_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Of these, bytes that found room at once, as [`UnitCounts::write_hit_bytes`] counts them.
    pub write_hit_bytes: u64,
    /// Bytes destaged to stores.
    pub destaged_bytes: u64,
    /// Bytes read ahead.
    pub ahead_bytes: u64,
    /// Of these, bytes requested afterwards.
    pub ahead_used_bytes: u64,
}

impl From<UnitCounts> for Traffic {
    fn from(c: UnitCounts) -> Traffic {
        Traffic {
            read_bytes: c.read_bytes,
            read_hit_bytes: c.read_hit_bytes,
            write_bytes: c.write_bytes,
            write_hit_bytes: c.write_hit_bytes,
            destaged_bytes: c.destaged_bytes,
            ahead_bytes: c.ahead.read_bytes,
            ahead_used_bytes: c.ahead.used_bytes,
        }
    }
}

impl Traffic {
    /// Sum of both.
    pub fn plus(self, other: Traffic) -> Traffic {
        self.with(other, u64::wrapping_add)
    }

    /// The difference since `earlier`, an older value of the same counters.
    pub(crate) fn since(self, earlier: Traffic) -> Traffic {
        self.with(earlier, u64::wrapping_sub)
    }

    fn with(self, other: Traffic, of: fn(u64, u64) -> u64) -> Traffic {
        Traffic {
            read_bytes: of(self.read_bytes, other.read_bytes),
            read_hit_bytes: of(self.read_hit_bytes, other.read_hit_bytes),
            write_bytes: of(self.write_bytes, other.write_bytes),
            write_hit_bytes: of(self.write_hit_bytes, other.write_hit_bytes),
            destaged_bytes: of(self.destaged_bytes, other.destaged_bytes),
            ahead_bytes: of(self.ahead_bytes, other.ahead_bytes),
            ahead_used_bytes: of(self.ahead_used_bytes, other.ahead_used_bytes),
        }
    }
}
