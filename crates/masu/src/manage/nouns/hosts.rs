//! Hosts, their sessions, and the ports.

use admin::{Host, Port, Session};

use crate::table::column::{Column, Kind, Noun, Value};

/// A host without a secret is unprotected: any initiator with its name is this host.
fn protection(host: &Host) -> &str {
    if host.authentication == "none" { "unprotected" } else { &host.authentication }
}

fn luns(host: &Host) -> Value {
    Value::Names(host.luns.iter().map(|l| format!("{}={}", l.lun, l.volume)).collect())
}

static HOST_COLUMNS: [Column<Host>; 5] = [
    Column::shown("name", Kind::Text, |h| (&h.name).into()),
    Column::shown("initiator", Kind::Text, |h| (&h.initiator).into()),
    Column::shown("authentication", Kind::State, |h| protection(h).into()),
    Column::new("count", Kind::Number, |h| h.luns.len().into()),
    Column::shown("luns", Kind::Names, luns),
];

/// `masu host`; luns: LUN=VOLUME.
pub(crate) static HOST: Noun<Host> = Noun {
    one: "host",
    many: "hosts",
    columns: &HOST_COLUMNS,
    hint: "; create one with masu host create NAME IQN",
    is_sorted: true,
};

static SESSION_COLUMNS: [Column<Session>; 6] = [
    Column::shown("isid", Kind::Text, |s| (&s.isid).into()),
    Column::shown("host", Kind::Text, |s| (&s.host).into()),
    Column::shown("initiator", Kind::Text, |s| (&s.initiator).into()),
    Column::shown("tag", Kind::Number, |s| s.portal_group.into()),
    Column::shown("commands", Kind::Number, |s| s.commands.into()),
    Column::shown("transferred", Kind::Bytes, |s| s.bytes.into()),
];

/// `masu session`.
pub(crate) static SESSION: Noun<Session> =
    Noun { one: "session", many: "sessions", columns: &SESSION_COLUMNS, hint: "", is_sorted: false };

static PORT_COLUMNS: [Column<Port>; 7] = [
    Column::shown("listen", Kind::Text, |p| p.listen.to_string().into()),
    Column::shown("tag", Kind::Number, |p| p.portal_group.into()),
    Column::shown("controller", Kind::Number, |p| p.controller.into()),
    Column::shown("sessions", Kind::Number, |p| p.sessions.into()),
    Column::shown("commands", Kind::Number, |p| p.commands.into()),
    Column::shown("in", Kind::Bytes, |p| p.bytes_in.into()),
    Column::shown("out", Kind::Bytes, |p| p.bytes_out.into()),
];

/// `masu port`.
pub(crate) static PORT: Noun<Port> = Noun {
    one: "port",
    many: "ports",
    columns: &PORT_COLUMNS,
    hint: "; declare one in array.toml with [[portal]]",
    is_sorted: false,
};
