//! The power is cut at every persistence point of a workload: the image opens without faults, and holds, in
//! every sector, what the last flush made durable or something that was written to it later.

use std::cell::RefCell;
use std::rc::Rc;

use block::Pieces;
use vdisk::vhd::{self, Kind, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx};
use vdisk::{Access, Image};
use world::{Drive, DriveSpec, Rng, World};
use world_model::{DiskSpec, DisksImage, Loss, Model};

const DISK: u64 = 12 << 20;
const SECTORS: usize = (DISK / 512) as usize;
const OPERATIONS: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    Vhd,
    VhdChild,
    Vhdx,
    VhdxChild,
}

/// What each sector may hold: the durable tag first, then what was written to it since the last flush. A tag
/// fills its sector; 0 is zeros.
#[derive(Clone)]
struct Shadow(Vec<Vec<u8>>);

impl Shadow {
    fn write(&mut self, from: usize, count: usize, tag: u8) {
        self.0[from..from + count]
            .iter_mut()
            .filter(|tags| tags.last() != Some(&tag))
            .for_each(|tags| tags.push(tag));
    }
    fn flush(&mut self) {
        self.0.iter_mut().for_each(|tags| drop(tags.drain(..tags.len() - 1)));
    }
}

fn drive(world: &World, name: &str) -> Drive {
    world.open_now(&DriveSpec::Modelled { name: name.into() }).expect("opens")
}

async fn create(world: &World, kinds: Kinds) {
    let guids = |n: u8| [Guid([n; 16]), Guid([n + 1; 16]), Guid([n + 2; 16])];
    let vhd = |kind, n| NewVhd { block_bytes: 512 << 10, ..NewVhd::new(kind, DISK, [n; 16], 0) };
    let vhdx = |n| NewVhdx { block_bytes: 1 << 20, ..NewVhdx::new(DISK, guids(n)) };
    let (base, child) = (drive(world, "base"), drive(world, "image"));
    let relative_path = "base".to_owned();
    match kinds {
        Kinds::Vhd => vhd::create(&child, &vhd(Kind::Dynamic, 1)).await.expect("made"),
        Kinds::Vhdx => vhdx::create(&child, &vhdx(1)).await.expect("made"),
        Kinds::VhdChild => {
            vhd::create(&base, &vhd(Kind::Dynamic, 1)).await.expect("made");
            let parent = vhd::Parent { id: [1; 16], time_stamp_s: 0, relative_path, absolute_path: None };
            let new = NewVhd { parent: Some(parent), ..vhd(Kind::Differencing, 2) };
            vhd::create(&child, &new).await.expect("made");
        }
        Kinds::VhdxChild => {
            vhdx::create(&base, &vhdx(1)).await.expect("made");
            let id = Guid(Image::open(world, base, Access::Read).await.expect("opens").id());
            let parent = vhdx::Parent { id, relative_path, absolute_path: None };
            vhdx::create(&child, &NewVhdx { parent: Some(parent), ..vhdx(9) }).await.expect("made");
        }
    }
}

async fn open(world: &World, kinds: Kinds) -> Image {
    let image = Image::open(world, drive(world, "image"), Access::Write).await.expect("the image opens");
    if matches!(kinds, Kinds::VhdChild | Kinds::VhdxChild) {
        let base = Image::open(world, drive(world, "base"), Access::Read).await.expect("the parent opens");
        image.attach(base).expect("it is the one");
    }
    image
}

async fn one_operation(image: &Image, rng: &mut Rng, shadow: &RefCell<Shadow>) {
    let from = rng.usize(..SECTORS);
    let count = (1 + rng.usize(..48)).min(SECTORS - from);
    match rng.u8(..20) {
        0..=14 => {
            let tag = rng.u8(1..);
            shadow.borrow_mut().write(from, count, tag);
            let data = Pieces::copy_of(&vec![tag; count * 512]);
            image.write(from as u64 * 512, &data).await.expect("written");
        }
        15..=16 => {
            // Whole blocks, so that some are let go.
            let (from, count) = (from / 2048 * 2048, 2048);
            shadow.borrow_mut().write(from, count, 0);
            image.zero(from as u64 * 512, count as u64 * 512).await.expect("zeroed");
        }
        _ => {
            // What was complete before is durable after, and not a moment earlier.
            image.flush().await.expect("durable");
            shadow.borrow_mut().flush();
        }
    }
}

