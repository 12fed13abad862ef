//! Why something did not succeed, as far as somebody acts on it. It goes beside the words of an error, from
//! where that arises to the status, so that nobody has to recognise a sentence.

use std::fmt;

use ::config::ConfigError;
use block::BlockError;
use cache::JournalError;
use pool::PoolError;
use raid::GroupError;
use status::Reason;
use vdisk::VdiskError;
use world::{DriveError, NetError, OpenError};

use crate::status::Unopened;

/// The kind of a cause, and the drive that is to blame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// The kind.
    pub reason: Reason,
    /// The name of the drive's medium, where it is one drive.
    pub drive: Option<String>,
}

impl From<Reason> for Why {
    fn from(reason: Reason) -> Why {
        Why { reason, drive: None }
    }
}

/// A text about an object without the name of that object: layers below name it again, without quotes.
pub(crate) fn named_once(object: &str, text: &str) -> String {
    let plain = object.replace('"', "");
    let quoted = match plain.split_once(' ') {
        Some((kind, name)) => format!("{kind} {name:?}"),
        None => plain.clone(),
    };
    let names = [object, &plain, &quoted].map(|name| format!("{name}: "));
    let mut rest = text;
    while let Some(after) = names.iter().find_map(|name| rest.strip_prefix(name.as_str())) {
        rest = after;
    }
    names.iter().fold(rest.to_owned(), |text, name| text.replace(&format!(": {name}"), ": "))
}

/// What can be the cause of a [`ControlError`](crate::ControlError).
pub(crate) trait Explains: fmt::Display {
    /// Of what kind it is. Words alone say nothing of it.
    fn why(&self) -> Why {
        Why::default()
    }
}

/// A cause in words, of a known kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) why: Why,
}

impl Told {
    pub(crate) fn new(why: impl Into<Why>, text: impl Into<String>) -> Told {
        Told { text: text.into(), why: why.into() }
    }

    /// Goes on with another text; the kind is that of the latter, if it has one.
    pub(crate) fn and(self, more: Told) -> Told {
        let why = if more.why == Why::default() { self.why } else { more.why };
        Told { text: self.text + &more.text, why }
    }
}

impl<E: Explains> From<&E> for Told {
    fn from(error: &E) -> Told {
        Told::new(error.why(), error.to_string())
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Explains for Told {
    fn why(&self) -> Why {
        self.why.clone()
    }
}

impl Explains for &str {}
impl Explains for String {}
impl Explains for ConfigError {}

impl Explains for OpenError {
    fn why(&self) -> Why {
        let reason = if self.is_absent { Reason::Away } else { Reason::Unknown };
        Why { reason, drive: Some(self.name.clone()) }
    }
}

impl Explains for DriveError {
    fn why(&self) -> Why {
        BlockError::from(self.clone()).why()
    }
}

impl Explains for BlockError {
    fn why(&self) -> Why {
        let reason = match self {
            BlockError::NoRoom { .. } => Reason::NoRoom,
            BlockError::NoSpace { .. } => Reason::PoolFull,
            BlockError::Failed { .. } | BlockError::Silent { .. } => Reason::Away,
            BlockError::OutOfRange { .. }
            | BlockError::Unreadable { .. }
            | BlockError::Poisoned { .. }
            | BlockError::Corrupt { .. } => Reason::Unknown,
        };
        Why { reason, drive: self.drive().map(str::to_owned) }
    }
}

impl Explains for PoolError {
    fn why(&self) -> Why {
        match self {
            PoolError::Block(cause) | PoolError::Begun { cause, .. } => cause.why(),
            PoolError::Missing { .. } => Reason::Away.into(),
            _ => Why::default(),
        }
    }
}

impl Explains for GroupError {
    fn why(&self) -> Why {
        match self {
            GroupError::Io { cause, .. } => cause.why(),
            GroupError::Missing { .. } | GroupError::LostRanges { .. } => Reason::Away.into(),
            _ => Why::default(),
        }
    }
}

impl Explains for JournalError {
    fn why(&self) -> Why {
        match self {
            JournalError::Device(cause) => cause.why(),
            _ => Why::default(),
        }
    }
}

impl Explains for NetError {}
impl Explains for VdiskError {}
impl Explains for Unopened {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_cause_and_its_drive_come_from_where_it_arises() {
        let full = DriveError::NoRoom { drive: "/srv/d0".into(), at: 8 };
        let expected = Why { reason: Reason::NoRoom, drive: Some("/srv/d0".into()) };
        let of_block = BlockError::from(full.clone());
        let of_pool = PoolError::Begun { pool: "p".into(), cause: of_block.clone() };
        let of_group = GroupError::Io { group: "g".into(), cause: of_block.clone() };
        let all = [full.why(), of_block.why(), of_pool.why(), of_group.why()];
        assert!(all.iter().all(|why| *why == expected), "{all:?}");
        let pool_full = PoolError::from(BlockError::NoSpace { pool: "p".into() });
        assert_eq!(pool_full.why(), Reason::PoolFull.into());
        // Words alone have no kind, whatever they are.
        assert_eq!(of_block.to_string().why(), Why::default());
    }

    #[test]
    fn an_object_is_named_once_wherever_it_is_named_again() {
        let rows = [
            ("group \"g\"", "group g: drive d0 is too small", "drive d0 is too small"),
            ("group g", "group \"g\": group g: no drive", "no drive"),
            ("group g", "rebuild failed: group g: drive d0: gone", "rebuild failed: drive d0: gone"),
            ("group g", "rebuild failed: group g2: gone", "rebuild failed: group g2: gone"),
            ("group g", "pool of group g", "pool of group g"),
            ("array", "it begins", "it begins"),
        ];
        for (object, text, expected) in rows {
            assert_eq!(named_once(object, text), expected, "{object}: {text}");
        }
    }

    #[test]
    fn a_cause_that_goes_on_keeps_its_kind_unless_the_rest_has_one() {
        let device = || Told::new(Reason::NoRoom, "the journal has no room");
        assert_eq!(device().and(Told::from(&"; retried")).why, Reason::NoRoom.into());
        let advice = Told::new(Reason::JournalAway, "; or give it up");
        assert_eq!(device().and(advice).why, Reason::JournalAway.into());
    }
}
