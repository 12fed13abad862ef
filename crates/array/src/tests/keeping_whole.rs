//! Groups that lose drives, pools that get and lose groups.

use raid::{GroupState, MemberState};

use crate::config::Level;

use super::rig::{Host, declaration, drive, group, model, start, wait_until};
use crate::Steer;
use crate::status::ControllerStatus;

fn optimal(status: &ControllerStatus) -> bool {
    status.groups.iter().all(|g| g.raid.state == GroupState::Optimal && g.raid.rebuild.is_none())
}

#[test]
fn a_spare_takes_the_place_of_a_drive_that_dies_under_load() {
    for (level, width) in [(Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4), (Level::Raid1, 2)] {
        let model = model(1, width + 1);
        model.run(async |world| {
            let mut array = start(&world);
            let mut config = declaration(1, width + 1, vec![group("g", level, 0..width)]);
            config.spares = vec![format!("d{width}")];
            array.apply(config.clone()).await.expect("apply");
            let mut host = Host::log_in(&world, 1).await;
            host.fill().await;
            model.disks().get("d1").expect("it is there").kill();
            host.fill().await;
            host.verify().await;
            wait_until(&world, &array, "the rebuild's end", optimal).await;
            let status = array.status().await.expect("status");
            assert!(status[0].spares.is_empty(), "{level}: the spare is taken");
            assert_eq!(status[0].groups[0].members[1], Some(format!("d{width}")), "{level}");
            host.verify().await;
            host.log_out().await;
            array.stop().await.expect("stop");
        });
        // The labels decide after a restart, although the declaration still names the dead drive, which is
        // back.
        model.disks().get("d1").expect("it is there").resume();
        model.run(async |world| {
            let mut array = start(&world);
            let mut config = declaration(1, width + 1, vec![group("g", level, 0..width)]);
            config.spares = vec![format!("d{width}")];
            array.apply(config).await.expect("apply");
            let status = array.status().await.expect("status");
            assert_eq!(status[0].groups[0].raid.state, GroupState::Optimal, "{level}");
            assert_eq!(status[0].groups[0].members[1], Some(format!("d{width}")), "{level}");
            let mut host = Host::log_in(&world, 1).await;
            host.number = 2;
            host.verify().await;
        });
    }
}

#[test]
fn an_idle_drive_that_is_gone_is_noticed_and_can_be_replaced() {
    let model = model(2, 5);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(2, 4, vec![group("g", Level::Raid5, 0..4)])).await.expect("apply");
        let mut host = Host::log_in(&world, 2).await;
        host.fill().await;
        model.disks().get("d2").expect("it is there").kill();
        let failed = |s: &ControllerStatus| s.groups[0].raid.members[2].state == MemberState::Failed;
        wait_until(&world, &array, "the notice", failed).await;
        let refused = array.replace_drive("g", "d2", "nothing", false).await;
        assert!(refused.is_err_and(|e| e.to_string().contains("nothing")));
        let mut config = array.config().clone();
        config.drives.push(drive(4));
        array.apply(config).await.expect("declare");
        array.replace_drive("g", "d2", "d4", false).await.expect("replace");
        assert_eq!(array.config().groups[0].drives, ["d0", "d1", "d4", "d3"]);
        host.fill().await;
        wait_until(&world, &array, "the rebuild's end", optimal).await;
        host.verify().await;
        array.scrub("g").await.expect("scrub");
        let scrubbed = |s: &ControllerStatus| s.events.iter().any(|e| e.text.contains("scrub finished"));
        wait_until(&world, &array, "the scrub's end", scrubbed).await;
        let status = array.status().await.expect("status");
        assert!(
            status[0].events.iter().any(|e| e.text.contains(": 0 blocks mismatched")),
            "{:?}",
            status[0].events
        );
    });
}

/// The new drive gets what is in use; while the group is paused, nothing.
#[test]
fn a_rebuild_copies_what_is_in_use_and_waits_while_it_is_paused() {
    let model = model(7, 5);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(7, 5, vec![group("g", Level::Raid5, 0..4)])).await.expect("apply");
        let mut host = Host::log_in(&world, 7).await;
        host.fill().await;
        array.steer_work("g", Steer::Pause).await.expect("pause");
        let again = array.steer_work("g", Steer::Pause).await.expect("again");
        assert!(again[0].contains("nothing to do"), "{again:?}");
        assert!(array.steer_work("none", Steer::Pause).await.is_err());
        array.replace_drive("g", "d2", "d4", false).await.expect("replace");
        world.sleep(std::time::Duration::from_secs(60)).await;
        let status = array.status().await.expect("status");
        let progress = status[0].groups[0].raid.rebuild.expect("it waits");
        assert_eq!(progress.done_bytes, 0, "{progress:?}");
        host.fill().await;
        array.steer_work("g", Steer::Resume).await.expect("resume");
        wait_until(&world, &array, "the rebuild's end", optimal).await;
        host.verify().await;
        let idle = array.steer_work("g", Steer::StopScrub).await.expect("no scrub");
        assert!(idle[0].contains("nothing to do"), "{idle:?}");
    });
}

#[test]
fn a_pool_gets_a_group_and_loses_one_while_a_host_writes() {
    let model = model(3, 8);
    model.run(async |world| {
        let mut array = start(&world);
        let first = group("a", Level::Raid5, 0..4);
        array.apply(declaration(3, 8, vec![first])).await.expect("apply");
        let mut host = Host::log_in(&world, 3).await;
        host.fill().await;
        let mut config = array.config().clone();
        config.groups.push(group("b", Level::Raid6, 4..8));
        config.pools[0].groups.push("b".to_owned());
        array.apply(config).await.expect("grow");
        host.fill().await;
        array.rebalance("p").await.expect("rebalance");
        host.fill().await;
        wait_until(&world, &array, "the balance", |s| s.jobs.is_empty()).await;
        array.remove_group("p", "a").await.expect("remove");
        host.fill().await;
        let left = |s: &ControllerStatus| s.jobs.is_empty() && s.pools[0].group_spaces.len() == 1;
        wait_until(&world, &array, "the group's leaving", left).await;
        host.verify().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
    model.run(async |world| {
        let mut array = start(&world);
        let mut config =
            declaration(3, 8, vec![group("a", Level::Raid5, 0..4), group("b", Level::Raid6, 4..8)]);
        config.pools[0].groups = vec!["b".to_owned()];
        config.pools[0].leaving = vec!["a".to_owned()];
        array.apply(config).await.expect("apply");
        let mut host = Host::log_in(&world, 3).await;
        host.number = 4;
        host.verify().await;
    });
}

#[test]
fn a_group_starts_degraded_where_nobody_can_have_gone_on_alone_and_takes_its_drive_back() {
    let model = model(4, 4);
    let config = || declaration(4, 4, vec![group("g", Level::Raid5, 0..4)]);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let mut host = Host::log_in(&world, 4).await;
        host.fill().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
    model.disks().get("d3").expect("it is there").kill();
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("three of four are enough");
        let mut host = Host::log_in(&world, 4).await;
        host.number = 1;
        host.verify().await;
        host.fill().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
    model.disks().get("d3").expect("it is there").resume();
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let mut host = Host::log_in(&world, 4).await;
        host.number = 2;
        host.verify().await;
        wait_until(&world, &array, "the rebuild's end", optimal).await;
        host.verify().await;
    });
}
