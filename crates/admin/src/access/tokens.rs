//! Named tokens: what is kept of them is their hash, in `array.tokens.toml` of the data directory.
//!
//! A token is `masu_` and 64 hexadecimal digits: 256 random bits, so a plain SHA-256 is enough to keep it by.

use config::{NAME_LEN_MAX, new_name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::roles::Role;
use crate::digest::{hex, sha256};
use crate::store::{Store, StoreError};

/// The most tokens of an array.
const TOKENS_MAX: usize = 256;
/// What each begins with, so that it is recognised where it should not be.
const PREFIX: &str = "masu_";
/// The longest life: ten years of 365 days.
pub(super) const LIFE_S_MAX: u64 = 10 * 365 * 86_400;
/// The shortest token that a person may choose (`--api-token`).
const GIVEN_LEN_MIN: usize = 16;
/// What this version writes.
const FORMAT: u32 = 1;
const HEAD: &str = "# Tokens of the API: their hashes. Kept by masu: change them with `masu token create` and `masu token delete`.\n";

/// Why tokens cannot be read, made or deleted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Not a name.
    #[error("{0}")]
    Name(String),
    /// There is one of this name.
    #[error("token {0:?} is there already")]
    Taken(String),
    /// There is none of this name.
    #[error("unknown token {0:?}")]
    Unknown(String),
    /// The array has as many as it may have.
    #[error(
        "{TOKENS_MAX} tokens are there already, the most that an array keeps: delete those that nobody uses"
    )]
    TooMany,
    /// It would live too long, or not at all.
    #[error("invalid lifetime {0} s: must be 1 to {LIFE_S_MAX} s (ten years)")]
    Life(u64),
    /// The token of a person is no protection.
    #[error("invalid --api-token: it has {0} characters; give at least {GIVEN_LEN_MIN}")]
    Weak(usize),
    /// What is kept is not what this version writes.
    #[error("{path}: {cause}; move it away to start without named tokens")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// They cannot be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system has no random bytes.
    #[error(transparent)]
    Random(std::io::Error),
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    pub(super) name: String,
    pub(super) role: Role,
    /// In hexadecimal digits.
    sha256: String,
    /// Milliseconds since 1970.
    pub(super) created_ms: u64,
    /// None: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_ms: Option<u64>,
}

/// The file. A newer version may say more of a token, which this one would not heed: it is refused.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    format: u32,
    #[serde(default, rename = "token")]
    tokens: Vec<Token>,
}

/// A token as it is shown: without what proves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShownToken {
    /// Unique among tokens.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// From when it is refused, in milliseconds since 1970; none: it does not expire.
    pub expires_ms: Option<u64>,
    /// When it was used last since this process began to serve, in milliseconds since 1970.
    pub last_used_ms: Option<u64>,
    /// `valid` or `expired`.
    pub state: String,
}

/// A token that was made: the only time that it is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// Unique among tokens.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// From when it is refused, in milliseconds since 1970; none: it does not expire.
    pub expires_ms: Option<u64>,
    /// What `Authorization: Bearer` carries.
    pub token: String,
}

/// Whose token it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// That of `--api-token`: a person has chosen it.
    Given,
    Named(&'a Token),
    Expired(&'a Token),
    Unknown,
}

/// All tokens of an array.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    given: Option<String>,
    all: Vec<Token>,
}

impl Tokens {
    /// Those that are kept, and the one that the daemon was given.
    ///
    /// # Errors
    /// The file cannot be read, or the given token is too short.
    pub fn open(store: &Store, given: Option<&str>) -> Result<Tokens, TokenError> {
        Tokens::check_given(given)?;
        let all = match store.text(Store::TOKENS)? {
            Some(text) => read(&text).map_err(|cause| TokenError::File {
                path: store.dir().join(Store::TOKENS).display().to_string(),
                cause,
            })?,
            None => vec![],
        };
        Ok(Tokens { given: given.map(|token| sha256(token.as_bytes())), all })
    }

    /// Refuses a token that can be guessed.
    ///
    /// # Errors
    /// It is too short.
    pub fn check_given(given: Option<&str>) -> Result<(), TokenError> {
        match given.map(|token| token.chars().count()) {
            Some(len) if len < GIVEN_LEN_MIN => Err(TokenError::Weak(len)),
            _ => Ok(()),
        }
    }

    pub(super) fn all(&self) -> &[Token] {
        &self.all
    }

