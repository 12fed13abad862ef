//! What the API of a node says and asks of the other nodes.

use admin::{DrainError, Failover, LastFailover, Nodes};
use cluster::{Forecast, Immovable, LEASE_TIME, Overview, State, TestRecord};
use lab_core::console::causes;
use tokio::sync::watch;
use world_real::boot_now;

use super::thread::{Keeper, wall_ms};
use crate::known_nodes::known_nodes;

/// For the owner's API.
pub(super) fn of(name: &str, overview: watch::Receiver<Option<Overview>>, keeper: Keeper) -> Nodes {
    let (name, seen) = (name.to_owned(), overview.clone());
    let list = move || seen.borrow().as_ref().map_or_else(Vec::new, |seen| known_nodes(seen, Some(&name)));
    let failover = move || overview.borrow().as_ref().and_then(Overview::forecast).map(failover_of);
    let drain = move |from: Option<&str>, to: Option<&str>| match keeper.drain(from, to) {
        Ok(asked) => asked.map_err(refused),
        Err(error) => Err(DrainError::Unavailable(causes(&error))),
    };
    Nodes::new(list, failover, drain)
}

fn refused(cause: Immovable) -> DrainError {
    let text = cause.to_string();
    match cause {
        Immovable::Unknown { .. } => DrainError::Unknown(text),
        Immovable::ToItself { .. } | Immovable::NoStandby { .. } => DrainError::Target(text),
        Immovable::NoOwner
        | Immovable::NotOwner { .. }
        | Immovable::Alone { .. }
        | Immovable::Fault { .. }
        | Immovable::Troubled { .. }
        | Immovable::Waits { .. }
        | Immovable::UnderWay
        | Immovable::Down { .. } => DrainError::Refused(text),
    }
}

fn failover_of(forecast: Forecast) -> Failover {
    let text = forecast.text();
    let Forecast { owner, successors, fault, last, .. } = forecast;
    let last = last.map(|TestRecord { from, to, took_ms, at_ms, is_take_over }| {
        let kind = if is_take_over { "take-over" } else { "test" };
        LastFailover { kind: kind.into(), from, to, took_ms, at_ms }
    });
    Failover { node: owner, successors, fault, last, text }
}

/// What a standby says of itself, and of a failure of the owner.
pub(super) fn with_forecast(text: &str, overview: Option<&Overview>) -> String {
    match overview.and_then(Overview::forecast) {
        Some(forecast) => format!("{text}; {}", forecast.text()),
        None => text.to_owned(),
    }
}

/// How long this node needed to serve in place of an owner that was gone: the lease, and from its end.
/// None: the last owner has handed over.
pub(super) fn take_over(state: &State, name: &str) -> Option<TestRecord> {
    let (from, since) = state.taken_from.clone()?;
    let took_ms = u64::try_from((LEASE_TIME + (boot_now() - since)).as_millis()).unwrap_or(u64::MAX);
    Some(TestRecord { from, to: name.into(), took_ms, at_ms: wall_ms(), is_take_over: true })
}