async fn verify(image: &Image, shadow: &Shadow, point: u64) {
    assert_eq!(image.findings().faults, Vec::<String>::new(), "after point {point}");
    let mut out = Pieces::new();
    for at in (0..DISK).step_by(1 << 20) {
        image.read(at, 1 << 20, &mut out).await.expect("read");
    }
    let bytes: Vec<u8> = out.iter().flat_map(|data| data.iter().copied()).collect();
    for (number, (sector, tags)) in bytes.chunks(512).zip(&shadow.0).enumerate() {
        let tag = sector[0];
        assert!(sector.iter().all(|byte| *byte == tag), "sector {number} is torn after point {point}");
        assert!(
            tags.contains(&tag),
            "sector {number} holds {tag} after point {point}, and may hold {tags:?}"
        );
    }
}

/// Runs the workload once, and strikes at one of `one_in` points.
fn strike(kinds: Kinds, one_in: u64) -> u64 {
    let model = Model::new(11);
    for name in ["base", "image"] {
        // Longer than the image ever is: its place for new blocks is where old ones were.
        model.disk(name, DiskSpec::new(DISK + (10 << 20)).with_cache_bytes(1 << 30));
    }
    let shadow = Rc::new(RefCell::new(Shadow(vec![vec![0]; SECTORS])));
    model.run(async |world| create(&world, kinds).await);
    let taken: Rc<RefCell<Vec<(u64, DisksImage, Shadow)>>> = Rc::default();
    let struck = Rc::new(std::cell::Cell::new(0));
    let disks = model.disks().clone();
    let (seen, now) = (taken.clone(), shadow.clone());
    model.disks().watch_points(move |point| {
        if point % one_in == 0 {
            seen.borrow_mut().push((point, disks.image(), now.borrow().clone()));
        }
    });
    let examine = |taken: Vec<(u64, DisksImage, Shadow)>| {
        for (point, image, shadow) in taken {
            let crashed = Model::from_image(point, image, Loss::Power);
            crashed.run(async |world| {
                let image = open(&world, kinds).await;
                verify(&image, &shadow, point).await;
                // And it goes on: also what was left over is no obstacle.
                image.write(0, &Pieces::copy_of(&[1; 512])).await.expect("written");
                image.close().await.expect("closed");
            });
            struck.set(struck.get() + 1);
        }
    };
    model.run(async |world| {
        let image = open(&world, kinds).await;
        let mut rng = world.random("workload");
        for _ in 0..OPERATIONS {
            one_operation(&image, &mut rng, &shadow).await;
            // As they come: images of all points at once would take their memory.
            examine(taken.take());
        }
        image.close().await.expect("closed");
    });
    examine(taken.take());
    struck.get()
}

/// One in so many points, in the short form: minutes become seconds.
const ONE_IN: u64 = 29;

#[test]
fn points_of_dynamic_images_open_and_keep_what_was_flushed() {
    for kinds in [Kinds::Vhd, Kinds::Vhdx] {
        assert!(strike(kinds, ONE_IN) > 10);
    }
}

#[test]
fn points_of_differencing_images_open_and_keep_what_was_flushed() {
    for kinds in [Kinds::VhdChild, Kinds::VhdxChild] {
        assert!(strike(kinds, ONE_IN) > 10);
    }
}

#[test]
#[ignore = "minutes: make soak runs it"]
fn every_point_of_every_kind_opens_and_keeps_what_was_flushed() {
    for kinds in [Kinds::Vhd, Kinds::VhdChild, Kinds::Vhdx, Kinds::VhdxChild] {
        assert!(strike(kinds, 1) > OPERATIONS as u64 / 2);
    }
}