    pub(super) fn find(&self, token: &str, now_ms: u64) -> Found<'_> {
        let hash = sha256(token.as_bytes());
        let named = self.all.iter().find(|token| same(token.sha256.as_bytes(), hash.as_bytes()));
        match named {
            Some(token) if token.is_expired(now_ms) => Found::Expired(token),
            Some(token) => Found::Named(token),
            None if self.given.as_ref().is_some_and(|given| same(given.as_bytes(), hash.as_bytes())) => {
                Found::Given
            }
            None => Found::Unknown,
        }
    }

    /// A new one, of these random bytes; gives what its owner has to send.
    pub(super) fn create(
        &mut self,
        (name, role): (&str, Role),
        (life_s, now_ms): (Option<u64>, u64),
        secret: [u8; 32],
    ) -> Result<CreatedToken, TokenError> {
        let own = name.to_owned();
        new_name(&own, NAME_LEN_MAX).map_err(|e| TokenError::Name(format!("token {own:?}: {e}")))?;
        if self.all.iter().any(|token| token.name == name) {
            return Err(TokenError::Taken(own));
        }
        if self.all.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        if let Some(life) = life_s.filter(|life| !(1..=LIFE_S_MAX).contains(life)) {
            return Err(TokenError::Life(life));
        }
        let token = format!("{PREFIX}{}", hex(&secret));
        let expires_ms = life_s.map(|life| now_ms + life * 1000);
        let kept = Token {
            name: own.clone(),
            role,
            sha256: sha256(token.as_bytes()),
            created_ms: now_ms,
            expires_ms,
        };
        self.all.push(kept);
        Ok(CreatedToken { name: own, role, expires_ms, token })
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<(), TokenError> {
        let at = self.all.iter().position(|token| token.name == name);
        self.all.remove(at.ok_or_else(|| TokenError::Unknown(name.into()))?);
        Ok(())
    }

    pub(super) fn keep(&self, store: &Store) -> Result<(), TokenError> {
        let kept = Kept { format: FORMAT, tokens: self.all.clone() };
        let failed = |e: toml::ser::Error| TokenError::File {
            path: store.dir().join(Store::TOKENS).display().to_string(),
            cause: e.to_string(),
        };
        let text = toml::to_string(&kept).map_err(failed)?;
        Ok(store.keep_tokens(&format!("{HEAD}{text}"))?)
    }
}

impl Token {
    pub(super) fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }
}

fn read(text: &str) -> Result<Vec<Token>, String> {
    let kept: Kept = toml::from_str(text).map_err(|e| units::in_words_of_toml(e.message()))?;
    match kept.format {
        FORMAT => Ok(kept.tokens),
        newer => Err(format!("written by a newer masu (format {newer}, this one reads {FORMAT})")),
    }
}

/// Compares in a time that does not tell where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        (dir, store)
    }

    #[test]
    fn a_token_is_found_after_a_restart_until_it_expires_or_is_deleted() {
        let (dir, store) = store();
        let mut tokens = Tokens::open(&store, None).expect("none yet");
        let made = tokens.create(("grafana", Role::Viewer), (Some(60), 1_000), [7; 32]).expect("made");
        assert!(made.token.starts_with("masu_0707") && made.token.len() == 5 + 64, "{}", made.token);
        tokens.keep(&store).expect("kept");
        let text = std::fs::read_to_string(dir.path().join(Store::TOKENS)).expect("the file");
        assert!(!text.contains(&made.token[5..]), "the token itself is not kept");
        let mut again = Tokens::open(&store, None).expect("read");
        assert!(matches!(again.find(&made.token, 60_999), Found::Named(t) if t.name == "grafana"));
        assert!(matches!(again.find(&made.token, 61_000), Found::Expired(_)));
        assert_eq!(again.find("masu_", 1_000), Found::Unknown);
        again.delete("grafana").expect("it is there");
        assert_eq!(again.find(&made.token, 1_000), Found::Unknown);
        assert!(matches!(again.delete("grafana"), Err(TokenError::Unknown(_))));
    }

    #[test]
    fn what_makes_no_token_is_refused() {
        let mut tokens = Tokens::default();
        let mut make = |name: &str, life| tokens.create((name, Role::Admin), (life, 0), [1; 32]).map(|_| ());
        assert_eq!(make("a", None).ok(), Some(()));
        assert!(matches!(make("a", None), Err(TokenError::Taken(_))));
        for name in ["", "a b", &"n".repeat(65)] {
            assert!(matches!(make(name, None), Err(TokenError::Name(_))), "{name:?}");
        }
        for life in [0, LIFE_S_MAX + 1, u64::MAX] {
            assert!(matches!(make("b", Some(life)), Err(TokenError::Life(_))), "{life}");
        }
        for number in 1..TOKENS_MAX {
            assert_eq!(make(&number.to_string(), Some(LIFE_S_MAX)).ok(), Some(()));
        }
        assert!(matches!(make("one-more", None), Err(TokenError::TooMany)));
    }

    #[test]
    fn a_damaged_or_newer_file_is_refused_and_named() {
        let (dir, store) = store();
        for text in
            ["format = 2\n", "nonsense", "format = 1\n[[token]]\nname = \"a\"\n", "format = 1\nx = 1\n"]
        {
            std::fs::write(dir.path().join(Store::TOKENS), text).expect("written");
            let said = Tokens::open(&store, None).expect_err("refused").to_string();
            assert!(said.contains(Store::TOKENS) && said.contains("move it away"), "{said}");
        }
    }

    #[test]
    fn the_given_token_is_an_admin_of_no_name_and_not_short() {
        let (_dir, store) = store();
        let tokens = Tokens::open(&store, Some("sixteen-letters-")).expect("long enough");
        assert_eq!(tokens.find("sixteen-letters-", 0), Found::Given);
        assert_eq!(tokens.find("sixteen-letters+", 0), Found::Unknown);
        assert!(matches!(Tokens::open(&store, Some("short")), Err(TokenError::Weak(5))));
    }
}
