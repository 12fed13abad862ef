//! VHDX images over drives of both worlds: the conformance suite, chains, compaction, growth, and repair.

use std::path::Path;

use block::{Pieces, conformance};
use vdisk::vhdx::{Guid, NewVhdx, Parent, create, grow, read_map};
use vdisk::{Access, AnyDisk, Format, Image, Map, VdiskError, copy, open_file, vhd};
use world::{Buf, Drive, DriveSpec, ImageAccess, World};
use world_model::{DiskSpec, Model};

const DISK: u64 = 24 << 20;

fn new(ids: u8) -> NewVhdx {
    NewVhdx {
        block_bytes: 1 << 20,
        ..NewVhdx::new(DISK, [Guid([ids; 16]), Guid([ids + 1; 16]), Guid([ids + 2; 16])])
    }
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
fn dynamic_and_fixed_images_conform_in_the_model() {
    for fixed in [false, true] {
        let model = Model::new(3);
        model.disk("d", DiskSpec::new(DISK + (8 << 20)));
        model.run(async |world| {
            create(&drive(&world, "d"), &NewVhdx { fixed, ..new(1) }).await.expect("made");
            let image = Image::open(&world, drive(&world, "d"), Access::Write).await.expect("opens");
            conformance::random_against_shadow(&image, &mut world.random("vhdx"), 500).await;
            conformance::refuses_what_is_out_of_range(&image).await;
            fill(&image, 9 << 20, 4096, 7).await;
            // Not closed: the log has the last change, and is replayed by who only reads, too.
            image.flush().await.expect("durable");
            let reader = Image::open(&world, drive(&world, "d"), Access::Read).await.expect("opens");
            assert_eq!(byte_at(&reader, 9 << 20).await, 7);
            image.close().await.expect("closed");
            let again = Image::open(&world, drive(&world, "d"), Access::Write).await.expect("opens again");
            assert_eq!((again.findings(), byte_at(&again, 9 << 20).await), (Default::default(), 7));
            assert_eq!(again.format(), if fixed { Format::VhdxFixed } else { Format::VhdxDynamic });
        });
    }
}

/// The bits of a block of 32 MiB fill two pages, and sectors of its second half are in the second one only.
#[test]
fn the_second_half_of_a_large_block_shows_the_parent_and_what_was_written() {
    let model = Model::new(4);
    for name in ["base", "child"] {
        model.disk(name, DiskSpec::new(80 << 20));
    }
    model.run(async |world| {
        let large = |ids| NewVhdx { block_bytes: 32 << 20, ..new(ids) };
        create(&drive(&world, "base"), &large(1)).await.expect("made");
        let base = Image::open(&world, drive(&world, "base"), Access::Write).await.expect("opens");
        fill(&base, 20 << 20, 8192, 5).await;
        base.close().await.expect("closed");
        let base = Image::open(&world, drive(&world, "base"), Access::Read).await.expect("opens");
        let parent = Parent { id: Guid(base.id()), relative_path: "base".into(), absolute_path: None };
        let of_base = NewVhdx { parent: Some(parent), ..large(9) };
        create(&drive(&world, "child"), &of_base).await.expect("made");
        for round in 0..2 {
            let child = Image::open(&world, drive(&world, "child"), Access::Write).await.expect("opens");
            child.attach(base.clone()).expect("it is the one");
            if round == 0 {
                fill(&child, (20 << 20) + 4096, 4096, 6).await;
                child.zero(23 << 20, 4096).await.expect("zeros");
            }
            let at = |offset: u64| byte_at(&child, (20 << 20) + offset);
            assert_eq!((at(0).await, at(4096).await, at(8192).await), (5, 6, 0), "round {round}");
            child.close().await.expect("closed");
        }
    });
}

/// Flattened into another format, a chain is the same disk.
async fn flatten_and_compare(world: &World, chain: &Path, empty: Drive, flat: &Path) {
    let chain = AnyDisk::open(
        world,
        &vdisk::Chain { path: chain, access: Access::Read, format: None, parents_in: &[] },
    )
    .await
    .expect("opens");
    vhd::create(&empty, &vhd::NewVhd::new(vhd::Kind::Dynamic, 2 * DISK, [1; 16], 0)).await.expect("made");
    drop(empty);
    let flat = open_file(world, flat, Access::Write).await.expect("opens");
    copy(&chain, &flat, false, |_| true).await.expect("copied");
    for at in (0..2 * DISK).step_by(1 << 20) {
        let (mut a, mut b) = (Pieces::new(), Pieces::new());
        chain.read(at, 1 << 20, &mut a).await.expect("read");
        flat.read(at, 1 << 20, &mut b).await.expect("read");
        assert_eq!(a.first_difference(&b), None, "in the MiB at {at}");
    }
}

#[test]
fn chains_compaction_and_growth_in_files() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name);
    world_real::run(world_real::Options::default(), async |world| {
        let made = async |name: &str| {
            let spec = DriveSpec::Image { path: path(name), access: ImageAccess::Create };
            world.open_drive(&spec).await.expect("made")
        };
        create(&made("base.vhdx").await, &new(1)).await.expect("made");
        let base = open_file(&world, &path("base.vhdx"), Access::Write).await.expect("opens");
        for at in 0..20 {
            fill(&base, at << 20, 8192, at as u8 + 1).await;
        }
        for at in 0..10 {
            base.zero(at << 20, 1 << 20).await.expect("let go");
        }
        fill(&base, 19 << 20, 8192, 0).await;
        let done = base.compact(|_, _| ()).await.expect("compacted");
        assert_eq!((done.zero_blocks, done.moved_blocks), (1, 9));
        assert_eq!(done.before_bytes - done.after_bytes, 11 << 20);
        drop(base);
        let spec = DriveSpec::Image { path: path("base.vhdx"), access: ImageAccess::Write };
        grow(&world.open_drive(&spec).await.expect("opens"), 2 * DISK, 5, &mut |_, _| ())
            .await
            .expect("grown");
        let base = open_file(&world, &path("base.vhdx"), Access::Write).await.expect("opens");
        assert_eq!((base.len_bytes(), base.findings()), (2 * DISK, Default::default()));
        for at in 0..20_u64 {
            let expected = if (10..19).contains(&at) { at as u8 + 1 } else { 0 };
            assert_eq!(byte_at(&base, at << 20).await, expected, "{at}");
        }
        fill(&base, DISK + 512, 512, 0x77).await;
        base.close().await.expect("closed");
        drop(base);
        let id = Guid(open_file(&world, &path("base.vhdx"), Access::Read).await.expect("opens").id());
        let parent = Parent { id, relative_path: "base.vhdx".into(), absolute_path: None };
        create(&made("child.vhdx").await, &NewVhdx { parent: Some(parent), len_bytes: 2 * DISK, ..new(9) })
            .await
            .expect("made");
        let child =
            open_file(&world, &path("child.vhdx"), Access::Write).await.expect("opens with its parent");
        fill(&child, 12 << 20, 512, 0xcc).await;
        let bytes = [
            byte_at(&child, 12 << 20).await,
            byte_at(&child, (12 << 20) + 512).await,
            byte_at(&child, DISK + 512).await,
        ];
        assert_eq!(bytes, [0xcc, 13, 0x77]);
        child.zero(13 << 20, 1 << 20).await.expect("hidden");
        child.zero((14 << 20) + 512, 512).await.expect("hidden");
        let bytes = [
            byte_at(&child, 13 << 20).await,
            byte_at(&child, 14 << 20).await,
            byte_at(&child, (14 << 20) + 512).await,
        ];
        assert_eq!(bytes, [0, 15, 0]);
        child.close().await.expect("closed");
        drop(child);
        let child = open_file(&world, &path("child.vhdx"), Access::Write).await.expect("opens again");
        assert_eq!((byte_at(&child, 12 << 20).await, byte_at(&child, 13 << 20).await), (0xcc, 0));
        conformance::random_against_shadow(&child, &mut world.random("child"), 300).await;
        child.close().await.expect("closed");
        drop(child);
        flatten_and_compare(&world, &path("child.vhdx"), made("flat.vhd").await, &path("flat.vhd")).await;
    })
    .expect("a ring");
}

