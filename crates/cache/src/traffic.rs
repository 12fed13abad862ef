//! What units do, added up by partition: a unit that changes its partition leaves behind what it did there.

use crate::unit::UnitCounts;

/// What one unit, or the units of a partition, have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read_bytes: u64,
    /// Of these, bytes that were in memory.
    pub read_hit_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Of these, bytes that were acknowledged from the cache.
    pub write_hit_bytes: u64,
    /// Bytes written to stores by destages.
    pub destaged_bytes: u64,
    /// Bytes read ahead.
    pub ahead_bytes: u64,
    /// Of these, bytes that were asked for.
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
    /// Both together.
    pub fn plus(self, other: Traffic) -> Traffic {
        self.with(other, u64::wrapping_add)
    }

    /// What came since `earlier`, an older value of the same counters.
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
