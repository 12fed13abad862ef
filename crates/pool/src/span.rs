//! Ranges of indices of a volume's map.

use std::ops::Range;

/// Indices from `from` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn one(index: u32) -> Span {
        Span { from: index, end: index + 1 }
    }

    pub(crate) fn all() -> Span {
        Span { from: 0, end: u32::MAX }
    }
}

impl From<Span> for Range<u64> {
    fn from(span: Span) -> Range<u64> {
        span.from.into()..span.end.into()
    }
}
