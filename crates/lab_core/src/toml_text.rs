//! TOML that people write: where it does not read, the line and the cause; and the same text with other
//! values.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a text is not the TOML that is wanted.
pub struct Misread {
    /// From 1.
    pub line: usize,
    /// What is wrong, on one line.
    pub cause: String,
}

/// Why a file of a person's is refused: a scenario, a drive file.
#[derive(Debug, thiserror::Error)]
pub enum TomlFileError {
    /// It cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// The error of the operating system.
        cause: String,
    },
    /// Invalid TOML, or a misspelt or missing key.
    #[error("{path}:{line}: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    /// A value that makes no sense.
    #[error("{path}: {cause}")]
    Value {
        /// The file.
        path: String,
        /// What is wrong, and what it must be.
        cause: String,
    },
}

impl Misread {
    /// The same of the file that the text is from.
    pub fn of(self, path: &str) -> TomlFileError {
        TomlFileError::Syntax { path: path.into(), line: self.line, cause: self.cause }
    }
}

/// Reads a text.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Misread> {
    toml::from_str(text).map_err(|e| misread(text, &e))
}

fn misread(text: &str, error: &toml::de::Error) -> Misread {
    let span = error.span().unwrap_or_default();
    let cause = match (error.message(), text.get(span.clone())) {
        // Of a number where a name is wanted: it says neither what stands there nor what must.
        ("wanted string or table", Some(written)) if !written.is_empty() => {
            format!("invalid value {written}: must be a name in quotes")
        }
        (message, _) => units::in_words_of_toml(message),
    };
    Misread { line: line(text, span.start), cause }
}

/// The line of a byte of the text, from 1.
pub fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

/// A text that was read, and where each of its values stands.
pub struct Places<'a> {
    text: &'a str,
    root: DeTable<'a>,
}

impl<'a> Places<'a> {
    /// Reads a text.
    pub fn of(text: &'a str) -> Result<Places<'a>, Misread> {
        let root = DeTable::parse(text).map_err(|e| misread(text, &e))?;
        Ok(Places { text, root: root.into_inner() })
    }

    /// The value of a path: "array.cache", "array.0.cache" of an array of tables.
    pub fn value(&self, path: &str) -> Option<&Spanned<DeValue<'a>>> {
        let mut parts = path.split('.');
        let mut at = self.root.get(parts.next()?)?;
        for part in parts {
            at = match part.parse::<usize>() {
                Ok(index) => at.get_ref().get(index)?,
                Err(_) => at.get_ref().get(part)?,
            };
        }
        Some(at)
    }

