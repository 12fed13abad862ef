//! Nodes of a registry.

use serde::Serialize;

use crate::table::column::{Column, Kind, Noun};

/// A node, and what it is to the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NodeRow {
    pub(crate) name: String,
    /// `owner`, `standby`, or `lost`: the last owner, whose lease has ended.
    pub(crate) role: String,
    /// The epoch of the owner.
    pub(crate) epoch: Option<u64>,
    /// How long its lease lives yet, in microseconds: a node that is well renews it every 0.5 s.
    pub(crate) lease_left_us: Option<u64>,
    /// Since when it has its lease, in milliseconds since 1970.
    pub(crate) since_unix_ms: Option<u64>,
    pub(crate) portals: Vec<String>,
    pub(crate) version: Option<String>,
}

static NODE_COLUMNS: [Column<NodeRow>; 7] = [
    Column::shown("name", Kind::Text, |n| (&n.name).into()),
    Column::shown("role", Kind::State, |n| (&n.role).into()),
    Column::shown("epoch", Kind::Number, |n| n.epoch.into()),
    Column::shown("lease", Kind::Micros, |n| n.lease_left_us.into()),
    Column::shown("since", Kind::Time, |n| n.since_unix_ms.into()),
    Column::shown("portals", Kind::Names, |n| (&n.portals).into()),
    Column::new("version", Kind::Text, |n| n.version.as_ref().into()),
];

/// `masu node`.
pub(crate) static NODE: Noun<NodeRow> =
    Noun { one: "node", many: "nodes", columns: &NODE_COLUMNS, hint: "", is_sorted: true };
