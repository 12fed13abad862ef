//! Pools, and the groups in them.

use admin::{Pool, PoolGroup};

use crate::table::column::{Column, Kind, Noun, share};

static POOL_COLUMNS: [Column<Pool>; 16] = [
    Column::shown("name", Kind::Text, |p| (&p.name).into()),
    Column::shown("size", Kind::Bytes, |p| p.size_bytes.into()),
    Column::shown("used", Kind::Bytes, |p| p.used_bytes.into()),
    Column::shown("share", Kind::Percent, |p| share(p.used_bytes, p.size_bytes)),
    Column::shown("promised", Kind::Bytes, |p| p.promised_bytes.into()),
    Column::new("tokens", Kind::Bytes, |p| p.token_bytes.into()),
    Column::new("free", Kind::Bytes, |p| p.size_bytes.saturating_sub(p.used_bytes).into()),
    Column::shown("soft", Kind::Percent, |p| p.soft_threshold_percent.into()),
    Column::shown("critical", Kind::Percent, |p| p.critical_threshold_percent.into()),
    Column::new("full-in", Kind::Text, |p| full_in(p.full_in_s).into()),
    Column::new("page", Kind::Bytes, |p| p.page_bytes.into()),
    Column::new("controller", Kind::Number, |p| p.controller.into()),
    Column::new("placement", Kind::Text, |p| if p.heat.placement { "on" } else { "off" }.into()),
    Column::new("promoted", Kind::Number, |p| p.heat.promoted.into()),
    Column::new("demoted", Kind::Number, |p| p.heat.demoted.into()),
    Column::shown("groups", Kind::Names, |p| (&p.groups).into()),
];

/// When it is full, in the largest unit that says enough.
fn full_in(left_s: Option<u64>) -> Option<String> {
    let hours = left_s? / 3600;
    Some(if hours < 48 { format!("{hours} h") } else { format!("{} days", hours / 24) })
}

/// `masu pool`.
pub(crate) static POOL: Noun<Pool> = Noun {
    one: "pool",
    many: "pools",
    columns: &POOL_COLUMNS,
    hint: "; create one with masu pool create NAME --group GROUP",
    is_sorted: true,
};

static POOL_GROUP_COLUMNS: [Column<PoolGroup>; 5] = [
    Column::shown("group", Kind::Text, |g| (&g.name).into()),
    Column::shown("size", Kind::Bytes, |g| g.size_bytes.into()),
    Column::shown("used", Kind::Bytes, |g| g.used_bytes.into()),
    Column::shown("share", Kind::Percent, |g| share(g.used_bytes, g.size_bytes)),
    Column::shown("state", Kind::State, |g| if g.evacuating { "leaving" } else { "in service" }.into()),
];

/// A part of `masu pool show`.
pub(crate) static POOL_GROUP: Noun<PoolGroup> =
    Noun { one: "group", many: "groups", columns: &POOL_GROUP_COLUMNS, hint: "", is_sorted: false };
