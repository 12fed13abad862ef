//! Spares for groups of a controller that runs at another node than the owner: it opens none by itself.

use std::sync::Arc;
use std::time::Duration;

use world::World;

use super::rig::{TARGET, declaration, group, model};
use crate::config::{Config, Level};
use crate::status::ControllerStatus;
use crate::{Array, ControllerHandle, Nodes, cannot_leave, lacks_drives, run_controller};

/// A mirror on `d0` and `d1` of controller 1, which a node runs for the owner; `d2` and `d3` are spares.
async fn started(world: &World) -> Array {
    let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..2).map(ControllerHandle::new).unzip();
    for (index, mailbox) in mailboxes.into_iter().enumerate() {
        let keeps_spares = (index == 0).then_some(0);
        let mailbox = mailbox.knowing(Arc::new(Nodes { keeps_spares, ..Nodes::default() }));
        world.spawn(run_controller(world.clone(), index, mailbox, handles.clone()));
    }
    let mut config = Config { controllers: 2, ..declaration(1, 4, vec![group("g", Level::Raid1, 0..2)]) };
    config.pools[0].controller = 1;
    config.spares = vec!["d2".into(), "d3".into()];
    let mut array = Array::new(handles, TARGET);
    array.apply(config).await.expect("apply");
    array
}

async fn there(array: &Array) -> ControllerStatus {
    array.status().await.expect("status").remove(1)
}

fn members(status: &ControllerStatus) -> Vec<&str> {
    status.groups[0].members.iter().map(|name| name.as_deref().unwrap_or("-")).collect()
}

#[test]
fn a_group_at_another_node_gets_the_first_spare_that_fits() {
    let model = model(1, 4);
    model.run(async |world| {
        let mut array = started(&world).await;
        assert!(!lacks_drives(array.config(), &there(&array).await));
        assert_eq!(array.give_spares(&[1]).await.expect("given"), (vec![], vec![]));
        let disk = |name: &str| model.disks().get(name).expect("a disk");
        disk("d1").kill();
        // The first spare is dead, too.
        disk("d2").kill();
        world.sleep(Duration::from_secs(10)).await;
        let status = there(&array).await;
        assert!(lacks_drives(array.config(), &status), "it takes none by itself: {:?}", members(&status));
        let (done, refused) = array.give_spares(&[1]).await.expect("given");
        assert!(done.iter().any(|line| line.contains("drive d3 replaces d1")), "{done:?}");
        assert!(refused.len() == 1 && refused[0].contains("spare d2 cannot be used"), "{refused:?}");
        // The declaration has it, and so a fence of what the node has open.
        assert_eq!(array.config().groups[0].drives, ["d0", "d3"]);
        assert_eq!(array.config().spares, ["d2"]);
        let part = array.openers().part(&[1]);
        assert_eq!(part.drives.iter().map(|drive| &*drive.name).collect::<Vec<_>>(), ["d0", "d3"]);
        let mut status = there(&array).await;
        for _ in 0..600 {
            if status.groups[0].raid.rebuild.is_none() {
                break;
            }
            world.sleep(Duration::from_secs(1)).await;
            status = there(&array).await;
        }
        assert_eq!(members(&status), ["d0", "d3"]);
        assert!(!lacks_drives(array.config(), &status));
        assert_eq!(cannot_leave(array.config(), &status), None);
        // A group that has a drive which is not declared there stays where it is.
        let mut before = array.config().clone();
        before.groups[0].drives = vec!["d0".into(), "d1".into()];
        let why = cannot_leave(&before, &status).expect("it stays");
        assert!(why.contains("drive \"d3\" has taken a place in group \"g\""), "{why}");
    });
}
