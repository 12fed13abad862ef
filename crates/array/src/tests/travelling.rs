//! A pool that goes to another array.

use std::time::Duration;

use crate::config::Level;

use raid::{OnDrive, examine};
use world::{DriveSpec, World};
use world_model::{Model, Outcome};

use super::deleting::{Stored, start_kept};
use super::rig::{Host, TARGET, declaration, drive, group, host, model, portal, start};
use crate::Config;
use crate::config::{ArrayId, PortalConfig};

#[test]
fn an_exported_pool_is_imported_with_its_data_and_nothing_else_is() {
    let model = model(5, 5);
    let specs = || (0..4).map(|i| DriveSpec::Modelled { name: format!("d{i}") }).collect::<Vec<_>>();
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(5, 4, vec![group("g", Level::Raid5, 0..4)])).await.expect("apply");
        let mut writer = Host::log_in(&world, 5).await;
        writer.fill().await;
        writer.log_out().await;
        let mapped = array.export_pool("p").await;
        assert!(mapped.is_err_and(|e| e.to_string().contains("unmap it first")));
        let mut config = array.config().clone();
        config.hosts.clear();
        array.apply(config).await.expect("unmap");

        let mut thief = start(&world);
        thief
            .apply(Config { id: ArrayId([6; 16]), ..Config::empty("iqn.2026-11.test:array") })
            .await
            .expect("empty");
        let owned = thief.import_pool(specs(), false).await;
        assert!(owned.is_err_and(|e| e.to_string().contains("another array")));

        array.export_pool("p").await.expect("export");
        assert!(array.config().drives.is_empty() && array.config().pools.is_empty());
        let status = array.status().await.expect("status");
        assert!(status[0].drives.is_empty() && status[0].groups.is_empty() && status[0].pools.is_empty());
    });
    model.run(async |world| {
        let mut array = start(&world);
        let empty = Config {
            id: ArrayId([6; 16]),
            portals: vec![PortalConfig { listen: portal(6), controller: 0, segment_bytes_max: None }],
            ..Config::empty("iqn.2026-11.test:array")
        };
        array.apply(empty).await.expect("apply");
        let nothing = array.import_pool(vec![DriveSpec::Modelled { name: "d4".to_owned() }], false).await;
        assert!(nothing.is_err_and(|e| e.to_string().contains("carries a label")));
        // A refused import dropped the drive that was not named, for good.
        let labels = || (0..4).map(|i| model.disks().get(&format!("d{i}")).expect("a disk").peek(0, 1 << 20));
        let before: Vec<Vec<u8>> = labels().collect();
        let partial = array.import_pool(specs()[..3].to_vec(), false).await;
        assert!(partial.is_err_and(|e| e.to_string().contains("that of position 3 is not among them")));
        let too_few = array.import_pool(specs()[..2].to_vec(), true).await;
        assert!(too_few.is_err_and(|e| e.to_string().contains("needs at least 3 drives")));
        assert!(labels().eq(before), "labels were written");
        array.import_pool(specs(), false).await.expect("import");
        assert_eq!(array.config().groups[0].drives, ["g-0", "g-1", "g-2", "g-3"]);
        let mut config = array.config().clone();
        config.hosts.push(host());
        array.apply(config).await.expect("map");
        let mut reader = Host::log_in(&world, 6).await;
        reader.number = 1;
        reader.verify().await;
        reader.fill().await;
        reader.verify().await;
    });
}

/// Two processes imported the same drives at once: one looked at them while the other, which had let go of
/// them, was about to declare them, and that one opened its group without a drive.
#[test]
fn an_import_keeps_its_drives_until_they_are_declared() {
    let model = model(8, 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(Config { controllers: 1, ..two_groups() }).await.expect("apply");
        array.export_pool("p").await.expect("export");
    });
    model.run(async |world| {
        let disk = model.disks().get("d1").expect("a disk");
        // Somebody else has it from the moment when its label is written.
        let (label, taken) = (disk.peek(0, 4096), disk.clone());
        world.spawn({
            let world = world.clone();
            async move {
                while taken.peek(0, 4096) == label {
                    world.sleep(Duration::from_micros(10)).await;
                }
                taken.refuse_opens(u32::MAX);
            }
        });
        let mut array = start(&world);
        array.apply(Config { id: ArrayId([6; 16]), ..Config::empty(TARGET) }).await.expect("empty");
        array.import_pool(drives(), false).await.expect("imported");
        let status = array.status().await.expect("status");
        let optimal = |g: &crate::status::GroupStatus| g.raid.state == raid::GroupState::Optimal;
        assert!(
            status[0].groups.len() == 2 && status[0].groups.iter().all(optimal),
            "{:?}",
            status[0].groups
        );
        array.stop().await.expect("stop");
    });
}

