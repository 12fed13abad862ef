//! Where in a scenario something stands: its line, for messages about what values say together.

use lab_core::toml_text::TomlFileError;

/// The scenario's text and where it came from.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    /// Of the file.
    pub(super) path: &'a str,
    /// Whole.
    pub(super) text: &'a str,
}

/// A table, and which of those of its name, from 0; tables within follow.
pub(super) type Table<'a> = (&'a str, usize);

impl Text<'_> {
    /// An error at a key of a table: "noisy.toml:31: load \"db\": …".
    pub(super) fn wrong(self, tables: &[Table<'_>], key: &str, cause: impl Into<String>) -> TomlFileError {
        let line = self.line_of(tables, key);
        TomlFileError::Syntax { path: self.path.into(), line, cause: cause.into() }
    }

    /// The line of the key, or that of the table where it does not stand by itself; from 1.
    fn line_of(self, tables: &[Table<'_>], key: &str) -> usize {
        let mut lines = self.text.lines().zip(1..).map(|(line, number)| (line.trim(), number)).peekable();
        let mut header = 1;
        for (name, index) in tables {
            let is_header = |line: &str| {
                let own = line.trim_start_matches('[').split(']').next().unwrap_or_default();
                line.starts_with('[') && own.trim() == *name
            };
            let Some((_, number)) = lines.by_ref().filter(|(line, _)| is_header(line)).nth(*index) else {
                break;
            };
            header = number;
        }
        let own = lines.take_while(|(line, _)| !line.starts_with('['));
        let is_key = |line: &str| line.split('=').next().is_some_and(|name| name.trim() == key);
        own.filter(|(line, _)| is_key(line)).map(|(_, number)| number).next().unwrap_or(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_table() {
        let text = "name = \"x\"\n[[array]]\nname = \"a\"\n[[array.group]]\nlevel = 1\n[[array]]\n  [[array.group]] # one\n  level = 5\n[run]\nwindow = 1\n";
        let at = |tables: &[Table<'_>], key: &str| Text { path: "x", text }.line_of(tables, key);
        assert_eq!(at(&[], "name"), 1);
        assert_eq!(at(&[("array", 0)], "name"), 3);
        assert_eq!(at(&[("array", 0), ("array.group", 0)], "level"), 5);
        assert_eq!(at(&[("array", 1), ("array.group", 0)], "level"), 8);
        assert_eq!(at(&[("array", 1)], "cache"), 6, "the table, where the key is missing");
        assert_eq!(at(&[("run", 0)], "window"), 10);
    }
}
