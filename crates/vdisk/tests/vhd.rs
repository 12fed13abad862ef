//! VHD images over drives of both worlds: the conformance suite, chains, and damage.

use block::{Device, Pieces, conformance};
use vdisk::vhd::{Kind, NewVhd, Parent, create, grow, read_map};
use vdisk::{Access, Image, Map, VdiskError, open_file};
use world::{Drive, DriveSpec, ImageAccess, World};
use world_model::{DiskSpec, Model};

const DISK: u64 = 16 << 20;

fn new(kind: Kind, id: u8) -> NewVhd {
    NewVhd { block_bytes: 512 << 10, ..NewVhd::new(kind, DISK, [id; 16], 7) }
}

/// A model with disks of these names, long enough for an image of `DISK` bytes.
fn model(names: &[&str]) -> Model {
    let model = Model::new(1);
    names.iter().for_each(|name| drop(model.disk(name, DiskSpec::new(DISK + (1 << 20)))));
    model
}

fn drive(world: &World, name: &str) -> Drive {
    world.open_now(&DriveSpec::Modelled { name: name.into() }).expect("opens")
}

async fn fill(image: &Image, at: u64, len: usize, byte: u8) {
    image.write(at, &Pieces::copy_of(&vec![byte; len])).await.expect("written");
}

async fn byte_at(image: &Image, at: u64) -> u8 {
    let mut out = Pieces::new();
    image.read(at / 512 * 512, 512, &mut out).await.expect("read");
    out.joined()[(at % 512) as usize]
}

#[test]
fn dynamic_images_conform_in_the_model() {
    model(&["d"]).run(async |world| {
        create(&drive(&world, "d"), &new(Kind::Dynamic, 1)).await.expect("made");
        let image = Image::open(&world, drive(&world, "d"), Access::Write).await.expect("opens");
        conformance::random_against_shadow(&image, &mut world.random("vhd"), 500).await;
        conformance::refuses_what_is_out_of_range(&image).await;
        image.close().await.expect("closed");
        let again = Image::open(&world, drive(&world, "d"), Access::Write).await.expect("opens again");
        assert_eq!(again.len_bytes(), DISK);
    });
}

#[test]
fn images_in_files_conform_and_chains_are_found_by_their_paths() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name);
    world_real::run(world_real::Options::default(), async |world| {
        let make = async |name: &str, new: NewVhd| {
            let spec = DriveSpec::Image { path: path(name), access: ImageAccess::Create };
            create(&world.open_drive(&spec).await.expect("made"), &new).await.expect("made");
        };
        for (name, kind) in [("fixed.vhd", Kind::Fixed), ("base.vhd", Kind::Dynamic)] {
            make(name, new(kind, 1)).await;
            let image = open_file(&world, &path(name), Access::Write).await.expect("opens");
            conformance::random_against_shadow(&image, &mut world.random(name), 300).await;
            fill(&image, 0, 4096, 0xaa).await;
            fill(&image, 8 << 20, 4096, 0xab).await;
            image.close().await.expect("closed");
        }
        let relative_path = "base.vhd".to_owned();
        let parent = Parent { id: [1; 16], time_stamp_s: 7, relative_path, absolute_path: None };
        make("child.vhd", NewVhd { parent: Some(parent), ..new(Kind::Differencing, 2) }).await;
        let child =
            open_file(&world, &path("child.vhd"), Access::Write).await.expect("opens with its parent");
        assert_eq!((byte_at(&child, 0).await, byte_at(&child, 8 << 20).await), (0xaa, 0xab));
        fill(&child, 512, 512, 0xcc).await;
        assert_eq!(
            (byte_at(&child, 0).await, byte_at(&child, 512).await, byte_at(&child, 1024).await),
            (0xaa, 0xcc, 0xaa)
        );
        child.zero(8 << 20, 2048).await.expect("zeroed");
        assert_eq!((byte_at(&child, 8 << 20).await, byte_at(&child, (8 << 20) + 2048).await), (0, 0xab));
        conformance::random_against_shadow(&child, &mut world.random("child"), 300).await;
        child.close().await.expect("closed");
    })
    .expect("a ring");
}

