//! Limits of the fields of records. Values of the registry are input: fields are checked where they are
//! decoded, and a record with one beyond its limit is damaged, like one that is no table. So no other code
//! has to expect it. A lease is the registry's own number: any is one.

use serde::de::{Deserialize, Deserializer, Error};

/// The highest epoch. Labels of drives, and arithmetic, have room for more.
pub const EPOCH_MAX: u64 = 1 << 48;
/// The highest epoch that a person may ask for. Owners count on from it: an array that has a new owner each
/// second goes on for 136 years.
pub const RAISED_EPOCH_MAX: u64 = EPOCH_MAX - (1 << 32);
const _: () = assert!(RAISED_EPOCH_MAX < EPOCH_MAX && EPOCH_MAX < 1 << 62);

/// Portals of a node.
pub const PORTALS_MAX: usize = 64;
/// As many nodes have portal group tags of their own, of which there are 65,535.
pub const NUMBERS_MAX: u16 = u16::MAX / PORTALS_MAX as u16;

/// The longest name of a node.
const NAME_LEN_MAX: usize = 128;
/// The end of the year 9999.
const TIME_MS_MAX: u64 = 253_402_300_799_999;

fn at_most<'de, D: Deserializer<'de>>(from: D, what: &str, max: u64) -> Result<u64, D::Error> {
    match u64::deserialize(from)? {
        found if found > max => Err(D::Error::custom(format!("{what} {found}: must be at most {max}"))),
        found => Ok(found),
    }
}

pub(crate) fn epoch<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    at_most(from, "epoch", EPOCH_MAX)
}

/// A point in time, or a duration.
pub(crate) fn time_ms<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    at_most(from, "time", TIME_MS_MAX)
}

/// Portal group tags are computed from it.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    match Option::<u16>::deserialize(from)? {
        Some(found) if found >= NUMBERS_MAX => {
            Err(D::Error::custom(format!("number {found}: must be below {NUMBERS_MAX}")))
        }
        found => Ok(found),
    }
}

pub(crate) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let found = String::deserialize(from)?;
    match is_name(&found) {
        true => Ok(found),
        false => {
            let shown: String = found.chars().take(NAME_LEN_MAX).collect();
            Err(D::Error::custom(format!("invalid name of a node: {shown:?}")))
        }
    }
}

pub(crate) fn some_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    name(from).map(Some)
}

/// A part of a key.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=NAME_LEN_MAX).contains(&text.len()) && text.bytes().all(fits) && text != "." && text != ".."
}
