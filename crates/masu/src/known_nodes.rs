//! The nodes of an array as the registry has them: for commands, and for the API of each node.

use admin::Node;
use cluster::{MemberRecord, NodeRecord, Overview};

/// All nodes, those that live first. `this` is the node that answers.
pub(crate) fn known_nodes(seen: &Overview, this: Option<&str>) -> Vec<Node> {
    let owner = seen.owner.as_ref().filter(|owner| owner.node.is_some());
    let left_us = |lease: u64| seen.left.get(&lease).and_then(|left| u64::try_from(left.as_micros()).ok());
    let row = |(name, node): &(String, NodeRecord)| {
        let owner = owner.filter(|owner| owner.lease == node.lease);
        Node {
            name: name.clone(),
            role: if owner.is_some() { "owner" } else { "standby" }.into(),
            is_this: this == Some(name),
            could_take_over: owner.is_none() && node.trouble.is_none(),
            trouble: node.trouble.clone(),
            runs: node.runs.clone(),
            epoch: owner.map(|owner| owner.epoch),
            lease_left_us: left_us(node.lease),
            since_unix_ms: Some(node.since_ms),
            portals: node.portals.clone(),
            version: Some(node.version.clone()),
            certificate: node.certificate.clone(),
            ..Node::default()
        }
    };
    let member_row = |name: &str, member: &MemberRecord| Node {
        name: name.to_owned(),
        is_this: this == Some(name),
        since_unix_ms: Some(member.since_ms),
        portals: member.portals.clone(),
        version: Some(member.version.clone()),
        certificate: member.certificate.clone(),
        ..Node::default()
    };
    let is_up = |name: &str| seen.nodes.iter().any(|(node, _)| node == name);
    // It lives, and its node has lost its record.
    let unlisted = seen.living_owner().filter(|(name, _)| !is_up(name)).map(|(name, epoch)| {
        let member = seen.members.iter().find(|(member, _)| member == name);
        let row = match member {
            Some((_, member)) => member_row(name, member),
            None => Node { name: name.to_owned(), is_this: this == Some(name), ..Node::default() },
        };
        let lease_left_us = owner.and_then(|owner| left_us(owner.lease));
        Node { role: "owner".into(), epoch: Some(epoch), lease_left_us, ..row }
    });
    let is_unlisted = |name: &str| unlisted.as_ref().is_some_and(|node| node.name == name);
    let down = seen.members.iter().filter(|(name, _)| !is_up(name) && !is_unlisted(name));
    let down = down.map(|(name, member)| {
        let owner = owner.filter(|owner| owner.node.as_deref() == Some(name));
        let role = if owner.is_some() { "lost" } else { "down" }.into();
        Node { role, epoch: owner.map(|owner| owner.epoch), ..member_row(name, member) }
    });
    let down: Vec<Node> = down.collect();
    unlisted.into_iter().chain(seen.nodes.iter().map(row)).chain(down).collect()
}
