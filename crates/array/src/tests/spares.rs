//! Spares: labelled as those of the array, looked at every minute, and blank again when they are spares no
//! longer.

use std::time::Duration;

use raid::{ArrayId, OnDrive, examine, label_spare};

use crate::config::Level;
use world::World;
use world_model::Model;

use super::rig::{declaration, drive, group, model, start, wait_until};
use crate::config::{Config, DriveConfig, Provisioning, VolumeConfig};
use crate::status::ControllerStatus;
use crate::{Array, DriveSpec};

/// A mirror on `d0` and `d1`, with `d2` as its spare.
fn with_spare() -> Config {
    let mut config = declaration(1, 3, vec![group("g", Level::Raid1, 0..2)]);
    config.spares = vec!["d2".into()];
    config
}

async fn found_on(world: &World, disk: &str) -> OnDrive {
    let drive = world.open_drive(&DriveSpec::Modelled { name: disk.into() }).await.expect("it is there");
    examine(&drive).await.expect("readable")
}

const OWN: OnDrive = OnDrive::Spare { array_id: ArrayId([1; 16]) };
const OTHER: ArrayId = ArrayId([9; 16]);

fn fault(status: &ControllerStatus) -> Option<&str> {
    status.spare_faults.get("d2").map(String::as_str)
}

/// An array with this declaration whose spares were looked at.
async fn started(world: &World, config: Config) -> Array {
    let mut array = start(world);
    array.apply(config).await.expect("apply");
    world.sleep(Duration::from_secs(5)).await;
    array
}

#[test]
fn a_spare_is_labelled_while_it_is_declared() {
    let model = model(1, 3);
    model.run(async |world| {
        let mut array = started(&world, with_spare()).await;
        assert_eq!(found_on(&world, "d2").await, OWN);
        let mut config = with_spare();
        config.spares.clear();
        array.apply(config).await.expect("apply");
        assert_eq!(found_on(&world, "d2").await, OnDrive::Blank);
        array.apply(with_spare()).await.expect("apply");
        world.sleep(Duration::from_secs(5)).await;
        assert_eq!(found_on(&world, "d2").await, OWN);
        array.stop().await.expect("stop");
    });
    // The state file is lost, and the drives are declared in another way: nobody takes the spare for blank.
    model.run(async |world| {
        for id in [1, 2] {
            let mut array = start(&world);
            let config = declaration(id, 3, vec![group("new", Level::Raid0, 2..3)]);
            let refused = array.apply(config).await.expect_err("a spare").to_string();
            assert!(refused.contains("as a spare"), "{refused}");
            array.stop().await.expect("stop");
        }
        let mut array = start(&world);
        let mut config = declaration(2, 3, vec![]);
        (config.pools, config.volumes, config.hosts) = (vec![], vec![], vec![]);
        config.spares = vec!["d2".into()];
        let refused = array.apply(config.clone()).await.expect_err("another array's").to_string();
        assert!(
            refused.contains("is labelled as a spare of array") && refused.contains("--overwrite"),
            "{refused}"
        );
        assert_eq!(found_on(&world, "d2").await, OWN);
        array.apply_over(config, &["d2".into()]).await.expect("it may be erased");
        assert_eq!(found_on(&world, "d2").await, OnDrive::Spare { array_id: ArrayId([2; 16]) });
    });
}

/// Two paths of one LU, two loop devices over one file: the group would have one spare, and report two.
#[test]
fn a_second_spare_that_is_the_medium_of_the_first_is_refused() {
    let both = |first: &str| {
        let mut config = with_spare();
        let path = DriveConfig { name: "path".into(), ..drive(2) };
        config.drives.push(path);
        config.drives.push(drive(3));
        config.spares = vec![first.into(), "path".into()];
        config
    };
    for (at_once, first) in [(true, "d2"), (false, "d2"), (true, "d3"), (false, "d3")] {
        let model = model(7, 4);
        model.run(async |world| {
            let mut array = start(&world);
            let before = match at_once {
                true => Config { spares: vec![], ..with_spare() },
                false => Config { spares: vec![first.into()], drives: both(first).drives, ..with_spare() },
            };
            array.apply(before).await.expect("apply");
            world.sleep(Duration::from_secs(5)).await;
            let found = found_on(&world, first).await;
            let outcome = array.apply(both(first)).await;
            if first == "d2" {
                let refused = outcome.expect_err("one medium").to_string();
                assert!(refused.contains("spare \"path\": it and spare \"d2\" are one medium"), "{refused}");
                assert_eq!(found_on(&world, "d2").await, found, "it is as it was");
            } else {
                outcome.expect("two media");
                world.sleep(Duration::from_secs(5)).await;
                let status = array.status().await.expect("status");
                assert!(status[0].spares.len() == 2 && status[0].spare_faults.is_empty());
            }
            array.stop().await.expect("stop");
        });
    }
}