#[test]
fn another_parent_is_refused_and_damage_is_told_and_not_written_to() {
    model(&["base", "child"]).run(async |world| {
        create(&drive(&world, "base"), &new(Kind::Dynamic, 3)).await.expect("made");
        let parent =
            Parent { id: [1; 16], time_stamp_s: 7, relative_path: "base.vhd".into(), absolute_path: None };
        create(&drive(&world, "child"), &NewVhd { parent: Some(parent), ..new(Kind::Differencing, 2) })
            .await
            .expect("made");
        let child = Image::open(&world, drive(&world, "child"), Access::Write).await.expect("opens");
        let base = Image::open(&world, drive(&world, "base"), Access::Write).await.expect("opens");
        fill(&base, 0, 4096, 1).await;
        fill(&base, 1 << 20, 4096, 1).await;
        base.close().await.expect("closed");
        assert!(matches!(child.attach(base.clone()), Err(VdiskError::Parent { .. })));
        // The second block is said to lie where the first one does.
        let table = drive(&world, "base");
        let mut sector = table.read(1536, world::Buf::new(512)).await.buf;
        let first: [u8; 4] = sector[..4].try_into().expect("an entry");
        sector[8..12].copy_from_slice(&first);
        table.write(1536, sector.freeze()).await.expect("written");
        let before = table.counts().writes;
        let refused = Image::open(&world, table.clone(), Access::Write).await;
        assert!(matches!(refused, Err(VdiskError::Damaged { .. })));
        let read_only = Image::open(&world, table.clone(), Access::Read).await.expect("opens for reading");
        assert_eq!(byte_at(&read_only, 0).await, 1);
        let refused = read_only.write(0, &Pieces::copy_of(&[0; 512])).await;
        assert_eq!(refused, Err(VdiskError::ReadOnly));
        assert_eq!(table.counts().writes, before);
    });
}

#[test]
fn without_its_last_footer_an_image_opens_by_the_copy_and_has_one_again() {
    model(&["d"]).run(async |world| {
        create(&drive(&world, "d"), &new(Kind::Dynamic, 1)).await.expect("made");
        let image = Image::open(&world, drive(&world, "d"), Access::Write).await.expect("opens");
        fill(&image, 3 << 20, 8192, 9).await;
        image.flush().await.expect("durable");
        let (end, below) = (image.used_len_bytes() - 512, drive(&world, "d"));
        assert_eq!(&below.read(end, world::Buf::new(512)).await.buf[..8], b"conectix");
        below.zero(end, 512).await.expect("gone");
        let again = Image::open(&world, drive(&world, "d"), Access::Write).await.expect("opens");
        assert_eq!((byte_at(&again, 3 << 20).await, again.geometry().len_bytes), (9, DISK));
        again.flush().await.expect("durable");
        assert_eq!(&below.read(end, world::Buf::new(512)).await.buf[..8], b"conectix");
    });
}

/// What a model reads from a closed image is what the image has; of another type, or damaged, it is an error.
#[test]
fn the_map_of_a_closed_image_is_read_from_its_file() {
    model(&["d", "f"]).run(async |world| {
        let below = drive(&world, "d");
        create(&below, &new(Kind::Dynamic, 1)).await.expect("made");
        let image = Image::open(&world, below.clone(), Access::Write).await.expect("opens");
        for at in [9 << 20, 0, 5 << 20] {
            fill(&image, at, 4096, 1).await;
        }
        image.close().await.expect("closed");
        let map = read_map(&below).await.expect("read");
        assert_eq!((map.len_bytes(), map.used_len()), (DISK, image.used_len_bytes()));
        let blocks = (0..DISK).step_by(512 << 10);
        let alike = blocks.map(|at| (map.extent(at, 512 << 10), image.extent(at, 512 << 10)));
        assert!(alike.clone().all(|(own, other)| own == other));
        assert_eq!(alike.filter(|((_, mapped), _)| *mapped).count(), 3);
        create(&drive(&world, "f"), &new(Kind::Fixed, 1)).await.expect("made");
        read_map(&drive(&world, "f")).await.expect_err("it has no map");
        // Two blocks in one place.
        let table = below.read(1536, world::Buf::new(512)).await.buf;
        let entry = table[..4].to_vec();
        let mut damaged = table.to_vec();
        damaged[4..8].copy_from_slice(&entry);
        below.write(1536, world::Data::copy_of(&damaged)).await.expect("written");
        assert!(matches!(read_map(&below).await, Err(VdiskError::Damaged { .. })));
    });
}

/// A last block that is cut at the end of the disk, with the footer there: after growing, the footer and
/// whatever else was there were bytes of the disk.
#[test]
fn the_rest_of_the_last_block_is_zeros_after_growing() {
    const LEN: u64 = (3 << 20) - (100 << 10);
    model(&["d"]).run(async |world| {
        let below = drive(&world, "d");
        create(&below, &NewVhd { len_bytes: LEN, ..new(Kind::Dynamic, 1) }).await.expect("made");
        let image = Image::open(&world, below.clone(), Access::Write).await.expect("opens");
        fill(&image, LEN - 4096, 4096, 0x11).await;
        image.close().await.expect("closed");
        let rest_at = image.used_len_bytes() - 512 - (100 << 10);
        for at in [rest_at, rest_at + (100 << 10) - 512] {
            below.write(at, world::Data::copy_of(&[0x77; 512])).await.expect("written");
        }
        grow(&below, Some(Kind::Dynamic), 5 << 20, &mut |_, _| ()).await.expect("grown");
        let image = Image::open(&world, below, Access::Read).await.expect("opens");
        let mut out = Pieces::new();
        image.read(LEN - 512, (5 << 20) - LEN + 512, &mut out).await.expect("read");
        let bytes = out.joined();
        assert!(bytes[..512] == [0x11; 512] && bytes[512..].iter().all(|byte| *byte == 0));
    });
}