/// The pool of [`two_groups`] leaves, or comes, and the power is cut after so many persistence points. How
/// many there are.
fn travel_and_cut(model: &Model, stored: &Stored, points: Option<u64>, import: bool) -> u64 {
    let mut begun = 0;
    let ended = model.run_until_crash(async |world| {
        let mut array = start_kept(&world, stored);
        array.apply(two_groups()).await.expect("apply");
        if import {
            array.export_pool("p").await.expect("export");
        }
        begun = model.disks().persistence_points();
        if let Some(points) = points {
            model.disks().cut_power_after(begun + points);
        }
        match import {
            true => array.import_pool(drives(), false).await.expect("import"),
            false => array.export_pool("p").await.expect("export"),
        };
    });
    if ended == Outcome::PowerCut {
        model.reboot();
    }
    model.disks().keep_power();
    model.disks().persistence_points() - begun
}

/// The pool `p` with the volume `v` on the groups `g` and `h`.
fn two_groups() -> Config {
    let groups = vec![group("g", Level::Raid1, 0..2), group("h", Level::Raid1, 2..4)];
    Config { hosts: vec![], controllers: 2, ..declaration(7, 4, groups) }
}

fn drives() -> Vec<DriveSpec> {
    (0..4).map(|i| drive(i).spec).collect()
}

/// The arrays that the labels name.
async fn owners(world: &World) -> Vec<ArrayId> {
    let mut owners = Vec::new();
    for spec in drives() {
        let drive = world.open_drive(&spec).await.expect("open");
        match examine(&drive).await.expect("read") {
            OnDrive::Label(label) => owners.push(ArrayId(label.array_id.0)),
            other => panic!("{other:?}"),
        }
    }
    owners
}

/// Starts after a cut at every point; says how many cuts fell into a record, and looks at how it ended.
fn check_every_cut(import: bool) {
    let points = travel_and_cut(&model(7, 4), &Stored::default(), None, import);
    let (mut recorded, mut partly) = (0, 0);
    for cut in 0..points {
        let (model, stored) = (model(7, 4), Stored::default());
        travel_and_cut(&model, &stored, Some(cut), import);
        model.run(async |world| {
            let (config, made) = stored.last().expect("stored");
            let is_recorded = !made.exported_pools.is_empty() || !made.importing.is_empty();
            recorded += usize::from(is_recorded);
            let before = owners(&world).await;
            partly += usize::from(before.iter().any(|id| *id != before[0]));
            let mut array = start_kept(&world, &stored);
            array.apply(config).await.expect("the stored declaration");
            let mut outcome = array.finish_interrupted().await;
            for _ in 0..600 {
                if outcome.is_ok() {
                    break;
                }
                assert!(!array.unfinished().is_empty(), "cut {cut}: {outcome:?} is told");
                world.sleep(std::time::Duration::from_millis(100)).await;
                outcome = array.finish_interrupted().await;
            }
            outcome.unwrap_or_else(|error| panic!("cut {cut}: {error}"));
            assert_eq!(array.unfinished(), [], "cut {cut}");
            let (config, made) = stored.last().expect("stored");
            assert!(made.exported_pools.is_empty() && made.importing.is_empty(), "cut {cut}: {made:?}");
            if import || !is_recorded && config.pool("p").is_some() {
                assert!(config.pool("p").is_some() && config.volume("v").is_some(), "cut {cut}");
                assert_eq!(array.status().await.expect("status")[0].missing, [], "cut {cut}");
            } else {
                assert!(config.pools.is_empty() && config.drives.is_empty(), "cut {cut}: {config:?}");
            }
            let owner = if config.pools.is_empty() { ArrayId::default() } else { ArrayId([7; 16]) };
            array.stop().await.expect("stop");
            assert_eq!(owners(&world).await, [owner; 4], "cut {cut}");
        });
    }
    assert!(recorded > 3 && partly > 0, "{recorded} and {partly} of {points} cuts");
}

/// A kill during an export left the pool in no array: its labels named this one, and nothing declared it.
#[test]
fn a_start_completes_an_export_that_was_interrupted() {
    check_every_cut(false);
}

#[test]
fn a_start_completes_an_import_that_was_interrupted() {
    check_every_cut(true);
}
