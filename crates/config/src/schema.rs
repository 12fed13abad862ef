//! The JSON Schema of values that a declaration writes in a form of their own: sizes and names.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The longest name of an object.
pub const NAME_LEN_MAX: usize = 64;

/// A size: a number of bytes, or a text with a unit.
pub(crate) struct Size;

impl JsonSchema for Size {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 0,
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([bB]|[kKmMgGtTpP]([iI]?[bB])?)?\s*$",
            "x-type": "size",
        })
    }
}

/// The name of an object.
pub(crate) struct Name;

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": format!("^[A-Za-z0-9._-]{{1,{NAME_LEN_MAX}}}$"),
            "x-type": "name",
        })
    }
}
