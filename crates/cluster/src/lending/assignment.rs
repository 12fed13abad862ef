//! Which node runs which controller.

use std::collections::BTreeSet;

/// The controller that the owner never lends: its own first one, or the first of all if none is its own. It
/// opens the owner's portals.
pub fn home(controller_nodes: &[String], controllers: usize, owner: &str) -> usize {
    let is_own =
        |index: &usize| controller_nodes.get(*index).is_none_or(|node| node.is_empty() || node == owner);
    (0..controllers).find(is_own).unwrap_or(0)
}

/// The controllers that a node is to run.
pub fn of_node(controller_nodes: &[String], home: usize, node: &str) -> BTreeSet<usize> {
    let declared = controller_nodes.iter().enumerate().filter(|(_, declared)| *declared == node);
    declared.map(|(index, _)| index).filter(|index| *index != home).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Vec<String> {
        text.split(' ').map(|name| name.replace('-', "")).collect()
    }

    #[test]
    fn the_owner_keeps_one_controller_its_own_if_it_has_any() {
        let rows = [
            ("n1 n2 n3", 3, "n1", 0),
            ("n1 n2 n3", 3, "n2", 1),
            ("n1 n2 n3", 3, "n4", 0),
            ("n1 n2", 3, "n4", 2),
            ("n1 - n3", 3, "n4", 1),
            ("n2 n1 n1", 3, "n1", 1),
        ];
        for (declared, controllers, owner, expected) in rows {
            assert_eq!(home(&nodes(declared), controllers, owner), expected, "{declared}, owner {owner}");
        }
        assert_eq!(home(&[], 4, "n1"), 0);
    }

    #[test]
    fn a_node_runs_what_is_declared_for_it_except_the_owners() {
        let of = |declared, owner, node| {
            let declared = nodes(declared);
            let home = home(&declared, declared.len(), owner);
            of_node(&declared, home, node).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of("n1 n2 n3", "n1", "n2"), [1]);
        assert_eq!(of("n1 n2 n2", "n1", "n2"), [1, 2]);
        assert_eq!(of("n1 n2 n3", "n4", "n1"), [0; 0], "it opens the owner's portals");
        assert_eq!(of("n1 n2 n3", "n4", "n2"), [1]);
        assert_eq!(of("n1 - n3", "n1", "n2"), [0; 0]);
    }
}
