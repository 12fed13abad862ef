//! Models that go on from an image: with what the original had, and without touching it.

use std::cell::RefCell;
use std::rc::Rc;

use world::{Buf, DriveSpec, World};

use crate::{DiskSpec, DisksImage, Loss, Model};

/// Three writes, a flush, two more writes; each write fills its own block with its number.
async fn writes(world: World) {
    let drive = world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("the disk is there");
    for i in 1..=5_u8 {
        let mut buf = Buf::new(4096);
        buf.fill(i);
        drive.write(u64::from(i) * 4096, buf.freeze()).await.expect("write");
        if i == 3 {
            drive.flush().await.expect("flush");
        }
    }
}

fn first_bytes(model: &Model) -> Vec<u8> {
    let disk = model.disks().get("d").expect("the disk is there");
    (1..=5).map(|i| disk.peek(i * 4096, 1)[0]).collect()
}

fn images_of_all_points(seed: u64) -> (Model, Vec<DisksImage>) {
    let model = Model::new(seed);
    model.disk("d", DiskSpec::new(1 << 20));
    let images = Rc::new(RefCell::new(Vec::new()));
    let (taken, disks) = (images.clone(), model.disks().clone());
    model.disks().watch_points(move |_| taken.borrow_mut().push(disks.image()));
    model.run(writes);
    model.disks().unwatch();
    (model, images.take())
}

#[test]
fn an_image_holds_what_the_disks_held_at_its_point() {
    for seed in 0..20 {
        let (_, images) = images_of_all_points(seed);
        assert_eq!(images.len(), 6, "five writes and a flush");
        for (point, image) in (1..).zip(images) {
            // The flush is the fourth point.
            let written = (1..=5).map(|i| if i + u8::from(i > 3) <= point { i } else { 0 });
            let written: Vec<u8> = written.collect();
            let model = Model::from_image(seed, image.clone(), Loss::Process);
            assert_eq!(first_bytes(&model), written, "the process died after point {point}");
            let model = Model::from_image(seed, image, Loss::Power);
            let left = first_bytes(&model);
            let flushed = if point >= 4 { 3 } else { 0 };
            assert_eq!(left[..flushed], written[..flushed], "after point {point}");
            assert!(left.iter().zip(&written).all(|(l, w)| *l == 0 || l == w), "{left:?}, {written:?}");
            assert_eq!(model.disks().persistence_points(), u64::from(point));
        }
    }
}

#[test]
fn taking_images_changes_nothing_and_the_forks_touch_neither_each_other_nor_the_original() {
    let plain = Model::new(7);
    plain.disk("d", DiskSpec::new(1 << 20));
    plain.run(writes);
    let (model, images) = images_of_all_points(7);
    assert_eq!(plain.digest(), model.digest());
    let forks: Vec<Model> = images.into_iter().map(|i| Model::from_image(1, i, Loss::Process)).collect();
    let before: Vec<Vec<u8>> = forks.iter().map(first_bytes).collect();
    forks[0].run(async |world| {
        let drive = world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("the disk is there");
        drive.zero(0, 1 << 20).await.expect("zero");
    });
    assert_eq!(first_bytes(&forks[0]), [0; 5]);
    assert_eq!(forks.iter().skip(1).map(first_bytes).collect::<Vec<_>>(), before[1..]);
    assert_eq!(first_bytes(&model), [1, 2, 3, 4, 5]);
}
