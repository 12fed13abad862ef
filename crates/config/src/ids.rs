//! Identities: 16 random bytes, written as 32 hexadecimal digits.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The identity of an array, on the label of every drive it owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArrayId(#[serde(with = "hexadecimal")] pub [u8; 16]);

/// The identity of a group, made when it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(#[serde(with = "hexadecimal")] pub [u8; 16]);

/// The identity of a pool's journal, made when it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JournalId(#[serde(with = "hexadecimal")] pub [u8; 16]);

fn schema_of_digits() -> Schema {
    json_schema!({ "type": "string", "pattern": "^[0-9a-fA-F]{32}$" })
}

impl JsonSchema for ArrayId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ArrayId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of_digits()
    }
}

impl JsonSchema for JournalId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "JournalId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of_digits()
    }
}

impl ArrayId {
    pub(crate) fn is_default(&self) -> bool {
        *self == ArrayId::default()
    }
}

impl fmt::Display for ArrayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(id: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:032x}", u128::from_be_bytes(*id)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let id = u128::from_str_radix(&text, 16).ok().filter(|_| digits).map(u128::to_be_bytes);
        id.ok_or_else(|| D::Error::custom("id: 32 hexadecimal digits are needed"))
    }
}
