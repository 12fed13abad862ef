//! Nodes of a registry.

use admin::Node;

use crate::table::column::{Column, Kind, Noun};

static NODE_COLUMNS: [Column<Node>; 10] = [
    Column::shown("name", Kind::Text, |n| (&n.name).into()),
    Column::shown("role", Kind::State, |n| (&n.role).into()),
    Column::shown("epoch", Kind::Number, |n| n.epoch.into()),
    Column::shown("lease", Kind::Micros, |n| n.lease_left_us.into()),
    Column::shown("since", Kind::Time, |n| n.since_unix_ms.into()),
    Column::shown("portals", Kind::Names, |n| (&n.portals).into()),
    Column::new("controllers", Kind::Names, |n| (&controllers(n)).into()),
    Column::new("trouble", Kind::Text, |n| n.trouble.as_ref().into()),
    Column::new("version", Kind::Text, |n| n.version.as_ref().into()),
    Column::new("certificate", Kind::Text, |n| n.certificate.as_ref().into()),
];

fn controllers(node: &Node) -> Vec<String> {
    node.runs.iter().map(ToString::to_string).collect()
}

/// `masu node`.
pub(crate) static NODE: Noun<Node> =
    Noun { one: "node", many: "nodes", columns: &NODE_COLUMNS, hint: "", is_sorted: true };
