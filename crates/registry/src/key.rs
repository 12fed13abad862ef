//! The names of values.

use crate::RegistryError;

/// The longest key, so that it is also a file name.
pub const KEY_LEN_MAX: usize = 200;

/// A name such as `nodes/n1/demand`: letters, digits, `.`, `-` and `_`, in parts that `/` separates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// # Errors
    /// [`RegistryError::Key`] says what is wrong with it.
    pub fn new(name: &str) -> Result<Key, RegistryError> {
        let fault = |cause| Err(RegistryError::Key { key: name.chars().take(KEY_LEN_MAX).collect(), cause });
        if name.len() > KEY_LEN_MAX {
            return fault("must have at most 200 characters");
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || ".-_/".contains(c);
        if !name.chars().all(fits) {
            return fault("must be letters, digits, and . - _ /");
        }
        if name.split('/').any(str::is_empty) {
            return fault("a part between two / must not be empty");
        }
        // As file names they are directories.
        if name.split('/').any(|part| part == "." || part == "..") {
            return fault("a part must not be . or ..");
        }
        Ok(Key(name.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As a file name.
    pub(crate) fn file_name(&self) -> String {
        self.0.replace('/', "%")
    }

    /// From a file name; none: it is not a key's.
    pub(crate) fn of_file_name(name: &str) -> Option<Key> {
        (!name.contains('/')).then(|| Key::new(&name.replace('%', "/")).ok()).flatten()
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_checked_and_are_file_names() {
        let key = Key::new("nodes/n-1/demand").expect("a key");
        assert_eq!(Key::of_file_name(&key.file_name()), Some(key));
        let long = "a".repeat(KEY_LEN_MAX + 1);
        for bad in ["", "/", ".", "..", "a/..", "a//b", "a/", "a b", "a%b", "ä", long.as_str()] {
            assert!(Key::new(bad).is_err(), "{bad}");
        }
    }
}
