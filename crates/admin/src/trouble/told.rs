//! One trouble, as it is told.

use array::Severity;
use status::Trouble;

/// What is wrong with an object, and what to do. `since_ms` is not known here: [`super::Tracker`] has it.
pub(crate) fn trouble(
    severity: Severity,
    object: impl Into<String>,
    kind: &str,
    text: impl Into<String>,
    to_do: impl Into<String>,
) -> Trouble {
    Trouble {
        severity: severity.name().into(),
        object: object.into(),
        kind: kind.into(),
        text: text.into(),
        to_do: to_do.into(),
        since_ms: 0,
    }
}
