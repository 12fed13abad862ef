//! An image as an LU: a host writes to it over iSCSI, the array stops or loses its power, and what was
//! written is there; UNMAP gives blocks back.

use block::Pieces;
use lu::{CommandContext, Durability, LogicalDisk};
use stack::ImageDisk;
use vdisk::vhd::{self, Kind, NewVhd};
use vdisk::vhdx::{Guid, NewVhdx, create};
use vdisk::{Access, Image};
use world::{Drive, DriveSpec, World};
use world_model::{DiskSpec, Model, Outcome};

use super::rig::{Host, VOLUME_BYTES, declaration, group, host, model, start};
use crate::Config;
use crate::config::{FileFormat, ImageConfig, Level};

const BLOCK_BYTES: u64 = 1 << 20;
const NOBODY: CommandContext<'static> = CommandContext::DETACHED;

fn spec() -> DriveSpec {
    DriveSpec::Modelled { name: "image".into() }
}

fn config(read_only: bool) -> Config {
    let image = ImageConfig { read_only, ..ImageConfig::new("v".into(), spec()) };
    Config {
        images: vec![image],
        hosts: vec![host()],
        volumes: vec![],
        pools: vec![],
        ..declaration(7, 0, vec![])
    }
}

fn drive(world: &World) -> Drive {
    world.open_now(&spec()).expect("opens")
}

/// A model with a dynamic VHDX on a drive of its own.
fn with_image(seed: u64) -> Model {
    let model = model(seed, 0);
    model.disk("image", DiskSpec::new(16 << 20));
    model.run(async |world| {
        let new = NewVhdx::new(VOLUME_BYTES, [Guid([1; 16]), Guid([2; 16]), Guid([3; 16])]);
        create(&drive(&world), &NewVhdx { block_bytes: BLOCK_BYTES as u32, ..new }).await.expect("made");
    });
    model
}

#[test]
fn a_host_finds_in_an_image_what_it_wrote_before_the_array_stopped() {
    let model = with_image(5);
    model.run(async |world| {
        let mut array = start(&world);
        let done = array.apply(config(false)).await.expect("applied");
        assert!(done.iter().any(|line| line.contains("image v: vhdx, dynamic")), "{done:?}");
        let mut host = Host::log_in(&world, 7).await;
        host.fill().await;
        host.fill().await;
        host.verify().await;
        let status = array.status().await.expect("status");
        let image = &status[0].images[0];
        assert_eq!(image.mapped_to.len(), 1);
        let served = image.state.as_ref().expect("is served");
        assert_eq!((served.len_bytes, served.format), (VOLUME_BYTES, "vhdx, dynamic"));
        assert!(served.counters.written_bytes >= 2 * VOLUME_BYTES);
        host.log_out().await;
        array.stop().await.expect("stopped");
    });
    model.run(async |world| {
        let image = Image::open(&world, drive(&world), Access::Read).await.expect("opens");
        assert_eq!(image.findings(), vdisk::Findings::default(), "it was closed");
        let mut array = start(&world);
        array.apply(config(true)).await.expect("applied");
        let mut host = Host::log_in(&world, 7).await;
        host.number = 2;
        host.verify().await;
    });
}

#[test]
fn what_a_host_flushed_to_an_image_is_there_after_a_power_cut() {
    for seed in 0..8 {
        let model = with_image(seed);
        let outcome: Outcome<()> = model.run_until_crash(async |world| {
            let mut array = start(&world);
            array.apply(config(false)).await.expect("applied");
            let mut host = Host::log_in(&world, 7).await;
            host.fill().await;
            host.flush().await;
            let point = model.disks().persistence_points();
            model.disks().cut_power_after(point + 1 + 7 * seed);
            // The same content again: whatever of it comes through, what was flushed is what is read.
            loop {
                host.number -= 1;
                host.fill().await;
                host.flush().await;
            }
        });
        assert_eq!(outcome, Outcome::PowerCut);
        model.reboot();
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(config(false)).await.expect("applied");
            assert!(array.status().await.expect("status")[0].images[0].state.is_ok(), "seed {seed}");
            let mut host = Host::log_in(&world, 7).await;
            host.number = 1;
            host.verify().await;
        });
    }
}

