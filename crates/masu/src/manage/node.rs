//! `masu node`: the nodes as the registry has them, also while none of them answers.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use cluster::{NODES, NodeRecord, OWNER, OwnerRecord};
use registry::Key;

use crate::registry_option::RegistryOption;
use crate::table;

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes whose lease lives, and the owner of the array with its epoch
    List {
        #[command(flatten)]
        registry: RegistryOption,
    },
}

pub(super) fn run(what: &NodeCommand) -> Result<ExitCode> {
    let NodeCommand::List { registry } = what;
    let place = registry.clone();
    let read = world_real::run(world_real::Options::default(), async move |world| -> Result<_> {
        let registry = place.open_named(&world)?;
        let owner = registry.get(&Key::new(OWNER)?).await?;
        let owner = owner.map(|entry| OwnerRecord::decode(OWNER, &entry.value)).transpose()?;
        let mut nodes = Vec::new();
        for (key, entry) in registry.list(NODES).await? {
            let name = key.as_str().trim_start_matches(NODES).to_owned();
            nodes.push((name, NodeRecord::decode(key.as_str(), &entry.value)?));
        }
        Ok((owner, nodes))
    });
    let (owner, nodes) = read.context("no world")??;
    let rows = rows(owner.as_ref(), &nodes, now_s());
    table::print(&["node", "role", "joined", "portals", "version"], &["joined"], rows, "no nodes");
    Ok(ExitCode::SUCCESS)
}

fn now_s() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0)
}

fn rows(owner: Option<&OwnerRecord>, nodes: &[(String, NodeRecord)], now_s: u64) -> Vec<Vec<String>> {
    let ago = |since_ms: u64| format!("{} s ago", now_s.saturating_sub(since_ms / 1000));
    let owns = |node: &NodeRecord| owner.filter(|owner| owner.node.is_some() && owner.lease == node.lease);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, node) in nodes {
        let role = owns(node).map_or("standby".into(), |owner| format!("owner (epoch {})", owner.epoch));
        rows.push(vec![
            name.clone(),
            role,
            ago(node.since_ms),
            node.portals.join(", "),
            node.version.clone(),
        ]);
    }
    if let Some(owner) = owner
        && let Some(name) = &owner.node
        && !nodes.iter().any(|(_, node)| node.lease == owner.lease)
    {
        let role = format!("was the owner (epoch {}); its lease has ended", owner.epoch);
        rows.push(vec![name.clone(), role, String::new(), String::new(), String::new()]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_the_node_with_the_lease_of_the_record() {
        let node = |lease| NodeRecord {
            portals: vec!["[::1]:3260".into()],
            version: "1".into(),
            since_ms: 4000,
            lease,
        };
        let nodes = [("n1".to_owned(), node(5)), ("n2".to_owned(), node(6))];
        let owner = |lease| OwnerRecord { node: Some("n1".into()), lease, epoch: 3, since_ms: 0 };
        let roles = |owner: Option<&OwnerRecord>| {
            rows(owner, &nodes, 10).iter().map(|row| row[..2].join(": ")).collect::<Vec<_>>()
        };
        assert_eq!(roles(None), ["n1: standby", "n2: standby"]);
        assert_eq!(roles(Some(&owner(5))), ["n1: owner (epoch 3)", "n2: standby"]);
        // A process of the same name that has died.
        let dead = roles(Some(&owner(4)));
        assert_eq!(dead[2], "n1: was the owner (epoch 3); its lease has ended");
        assert_eq!(rows(None, &nodes, 10)[0][2..], ["6 s ago", "[::1]:3260", "1"]);
    }
}
