//! Events and trouble.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trouble {
    /// `warning`, or `error` where something is not served or data are in danger.
    pub severity: String,
    /// What has it, as in `group g0`.
    pub object: String,
    /// Which of its troubles: the same word as long as it lasts.
    pub kind: String,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub to_do: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// Somebody whose logins are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusals {
    /// Who, as in `host h1`: an initiator whose name no host has, or a port where no name was given.
    pub object: String,
    /// Whether it is a declared host.
    pub is_host: bool,
    /// How often, since there was no refusal for 15 minutes.
    pub logins: u64,
    /// Status-Class and Status-Detail of the last response, as one number (RFC 7143 11.13.5): 0302h is 770.
    /// None: the connection was closed without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_status: Option<u16>,
    /// The last one.
    pub text: String,
}

/// A promise that is not kept now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BelowMinimum {
    /// Whose, as in `volume v1`.
    pub object: String,
    /// What it gets of what.
    pub text: String,
}

/// An event, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventRecord {
    /// Its number: higher than those of all events before it.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// What it happened to, as in `group g0`.
    pub object: String,
    /// What happened.
    pub text: String,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

/// `GET /v1/events`: kept events, the oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// Oldest first.
    pub events: Vec<EventRecord>,
}
