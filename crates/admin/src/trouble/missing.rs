//! What was made and is not served.

use array::Severity;
use status::{Missing, Reason, Status, Trouble};

use super::groups::lost_of;
use super::told::trouble;

/// What cannot be opened, and how it comes back.
pub(super) fn of_missing(missing: &Missing, status: &Status, all: &mut Vec<Trouble>) {
    let object = format!("{} {}", missing.kind, missing.name);
    let lost = match missing.kind.as_str() {
        "group" => lost_of(&missing.name, status),
        _ => String::new(),
    };
    let text = format!("is not served: {}{lost}", missing.cause);
    all.push(trouble(Severity::Error, object, "missing", text, to_do(missing)));
}

fn to_do(missing: &Missing) -> String {
    let name = &missing.name;
    let text = match (missing.reason, missing.kind.as_str()) {
        (Reason::NotFound, _) => {
            return format!("restore its pool as it was; or give it up: masu volume delete {name}");
        }
        (Reason::PoolFull, _) | (Reason::NoRoom, "volume") => {
            return format!("make room, then it is tried again; or give it up: masu volume delete {name}");
        }
        (Reason::NoRoom, _) => {
            "make room in the file system of the file that this names (df FILE): it is tried again by itself, and \
             until then hosts do not find its volumes"
        }
        (Reason::PoolNotOpen, _) => "see its pool: it comes with that",
        (Reason::JournalUndeclared, _) => {
            "write that line into the table of the pool, as masu config export prints it, and apply it: masu \
             config import FILE; it is served then by itself"
        }
        (Reason::JournalAway, _) => {
            "bring back the drives of the journal, and it is served by itself; or do as that says: masu config \
             import FILE"
        }
        (Reason::Deleting, _) => "wait until no work on its groups runs, or stop that: masu job list",
        (Reason::NodeGone, _) => {
            "continue that node's process, or end it (kill -9): its controllers run at the owner as soon as their \
             drives are free"
        }
        (Reason::Unclaimed, _) => {
            "bring back the storage of that drive, or end the process that has it open (kill -9): the array opens \
             it as soon as nobody else can write to it"
        }
        (Reason::Away, _) => "bring back what it lies on: the array opens it then by itself",
        (Reason::Unknown, _) => {
            "masu knows no remedy but what the cause names; when that is mended, the array opens it by itself"
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, group};
    use super::*;

    fn missing(kind: &str, reason: Reason, cause: &str) -> Vec<Missing> {
        vec![Missing { kind: kind.into(), name: "v".into(), cause: cause.into(), reason, medium: None }]
    }

    #[test]
    fn what_to_do_about_an_object_that_is_not_served_follows_the_kind_of_its_cause() {
        let mut status = group("optimal", None, 0);
        let cases = [
            ("volume", Reason::NotFound, "give it up: masu volume delete v"),
            ("volume", Reason::PoolFull, "make room, then it is tried again"),
            ("volume", Reason::NoRoom, "make room, then it is tried again"),
            ("volume", Reason::PoolNotOpen, "see its pool"),
            ("pool", Reason::NoRoom, "df FILE"),
            ("pool", Reason::JournalUndeclared, "write that line into the table of the pool"),
            ("pool", Reason::JournalAway, "bring back the drives of the journal"),
            ("pool", Reason::Deleting, "wait until no work on its groups runs"),
            ("group", Reason::Unclaimed, "end the process that has it open"),
            ("group", Reason::Away, "bring back what it lies on"),
        ];
        for (kind, reason, expected) in cases {
            status.missing = missing(kind, reason, "a cause");
            check(&status, "error", &["is not served: a cause", expected]);
        }
    }

    /// A group that another array's label keeps from being opened was said to come back with its drives.
    #[test]
    fn no_remedy_is_made_up_of_words_that_a_cause_happens_to_have() {
        let mut status = group("optimal", None, 0);
        for words in ["pool p is full", "not found in pool p", "no room", "declare journal", "is not open"] {
            status.missing = missing("volume", Reason::Unknown, words);
            check(&status, "error", &[words, "masu knows no remedy but what the cause names"]);
        }
    }
}