#[test]
fn a_spare_that_takes_a_place_carries_the_label_of_its_group() {
    let model = model(2, 3);
    model.run(async |world| {
        let array = started(&world, with_spare()).await;
        model.disks().get("d1").expect("it is there").kill();
        let whole = |s: &ControllerStatus| s.spares.is_empty() && s.groups[0].raid.rebuild.is_none();
        wait_until(&world, &array, "the rebuild's end", whole).await;
        let found = found_on(&world, "d2").await;
        assert!(matches!(&found, OnDrive::Label(label) if label.group_name == "g"), "{found}");
        let mut config = with_spare();
        config.spares.clear();
        config.groups[0].drives[1] = "d2".into();
        let mut array = array;
        array.apply(config).await.expect("the declaration follows");
        assert_eq!(found_on(&world, "d2").await, found, "it is a spare no longer, and stays in its group");
    });
}

/// Spoils the spare, waits for more than a minute, and says what is told of it.
fn fault_after(spoil: impl Fn(&Model)) -> Option<String> {
    let model = model(3, 3);
    model.run(async |world| {
        let array = started(&world, with_spare()).await;
        let status = array.status().await.expect("status");
        assert_eq!(fault(&status[0]), None);
        spoil(&model);
        world.sleep(Duration::from_secs(90)).await;
        let before = model.disks().get("d2").expect("it is there").peek(0, 2 << 20);
        let status = array.status().await.expect("status");
        world.sleep(Duration::from_secs(90)).await;
        assert!(
            model.disks().get("d2").expect("it is there").peek(0, 2 << 20) == before,
            "nothing is written"
        );
        fault(&status[0]).map(str::to_owned)
    })
}

#[test]
fn a_spare_that_is_not_what_it_was_is_told_and_not_written() {
    let disk = |model: &Model| model.disks().get("d2").expect("it is there");
    let check = |fault: Option<String>, words: &str| {
        assert!(fault.as_ref().is_some_and(|f| f.contains(words)), "{fault:?} does not say {words:?}");
    };
    check(fault_after(|model| disk(model).kill()), "cannot be");
    check(fault_after(|model| disk(model).hang()), "does not answer");
    check(fault_after(|model| disk(model).add_latent_errors(0..1 << 20)), "cannot be read");
    check(fault_after(|model| disk(model).poke(0, &[7; 1 << 20])), "carries no label, but data at byte 0");
    assert_eq!(fault_after(|model| disk(model).poke(0, &[0; 1 << 20])), None, "a blank one is labelled");
    let other = super::rig::model(4, 3);
    let foreign = other.run(async |world| {
        let drive = world.open_drive(&DriveSpec::Modelled { name: "d2".into() }).await.expect("it is there");
        label_spare(&drive, OTHER).await.expect("labelled");
        other.disks().get("d2").expect("it is there").peek(0, 1 << 20)
    });
    let told = format!("is labelled as a spare of array {OTHER}");
    check(fault_after(|model| disk(model).poke(0, &foreign)), &told);
}

#[test]
fn a_fault_of_a_spare_is_over_when_the_spare_is_back() {
    let model = model(5, 3);
    model.run(async |world| {
        let array = started(&world, with_spare()).await;
        let disk = model.disks().get("d2").expect("it is there");
        disk.kill();
        wait_until(&world, &array, "the fault", |s| fault(s).is_some()).await;
        disk.resume();
        wait_until(&world, &array, "its end", |s| fault(s).is_none()).await;
        assert_eq!(found_on(&world, "d2").await, OWN);
    });
}

#[test]
fn a_spare_that_may_be_erased_is_labelled_with_its_declaration_and_never_again() {
    let model = model(6, 3);
    let disk = model.disks().get("d2").expect("it is there");
    let data = |at: u64| disk.poke(at, &[5; 4096]);
    data(1080);
    model.run(async |world| {
        let mut config = with_spare();
        config.spares.clear();
        let mut array = started(&world, config).await;
        array.apply(with_spare()).await.expect_err("it is not blank");
        // Refused for another reason: what was labelled is none of the array's again.
        let mut refused = with_spare();
        refused.volumes.push(VolumeConfig {
            provisioning: Provisioning::Thick,
            ..VolumeConfig::new("large".into(), "p".into(), 1 << 40)
        });
        array.apply_over(refused, &["d2".into()]).await.expect_err("no room");
        assert!(!matches!(found_on(&world, "d2").await, OnDrive::Spare { .. }));
        array.apply_over(with_spare(), &["d2".into()]).await.expect("it may be erased");
        assert_eq!(found_on(&world, "d2").await, OWN);
        assert!(array.made().overwrite.is_empty(), "that was said once");
        data(0);
        data(512 << 10);
        wait_until(&world, &array, "the fault", |s| fault(s).is_some()).await;
        model.disks().get("d1").expect("it is there").kill();
        world.sleep(Duration::from_secs(60)).await;
        let status = array.status().await.expect("status");
        assert_eq!(status[0].spares, ["d2"], "no group takes it");
        assert_eq!(disk.peek(0, 4096), [5; 4096]);
    });
}
