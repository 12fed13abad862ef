//! Labels and stripe journals that say anything: a group is opened, used and opened again, or there is an
//! error.
#![no_main]

use block::{Device, Pieces};
use masu_fuzz::media::{Covers, Kind, Media, Told};
use raid::{ArrayId, Group, GroupSpec, Level, Throttle};
use world::{Drive, DriveSpec, World};
use world_model::{Disk, DiskSpec, Model};

const LEN: u64 = 2 << 20;
/// Half of its blocks are more ranges than a label holds.
const LEN_WITH_TABLE: u64 = 4 << 20;
const KINDS: [Kind; 3] = [
    Kind { magic: b"MASULABL", sum_at: 12, covers: Covers::Bytes(4096), reach: 4064, told: None },
    Kind { magic: b"MASUSTRJ", sum_at: 8, covers: Covers::Field { plus: 0, at: 12 }, reach: 400, told: None },
    Kind {
        magic: b"MASULOST",
        sum_at: 8,
        covers: Covers::Records { head: 64, each: 16, at: 12 },
        reach: 400,
        told: Some(Told { by: b"MASULABL", sum_at: 3668, same: (12, 200) }),
    },
];
const LEVELS: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)];

struct Rig {
    media: Media,
    spec: GroupSpec,
}

thread_local! {
    static RIGS: Vec<Rig> =
        LEVELS.iter().map(|(level, width)| rig(*level, *width)).chain([rig_with_table()]).collect();
}

async fn drives(world: &World, width: usize) -> Vec<Drive> {
    let mut drives = Vec::new();
    for i in 0..width {
        let spec = DriveSpec::Modelled { name: format!("d{i}") };
        drives.push(world.open_drive(&spec).await.expect("it is there"));
    }
    drives
}

fn rig(level: Level, width: usize) -> Rig {
    let model = Model::new(1);
    let disks: Vec<Disk> = (0..width).map(|i| model.disk(&format!("d{i}"), DiskSpec::new(LEN))).collect();
    let spec = GroupSpec { stripe_unit_bytes: 8192, ..GroupSpec::new("g", level, ArrayId([7; 16])) };
    model.disks().cut_power_after(model.disks().persistence_points() + 120);
    model.run_until_crash(async |world| {
        let group =
            Group::create(world.clone(), spec.clone(), drives(&world, width).await).await.expect("create");
        for i in 0_u64.. {
            let len = if i % 3 == 0 { 4 * 8192 } else { 4096 };
            group.write(i % 5 * 12_288, &Pieces::copy_of(&vec![i as u8; len])).await.expect("write");
        }
    });
    Rig { media: Media::of(&model, &disks, LEN as usize, &KINDS), spec }
}

/// Two mirrors of which one was filled from another one with so many bad blocks that its lost ranges need a
/// table.
fn rig_with_table() -> Rig {
    let model = Model::new(1);
    let disk = |name: &str| model.disk(name, DiskSpec::new(LEN_WITH_TABLE));
    let (disks, pulled) = ([disk("d0"), disk("d1")], disk("pulled"));
    let spec = GroupSpec { stripe_unit_bytes: 8192, ..GroupSpec::new("g", Level::Raid1, ArrayId([7; 16])) };
    model.run(async |world| {
        let [d0, d1] = drives(&world, 2).await.try_into().unwrap_or_else(|_| panic!("there are two"));
        let old = world.open_drive(&DriveSpec::Modelled { name: "pulled".into() }).await.expect("there");
        let group = Group::create(world.clone(), spec.clone(), vec![d0, old]).await.expect("create");
        let (block, len) = (4096_u64, group.geometry().len_bytes);
        group.write(0, &Pieces::copy_of(&vec![1; len as usize])).await.expect("write");
        pulled.kill();
        group.flush().await.expect("flush");
        let data = LEN_WITH_TABLE - len;
        (0..len / block).step_by(2).for_each(|i| {
            disks[0].add_latent_errors(data + i * block..data + (i + 1) * block);
        });
        group.replace(1, d1).await.expect("replace");
        group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild");
        assert!(group.status().lost_ranges > 200, "{} are lost", group.status().lost_ranges);
        disks[0].clear_latent_errors();
    });
    let media = Media::of(&model, &disks, LEN_WITH_TABLE as usize, &KINDS);
    Rig { media, spec }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    RIGS.with(|rigs| {
        let rig = &rigs[usize::from(choice) % rigs.len()];
        rig.media.changed(data).run(async |world| {
            let drives = drives(&world, rig.media.width()).await;
            let opened = Group::open_degraded(world.clone(), rig.spec.clone(), drives).await;
            let Ok(group) = opened else { return };
            let len = group.geometry().len_bytes;
            for at in [0, len - 4096] {
                let _ = group.read(at, 4096, &mut Pieces::new()).await;
                let _ = group.write(at, &Pieces::copy_of(&[1; 4096])).await;
            }
            let _ = group.flush().await;
            if choice & 0x80 != 0 {
                let _ = group.scrub(&Throttle::none(world.clone())).await;
            }
        });
    });
});
