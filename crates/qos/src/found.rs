//! What a scheduler has found out about its pool, for the scheduler that the pool has next: it has moved to
//! another controller, or its controller was taken over.

/// The depth that a search has found, and what was measured on the way. A hint: a scheduler begins with it,
/// and searches anew if the pool does not do what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The setting, [`crate::Settings::depth_max`], under which it was found: under another one it is of no
    /// use.
    pub depth_max: u32,
    /// The shallowest depth that costs no throughput.
    pub depth: u32,
    /// The deepest one that is known to cost throughput; 0: none.
    pub too_shallow: u32,
    /// Throughput that the depth costs against the deepest, of 1000.
    pub cost_permille: u32,
    /// What the pool did at this depth while requests waited.
    pub rate: Option<FoundRate>,
    /// What a much shallower depth costs.
    pub shallower: Option<FoundShallower>,
}

/// What a pool did at a depth. A request counts its bytes, and the time to reach them as if it were bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRate {
    /// All requests together.
    pub kb_per_s: u64,
    /// A request on average.
    pub request_bytes: u64,
}

/// What a much shallower depth than the one in force costs: how much of the time below is spent in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundShallower {
    /// The shallower one.
    pub depth: u32,
    /// The depth that it was compared with.
    pub of: u32,
    /// Its throughput relative to that one's, of 1000.
    pub kept_permille: u32,
}

impl Found {
    /// Whether it makes sense under this setting: it may come from another node.
    pub(crate) fn is_for(&self, depth_max: u32) -> bool {
        let makes_sense = |FoundShallower { depth, of, kept_permille }: FoundShallower| {
            (1..of).contains(&depth) && of <= depth_max && (1..=2000).contains(&kept_permille)
        };
        self.depth_max == depth_max
            && (1..=depth_max).contains(&self.depth)
            && self.too_shallow < self.depth
            && self.cost_permille <= 1000
            && self.shallower.is_none_or(makes_sense)
    }
}
