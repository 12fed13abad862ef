//! Text of login and text PDUs: `key=value` pairs, each ended by a zero byte (RFC 7143 6.1).

/// Length limit of a key (6.1).
const KEY_LEN_MAX: usize = 63;
/// Length limit of a simple value (6.1).
const VALUE_LEN_MAX: usize = 255;
/// Length limit of a binary value: 1,024 bytes in hexadecimal, which no value of CHAP, SRP or a name exceeds
/// (6.1, 12.1.3).
const LONG_VALUE_LEN_MAX: usize = 2 + 2 * 1024;

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A pair has no equals sign.
    #[error("malformed text: missing equals sign")]
    NoValue,
    /// Invalid characters, or too long.
    #[error("malformed key")]
    Key,
    /// The value is too long or not text.
    #[error("malformed value of {0}")]
    Value(String),
    /// The last pair has no zero byte.
    #[error("malformed text: must end with a zero byte")]
    NotEnded,
    /// More pairs or bytes than the limit.
    #[error("too much text")]
    TooMuch,
}

/// Limit of pairs in one negotiation sequence: the standard has about 30 keys.
const PAIRS_MAX: usize = 128;
/// Limit of pairs in the response to SendTargets.
pub(crate) const TARGET_PAIRS_MAX: usize = 1 << 16;

/// Splits the text of a negotiation into its pairs.
pub(crate) fn pairs(text: &[u8]) -> Result<Vec<(&str, &str)>, TextError> {
    pairs_at_most(text, PAIRS_MAX)
}

/// Splits a text into at most `pairs_max` pairs.
pub(crate) fn pairs_at_most(text: &[u8], pairs_max: usize) -> Result<Vec<(&str, &str)>, TextError> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.iter().position(|&b| b == 0).ok_or(TextError::NotEnded)?;
        let (pair, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        // Some initiators pad with zero bytes inside the data segment.
        if pair.is_empty() {
            continue;
        }
        if out.len() == pairs_max {
            return Err(TextError::TooMuch);
        }
        out.push(split(pair)?);
    }
    Ok(out)
}

fn split(pair: &[u8]) -> Result<(&str, &str), TextError> {
    let at = pair.iter().position(|&b| b == b'=').ok_or(TextError::NoValue)?;
    let (key, value) = (&pair[..at], &pair[at + 1..]);
    let is_key_byte = |b: &u8| b.is_ascii_alphanumeric() || b"-_.+@#/".contains(b);
    if key.is_empty() || key.len() > KEY_LEN_MAX || !key.iter().all(is_key_byte) {
        return Err(TextError::Key);
    }
    let key = std::str::from_utf8(key).map_err(|_| TextError::Key)?;
    let value = std::str::from_utf8(value).map_err(|_| TextError::Value(key.into()))?;
    let is_binary = value.starts_with("0x")
        || value.starts_with("0X")
        || value.starts_with("0b")
        || value.starts_with("0B");
    if value.len() > if is_binary { LONG_VALUE_LEN_MAX } else { VALUE_LEN_MAX.max(LONG_LIST_LEN) }
        || value.chars().any(char::is_control)
    {
        return Err(TextError::Value(key.into()));
    }
    Ok((key, value))
}

/// Lists of values (authentication methods with vendor names) may be longer than one value.
const LONG_LIST_LEN: usize = 1024;

/// A text being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub Vec<u8>);

impl Text {
    /// Whether the other side would read it completely, with the limits of this crate.
    pub(crate) fn is_bounded(&self) -> bool {
        self.0.iter().filter(|&&byte| byte == 0).count() <= PAIRS_MAX
    }

    /// Appends a pair.
    pub(crate) fn put(&mut self, key: &str, value: &str) {
        for part in [key.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            self.0.extend_from_slice(part);
        }
    }
}

/// A number: decimal or hexadecimal (6.1).
pub(crate) fn number(value: &str) -> Option<u32> {
    let (digits, radix) = match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (value, 10),
    };
    // from_str_radix would accept a sign.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// Binary bytes: hexadecimal or base64 (6.1), at most `len_max` of them.
pub(crate) fn binary(value: &str, len_max: usize) -> Option<Vec<u8>> {
    use base64::Engine;
    let (prefix, digits) = value.split_at_checked(2)?;
    let bytes = match prefix {
        "0x" | "0X" if digits.len() <= 2 * len_max => unhex(digits)?,
        "0b" | "0B" if digits.len() <= 2 * len_max => base64::prelude::BASE64_STANDARD.decode(digits).ok()?,
        _ => return None,
    };
    (!bytes.is_empty() && bytes.len() <= len_max).then_some(bytes)
}

/// An odd number of digits gets a leading zero (6.1 allows encoding as a number).
fn unhex(digits: &str) -> Option<Vec<u8>> {
    let values = digits.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<Vec<u8>>>()?;
    let (first, rest) = values.split_at(values.len() % 2);
    Some(first.iter().copied().chain(rest.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1])).collect())
}

/// Bytes as hexadecimal with its prefix.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 + 2 * bytes.len());
    out.push_str("0x");
    for b in bytes {
        for nibble in [b >> 4, b & 15] {
            out.push(char::from_digit(nibble.into(), 16).expect("a nibble is a digit"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_and_bad_ones_refused() {
        assert_eq!(pairs(b"A=1\0B=2,3\0\0\0"), Ok(vec![("A", "1"), ("B", "2,3")]));
        assert_eq!(pairs(b"A=a=b\0"), Ok(vec![("A", "a=b")]));
        assert_eq!(pairs(b"A=1"), Err(TextError::NotEnded));
        assert_eq!(pairs(b"A\0"), Err(TextError::NoValue));
        assert_eq!(pairs(b"=1\0"), Err(TextError::Key));
        assert_eq!(pairs(b"A B=1\0"), Err(TextError::Key));
        assert_eq!(pairs(b"A=\xff\0"), Err(TextError::Value("A".into())));
        assert_eq!(pairs(&b"A=1\0".repeat(PAIRS_MAX + 1)), Err(TextError::TooMuch));
    }

    #[test]
    fn numbers_and_bytes() {
        assert_eq!(number("262144"), Some(262_144));
        assert_eq!(number("0x10"), Some(16));
        for bad in ["", "-1", "+1", "0x", "4294967296", "12a", "1 "] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
        assert_eq!(binary("0x0aFF", 4), Some(vec![10, 255]));
        assert_eq!(binary("0xabc", 4), Some(vec![10, 0xbc]));
        assert_eq!(binary("0bAQID", 4), Some(vec![1, 2, 3]));
        for bad in ["", "0", "0x", "0xzz", "0b%", "12", "0x0102030405", "\u{e9}x"] {
            assert_eq!(binary(bad, 4), None, "{bad:?}");
        }
        assert_eq!(hex(&[0, 0xa5]), "0x00a5");
    }

    #[test]
    fn random_text_never_panics() {
        let mut rng = fastrand::Rng::with_seed(1);
        let alphabet = b"Aa0x=b,\0\0-_. \xc3\xa9\xff";
        for _ in 0..100_000 {
            let text: Vec<u8> = (0..rng.usize(..40)).map(|_| alphabet[rng.usize(..alphabet.len())]).collect();
            if let Ok(pairs) = pairs(&text) {
                for (_, value) in pairs {
                    let _ = (number(value), binary(value, 16));
                }
            }
        }
    }
}
