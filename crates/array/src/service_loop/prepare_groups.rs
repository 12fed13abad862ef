//! The groups of a controller, opened or created.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::stream::{self, StreamExt};

use super::apply::{Opening, is_missing, settle};
use crate::config::{Config, GroupConfig, Made};
use crate::control::ControlError;
use crate::controller::{Controller, Kind};
use crate::groups::{open_at_once, open_group};

/// Groups that are opened at a time: each reads the labels of its drives, and writes them.
const GROUPS_AT_ONCE: usize = 16;

/// What became of a group: a line for each thing that was done.
type Opened = Result<Vec<String>, ControlError>;

/// Opens and creates the declared groups of this controller.
pub(super) async fn prepare_groups(
    controller: &Rc<Controller>,
    (config, made): (&Config, &Made),
    opening: &Opening<'_>,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let unopened = open_at_once(controller, config).await;
    let mut opened = open_groups_at_once(controller, (config, made), opening, &unopened).await;
    for group in config.groups.iter().filter(|g| config.owner_of_group(&g.name) == controller.index) {
        let opened_now = opened.remove(&group.name);
        let is_open = opened_now.is_none() && controller.state().groups.contains_key(&group.name);
        let outcome = match opened_now {
            Some(opened) => opened,
            None => open(controller, config, (group, &unopened)).await,
        };
        // One that comes from another controller goes back there.
        let was_missing = is_missing(controller, Kind::Group, &group.name);
        let may_miss = opening.starting
            || !is_open
                && (was_missing || made.has_group(&group.name))
                && !arrives(config, opening, &group.name);
        settle(controller, (Kind::Group, &group.name), may_miss, outcome.map(|lines| done.extend(lines)))?;
    }
    Ok(())
}

/// Opens the groups that were made before and are not open, for which each take-over would otherwise take the
/// longer, the more there are. New ones are created in their turn: a declaration that is refused creates
/// nothing that it did not come to. Returns what became of each.
async fn open_groups_at_once(
    controller: &Rc<Controller>,
    (config, made): (&Config, &Made),
    opening: &Opening<'_>,
    unopened: &BTreeMap<String, String>,
) -> BTreeMap<String, Opened> {
    let is_closed = |group: &&GroupConfig| {
        config.owner_of_group(&group.name) == controller.index
            && made.has_group(&group.name)
            && !arrives(config, opening, &group.name)
            && !controller.state().groups.contains_key(&group.name)
    };
    let closed: Vec<&GroupConfig> = config.groups.iter().filter(is_closed).collect();
    if closed.len() < 2 {
        return BTreeMap::new();
    }
    let each = closed.into_iter().map(async |group: &GroupConfig| {
        (group.name.clone(), open(controller, config, (group, unopened)).await)
    });
    stream::iter(each).buffer_unordered(GROUPS_AT_ONCE).collect().await
}

async fn open(
    controller: &Rc<Controller>,
    config: &Config,
    group: (&GroupConfig, &BTreeMap<String, String>),
) -> Opened {
    let mut lines = Vec::new();
    open_group(controller, config, group, &mut lines).await.map(|()| lines)
}

/// Whether a group is one of the pool that comes from another controller.
fn arrives(config: &Config, opening: &Opening<'_>, group: &String) -> bool {
    let pool = opening.arriving.as_ref().and_then(|name| config.pool(name));
    pool.is_some_and(|p| p.all_groups().any(|name| name == group))
}
