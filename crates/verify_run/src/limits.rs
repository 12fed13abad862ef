//! What the sizes and counts of a scenario may be: whatever memory is taken for has a limit, so that no
//! scenario ends the process.

use std::ops::RangeInclusive;
use std::time::Duration;

use array::config::Level;
use lab_core::quantity::{DISK_BYTES_MAX, Size, Time};

use super::plan::LoadPlan;

/// Of a cache, as those of the verifications; a smaller one is none.
const CACHE_BYTES: RangeInclusive<u64> = 8 << 20..=64 << 30;
/// Of a stripe unit (the RAID groups').
const STRIPE_UNIT_BYTES: RangeInclusive<u64> = 4096..=4 << 20;
/// Most drives of a group: the set of those in sync on its labels has 32 bits.
const GROUP_DRIVES_MAX: usize = 32;
/// Most arrays that are compared.
pub(super) const ARRAYS_MAX: usize = 64;
/// Of a window. The longest keeps the whole run within the world's clock.
const WINDOW: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
/// Windows of a run at most.
const WINDOWS_MAX: u128 = 100_000;
/// The same of all loads: some 500 MB while a phase of all of them runs.
const LOAD_WINDOWS_MAX: u128 = 10_000_000;
/// Clients of a run at most, each with a session of its own in the real world.
const CLIENTS_MAX: usize = 10_000;
/// I/Os in flight of all clients at most.
const IN_FLIGHT_MAX: usize = 100_000;

/// The sizes in words.
fn ends(range: &RangeInclusive<u64>) -> String {
    format!("{} to {}", Size(*range.start()), Size(*range.end()))
}

/// A cache, on a machine with so much memory; nobody knows how much where it is `None`.
pub(super) fn cache(bytes: u64, memory_bytes: Option<u64>) -> Result<(), String> {
    if bytes != 0 && !CACHE_BYTES.contains(&bytes) {
        return Err(format!("invalid cache {}: must be 0 (none), or {}", Size(bytes), ends(&CACHE_BYTES)));
    }
    match memory_bytes {
        Some(memory) if bytes > memory => Err(format!(
            "invalid cache {}: this machine has {} MiB of memory; choose a smaller cache",
            Size(bytes),
            memory >> 20
        )),
        _ => Ok(()),
    }
}

/// The drives of a group.
pub(super) fn group_drives(level: Level, drives: usize) -> Result<(), String> {
    let least = level.drives_min();
    if !(least..=GROUP_DRIVES_MAX).contains(&drives) {
        return Err(format!("invalid drives: {level} requires {least} to {GROUP_DRIVES_MAX}, not {drives}"));
    }
    match level == Level::Raid10 && !drives.is_multiple_of(2) {
        true => Err(format!("invalid drives: {level} requires an even number, not {drives}")),
        false => Ok(()),
    }
}

/// A power of two in a range.
fn power_of_two(key: &str, bytes: u64, range: &RangeInclusive<u64>) -> Result<(), String> {
    match bytes.is_power_of_two() && range.contains(&bytes) {
        true => Ok(()),
        false => Err(format!("invalid {key} {}: must be a power of two in {}", Size(bytes), ends(range))),
    }
}

/// The stripe unit of a group.
pub(super) fn stripe_unit(bytes: u64) -> Result<u32, String> {
    power_of_two("stripe_unit", bytes, &STRIPE_UNIT_BYTES)?;
    Ok(bytes as u32)
}

/// The page of a pool.
pub(super) fn page(bytes: u64) -> Result<(), String> {
    power_of_two("page", bytes, &array::config::PAGE_BYTES)
}

/// A volume, or a file that is a drive.
pub(super) fn disk(bytes: u64) -> Result<(), String> {
    match bytes > 0 && bytes.is_multiple_of(1 << 20) && bytes <= DISK_BYTES_MAX {
        true => Ok(()),
        false => {
            Err(format!("invalid size {}: must be whole MiB, at most {}", Size(bytes), Size(DISK_BYTES_MAX)))
        }
    }
}

/// A window.
pub(super) fn window(window: Duration) -> Result<(), String> {
    match WINDOW.contains(&window) {
        true => Ok(()),
        false => {
            let (least, most) = (Time(*WINDOW.start()), Time(*WINDOW.end()));
            Err(format!("invalid window {}: must be in {least} to {most}", Time(window)))
        }
    }
}

/// So many windows, of so many loads.
pub(super) fn windows(windows: u128, loads: usize) -> Result<(), String> {
    if windows > WINDOWS_MAX {
        return Err(format!("invalid window: the run has more than {WINDOWS_MAX} of them"));
    }
    match windows * loads as u128 > LOAD_WINDOWS_MAX {
        true => Err(format!(
            "invalid window: {windows} of them for each of {loads} loads are more than {LOAD_WINDOWS_MAX}"
        )),
        false => Ok(()),
    }
}

/// All loads together.
pub(super) fn loads(loads: &[LoadPlan]) -> Result<(), String> {
    let sum =
        |of: fn(&LoadPlan) -> usize| loads.iter().map(|load| load.volumes.len() * of(load)).sum::<usize>();
    let clients = sum(|load| load.jobs.iter().map(|job| job.workers).sum());
    if clients > CLIENTS_MAX {
        return Err(format!(
            "with it all loads have {clients} clients, one for each volume and worker: at most {CLIENTS_MAX}"
        ));
    }
    let in_flight = sum(|load| load.jobs.iter().map(|job| job.workers * usize::from(job.outstanding)).sum());
    match in_flight > IN_FLIGHT_MAX {
        true => Err(format!("with it all loads have {in_flight} I/Os outstanding: at most {IN_FLIGHT_MAX}")),
        false => Ok(()),
    }
}
