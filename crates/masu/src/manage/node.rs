//! `masu node`: the nodes as the registry has them, also while none of them answers.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use cluster::{NODES, NodeRecord, OWNER, OwnerRecord};
use registry::Key;

use super::nouns::{NODE, NodeRow};
use super::request::Form;
use crate::registry_option::RegistryOption;
use crate::table::{self, ListArgs};

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes whose lease lives, and the owner of the array with its epoch
    List {
        #[command(flatten)]
        registry: RegistryOption,
        #[command(flatten)]
        args: ListArgs,
        #[command(flatten)]
        form: Form,
    },
    /// Show one node with everything of it
    Show {
        /// The node
        name: String,
        #[command(flatten)]
        registry: RegistryOption,
        #[command(flatten)]
        form: Form,
    },
}

pub(super) fn run(what: &NodeCommand) -> Result<ExitCode> {
    match what {
        NodeCommand::List { registry, args, form } => {
            table::list(&NODE, args, form.look(), || read(registry))
        }
        NodeCommand::Show { name, registry, form } => {
            table::show(&NODE, name, form.look(), read(registry)?, |_| ())
        }
    }
}

fn read(registry: &RegistryOption) -> Result<Vec<NodeRow>> {
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
    Ok(rows(owner.as_ref(), &nodes))
}

fn rows(owner: Option<&OwnerRecord>, nodes: &[(String, NodeRecord)]) -> Vec<NodeRow> {
    let owns = |node: &NodeRecord| owner.filter(|owner| owner.node.is_some() && owner.lease == node.lease);
    let row = |(name, node): &(String, NodeRecord)| NodeRow {
        name: name.clone(),
        role: if owns(node).is_some() { "owner" } else { "standby" }.into(),
        epoch: owns(node).map(|owner| owner.epoch),
        since_unix_ms: Some(node.since_ms),
        portals: node.portals.clone(),
        version: Some(node.version.clone()),
    };
    let mut rows: Vec<NodeRow> = nodes.iter().map(row).collect();
    if let Some(owner) = owner
        && let Some(name) = &owner.node
        && !nodes.iter().any(|(_, node)| node.lease == owner.lease)
    {
        rows.push(NodeRow {
            name: name.clone(),
            role: "lost".into(),
            epoch: Some(owner.epoch),
            since_unix_ms: None,
            portals: Vec::new(),
            version: None,
        });
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
            rows(owner, &nodes).into_iter().map(|row| (row.name, row.role, row.epoch)).collect::<Vec<_>>()
        };
        let is = |name: &str, role: &str, epoch| (name.to_owned(), role.to_owned(), epoch);
        assert_eq!(roles(None), [is("n1", "standby", None), is("n2", "standby", None)]);
        assert_eq!(roles(Some(&owner(5))), [is("n1", "owner", Some(3)), is("n2", "standby", None)]);
        // A process of the same name that has died.
        assert_eq!(roles(Some(&owner(4)))[2], is("n1", "lost", Some(3)));
        assert_eq!(rows(None, &nodes)[0].since_unix_ms, Some(4000));
    }
}
