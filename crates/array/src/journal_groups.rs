//! Groups with journals: what is in them must not be lost. A pool goes on using its journal until the next
//! start, whatever is declared meanwhile; and a journal that was not closed has acknowledged writes, also
//! when no pool names it.

use cache::{FoundJournal, journal_with_records};
use pool::pool_on;
use raid::Group;
use status::Reason;

use crate::config::{Config, JournalId, PoolConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::why::Told;

/// Refuses a declaration that takes the group of a journal which a pool uses now.
///
/// # Errors
/// Which group, and which pool uses it.
pub(crate) fn check_journals(controller: &Controller, config: &Config) -> Result<(), ControlError> {
    let state = controller.state();
    for (pool, journal) in &state.journals {
        let name = journal.device().name();
        // A pool that leaves this controller closes its journal before.
        if config.pool(pool).is_none_or(|declared| declared.controller != controller.index) {
            continue;
        }
        let is_taken = |p: &&PoolConfig| {
            let has = |groups: &[String]| groups.iter().any(|group| group == name);
            has(&p.groups) || has(&p.leaving) || p.name != *pool && p.journal.as_deref() == Some(name)
        };
        let cause = match config.pools.iter().find(is_taken) {
            _ if config.groups.iter().all(|group| group.name != name) => "remove it after that".into(),
            Some(other) => format!("give it to pool {:?} after that", other.name),
            None if config.owner_of_group(name) != controller.index => {
                format!(
                    "it stays at controller {} until then: move the pool to controller 0 first",
                    controller.index
                )
            }
            None => continue,
        };
        let place = ControlError::at(format!("group {name:?}"));
        return Err(place(&format!("pool {pool:?} uses it as its journal until the next start; {cause}")));
    }
    Ok(())
}

/// Refuses to erase a group, or to take it for something else, if it has a journal with acknowledged writes
/// that a pool may need which is not open here.
///
/// # Errors
/// It has; or it cannot be read.
pub(crate) async fn refuse_needed(controller: &Controller, group: &Group) -> Result<(), ControlError> {
    let config = controller.config();
    let all_open = config.pools.iter().all(|pool| controller.state().pools.contains_key(&pool.name));
    if all_open {
        return Ok(());
    }
    let place = ControlError::at(format!("group {:?}", group.name()));
    match journal_with_records(group).await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(place(
            &"it has a journal with acknowledged writes, and not all pools are served: declare it as the journal \
              of its pool",
        )),
        Err(error) => Err(place(&error)),
    }
}

/// The journal that the volumes of a pool name, and the epoch that it has reached at least.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) id: JournalId,
    pub(crate) epoch: u64,
}

/// The group that has the journal with the acknowledged writes of a pool; none: no group that is open.
pub(crate) async fn group_with(controller: &Controller, wanted: Wanted) -> Option<String> {
    let is_wanted = |found: FoundJournal| found.id == wanted.id.0 && found.epoch >= wanted.epoch;
    let groups: Vec<Group> = controller.state().groups.values().cloned().collect();
    for group in groups {
        if journal_with_records(&group).await.is_ok_and(|found| found.is_some_and(is_wanted)) {
            return Some(group.name().to_owned());
        }
    }
    None
}

/// What to do about a pool that cannot have the journal with its acknowledged writes.
pub(crate) async fn advice(controller: &Controller, wanted: Wanted) -> Told {
    match group_with(controller, wanted).await {
        Some(group) => Told::new(Reason::JournalUndeclared, format!(": declare journal = {group:?}")),
        None => Told::new(
            Reason::JournalAway,
            format!(
                "; if that journal is lost for good, give_up_journal = \"{}\" in the table of the pool, with \
                 another journal or none, serves it without those writes",
                wanted.id
            ),
        ),
    }
}

/// Refuses to make a journal in a group that has a part of a pool.
///
/// # Errors
/// It has.
pub(crate) async fn refuse_pool(group: &Group) -> Result<(), Told> {
    match pool_on(group).await {
        Ok(None) => Ok(()),
        Ok(Some(pool)) => {
            let text = format!("group {:?} holds pool {pool:?}; give an empty one", group.name());
            Err(Told::new(Reason::Unknown, text))
        }
        Err(error) => Err(Told::from(&error)),
    }
}
