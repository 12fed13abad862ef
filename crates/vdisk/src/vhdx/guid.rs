//! GUIDs as this format stores them: three little-endian numbers and eight bytes.

use std::fmt;

/// A GUID, in its bytes on disk.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// None.
    pub const ZERO: Guid = Guid([0; 16]);

    /// From its four parts as they are written in text.
    pub(super) const fn of(a: u32, b: u16, c: u16, rest: [u8; 8]) -> Guid {
        let (a, b, c) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
        let r = rest;
        Guid([a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]])
    }

    /// From text, with or without braces.
    pub(super) fn parse(text: &str) -> Option<Guid> {
        let digits: String = text.chars().filter(|c| !matches!(c, '{' | '}' | '-')).collect();
        if digits.len() != 32 || !digits.is_ascii() {
            return None;
        }
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        Some(Guid(bytes))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = &self.0;
        write!(
            f,
            "{:02x}{:02x}{:02x}{:02x}-{:02x}{:02x}-{:02x}{:02x}-",
            b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6]
        )?;
        write!(f, "{:02x}{:02x}-", b[8], b[9])?;
        b[10..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_agree() {
        let guid = Guid::of(0x2dc2_7766, 0xf623, 0x4200, [0x9d, 0x64, 0x11, 0x5e, 0x9b, 0xfd, 0x4a, 0x08]);
        assert_eq!(guid.to_string(), "2dc27766-f623-4200-9d64-115e9bfd4a08");
        assert_eq!(Guid::parse("{2DC27766-F623-4200-9D64-115E9BFD4A08}"), Some(guid));
        assert_eq!(Guid::parse("2dc27766"), None);
    }
}
