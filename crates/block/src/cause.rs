//! Why an operation failed: in words for people, and which drive it was for who acts on it.

use std::fmt;

use world::DriveError;

/// The cause of an error: a sentence, and the drive that is to blame where it was one drive. The name of the
/// drive is in the sentence, too, but nobody has to look for it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    text: Box<str>,
    drive: Option<Box<str>>,
}

impl Cause {
    /// A cause for which the drive of this name is to blame, as [`world::DriveInfo`] has it.
    pub fn of_drive(drive: Option<&str>, text: impl Into<String>) -> Cause {
        Cause { text: text.into().into(), drive: drive.map(Into::into) }
    }

    /// The drive that is to blame; none: not known, or not one drive.
    pub fn drive(&self) -> Option<&str> {
        self.drive.as_deref()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Cause {
        Cause { text: text.into(), drive: None }
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Cause {
        Cause { text: text.into(), drive: None }
    }
}

impl From<&DriveError> for Cause {
    fn from(error: &DriveError) -> Cause {
        Cause::of_drive(Some(error.drive()), error.to_string())
    }
}
