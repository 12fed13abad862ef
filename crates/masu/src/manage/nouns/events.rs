//! Events.

use admin::EventRecord;

use crate::table::column::{Column, Kind, Noun};

static EVENT_COLUMNS: [Column<EventRecord>; 6] = [
    Column::new("number", Kind::Number, |e| e.number.into()),
    Column::shown("time", Kind::Time, |e| e.unix_ms.into()),
    Column::shown("severity", Kind::State, |e| (&e.severity).into()),
    Column::shown("object", Kind::Text, |e| (&e.object).into()),
    Column::shown("text", Kind::Text, |e| (&e.text).into()),
    Column::new("who", Kind::Text, |e| e.who.as_ref().into()),
];

/// `masu event`; its name is its number.
pub(crate) static EVENT: Noun<EventRecord> =
    Noun { one: "event", many: "events", columns: &EVENT_COLUMNS, hint: "", is_sorted: false };
