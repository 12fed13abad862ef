//! What an earlier life began and did not complete.

/// An export or an import that was interrupted and is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// What it is about, as in the status.
    pub object: String,
    /// What is so.
    pub text: String,
    /// What to do.
    pub to_do: String,
}
