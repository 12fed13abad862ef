//! Makes the images of drives that `tests/fixtures` keeps of every label format: opened, verified and
//! upgraded by later versions.
//!
//! ```text
//! cargo run -p raid --example fixture -- DIR
//! ```
//!
//! One file for each level. The group is not closed: its journal has something to replay, its mirrors may
//! differ. Those of RAID 1 and 5 have lost ranges and a drive that took another one's place. A file is
//! deflated: for each drive its length, the number of its blocks of 4 KiB that are not zero, then those, each
//! behind its offset.

use std::path::PathBuf;

use block::{Buf, Device, Pieces};
use raid::{ArrayId, Group, GroupSpec, Level, Throttle};
use world::{Drive, DriveSpec, World};
use world_model::{Disk, DiskSpec, Model};

const DISK_LEN: u64 = 9 << 20;
const BLOCK_LEN: usize = 4096;

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("give a directory"));
    let groups =
        [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)];
    for (level, width) in groups {
        let model = Model::new(1);
        let disks: Vec<Disk> =
            (0..=width).map(|d| model.disk(&format!("d{d}"), DiskSpec::new(DISK_LEN))).collect();
        let replaced = matches!(level, Level::Raid1 | Level::Raid5);
        model.run(async |world| live(&world, &disks, level, width, replaced).await);
        let members = (0..=width).filter(|d| *d != if replaced { 1 } else { width });
        let image = miniz_oxide::deflate::compress_to_vec(&packed(members.map(|d| &disks[d])), 9);
        let path = dir.join(format!("{level}.drives").to_lowercase().replace(' ', ""));
        std::fs::write(&path, &image).expect("written");
        println!("{}: {} bytes", path.display(), image.len());
    }
}

async fn live(world: &World, disks: &[Disk], level: Level, width: usize, replaced: bool) {
    let drive = async |d: usize| -> Drive {
        let opened = world.open_drive(&DriveSpec::Modelled { name: format!("d{d}") }).await;
        opened.expect("the disk is there")
    };
    let mut all = Vec::new();
    for d in 0..width {
        all.push(drive(d).await);
    }
    let spec = GroupSpec { stripe_unit_bytes: 32 << 10, ..GroupSpec::new("kept", level, ArrayId([7; 16])) };
    let made = Group::create(world.clone(), spec, all).await;
    let group = made.expect("created");
    write(&group, 0, 1 << 20, 1).await;
    write(&group, (2 << 20) + 4096, 20_480, 2).await;
    group.flush().await.expect("flushed");
    if replaced {
        group.fail(1, "pulled").await.expect("failed");
        for at in [200_000, 400_000, 600_000] {
            disks[0].add_latent_errors((5 << 20) + at..(5 << 20) + at + 1);
        }
        group.replace(1, drive(width).await).await.expect("replaced");
        group.rebuild(&Throttle::none(world.clone())).await.expect("rebuilt");
        assert!(group.status().lost_ranges > 1, "{:?}", group.status());
    }
    write(&group, 65_536, 65_536, 3).await;
    group.flush().await.expect("flushed");
}

/// Sectors that differ from each other, and from those of other writes.
async fn write(group: &Group, at: u64, len: usize, salt: u8) {
    let mut buf = Buf::new(len);
    (0..len).for_each(|i| buf[i] = (i / 512) as u8 ^ salt);
    group.write(at, &Pieces::from(buf.freeze())).await.expect("written");
}

fn packed<'a>(disks: impl Iterator<Item = &'a Disk>) -> Vec<u8> {
    let mut out = Vec::new();
    for disk in disks {
        let all = disk.peek(0, DISK_LEN as usize);
        let blocks: Vec<_> =
            all.chunks(BLOCK_LEN).enumerate().filter(|(_, b)| b.iter().any(|b| *b != 0)).collect();
        out.extend(DISK_LEN.to_le_bytes());
        out.extend((blocks.len() as u64).to_le_bytes());
        for (i, block) in blocks {
            out.extend(((i * BLOCK_LEN) as u64).to_le_bytes());
            out.extend(block);
        }
    }
    out
}
