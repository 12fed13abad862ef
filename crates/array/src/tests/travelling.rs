//! A pool that goes to another array.

use crate::config::Level;

use super::rig::{Host, declaration, group, host, model, portal, start};
use crate::Config;
use crate::config::{ArrayId, PortalConfig};
use world::DriveSpec;

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