#[test]
fn a_damaged_copy_is_told_and_repaired_and_a_damaged_table_is_not_written_to() {
    let model = Model::new(3);
    model.disk("d", DiskSpec::new(DISK + (8 << 20)));
    model.run(async |world| {
        let below = drive(&world, "d");
        create(&below, &new(1)).await.expect("made");
        let damage = async |at: u64| {
            let mut buf = below.read(at, Buf::new(512)).await.buf;
            buf[9] ^= 0x55;
            below.write(at, buf.freeze()).await.expect("written");
        };
        damage(192 << 10).await;
        let image = Image::open(&world, below.clone(), Access::Write).await.expect("opens by the other one");
        assert_eq!(image.findings().notes.len(), 1);
        image.repair().await.expect("repaired");
        let again = Image::open(&world, below.clone(), Access::Write).await.expect("opens");
        assert_eq!(again.findings(), Default::default());
        fill(&again, 0, 512, 1).await;
        fill(&again, 1 << 20, 512, 1).await;
        again.close().await.expect("closed");
        // The second block is said to lie where the first one does.
        let mut table = below.read(3 << 20, Buf::new(512)).await.buf;
        let first: [u8; 8] = table[..8].try_into().expect("an entry");
        table[8..16].copy_from_slice(&first);
        below.write(3 << 20, table.freeze()).await.expect("written");
        let writes = below.counts().writes;
        assert!(Image::open(&world, below.clone(), Access::Write).await.is_err());
        let reader = Image::open(&world, below.clone(), Access::Read).await.expect("opens for reading");
        assert_eq!((byte_at(&reader, 0).await, reader.findings().faults.len()), (1, 1));
        assert_eq!(below.counts().writes, writes);
    });
}

