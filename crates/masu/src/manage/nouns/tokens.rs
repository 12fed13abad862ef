//! Tokens of the API.

use admin::ShownToken;

use crate::table::column::{Column, Kind, Noun};

static TOKEN_COLUMNS: [Column<ShownToken>; 6] = [
    Column::shown("name", Kind::Text, |t| (&t.name).into()),
    Column::shown("role", Kind::Text, |t| t.role.name().into()),
    Column::shown("state", Kind::State, |t| (&t.state).into()),
    Column::shown("expires", Kind::Time, |t| t.expires_ms.into()),
    Column::new("created", Kind::Time, |t| t.created_ms.into()),
    Column::shown("last-used", Kind::Time, |t| t.last_used_ms.into()),
];

/// `masu token`.
pub(crate) static TOKEN: Noun<ShownToken> = Noun {
    one: "token",
    many: "tokens",
    columns: &TOKEN_COLUMNS,
    hint: "; create one with masu token create NAME --role viewer",
    is_sorted: true,
};
