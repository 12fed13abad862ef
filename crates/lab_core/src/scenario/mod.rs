//! Scenario files: built in or replaced, read, and refused with one line that names the place.

pub mod extremes;
pub mod frame;
pub mod range;

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::checks::Checks;
use crate::claim::Claims;
use crate::toml_text::{self, Places, TomlFileError};

use frame::Frame;

/// Lists in which a text may stand twice: two shares of a load may be alike.
const MAY_REPEAT: [&str; 1] = ["access"];

/// The scenario of a verification: built in, unless a file replaces it.
pub trait ScenarioFile: DeserializeOwned {
    /// The text of the built-in one, and where it is in the repository.
    const BUILT_IN: (&'static str, &'static str);
    /// Everything that a claim can ask for.
    const MEASURES: &'static [&'static str];

    /// What is claimed.
    fn claims(&self) -> &Claims;

    /// What its values must be.
    fn check(&self, checks: &mut Checks);

    /// It, if its values make sense; `path` is for messages.
    ///
    /// # Errors
    ///
    /// The first value that does not, or a claim that nothing is measured for.
    fn checked(self, path: &str) -> Result<Self, TomlFileError> {
        let mut checks = Checks::default();
        self.check(&mut checks);
        match checks.fault().or_else(|| self.claims().fault(Self::MEASURES)) {
            Some(cause) => Err(TomlFileError::Value { path: path.into(), cause }),
            None => Ok(self),
        }
    }

    /// One from its text.
    ///
    /// # Errors
    ///
    /// Where it does not read, or a value makes no sense.
    fn parse(text: &str, path: &str) -> Result<Self, TomlFileError> {
        parse::<Self>(text, path)?.checked(path)
    }

    /// The built-in one, or the file that replaces it, and its text.
    ///
    /// # Errors
    ///
    /// As `parse`, and where the file cannot be read.
    fn load(path: Option<&Path>) -> Result<(Self, String), TomlFileError> {
        let (text, path) = text_of(path, Self::BUILT_IN)?;
        Ok((Self::parse(&text, &path)?, text))
    }
}

/// The text of a scenario, and its path for messages: the file's, or the built-in one's.
pub fn text_of(file: Option<&Path>, (text, path): (&str, &str)) -> Result<(String, String), TomlFileError> {
    let Some(file) = file else { return Ok((text.into(), path.into())) };
    let path = file.display().to_string();
    match crate::text_file::read(file) {
        Ok(text) => Ok((text, path)),
        Err(e) => Err(TomlFileError::Read { path, cause: e.to_string() }),
    }
}

/// What the text of a scenario says to its verification; `path` is for messages. What it says beside that is
/// checked.
///
/// # Errors
///
/// Where it does not read, with its line.
pub fn parse<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, TomlFileError> {
    Frame::read(text, path)?;
    let own = Frame::without(text).and_then(|own| toml_text::read(&own));
    let own = own.and_then(|own| Places::of(text)?.check_said(&MAY_REPEAT).map(|()| own));
    own.map_err(|misread| misread.of(path))
}
