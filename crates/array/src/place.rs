//! Which scheduler something is in.

/// A scheduler of the array.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The one that all volumes of this pool share.
    Pool(String),
    /// The one of all images that this controller has.
    Images(usize),
}
