//! Superblocks, checkpoints and journals of a pool that say anything: it is opened, used, closed and opened
//! again, or there is an error.
#![no_main]

use block::{Device, Pieces};
use masu_fuzz::media::{Covers, Kind, Media};
use pool::{Pool, PoolSpec, Provisioning};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{Drive, DriveSpec, World};
use world_model::{DiskSpec, Model};

const LEN: u64 = 8 << 20;
const PAGE: u64 = 64 << 10;
const KINDS: [Kind; 3] = [
    Kind { magic: b"MASUPOOL", sum_at: 12, covers: Covers::Bytes(4096), reach: 260, told: None },
    Kind { magic: b"MASUCKPT", sum_at: 8, covers: Covers::Bytes(128 << 10), reach: 600, told: None },
    Kind {
        magic: b"MASUJRNL",
        sum_at: 8,
        covers: Covers::Field { plus: 64, at: 48 },
        reach: 200,
        told: None,
    },
];

thread_local! {
    static MEDIA: Media = media();
}

async fn drive(world: &World) -> Drive {
    world.open_drive(&DriveSpec::Modelled { name: "d".into() }).await.expect("it is there")
}

fn spec() -> GroupSpec {
    GroupSpec::new("g", Level::Raid0, ArrayId([7; 16]))
}

async fn open(world: &World) -> Option<Pool> {
    let group = Group::open(world.clone(), spec(), vec![drive(world).await]).await.ok()?;
    Pool::open(world.clone(), vec![group]).await.ok()
}

fn media() -> Media {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(LEN));
    model.run(async |world| {
        let group = Group::create(world.clone(), spec(), vec![drive(&world).await]).await.expect("group");
        let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
        let pool = Pool::create(world.clone(), spec, vec![group]).await.expect("pool");
        let v = pool.create_volume("v", 1 << 20, Provisioning::Thin).await.expect("volume");
        pool.create_volume("t", 2 * PAGE, Provisioning::Thick).await.expect("volume");
        v.write(0, &Pieces::copy_of(&[1; 4096])).await.expect("write");
        pool.clone_volume("v", "c").await.expect("clone");
        v.save_record("pr", b"reserved").await.expect("save");
        pool.close().await.expect("close");
    });
    model.run(async |world| {
        // Opening what was used writes a checkpoint; what follows is in the journal.
        let pool = open(&world).await.expect("open");
        let v = pool.volume("v").expect("there");
        for i in 1..5 {
            v.write(i * PAGE, &Pieces::copy_of(&[i as u8; 4096])).await.expect("write");
            v.flush().await.expect("flush");
        }
    });
    Media::of(&model, &[disk], 5 << 20, &KINDS)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    MEDIA.with(|media| {
        media.changed(data).run(async |world| {
            let Some(pool) = open(&world).await else { return };
            let mut well = true;
            for v in pool.volumes() {
                let len = v.geometry().len_bytes;
                for at in [0, len - 512] {
                    well &= v.read(at, 512, &mut Pieces::new()).await.is_ok();
                    well &= v.write(at, &Pieces::copy_of(&[9; 512])).await.is_ok();
                }
                well &= v.flush().await.is_ok();
            }
            let name = pool.volumes().first().map(|v| v.name().to_owned());
            if let Some(name) = name
                && pool.clone_volume(&name, "another").await.is_ok()
            {
                well &= pool.delete_volume(&name).await.is_ok();
            }
            if pool.close().await.is_ok() && well {
                drop(pool);
                assert!(open(&world).await.is_some(), "what was used and closed opens again");
            }
        });
    });
});
