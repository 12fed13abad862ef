//! `masu pool heat`: accesses per class, moved pages, and reasons.

use std::process::ExitCode;

use admin::{ClassHeat, Decision, Heat, Pool};
use anyhow::{Context, Result};
use config::format_bytes;

use super::request::{Where, status};
use crate::table;
use crate::table::unknown;

/// Shows the heat of a pool.
///
/// # Errors
/// There is no such pool.
pub(super) fn show(name: &str, at: &Where) -> Result<ExitCode> {
    let is_json = at.form.is_json()?;
    let pools = status(at)?.pools;
    let names: Vec<String> = pools.iter().map(|p| p.name.clone()).collect();
    let found: Option<&Pool> = pools.iter().find(|p| p.name == name);
    let heat = &found.with_context(|| unknown("pool", name, &names))?.heat;
    match is_json {
        true => println!("{}", serde_json::to_string_pretty(heat)?),
        false => print(name, heat),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(pool: &str, heat: &Heat) {
    if heat.intervals == 0 {
        println!("pool {pool}: no complete interval since the start, no data yet");
        return;
    }
    let state = match (heat.placement, heat.classes.len()) {
        (false, _) => "placement is off",
        (true, 2..) => "on",
        (true, _) => "on, but all groups have one class",
    };
    println!("pool {pool}: {state}");
    println!(
        "{} intervals since the start; {} pages promoted, {} demoted, {} moved\n",
        heat.intervals,
        heat.promoted,
        heat.demoted,
        format_bytes(heat.moved_bytes)
    );
    let row = |c: &ClassHeat| {
        vec![
            c.class.clone(),
            format_bytes(c.size_bytes),
            format_bytes(c.used_bytes),
            c.reads.to_string(),
            c.writes.to_string(),
            format!("{:.1} %", c.share_percent),
            c.hottest.to_string(),
            c.coldest.to_string(),
            if c.threshold == 0 { "-".into() } else { c.threshold.to_string() },
        ]
    };
    let header = ["class", "size", "used", "reads", "writes", "share", "hottest", "coldest", "to come up"];
    table::print_plain(&header, &header[1..], heat.classes.iter().map(row).collect(), "no classes");
    if heat.decisions.is_empty() {
        return;
    }
    println!();
    let row = |d: &Decision| vec![d.interval.to_string(), format!("{} / {}", d.upper, d.lower), why(d)];
    let decisions = heat.decisions.iter().map(row).collect();
    table::print_plain(&["interval", "between", "decision"], &["interval"], decisions, "no decisions");
}

/// A decision as text.
fn why(d: &Decision) -> String {
    let (hot, cold, needed) = (d.hottest_below, d.coldest_above, d.threshold);
    match d.reason.as_str() {
        "room" => format!("{} promoted: the upper class had space, and they were hot", d.promote),
        "exchange" => {
            format!("{} promoted, {} demoted: heat {hot} below, {cold} above", d.promote, d.demote)
        }
        "too_full" => format!("{} demoted: the class was too full", d.demote),
        "no_room_below" => {
            format!("{} promoted; no space in the lower class to demote more", d.promote)
        }
        _ => format!("none: heat at most {hot} below, {needed} required"),
    }
}
