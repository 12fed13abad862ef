//! What a host is told of the paths to its logical units: which ports are at the owner, and that its LUNs
//! have changed.

use std::sync::Arc;

use block::Pieces;
use scsi::Status;

use super::two_controllers::{Host, Rig, config};
use crate::config::PortalConfig;
use crate::{Control, Nodes, OtherPortal};

const TEST_UNIT_READY: [u8; 6] = [0; 6];
const REPORT_LUNS: [u8; 12] = [0xa0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0];
const LUNS_CHANGED: (Status, Option<(u8, u16)>) = (Status::CheckCondition, Some((6, 0x3f0e)));
const ACCESS_CHANGED: (Status, Option<(u8, u16)>) = (Status::CheckCondition, Some((6, 0x2a06)));
const GOOD: (Status, Option<(u8, u16)>) = (Status::Good, None);

/// Group, PREF and state of each target port group, as a LU lists them.
async fn groups(host: &Host, lun: u16) -> Vec<(u8, u8, u8)> {
    let cdb = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    let list = host.send(lun, &cdb, Pieces::new(), 1024).await.data_in.joined();
    list[4..].chunks(12).map(|group| (group[3], group[0] >> 7, group[0] & 0x0f)).collect()
}

/// Before, every port of the array was active/optimized for every LU, so hosts sent commands to controllers
/// where they had to cross.
#[test]
fn only_the_ports_of_the_owner_are_optimized_and_preferred() {
    Rig::run(|mut rig| async move {
        let mut two_portals = config();
        let portal = |n: usize| PortalConfig {
            listen: super::rig::portal(20 + n as u8),
            controller: n % 2,
            segment_bytes_max: None,
        };
        two_portals.portals = (0..3).map(portal).collect();
        rig.array.apply(two_portals).await.expect("applied");
        for port in 0..2 {
            let host = rig.host("a", port, 2).await;
            assert_eq!(groups(&host, 0).await, [(1, 1, 0), (2, 0, 1), (3, 1, 0)], "v0, at port {port}");
            assert_eq!(groups(&host, 1).await, [(1, 0, 1), (2, 1, 0), (3, 0, 1)], "v1, at port {port}");
        }
    });
}

/// With these portals of other nodes.
async fn tell(rig: &Rig, others: &[(u16, bool)]) {
    let other = |(portal_group, is_up): &(u16, bool)| OtherPortal {
        listen: super::rig::portal(100 + *portal_group as u8),
        portal_group: *portal_group,
        is_up: *is_up,
        controller: None,
    };
    let nodes = Arc::new(Nodes { others: others.iter().map(other).collect(), ..Nodes::default() });
    for controller in rig.array.controllers() {
        controller.ask(Control::Nodes(nodes.clone())).await.expect("told");
    }
}

#[test]
fn the_ports_of_other_nodes_are_listed_and_hosts_hear_when_their_states_change() {
    Rig::run_in_one_process(|rig| async move {
        let host = rig.host("a", 0, 2).await;
        let before = groups(&host, 0).await;
        for (others, listed) in [
            (&[(65, true), (129, true)][..], &[(65, 0, 1), (129, 0, 1)][..]),
            (&[(65, true), (129, false)], &[(65, 0, 1), (129, 0, 3)]),
            // A tag of this node's own is not another's.
            (&[(1, true), (65, true)], &[(65, 0, 1)]),
        ] {
            tell(&rig, others).await;
            for lun in 0..2 {
                assert_eq!(
                    host.outcome(lun, &TEST_UNIT_READY).await,
                    ACCESS_CHANGED,
                    "LUN {lun}, {others:?}"
                );
                assert_eq!(host.outcome(lun, &TEST_UNIT_READY).await, GOOD, "LUN {lun}, {others:?}");
            }
            let expected: Vec<_> = before.iter().chain(listed).copied().collect();
            assert_eq!(groups(&host, 0).await, expected);
            tell(&rig, others).await;
            assert_eq!(host.outcome(0, &TEST_UNIT_READY).await, GOOD, "told the same again");
        }
    });
}

/// Before, every LU on every path reported it, and a host logged each.
#[test]
fn a_host_hears_once_per_nexus_that_its_luns_have_changed() {
    Rig::run(|mut rig| async move {
        let sessions = [rig.host("a", 0, 2).await, rig.host("a", 1, 2).await];
        let bystander = rig.host("b", 0, 4).await;
        let mut more = config();
        more.hosts[0].luns.insert(7, "w0".into());
        rig.array.apply(more.clone()).await.expect("mapped");
        for (host, first) in sessions.iter().zip([0, 1]) {
            assert_eq!(host.outcome(first, &TEST_UNIT_READY).await, LUNS_CHANGED, "LUN {first}");
            for lun in 0..2 {
                assert_eq!(host.outcome(lun, &TEST_UNIT_READY).await, GOOD, "LUN {lun}");
            }
        }
        for lun in 0..4 {
            assert_eq!(bystander.outcome(lun, &TEST_UNIT_READY).await, GOOD, "of another host, LUN {lun}");
        }
        // A LU of the other controller carries the condition too, and REPORT LUNS there ends it.
        more.hosts[0].luns.remove(&7);
        rig.array.apply(more.clone()).await.expect("unmapped");
        assert_eq!(sessions[0].outcome(1, &TEST_UNIT_READY).await, LUNS_CHANGED, "v1 crosses from port 0");
        assert_eq!(sessions[0].outcome(0, &TEST_UNIT_READY).await, GOOD);
        assert_eq!(sessions[1].outcome(0, &REPORT_LUNS).await, GOOD, "v0 crosses from port 1");
        for lun in 0..2 {
            assert_eq!(sessions[1].outcome(lun, &TEST_UNIT_READY).await, GOOD, "REPORT LUNS told it");
        }
    });
}

/// A host whose first command has not come reads the list anyway.
#[test]
fn a_host_that_has_not_asked_yet_hears_of_no_change() {
    Rig::run(|mut rig| async move {
        let session = rig.open("a", 0);
        let mut more = config();
        more.hosts[0].luns.insert(7, "w0".into());
        rig.array.apply(more).await.expect("mapped");
        let power_on = (Status::CheckCondition, Some((6, 0x2900)));
        for lun in [0, 1, 7] {
            assert_eq!(session.outcome(lun, &TEST_UNIT_READY).await, power_on, "LUN {lun}");
            assert_eq!(session.outcome(lun, &TEST_UNIT_READY).await, GOOD, "LUN {lun}");
        }
    });
}