#[test]
fn unmapped_blocks_of_an_image_are_holes_and_zeros() {
    with_image(6).run(async |world| {
        let image = Image::open(&world, drive(&world), Access::Write).await.expect("opens");
        let disk = ImageDisk::new(image);
        let read = async |at| {
            let mut out = Pieces::new();
            disk.read(NOBODY, at, 4096, &mut out).await.expect("read");
            out.joined()
        };
        disk.write(NOBODY, 0, &Pieces::copy_of(&[7; 4096]), Durability::Volatile).await.expect("written");
        assert!(disk.extent(0).mapped && !disk.extent(BLOCK_BYTES).mapped);
        assert_eq!((disk.capabilities().page_bytes, disk.space().used_bytes > 0), (Some(BLOCK_BYTES), true));
        disk.unmap(NOBODY, 0, BLOCK_BYTES).await.expect("unmapped");
        assert!(!disk.extent(0).mapped);
        assert!(read(0).await.iter().all(|byte| *byte == 0));
        disk.write(NOBODY, 2 * BLOCK_BYTES, &Pieces::copy_of(&[8; 4096]), Durability::Volatile)
            .await
            .expect("written");
        let copied =
            disk.copy_from(NOBODY, &disk, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES, 4096).await.expect("copied");
        assert_eq!((copied.moved_bytes, copied.shared_bytes), (4096, 0));
        assert!(read(3 * BLOCK_BYTES).await.iter().all(|byte| *byte == 8));
        assert!(!disk.capabilities().keeps_records);
    });
}

/// A command: operation code, and bytes at places.
fn cdb(opcode: u8, bytes: &[(usize, u8)]) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    bytes.iter().for_each(|(at, byte)| cdb[*at] = *byte);
    cdb
}

#[test]
fn a_host_trims_an_image_and_is_told_what_it_does_not_have() {
    let model = with_image(9);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config(false)).await.expect("applied");
        let mut host = Host::log_in(&world, 7).await;
        host.fill().await;
        let none = Pieces::new;
        // GET LBA STATUS at the second block of 1 MiB: its provisioning status is in the low bits of byte 20.
        let status = cdb(0x9e, &[(1, 0x12), (8, 0x08), (13, 24)]);
        assert_eq!(host.raw(status, none(), 24).await.1[20] & 0x0f, 0, "mapped");
        // UNMAP of that block: one descriptor of 2,048 blocks at 2,048.
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend(2048_u64.to_be_bytes());
        list.extend(2048_u32.to_be_bytes());
        list.extend([0; 4]);
        assert_eq!(host.raw(cdb(0x42, &[(8, 24)]), Pieces::copy_of(&list), 0).await.0, 0);
        assert_eq!(host.raw(status, none(), 24).await.1[20] & 0x0f, 1, "let go");
        let page = |code| cdb(0x12, &[(1, 1), (2, code), (3, 0), (4, 64)]);
        let limits = host.raw(page(0xb0), none(), 64).await.1;
        assert_eq!(limits[28..32], 2048_u32.to_be_bytes(), "the unit is a block of the image");
        assert_eq!(limits[44..48], [0; 4], "nothing is atomic");
        assert_eq!(
            host.raw(page(0xb2), none(), 64).await.1[5] & 0xe7,
            0xe4,
            "thin, and zeros where it is let go"
        );
        assert!(!host.raw(page(0x00), none(), 64).await.1[4..].contains(&0x8f), "no tokens");
        assert_eq!(host.raw(page(0x8f), none(), 64).await.0, 5);
        assert_eq!(host.raw(cdb(0x9c, &[(13, 1)]), Pieces::copy_of(&[0; 512]), 0).await.0, 5, "WRITE ATOMIC");
        let capabilities = host.raw(cdb(0x5e, &[(1, 2), (8, 8)]), none(), 8).await.1;
        assert_eq!(capabilities[2] & 0x01, 0, "reservations do not outlive a stop");
        let mut register = [0; 24];
        (register[15], register[20]) = (7, 1);
        assert_eq!(host.raw(cdb(0x5f, &[(8, 24)]), Pieces::copy_of(&register), 0).await.0, 5, "APTPL");
        register[20] = 0;
        assert_eq!(host.raw(cdb(0x5f, &[(8, 24)]), Pieces::copy_of(&register), 0).await.0, 0);
        let reclaimed = array.status().await.expect("status")[0].images[0].clone().state.expect("served");
        assert_eq!(reclaimed.counters.reclaimed_bytes, BLOCK_BYTES);
    });
}

