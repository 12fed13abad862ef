//! Why a controller could not do what it was asked for.

use serde::{Deserialize, Serialize};
use status::Reason;

use crate::config::ConfigError;
use crate::control::ControlError;
use crate::why::Why;

/// A [`ControlError`].
#[derive(Serialize, Deserialize)]
pub(super) struct Failed(#[serde(with = "Failure")] pub(super) ControlError);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ControlError")]
enum Failure {
    Config(#[serde(with = "Inconsistent")] ConfigError),
    Failed {
        place: String,
        cause: String,
        #[serde(with = "Kind")]
        why: Why,
    },
    Stopped(usize),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ConfigError")]
struct Inconsistent {
    place: String,
    cause: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Why")]
struct Kind {
    reason: Reason,
    drive: Option<String>,
}
