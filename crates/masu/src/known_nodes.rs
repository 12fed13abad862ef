//! The nodes of an array as the registry has them: for commands, and for the API of each node.

use admin::Node;
use cluster::{NodeRecord, Overview};

/// All nodes, those that live first. `this` is the node that answers.
pub(crate) fn known_nodes(seen: &Overview, this: Option<&str>) -> Vec<Node> {
    let owner = seen.owner.as_ref().filter(|owner| owner.node.is_some());
    let row = |(name, node): &(String, NodeRecord)| {
        let owner = owner.filter(|owner| owner.lease == node.lease);
        Node {
            name: name.clone(),
            role: if owner.is_some() { "owner" } else { "standby" }.into(),
            is_this: this == Some(name),
            could_take_over: owner.is_none(),
            epoch: owner.map(|owner| owner.epoch),
            lease_left_us: seen.left.get(&node.lease).and_then(|left| u64::try_from(left.as_micros()).ok()),
            since_unix_ms: Some(node.since_ms),
            portals: node.portals.clone(),
            version: Some(node.version.clone()),
            certificate: node.certificate.clone(),
            ..Node::default()
        }
    };
    let is_up = |name: &str| seen.nodes.iter().any(|(node, _)| node == name);
    let down = seen.members.iter().filter(|(name, _)| !is_up(name)).map(|(name, member)| {
        let owner = owner.filter(|owner| owner.node.as_deref() == Some(name));
        Node {
            name: name.clone(),
            role: if owner.is_some() { "lost" } else { "down" }.into(),
            is_this: this == Some(name),
            epoch: owner.map(|owner| owner.epoch),
            since_unix_ms: Some(member.since_ms),
            portals: member.portals.clone(),
            version: Some(member.version.clone()),
            certificate: member.certificate.clone(),
            ..Node::default()
        }
    });
    seen.nodes.iter().map(row).chain(down).collect()
}
