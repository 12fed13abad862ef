//! Policies, and the service of what has one.

use admin::{Policy, Status, VolumeQos};
use serde::Serialize;

use crate::table::column::{Column, Kind, Noun, Value};

/// The state of a promise; none where nothing is promised.
pub(super) fn service(qos: &VolumeQos) -> Value {
    match (&qos.policy, qos.state.as_str()) {
        (None, _) => Value::None,
        (_, "below_minimum") => "below minimum".into(),
        (_, "unknown_policy") => "unknown policy".into(),
        _ => "ok".into(),
    }
}

/// A limit, or none.
fn limit(limit: Option<u64>) -> Value {
    limit.filter(|limit| *limit > 0).into()
}

static POLICY_COLUMNS: [Column<Policy>; 9] = [
    Column::shown("name", Kind::Text, |p| (&p.name).into()),
    Column::shown("minimum", Kind::Number, |p| limit(Some(p.minimum_iops))),
    Column::shown("maximum", Kind::Number, |p| limit(p.maximum_iops)),
    Column::shown("bandwidth", Kind::BytesPerSecond, |p| limit(p.bandwidth_bytes_per_s)),
    Column::shown("weight", Kind::Number, |p| p.weight.into()),
    Column::new("burst", Kind::Number, |p| p.burst_units.into()),
    Column::shown("sharing", Kind::Text, |p| (&p.sharing).into()),
    Column::new("count", Kind::Number, |p| p.volumes.len().into()),
    Column::shown("volumes", Kind::Names, |p| (&p.volumes).into()),
];

/// `masu policy`; minimum and maximum are normalised IOPS.
pub(crate) static POLICY: Noun<Policy> = Noun {
    one: "policy",
    many: "policies",
    columns: &POLICY_COLUMNS,
    hint: "; create one with masu policy create NAME --minimum 3000",
    is_sorted: true,
};

/// What a volume or an image with a policy gets.
#[derive(Serialize)]
pub(crate) struct ServiceRow {
    name: String,
    #[serde(flatten)]
    qos: VolumeQos,
}

/// The volumes and images that have the policy.
pub(crate) fn services(status: &Status, policy: &str) -> Vec<ServiceRow> {
    let volumes = status.volumes.iter().map(|v| (&v.name, &v.qos));
    let all = volumes.chain(status.images.iter().map(|i| (&i.name, &i.qos)));
    let with = all.filter(|(_, qos)| qos.policy.as_deref() == Some(policy));
    with.map(|(name, qos)| ServiceRow { name: name.clone(), qos: qos.clone() }).collect()
}

static SERVICE_COLUMNS: [Column<ServiceRow>; 9] = [
    Column::shown("name", Kind::Text, |r| (&r.name).into()),
    Column::shown("service", Kind::State, |r| service(&r.qos)),
    Column::shown("served-iops", Kind::Number, |r| r.qos.served_iops.into()),
    Column::shown("lacks", Kind::Text, |r| r.qos.lacks.as_ref().into()),
    Column::shown("by-minimum", Kind::Number, |r| r.qos.minimum_requests.into()),
    Column::shown("by-weight", Kind::Number, |r| r.qos.weight_requests.into()),
    Column::shown("waited", Kind::Number, |r| r.qos.waited_requests.into()),
    Column::shown("mean-wait", Kind::Micros, |r| r.qos.waited_us.checked_div(r.qos.waited_requests).into()),
    Column::shown("charged", Kind::Bytes, |r| r.qos.charged_bytes.into()),
];

/// A part of `masu policy show`.
pub(crate) static SERVICE: Noun<ServiceRow> = Noun {
    one: "volume or image",
    many: "volumes and images",
    columns: &SERVICE_COLUMNS,
    hint: " have it; masu policy attach POLICY VOLUME",
    is_sorted: true,
};
