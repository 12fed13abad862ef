//! What a declaration says and only the next start makes so: a cache, the journal of a pool and a LU stay as
//! they were opened. Who applies the declaration is told, and so is until then who compares it.

use std::collections::BTreeSet;

use crate::cached::ssd_of;
use crate::config::{Config, PoolConfig, VolumeConfig, exact_bytes};
use crate::controller::{Controller, Kind, Slices, State};
use crate::terms;

/// A line for each value of this controller that is another one than declared; in slices, for there may be
/// thousands of volumes.
pub(crate) async fn at_next_start(
    controller: &Controller,
    config: &Config,
    slices: &mut Slices,
) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    {
        let state = controller.state();
        of_cache(controller.index, &state, config, &mut lines);
        let own = config.pools.iter().filter(|pool| pool.controller == controller.index);
        own.for_each(|pool| of_pool(&state, pool, &mut lines));
    }
    for volume in &config.volumes {
        slices.step(1).await;
        of_volume(&controller.state(), volume, &mut lines);
    }
    lines
}

/// The same, for who asks.
pub(crate) async fn told(controller: &Controller, config: &Config) -> Vec<String> {
    at_next_start(controller, config, &mut Slices::new(&controller.world)).await.into_iter().collect()
}

fn differs<T: PartialEq + std::fmt::Display>(what: &str, (now, later): (T, T), lines: &mut BTreeSet<String>) {
    if now != later {
        lines.insert(format!("{what}: {now} until the next start, {later} after it"));
    }
}

fn of_cache(index: usize, state: &State, config: &Config, lines: &mut BTreeSet<String>) {
    let Some(cache) = &state.cache else { return };
    let now = cache.config();
    let place = |key: &str| format!("controller {index}: cache: {key}");
    let bytes = |now, later| (exact_bytes(now), exact_bytes(later));
    let Some(settings) = &config.cache else {
        differs(&place("memory"), (exact_bytes(now.memory_bytes), "none".into()), lines);
        return;
    };
    let later = terms::cache_config(settings);
    differs(&place("memory"), bytes(now.memory_bytes, later.memory_bytes), lines);
    differs(&place("read_ahead"), bytes(now.read_ahead_bytes_max, later.read_ahead_bytes_max), lines);
    differs(&place("direct"), bytes(now.direct_bytes, later.direct_bytes), lines);
    let ssd = ssd_of(config, index);
    // What could not be opened is missing; and a cache that is declared for the first time gets it at once.
    let is_tried = |ssd: &String| {
        state.missing.contains_key(&(Kind::CacheDrive, ssd.clone())) || state.config.cache.is_none()
    };
    if state.ssd.is_some() || !ssd.is_some_and(is_tried) {
        let none = || "none".to_owned();
        let pair = (state.ssd.clone().unwrap_or_else(none), ssd.cloned().unwrap_or_else(none));
        differs(&place("second level"), pair, lines);
    }
}

fn of_pool(state: &State, declared: &PoolConfig, lines: &mut BTreeSet<String>) {
    let name = &declared.name;
    let Some(pool) = state.pools.get(name) else { return };
    as_made(
        &format!("pool {name}: page"),
        (exact_bytes(pool.space().page_bytes), exact_bytes(declared.page_bytes)),
        lines,
    );
    let later = declared.journal.as_deref().unwrap_or("none");
    match state.journals.get(name).map(|journal| journal.device().name().to_owned()) {
        Some(now) if now != later => _ = lines.insert(format!(
            "pool {name}: journal: {now} until the next start, {later} after it; if the array is killed before, \
             the pool is not served without {now}: stop it in order"
        )),
        None if declared.journal.is_some() && is_cached(state, name) => {
            differs(&format!("pool {name}: journal"), ("none", later), lines);
        }
        _ => {}
    }
}

/// Whether volumes of a pool are served through the cache: they get no journal then.
fn is_cached(state: &State, pool: &str) -> bool {
    let first = state.units.range((pool.to_owned(), String::new())..).next();
    first.is_some_and(|((of, _), _)| of == pool)
}

fn of_volume(state: &State, declared: &VolumeConfig, lines: &mut BTreeSet<String>) {
    let Some(lu) = state.lus.get(&declared.name) else { return };
    let place = |key: &str| format!("volume {}: {key}", declared.name);
    let identity = lu.identity();
    let physical = declared.block_bytes << identity.physical_block_exponent;
    differs(&place("read_only"), (identity.read_only, declared.read_only), lines);
    differs(&place("physical_block"), (physical, declared.physical_block_bytes), lines);
    if let Some(volume) = lu.disk().below().volume() {
        let made = terms::declared_provisioning(volume.provisioning());
        let shown = |of| format!("{of:?}").to_lowercase();
        as_made(&place("provisioning"), (shown(made), shown(declared.provisioning)), lines);
    }
}

/// What no start changes.
fn as_made(what: &str, (made, declared): (String, String), lines: &mut BTreeSet<String>) {
    if made != declared {
        lines.insert(format!(
            "{what}: stays {made}, as it was made; {declared} in the declaration has no effect"
        ));
    }
}
