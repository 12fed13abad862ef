//! What an owner does not open until nobody else can write to it.

use std::sync::Arc;

use block::Pieces;
use world::World;
use world_model::Model;

use super::rig::{Host, declaration, group, model, start};
use crate::config::{Level, Made, PoolConfig, VolumeConfig};
use crate::status::ControllerStatus;
use crate::{Array, Config, Control, Lun, Nodes, Unclaimed, Withheld};
use ::status::Reason;

const ID: u8 = 91;
/// READ(16) of a block.
const READ: [u8; 16] = [0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
const INQUIRY: [u8; 16] = [0x12, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Volume `v` on a mirror of the first two drives, `w` on the third one.
fn two_pools() -> Config {
    let groups = vec![group("g", Level::Raid1, 0..2), group("h", Level::Raid0, 2..3)];
    let mut config = declaration(ID, 3, groups);
    config.pools[0].groups = vec!["g".into()];
    config.pools.push(PoolConfig { name: "q".into(), groups: vec!["h".into()], ..config.pools[0].clone() });
    config.volumes.push(VolumeConfig {
        physical_block_bytes: 512,
        ..VolumeConfig::new("w".into(), "q".into(), 1 << 20)
    });
    config.hosts[0].luns.insert(1, "w".into());
    config
}

async fn tell(array: &Array, unclaimed: &Unclaimed) {
    let withheld = Arc::new(Withheld::of(&two_pools(), unclaimed));
    let nodes = Arc::new(Nodes { withheld, ..Nodes::default() });
    array.controllers()[0].ask(Control::Nodes(nodes)).await.expect("it hears");
}

fn missing(status: &[ControllerStatus]) -> Vec<(&str, Reason)> {
    status[0].missing.iter().map(|m| (m.name.as_str(), m.reason)).collect()
}

struct Nowhere;

impl crate::Keeper for Nowhere {
    fn keep(&mut self, _: &Config, _: &Made) -> Result<(), String> {
        Ok(())
    }
}

/// A life of the array of which all of this was made.
async fn life(world: &World, made: Option<&Made>, unclaimed: &Unclaimed) -> Array {
    let kept = made.map(|made| (two_pools(), made.clone()));
    let mut array = start(world).kept_by(Box::new(Nowhere), kept);
    tell(&array, unclaimed).await;
    array.apply(two_pools()).await.expect("it starts");
    array
}

fn content(model: &Model, drive: &str) -> Vec<u8> {
    let disk = model.disks().get(drive).expect("it is there");
    disk.peek(0, disk.spec().len_bytes as usize)
}

fn unfenced(drives: &[&str]) -> Unclaimed {
    let unfenced = drives.iter().map(|name| ((*name).to_owned(), "no answer".to_owned())).collect();
    Unclaimed { unfenced, ..Unclaimed::default() }
}

/// A new owner waited for all drives, however long one of them could not be fenced: no pool was served.
#[test]
fn a_pool_whose_drive_is_not_claimed_is_busy_and_untouched_and_the_others_are_served() {
    let (model, mut made) = (model(ID.into(), 3), Made::default());
    model.run(async |world| {
        let array = life(&world, None, &Unclaimed::default()).await;
        made = array.made().clone();
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        host.flush().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
    let before = content(&model, "d2");
    model.run(async |world| {
        let mut array = life(&world, Some(&made), &unfenced(&["d2"])).await;
        let status = array.status().await.expect("status");
        let all = [("h", Reason::Unclaimed), ("q", Reason::Away), ("w", Reason::PoolNotOpen)];
        assert_eq!(missing(&status), all);
        assert!(status[0].missing[0].cause.contains("drive \"d2\": no answer"), "{:?}", status[0].missing);
        let mut host = Host::log_in(&world, ID).await;
        host.number = 1;
        host.verify().await;
        let of = async |lun, cdb, max| host.raw_on(Lun(lun), cdb, Pieces::new(), max).await;
        // BUSY: no sense, no data.
        assert_eq!(of(1, READ, 512).await, (0, vec![]));
        assert_eq!(of(1, INQUIRY, 256).await.1.len(), of(0, INQUIRY, 256).await.1.len());
        // As masu does every few seconds.
        array.apply(two_pools()).await.expect("nothing new");
        assert_eq!(missing(&array.status().await.expect("status")), all);
        assert_eq!(content(&model, "d2"), before);

        // Claimed, and not opened yet: it is busy until it turns out to be missing.
        let disk = model.disks().get("d2").expect("it is there");
        disk.kill();
        tell(&array, &Unclaimed::default()).await;
        assert_eq!(of(1, READ, 512).await, (0, vec![]));
        array.apply(two_pools()).await.expect("it is missing");
        assert_eq!(missing(&array.status().await.expect("status"))[0], ("h", Reason::Away));
        assert_eq!(of(1, READ, 512).await, (2, vec![]), "NOT READY");
        disk.resume();
        array.apply(two_pools()).await.expect("again");
        assert_eq!(missing(&array.status().await.expect("status")), []);
        assert_eq!(of(1, READ, 512).await, (0, vec![0; 512]));
        array.stop().await.expect("stop");
    });
}
