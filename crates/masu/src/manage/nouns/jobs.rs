//! Jobs: long work, and how far it is.

use admin::Job;

use crate::manage::follow::percent;
use crate::table::column::{Column, Kind, Noun, Value};

/// While nobody knows how much there is, no share is done.
fn share(job: &Job) -> Value {
    if job.progress.total_bytes == 0 { Value::None } else { percent(job.progress).into() }
}

static JOB_COLUMNS: [Column<Job>; 6] = [
    Column::shown("name", Kind::Text, |j| format!("{}:{}", j.kind, j.object).into()),
    Column::shown("kind", Kind::Text, |j| (&j.kind).into()),
    Column::shown("object", Kind::Text, |j| (&j.object).into()),
    Column::shown("progress", Kind::Percent, share),
    Column::shown("done", Kind::Bytes, |j| j.progress.done_bytes.into()),
    Column::shown("total", Kind::Bytes, |j| j.progress.total_bytes.into()),
];

/// `masu job`; the name is KIND:OBJECT.
pub(crate) static JOB: Noun<Job> =
    Noun { one: "job", many: "jobs", columns: &JOB_COLUMNS, hint: "", is_sorted: false };