#[test]
fn what_is_no_image_is_refused_when_it_is_declared_and_said_when_the_array_starts() {
    let model = model(8, 0);
    model.disk("image", DiskSpec::new(16 << 20));
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config(false)).await.expect("the rest is served");
        let status = array.status().await.expect("status");
        let cause = status[0].images[0].state.as_ref().expect_err("it is no image");
        assert!(
            status[0].events.iter().any(|event| event.text.contains(&cause.to_string())),
            "{:?}",
            status[0].events
        );
        let mut another = config(false);
        another.images.push(ImageConfig {
            name: "other".into(),
            spec: DriveSpec::Modelled { name: "nothing".into() },
            ..another.images[0].clone()
        });
        let refused = array.apply(another).await.expect_err("just declared").to_string();
        assert!(refused.starts_with("image \"other\": "), "{refused}");
        let changed = array.apply(config(true)).await.expect_err("open as it was").to_string();
        assert!(changed.contains("remove it"), "{changed}");
        array.apply(Config { images: vec![], hosts: vec![], ..config(false) }).await.expect("removed");
        assert!(array.status().await.expect("status")[0].images.is_empty());
    });
}

#[test]
fn the_format_of_an_image_is_fixed_when_it_is_declared_whatever_a_guest_writes() {
    let model = model(9, 0);
    model.disk("image", DiskSpec::new(VOLUME_BYTES + 512));
    let disk = model.run(async |world| {
        let new = NewVhd::new(Kind::Fixed, VOLUME_BYTES, [1; 16], 0);
        vhd::create(&drive(&world), &new).await.expect("made");
        let mut array = start(&world);
        array.apply(config(false)).await.expect("applied");
        array.stop().await.expect("stopped");
        array.config().images[0].clone()
    });
    assert_eq!(disk.format, Some(FileFormat::VhdFixed));
    // The guest writes a VHDX to its disk. What is declared without a format is what it was, and with another
    // one it is not opened.
    model.run(async |world| {
        drive(&world).write(0, world::Data::copy_of(&vhdx_identity())).await.expect("written");
    });
    for format in [disk.format, None] {
        model.run(async |world| {
            let mut array = start(&world);
            let image = ImageConfig { format, ..disk.clone() };
            array.apply(Config { images: vec![image], ..config(false) }).await.expect("applied");
            let state = array.status().await.expect("status")[0].images[0].state.clone().expect("is served");
            assert_eq!((state.format, state.len_bytes), ("vhd, fixed", VOLUME_BYTES));
        });
    }
    model.run(async |world| {
        let mut array = start(&world);
        let image = ImageConfig { format: Some(FileFormat::Vhdx), ..disk.clone() };
        array.apply(Config { images: vec![image], ..config(false) }).await.expect("the rest is served");
        assert!(array.status().await.expect("status")[0].images[0].state.is_err());
    });
}

fn vhdx_identity() -> Vec<u8> {
    let mut bytes = b"vhdxfile".to_vec();
    bytes.resize(512, 0);
    bytes
}

/// A raw image took the drive of another array, and the first write of a host erased its label.
#[test]
fn a_drive_of_an_array_is_no_raw_image_that_hosts_write_to() {
    let model = model(10, 2);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(8, 2, vec![group("g", Level::Raid1, 0..2)])).await.expect("made");
        array.stop().await.expect("stopped");
    });
    model.run(async |world| {
        let mut array = start(&world);
        let with = |read_only: bool| ImageConfig {
            format: Some(FileFormat::Raw),
            read_only,
            ..ImageConfig::new("v".into(), DriveSpec::Modelled { name: "d0".into() })
        };
        let empty = Config { images: vec![], ..config(false) };
        array.apply(Config { hosts: vec![], ..empty.clone() }).await.expect("another array");
        let refused = array.apply(Config { images: vec![with(false)], ..empty.clone() }).await;
        let refused = refused.expect_err("it has a label").to_string();
        assert!(refused.contains("would destroy the label") && refused.contains("group g"), "{refused}");
        array.apply(Config { images: vec![with(true)], ..empty }).await.expect("hosts only read");
    });
}

/// What the documents say of --overwrite held for spares and replacements, and not where a group is created.
#[test]
fn a_drive_of_another_array_is_erased_for_a_group_if_it_is_named_and_only_then() {
    let model = model(11, 2);
    let groups = || vec![group("g", Level::Raid1, 0..2)];
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(8, 2, groups())).await.expect("made");
        array.stop().await.expect("stopped");
    });
    model.run(async |world| {
        let mut array = start(&world);
        let (wanted, named) = (declaration(7, 2, groups()), ["d0".to_owned(), "d1".to_owned()]);
        array
            .apply(Config {
                drives: vec![],
                groups: vec![],
                pools: vec![],
                volumes: vec![],
                hosts: vec![],
                ..wanted.clone()
            })
            .await
            .expect("another array");
        for named in [&[][..], &named[..1]] {
            array.apply_over(wanted.clone(), named).await.expect_err("a drive is not named");
        }
        let done = array.apply_over(wanted, &named).await.expect("named");
        assert!(done.iter().any(|line| line.starts_with("group g: created")), "{done:?}");
        array.stop().await.expect("stopped");
    });
}
