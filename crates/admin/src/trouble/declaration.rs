//! A declaration or a state that is not as it should be.

use array::Severity;
use status::Trouble;

use super::told::trouble;

/// A state that cannot be saved.
pub(super) fn of_state(cause: &str, differs: bool) -> Trouble {
    let what = match differs {
        true => {
            "; what is stored is a change that was refused, or an older state: the next start would take that"
        }
        false => ": changes are refused",
    };
    let to_do = "make room for the data directory, or repair its file system: it is tried again by itself";
    trouble(Severity::Error, "array", "state", format!("the state cannot be saved ({cause}){what}"), to_do)
}

/// A declaration that is not as the array stands, and why.
pub(crate) fn trouble_of_following(fault: &str) -> Trouble {
    let text =
        format!("a spare was taken, a drive replaced or a group has left, which cannot be declared: {fault}");
    trouble(
        Severity::Warning,
        "array",
        "following",
        text,
        "repair what that says: it is tried again by itself",
    )
}

/// A declaration that is not in force, and why.
pub(crate) fn trouble_of_declaration(fault: &str) -> Trouble {
    let text = format!("serves its previous configuration, for its declaration cannot be applied: {fault}");
    let to_do = "repair the declaration, and send SIGHUP to masu serve: masu config diff FILE shows what is not in force";
    trouble(Severity::Error, "array", "declaration", text, to_do)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, group};

    #[test]
    fn what_is_not_stored_or_not_declared_is_trouble() {
        let mut status = group("optimal", None, 0);
        status.undeclared = vec![("p".into(), "u".into())];
        let words = [
            "volume u: is in pool p with its data",
            "pool = \"p\"",
            "masu config export",
            "masu volume delete u",
        ];
        check(&status, "warning", &words);
        status.undeclared = vec![];
        status.state_fault = Some(("the disk is full".into(), false));
        check(&status, "error", &["the state cannot be saved (the disk is full): changes are refused"]);
        status.state_fault = Some(("the disk is full".into(), true));
        check(&status, "error", &["the next start would take that"]);
        status.state_fault = None;
        status.unfinished = vec![("pool p".into(), "its export was interrupted".into(), "bring back".into())];
        check(&status, "error", &["pool p: its export was interrupted", "bring back"]);
    }
}
