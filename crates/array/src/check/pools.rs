//! Pools: their metadata as stored on the groups, then opened in memory and audited.

use block::Device;
use cache::journal_on;
use pool::{Pool, PoolError};
use raid::Group;
use world::World;

use super::examination::Examination;
use crate::cached::{journal_of, wanted_of};
use crate::config::{Config, PoolConfig};

/// Examines one pool on those of its groups that could be opened.
pub(super) async fn check(
    world: &World,
    config: &Config,
    declared: &PoolConfig,
    groups: &[(String, Group)],
    examination: &mut Examination,
) {
    let place = format!("pool {}", declared.name);
    let own = |name: &String| groups.iter().find(|(n, _)| n == name).map(|(_, group)| group.clone());
    // A group that leaves is a part of the pool until it is empty.
    let members = || declared.groups.iter().chain(&declared.leaving);
    let opened: Vec<Group> = members().filter_map(own).collect();
    for name in members().filter(|name| own(name).is_none()) {
        examination.damage(&place, format!("group {name} cannot be examined"));
    }
    if opened.is_empty() {
        return;
    }
    for finding in pool::check(&opened).await {
        let place = format!("{place}: {}", finding.place);
        match finding.harmless {
            true => examination.harmless(place, finding.text),
            false => examination.damage(place, finding.text),
        }
    }
    match Pool::open(world.clone(), opened).await {
        Ok(pool) => {
            examination.pools += 1;
            audit(config, declared, &pool, &place, examination);
            check_journal(declared, groups, &pool, examination).await;
        }
        Err(error @ (PoolError::NoPool { .. } | PoolError::Unfinished { .. })) => {
            examination.harmless(&place, format!("empty: {error}"));
        }
        Err(error) => examination.damage(&place, format!("cannot be opened: {error}")),
    }
}

/// Looks for the journal that the volumes of the pool name: without it the array does not serve them. Its
/// records are read at the start.
async fn check_journal(
    declared: &PoolConfig,
    groups: &[(String, Group)],
    pool: &Pool,
    examination: &mut Examination,
) {
    let place = format!("pool {}: journal", declared.name);
    let wanted = pool.volumes().iter().find_map(journal_of).map(|id| wanted_of(pool, id));
    let Some(name) = &declared.journal else {
        if let Some(wanted) = wanted {
            let text = format!(
                "its acknowledged writes are in journal {}, and no journal is declared: declare the group that has it",
                wanted.id
            );
            examination.damage(place, text);
        }
        return;
    };
    let Some((_, group)) = groups.iter().find(|(own, _)| own == name) else {
        return examination.damage(place, format!("group {name} cannot be examined"));
    };
    let text = match (journal_on(group).await, wanted) {
        (Err(error), _) => format!("that on group {name} cannot be read: {error}"),
        (Ok(Some(found)), Some(wanted)) if found.id == wanted.id.0 && found.epoch >= wanted.epoch => return,
        (Ok(found), Some(wanted)) => format!(
            "its acknowledged writes are in journal {}, and group {name} has {}",
            wanted.id,
            if found.is_some() { "another one, or an older state of it" } else { "none" }
        ),
        (Ok(_), None) => return,
    };
    examination.damage(place, text);
}

/// Audits the opened pool, and compares its volumes with the declared ones.
fn audit(config: &Config, declared: &PoolConfig, pool: &Pool, place: &str, examination: &mut Examination) {
    for finding in pool.audit() {
        examination.damage(place, finding);
    }
    if pool.name() != declared.name {
        examination.damage(place, format!("its groups hold a pool named {:?}", pool.name()));
    }
    let inside: Vec<String> = pool.groups().iter().map(|g| g.name().to_owned()).collect();
    for group in declared.groups.iter().filter(|g| !inside.contains(g)) {
        examination.harmless(place, format!("group {group} is declared, but not in the pool yet"));
    }
    let volumes = pool.volumes();
    examination.volumes += volumes.len();
    for volume in &volumes {
        let place = format!("volume {}", volume.name());
        match config.volume(volume.name()) {
            None => examination.damage(place, format!("in pool {}, but not declared", declared.name)),
            Some(wanted) if wanted.len_bytes < volume.geometry().len_bytes => {
                let text = format!(
                    "has {} bytes, but is declared with {}",
                    volume.geometry().len_bytes,
                    wanted.len_bytes
                );
                examination.damage(place, text);
            }
            Some(_) => {}
        }
    }
    for wanted in config.volumes.iter().filter(|v| v.pool == declared.name) {
        if !volumes.iter().any(|v| v.name() == wanted.name) {
            let text = format!("declared, but not in pool {}", declared.name);
            examination.damage(format!("volume {}", wanted.name), text);
        }
    }
}