    /// The text of a value, as it stands there.
    pub fn written(&self, value: &Spanned<DeValue<'_>>) -> &'a str {
        &self.text[value.span()]
    }

    /// Gives every value with its path, as [`Places::value`] takes it.
    pub fn each(&self, give: &mut dyn FnMut(&str, &Spanned<DeValue<'a>>)) {
        self.root.iter().for_each(|(key, value)| each(key.get_ref(), value, give));
    }

    /// The first value that says nothing: a name or an id without a character, or a text that stands in a
    /// list twice. What a list may have twice is in `lists`.
    pub fn check_said(&self, lists: &[&str]) -> Result<(), Misread> {
        let at = |(at, cause): (usize, String)| Misread { line: line(self.text, at), cause };
        self.root.iter().try_for_each(|(key, value)| said(key.get_ref(), value, lists)).map_err(at)
    }

    /// The text with other values, as TOML, at paths that exist; a path that does not is left out.
    pub fn with(&self, values: &[(&str, &str)]) -> String {
        let mut all: Vec<(Range<usize>, &str)> =
            values.iter().filter_map(|(path, new)| Some((self.value(path)?.span(), *new))).collect();
        all.sort_by_key(|(span, _)| span.start);
        let mut text = self.text.to_owned();
        all.into_iter().rev().for_each(|(span, new)| text.replace_range(span, new));
        text
    }

    /// The text with blanks instead of these keys and tables, so that every other line stays where it is.
    pub fn without(&self, keys: &[&str]) -> String {
        let mut spans = Vec::new();
        for (key, value) in self.root.iter().filter(|(key, _)| keys.contains(&key.get_ref().as_ref())) {
            whole(key.span(), value, &mut spans);
        }
        let mut bytes = self.text.as_bytes().to_vec();
        for at in spans.into_iter().flatten().filter(|at| self.text.as_bytes()[*at] != b'\n') {
            bytes[at] = b' ';
        }
        // Spans begin and end between characters.
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn each<'a>(path: &str, value: &Spanned<DeValue<'a>>, give: &mut dyn FnMut(&str, &Spanned<DeValue<'a>>)) {
    give(path, value);
    match value.get_ref() {
        DeValue::Table(table) => {
            table.iter().for_each(|(key, value)| each(&format!("{path}.{}", key.get_ref()), value, give));
        }
        DeValue::Array(array) => {
            array.iter().enumerate().for_each(|(n, item)| each(&format!("{path}.{n}"), item, give));
        }
        _ => {}
    }
}

/// See [`Places::check_said`]; gives the byte and the cause.
fn said(key: &str, value: &Spanned<DeValue<'_>>, lists: &[&str]) -> Result<(), (usize, String)> {
    match value.get_ref() {
        DeValue::String(text) if ["name", "id"].contains(&key) && text.trim().is_empty() => {
            Err((value.span().start, format!("empty {key}: must have at least one character")))
        }
        DeValue::Table(table) => table.iter().try_for_each(|(key, value)| said(key.get_ref(), value, lists)),
        DeValue::Array(array) => {
            let mut before = BTreeSet::new();
            for item in array.iter() {
                said(key, item, lists)?;
                let text = item.get_ref().as_str().filter(|_| !lists.contains(&key));
                if let Some(text) = text.filter(|text| !before.insert(*text)) {
                    let cause = format!("invalid {key}: {text:?} stands here twice; remove one of them");
                    return Err((item.span().start, cause));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Where a key and all of its value stand: a header, or `key = value`, and what is below it.
fn whole(key: Range<usize>, value: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    let own = value.span();
    spans.push(key.start.min(own.start)..key.end.max(own.end));
    match value.get_ref() {
        DeValue::Table(table) => {
            table.iter().for_each(|(key, value)| whole(key.span(), value, spans));
        }
        DeValue::Array(array) => array.iter().for_each(|item| whole(item.span(), item, spans)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"a\"\nlist = [\n  \"1\", # ü\n]\n[array]\ncache = \"4GiB\" # published\nread = { each = \"1MiB\" }\n\
        [[drive]]\nn = 1\n[[drive]]\nn = 2\n";

    #[test]
    fn values_are_replaced_where_they_stand() {
        let places = Places::of(TEXT).ok().expect("TOML");
        assert_eq!(places.value("drive.1.n").map(|v| places.written(v)), Some("2"));
        assert!(places.value("array.nothing").is_none() && places.value("array.cache.0").is_none());
        let with = places.with(&[
            ("drive.1.n", "30"),
            ("array.cache", "\"1GiB\""),
            ("array.read.each", "\"64KiB\""),
        ]);
        let expected = TEXT.replace("4GiB", "1GiB").replace("n = 2", "n = 30").replace("1MiB", "64KiB");
        assert_eq!(with, expected);
    }

    /// `pull = ["d3", "d3"]`, a figure twice, a claim with the id "": all were taken without a word.
    #[test]
    fn what_is_empty_or_stands_twice_is_refused_with_its_line() {
        let said = |text: &str| {
            let places = Places::of(text).ok().expect("TOML");
            places.check_said(&["access"]).err().map(|wrong| (wrong.line, wrong.cause))
        };
        let twice = |line, key: &str, text: &str| {
            (line, format!("invalid {key}: {text:?} stands here twice; remove one of them"))
        };
        for (text, expected) in [
            ("pull = [\"d3\", \"d4\"]\nn = [1, 1]\n", None),
            ("access = [\"a\", \"a\"]\nother = \"\"\n", None),
            ("a = 1\npull = [\"d3\",\n\"d3\"]\n", Some(twice(3, "pull", "d3"))),
            ("[[a]]\nb = [{ c = [\"x\", \"y\", \"x\"] }]\n", Some(twice(2, "c", "x"))),
            ("[[claim]]\nid = \"\"\n", Some((2, "empty id: must have at least one character".into()))),
            ("\nname = \" \\t\"\n", Some((2, "empty name: must have at least one character".into()))),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_left_out_keeps_every_other_line_in_its_place() {
        let places = Places::of(TEXT).ok().expect("TOML");
        let without = places.without(&["list", "drive"]);
        assert!(without.lines().count() == TEXT.lines().count() && !without.contains("drive"), "{without}");
        let rest = Places::of(&without).ok().expect("still TOML");
        assert!(rest.value("array.read.each").is_some() && rest.value("list").is_none());
        assert_eq!(line(&without, without.find("cache").expect("kept")), 6);
    }
}
