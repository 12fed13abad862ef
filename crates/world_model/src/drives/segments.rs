//! The cache on the drive: segments, each with one run of blocks; the least recently used one is reused.

/// One run of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    /// One past the last; an empty segment holds nothing.
    pub(super) end: u64,
    used: u64,
}

/// All segments. A drive with none keeps nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segments {
    list: Vec<Segment>,
    size_blocks: u64,
    uses: u64,
}

impl Segments {
    pub(super) fn new(count: usize, size_blocks: u64) -> Segments {
        Segments { list: vec![Segment::default(); count], size_blocks, uses: 0 }
    }

    pub(super) fn get(&self, segment: usize) -> Segment {
        self.list[segment]
    }

    /// The segment that holds this block, the fullest after it if there are several.
    pub(super) fn find(&self, block: u64) -> Option<usize> {
        let holding = self.list.iter().enumerate().filter(|(_, s)| s.start <= block && block < s.end);
        holding.max_by_key(|(_, s)| s.end).map(|(i, _)| i)
    }

    /// It was used now.
    pub(super) fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.list[segment].used = self.uses;
    }

    /// Gives the segment that was not used for longest to a run that begins here.
    pub(super) fn take(&mut self, start: u64) -> Option<usize> {
        let (oldest, _) =
            self.list.iter().enumerate().min_by_key(|(_, s)| if s.start == s.end { 0 } else { s.used })?;
        self.list[oldest] = Segment { start, end: start, used: 0 };
        self.touch(oldest);
        Some(oldest)
    }

    /// An empty run begins here instead.
    pub(super) fn begin(&mut self, segment: usize, start: u64) {
        let run = &mut self.list[segment];
        (run.start, run.end) = (start, start);
    }

    /// The run goes on to here; its beginning makes room.
    pub(super) fn extend(&mut self, segment: usize, end: u64) {
        let run = &mut self.list[segment];
        run.end = run.end.max(end);
        run.start = run.start.max(run.end.saturating_sub(self.size_blocks));
    }

    /// Forgets all runs that have one of these blocks, but for one.
    pub(super) fn forget(&mut self, start: u64, end: u64, but: Option<usize>) {
        for (i, run) in self.list.iter_mut().enumerate() {
            if run.start < end && start < run.end && Some(i) != but {
                *run = Segment::default();
            }
        }
    }
}
