//! The one reader and writer of `array.toml`, and of the state that an array keeps of itself.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use world::DriveSpec;

use crate::{Config, ConfigError, Made, read_small_text};

/// What is wrong with a declaration, with file, line and key.
#[derive(Debug, thiserror::Error)]
pub enum DeclarationError {
    /// The file cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// The text is no such TOML.
    #[error("{path}:{place}: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// Line and column.
        place: Place,
        /// What is wrong.
        cause: String,
    },
    /// The declaration does not hold together.
    #[error("{place}: {cause}")]
    Wrong {
        /// The file, with line and column of the object where there is one.
        place: String,
        /// What is wrong and where.
        cause: ConfigError,
    },
}

/// A place in a text: line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl Place {
    /// The place of a byte of a text; at its end, the last line.
    fn of_byte(text: &str, at: usize) -> Place {
        let before = text.get(..at.min(text.len())).unwrap_or(text);
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let lines = text.lines().count().max(1);
        match line > lines {
            true => Place { line: lines, column: 1 },
            false => Place { line, column: before[begin..].chars().count() + 1 },
        }
    }
}

/// The longest declaration: a million volumes. `/dev/zero` has no end.
const BYTES_MAX: u64 = 64 << 20;

/// What the state has beside the declaration.
#[derive(Deserialize, Serialize)]
struct WithMade {
    made: Option<Made>,
}

impl Config {
    /// Reads a file. Relative drive files are taken from `data_dir`.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn read(path: &Path, data_dir: &Path) -> Result<Config, DeclarationError> {
        let shown = path.display().to_string();
        let text = read_small_text(path, BYTES_MAX)
            .map_err(|e| DeclarationError::Read { path: shown.clone(), cause: e.to_string() })?;
        Config::parse(&text, &shown, data_dir)
    }

    /// Reads a text; `path` is how it is called in messages.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn parse(text: &str, path: &str, data_dir: &Path) -> Result<Config, DeclarationError> {
        let mut config: Config = toml::from_str(text).map_err(|e| refused(text, path, &e))?;
        config.complete(data_dir);
        config.check().map_err(|cause| wrong(text, path, cause))?;
        Ok(config)
    }

    /// Reads the state of an array: its declaration, and what it has made, unless an older masu kept it.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn parse_state(
        text: &str,
        path: &str,
        data_dir: &Path,
    ) -> Result<(Config, Option<Made>), DeclarationError> {
        let kept: WithMade = toml::from_str(text).map_err(|e| refused(text, path, &e))?;
        let config = Config::parse(&without_made(text), path, data_dir)?;
        Ok((config, kept.made))
    }

    /// The declaration as TOML.
    pub fn to_text(&self) -> String {
        toml::to_string_pretty(self).expect("a declaration has only plain values")
    }

    /// The state of an array as TOML: its declaration, and what it has made. Paths below `data_dir` are
    /// relative to it, so that a directory which is moved or copied has its own drives.
    pub fn to_state_text(&self, made: &Made, data_dir: &Path) -> String {
        let made = WithMade { made: Some(made.clone()) };
        self.relative_to(data_dir).to_text()
            + "\n"
            + &toml::to_string_pretty(&made).expect("names are plain values")
    }

    /// The declaration with its paths as [`Config::complete`] takes them.
    fn relative_to(&self, data_dir: &Path) -> Config {
        let mut config = self.clone();
        let shorten = |path: &mut PathBuf| {
            if let Ok(below) = path.strip_prefix(data_dir)
                && !below.as_os_str().is_empty()
            {
                *path = below.to_owned();
            }
        };
        for drive in &mut config.drives {
            if let DriveSpec::File { path, .. } = &mut drive.spec {
                shorten(path);
            }
        }
        for image in &mut config.images {
            if let DriveSpec::Image { path, .. } = &mut image.spec {
                shorten(path);
            }
            image.parents_in.iter_mut().for_each(shorten);
        }
        config
    }

    /// Completes what was read: paths are relative to `data_dir`, and some values follow from others.
    fn complete(&mut self, data_dir: &Path) {
        for drive in &mut self.drives {
            match &mut drive.spec {
                DriveSpec::File { path, .. } => *path = data_dir.join(&path),
                DriveSpec::Rbd(image) => image.conf = image.conf.take().map(|path| data_dir.join(path)),
                _ => {}
            }
        }
        self.traces.iter_mut().for_each(|traces| traces.complete(data_dir));
        self.images.iter_mut().for_each(|image| image.complete(data_dir));
        self.groups.iter_mut().for_each(crate::GroupConfig::complete);
        self.pools.iter_mut().for_each(crate::PoolConfig::complete);
    }
}

/// Where a file declares what a place names, as in `array.toml:12:1`; the file alone where it does not, or is
/// gone.
pub fn place_in(path: &Path, place: &str) -> String {
    let found = std::fs::read_to_string(path).ok().and_then(|text| find(&text, place));
    found.map_or(path.display().to_string(), |found| format!("{}:{found}", path.display()))
}

/// Why a text is no declaration. Where the cause names an object, the place is that of the object.
fn refused(text: &str, path: &str, error: &toml::de::Error) -> DeclarationError {
    let cause = units::in_words_of_toml(error.message());
    if cause.starts_with("unknown key `made`") && find(text, "made").is_some() {
        let cause = "masu keeps this table by itself: remove it from the declaration";
        return wrong(text, path, ConfigError { place: "made".into(), cause: cause.into() });
    }
    let spot = || Place::of_byte(text, error.span().map_or(0, |span| span.start));
    let place = find(text, &cause).unwrap_or_else(spot);
    DeclarationError::Syntax { path: path.into(), place, cause }
}

fn wrong(text: &str, path: &str, cause: ConfigError) -> DeclarationError {
    let found = find(text, &cause.place).map_or(String::new(), |found| format!(":{found}"));
    DeclarationError::Wrong { place: format!("{path}{found}"), cause }
}

/// A state with empty lines in the place of the tables that masu keeps by itself.
fn without_made(text: &str) -> String {
    let mut inside = false;
    let lines = text.lines().map(|line| {
        if line.starts_with('[') {
            inside = line.starts_with("[made]") || line.starts_with("[made.");
        }
        if inside { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Where the object or key is that a place names: `group "g0": drives` is where `[[group]]` has the name g0.
fn find(text: &str, place: &str) -> Option<Place> {
    let (kind, rest) = place.split_once(' ').unwrap_or((place, ""));
    let kind = kind.trim_end_matches(':');
    let name = rest.split('"').nth(1);
    let mut table = "";
    for (line, whole) in (1..).zip(text.lines()) {
        let content = whole.trim();
        if content.starts_with('[') {
            // A partition is a `[[cache.partition]]`.
            table = content.trim_matches(['[', ']']).rsplit('.').next().unwrap_or_default();
            continue;
        }
        let Some((key, value)) = content.split_once('=') else { continue };
        let found = match name {
            Some(name) => table == kind && key.trim() == "name" && value.split('"').nth(1) == Some(name),
            None => table == kind || table.is_empty() && key.trim() == kind,
        };
        // A spare is a name in a list of the top level.
        let spare = kind == "spare" && table.is_empty() && key.trim() == "spares";
        if found || spare {
            let indent = whole.chars().take_while(|c| c.is_whitespace()).count();
            return Some(Place { line, column: indent + 1 });
        }
    }
    None
}