/// A block of state 4 or 5 read as zeros, and a copy of the disk had zeros for data.
#[test]
fn a_block_of_an_invalid_state_is_an_error_and_a_rescue_copies_the_others() {
    let model = Model::new(3);
    ["d", "to"].iter().for_each(|name| drop(model.disk(name, DiskSpec::new(DISK + (8 << 20)))));
    model.run(async |world| {
        let below = drive(&world, "d");
        create(&below, &new(1)).await.expect("made");
        let image = Image::open(&world, below.clone(), Access::Write).await.expect("opens");
        for block in 0..3 {
            fill(&image, block << 20, 1 << 20, 0x11).await;
        }
        image.close().await.expect("closed");
        for state in [4, 5] {
            let mut table = below.read(3 << 20, Buf::new(512)).await.buf;
            table[8] = table[8] & !7 | state;
            below.write(3 << 20, table.freeze()).await.expect("written");
            let damaged = Image::open(&world, below.clone(), Access::Read).await.expect("opens for reading");
            let faults = damaged.findings().faults;
            assert_eq!(faults, [format!("block 1 has the invalid state {state}")]);
            let read = damaged.read(1 << 20, 4096, &mut Pieces::new()).await;
            assert!(matches!(read, Err(VdiskError::Damaged { .. })), "{read:?}");

            let to = drive(&world, "to");
            to.zero(0, to.len_bytes()).await.expect("empty");
            create(&to, &new(9)).await.expect("made");
            let to = Image::open(&world, to, Access::Write).await.expect("opens");
            let damaged = AnyDisk::Image(damaged);
            let refused = copy(&damaged, &to, false, |_| true).await;
            assert!(matches!(refused, Err(VdiskError::Damaged { .. })), "{refused:?}");
            assert_eq!(copy(&damaged, &to, true, |_| true).await, Ok(1 << 20));
            let bytes = [byte_at(&to, 0).await, byte_at(&to, 1 << 20).await, byte_at(&to, 2 << 20).await];
            assert_eq!(bytes, [0x11, 0, 0x11]);
        }
    });
}

/// What a model reads from a closed image is what the image has.
#[test]
fn the_map_of_a_closed_image_is_read_from_its_file() {
    let model = Model::new(3);
    model.disk("d", DiskSpec::new(DISK + (8 << 20)));
    model.run(async |world| {
        let below = drive(&world, "d");
        create(&below, &new(1)).await.expect("made");
        let image = Image::open(&world, below.clone(), Access::Write).await.expect("opens");
        for at in [9 << 20, 0, 5 << 20] {
            fill(&image, at, 4096, 1).await;
        }
        image.close().await.expect("closed");
        let map = read_map(&below, 3).await.expect("read");
        assert_eq!((map.len_bytes(), map.used_len()), (DISK, image.used_len_bytes()));
        let alike = (0..DISK).step_by(1 << 20).map(|at| (map.extent(at, 1 << 20), image.extent(at, 1 << 20)));
        assert!(alike.clone().all(|(own, other)| own == other));
        assert_eq!(alike.filter(|((_, mapped), _)| *mapped).count(), 3);
        below.zero(64 << 10, 192 << 10).await.expect("both headers are gone");
        read_map(&below, 3).await.expect_err("no header");
    });
}

/// What another program left in the last block behind the end of the disk, and in the file behind the blocks
/// of a fixed image, was on the disk after growing.
#[test]
fn what_a_disk_gets_by_growing_is_zeros() {
    const LEN: u64 = (3 << 20) - (100 << 10);
    for fixed in [false, true] {
        let model = Model::new(5);
        model.disk("d", DiskSpec::new(DISK));
        model.run(async |world| {
            let below = drive(&world, "d");
            create(&below, &NewVhdx { fixed, len_bytes: LEN, ..new(1) }).await.expect("made");
            let image = Image::open(&world, below.clone(), Access::Write).await.expect("opens");
            fill(&image, LEN - 4096, 4096, 0x11).await;
            image.close().await.expect("closed");
            let end = image.used_len_bytes();
            for at in [end - (100 << 10), end - 512, end, end + (1 << 20)] {
                below.write(at, world::Data::copy_of(&[0x77; 512])).await.expect("written");
            }
            grow(&below, 5 << 20, 5, &mut |_, _| ()).await.expect("grown");
            let image = Image::open(&world, below, Access::Read).await.expect("opens");
            let mut out = Pieces::new();
            image.read(LEN - 512, (5 << 20) - LEN + 512, &mut out).await.expect("read");
            let bytes = out.joined();
            assert!(bytes[..512] == [0x11; 512], "fixed: {fixed}");
            assert!(bytes[512..].iter().all(|byte| *byte == 0), "fixed: {fixed}");
        });
    }
}
