//! What was seen to end the process, or to serve something else than what was declared, each case by its
//! name.

use std::path::Path;

use block::{BlockError, Device, Pieces};
use vdisk::vhd::{self, Kind, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx};
use vdisk::{
    Access, AnyDisk, Chain, FileFormat, Format, Image, ImageTrouble, VdiskError, open_chain, open_file, probe,
};
use world::{DriveSpec, ImageAccess, World};
use world_model::Model;

use super::exercise::{self, mend_at, mend_vhd};
use super::medium::File;

const DISK: u64 = 4 << 20;
const MIB: u64 = 1 << 20;

fn empty() -> File {
    File::new(Vec::new().into())
}

fn new_vhd(kind: Kind, id: u8) -> NewVhd {
    NewVhd { block_bytes: 512 << 10, ..NewVhd::new(kind, DISK, [id; 16], 0) }
}

fn new_vhdx(id: u8) -> NewVhdx {
    NewVhdx {
        block_bytes: 1 << 20,
        ..NewVhdx::new(DISK, [Guid([id; 16]), Guid([id + 1; 16]), Guid([id + 2; 16])])
    }
}

async fn write(image: &Image, at: u64, bytes: &[u8]) -> Result<(), VdiskError> {
    image.write(at, &Pieces::copy_of(bytes)).await
}

async fn byte_at(image: &Image, at: u64) -> u8 {
    let mut out = Pieces::new();
    image.read(at, 512, &mut out).await.expect("read");
    out.joined()[0]
}

#[test]
fn a_guest_that_writes_another_header_to_its_fixed_vhd_gets_the_same_disk_again() {
    Model::new(1).run(async |world| {
        let other = empty();
        vhdx::create(&other.drive(), &new_vhdx(1)).await.expect("made");
        let dynamic = empty();
        vhd::create(&dynamic.drive(), &new_vhd(Kind::Dynamic, 3)).await.expect("made");
        for crafted in [other, dynamic] {
            let file = empty();
            vhd::create(&file.drive(), &new_vhd(Kind::Fixed, 2)).await.expect("made");
            let image = Image::open_as(&world, file.drive(), Access::Write, FileFormat::VhdFixed)
                .await
                .expect("opens");
            let header = crafted.whole();
            let header = &header[..header.len().min(DISK as usize)];
            write(&image, 0, header).await.expect("a guest writes what it likes");
            image.close().await.expect("closed");
            let again = Image::open_as(&world, file.drive(), Access::Write, FileFormat::VhdFixed)
                .await
                .expect("opens");
            assert_eq!((again.format(), again.len_bytes()), (Format::VhdFixed, DISK));
            write(&again, 1 << 20, &[5; 512]).await.expect("written where it lies");
            let probed = probe(&file.drive()).await.expect("a format");
            assert_eq!(probed.format, FileFormat::VhdFixed, "the footer is where no guest writes");
            assert!(probed.disputed.is_some());
            let undeclared = Image::open(&world, file.drive(), Access::Write).await;
            assert!(matches!(undeclared, Err(VdiskError::Refused { .. })), "somebody has to say what it is");
        }
    });
}

/// A dynamic VHD whose file was cut where its last block ends: the last sector is the guest's.
#[test]
fn a_footer_that_a_guest_wrote_into_a_block_does_not_count() {
    Model::new(1).run(async |world| {
        let file = empty();
        vhd::create(&file.drive(), &new_vhd(Kind::Dynamic, 3)).await.expect("made");
        let image = Image::open(&world, file.drive(), Access::Write).await.expect("opens");
        let crafted = vhd::Footer::new(Kind::Dynamic, 2 * DISK, [9; 16], 0).encode();
        write(&image, (512 << 10) - 512, &crafted).await.expect("written");
        image.close().await.expect("closed");
        file.drive().set_len(file.len() - 512).await.expect("cut");
        let again =
            Image::open_as(&world, file.drive(), Access::Write, FileFormat::VhdDynamic).await.expect("opens");
        assert_eq!((again.len_bytes(), again.id()), (DISK, [3; 16]));
        // Nor where the copy at the beginning is damaged.
        file.poke(0, &[0; 512]);
        let damaged = Image::open_as(&world, file.drive(), Access::Read, FileFormat::VhdDynamic).await;
        assert!(matches!(damaged, Err(VdiskError::Damaged { .. })));
    });
}

/// A VHDX with a log of one entry, whose first descriptor is changed, checksums right.
async fn vhdx_with_log(world: &World, change: impl FnOnce(&mut [u8])) -> File {
    let file = empty();
    vhdx::create(&file.drive(), &new_vhdx(1)).await.expect("made");
    let image = Image::open(world, file.drive(), Access::Write).await.expect("opens");
    write(&image, 0, &[1; 4096]).await.expect("written");
    image.flush().await.expect("durable");
    let mut descriptor = [0; 32];
    file.peek(MIB + 64, &mut descriptor);
    change(&mut descriptor);
    file.poke(MIB + 64, &descriptor);
    mend_at(&file, MIB, 8192);
    file
}

#[test]
fn a_log_for_2_to_the_61_bytes_or_for_what_is_beyond_the_file_is_damage() {
    Model::new(1).run(async |world| {
        let zeros = |len: u64, at: u64| {
            move |descriptor: &mut [u8]| {
                descriptor[..4].copy_from_slice(b"zero");
                descriptor[8..16].copy_from_slice(&len.to_le_bytes());
                descriptor[16..24].copy_from_slice(&at.to_le_bytes());
            }
        };
        let cases = [(1_u64 << 61, 3 * MIB), (4096, 1 << 40), (4096, 0), (4096, MIB)];
        for (len, at) in cases {
            let file = vhdx_with_log(&world, zeros(len, at)).await;
            let opened = Image::open(&world, file.drive(), Access::Write).await;
            // An entry that cannot be is no entry: then the log has none, and nothing of it is written.
            if let Ok(image) = opened {
                write(&image, 0, &[1; 512]).await.expect("written");
            }
        }
        let beyond = vhdx_with_log(&world, zeros(4096, 1 << 40)).await;
        let refused = Image::open(&world, beyond.drive(), Access::Write).await;
        assert!(matches!(refused, Err(VdiskError::Damaged { .. })));
        let zeros_table = vhdx_with_log(&world, zeros(4096, 3 * MIB)).await;
        let image = Image::open(&world, zeros_table.drive(), Access::Write).await.expect("opens");
        assert_eq!(byte_at(&image, 0).await, 0, "the log has zeros for the table");
    });
}

/// Only its last footer is whole, and the file has more behind its blocks than the image knows of: the next
/// block takes the place of that footer.
#[test]
fn a_damaged_copy_of_the_footer_is_made_whole_before_the_other_one_goes() {
    Model::new(1).run(async |world| {
        let file = empty();
        vhd::create(&file.drive(), &new_vhd(Kind::Dynamic, 1)).await.expect("made");
        file.drive().set_len(file.len() + (256 << 10)).await.expect("longer");
        let mut footer = [0; 512];
        file.peek(0, &mut footer);
        file.poke(file.len() - 512, &footer);
        file.poke(0, &[0; 512]);
        let image = Image::open(&world, file.drive(), Access::Write).await.expect("opens by the last one");
        write(&image, MIB, &[5; 4096]).await.expect("written");
        image.close().await.expect("closed");
        let again = Image::open(&world, file.drive(), Access::Write).await.expect("opens");
        assert_eq!((again.len_bytes(), byte_at(&again, MIB).await), (DISK, 5));
    });
}

/// A new block changes the table, and with it the header: nothing could open the image any more.
#[test]
fn a_vhd_whose_table_lies_on_its_headers_is_refused() {
    Model::new(1).run(async |world| {
        for table_at in [0_u64, 512, 1024] {
            let file = empty();
            vhd::create(&file.drive(), &new_vhd(Kind::Dynamic, 1)).await.expect("made");
            // Here is the parent's name, which a dynamic image does not have: no block is allocated.
            file.poke(1024, &[0xff; 32]);
            file.poke(512 + 16, &table_at.to_be_bytes());
            mend_vhd(&file);
            let refused = Image::open(&world, file.drive(), Access::Write).await.err();
            let said = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(
                said.contains("the block allocation table is damaged: it overlaps the headers"),
                "{said}"
            );
        }
    });
}

/// The next change of the header would make it one that is not believed.
#[test]
fn a_vhdx_whose_sequence_numbers_are_used_up_is_only_read() {
    Model::new(1).run(async |world| {
        let file = empty();
        vhdx::create(&file.drive(), &new_vhdx(1)).await.expect("made");
        file.poke((128 << 10) + 8, &(1_u64 << 62).to_le_bytes());
        mend_at(&file, 128 << 10, 4096);
        assert!(Image::open(&world, file.drive(), Access::Read).await.is_ok());
        let refused = Image::open(&world, file.drive(), Access::Write).await;
        assert!(matches!(refused, Err(VdiskError::Damaged { .. })));
    });
}

#[test]
fn a_child_with_other_sectors_than_its_parent_is_refused() {
    Model::new(1).run(async |world| {
        let base = empty();
        vhdx::create(&base.drive(), &NewVhdx { logical_bytes: 4096, ..new_vhdx(1) }).await.expect("made");
        let base = Image::open(&world, base.drive(), Access::Read).await.expect("opens");
        let parent = vhdx::Parent { id: Guid(base.id()), relative_path: "base".into(), absolute_path: None };
        let child = empty();
        vhdx::create(&child.drive(), &NewVhdx { parent: Some(parent), ..new_vhdx(5) }).await.expect("made");
        let child = Image::open(&world, child.drive(), Access::Write).await.expect("opens");
        let refused = child.attach(base).expect_err("512 over 4096").to_string();
        assert!(refused.contains("4096"), "{refused}");
    });
}

/// Its footer says that it is small: the file behind the disk is no part of it, and its end is where the
/// footer stays.
#[test]
fn a_fixed_vhd_in_a_longer_file_grows_and_has_zeros_there() {
    Model::new(1).run(async |world| {
        let file = empty();
        vhd::create(&file.drive(), &new_vhd(Kind::Fixed, 1)).await.expect("made");
        file.poke(MIB, &[9; 512]);
        file.poke(DISK, &vhd::Footer::new(Kind::Fixed, MIB, [1; 16], 0).encode());
        for len in [2 * MIB, 3 * DISK] {
            vhd::grow(&file.drive(), Some(Kind::Fixed), len, &mut |_, _| ()).await.expect("grown");
            let image = Image::open(&world, file.drive(), Access::Read).await.expect("opens");
            assert_eq!((image.len_bytes(), byte_at(&image, MIB).await), (len, 0));
        }
        assert_eq!(file.len(), 3 * DISK + 512);
    });
}

/// A resize said nothing of how far it was.
#[test]
fn a_disk_that_grows_tells_how_far_it_is() {
    Model::new(1).run(async |world| {
        let file = empty();
        vhd::create(&file.drive(), &new_vhd(Kind::Fixed, 1)).await.expect("made");
        // The footer says that it is small: what it gets is in the file, and is overwritten with zeros.
        let len = 200 * MIB;
        file.drive().set_len(len).await.expect("longer");
        file.poke(len - 512, &vhd::Footer::new(Kind::Fixed, MIB, [1; 16], 0).encode());
        let mut told: Vec<(u64, u64)> = Vec::new();
        vhd::grow(&file.drive(), Some(Kind::Fixed), 150 * MIB, &mut |done, all| told.push((done, all)))
            .await
            .expect("grown");
        let image = Image::open(&world, file.drive(), Access::Read).await.expect("opens");
        assert_eq!(image.len_bytes(), 150 * MIB);
        let all = 149 * MIB;
        assert_eq!(told, [(64 * MIB, all), (128 * MIB, all), (all, all), (all, all)]);
    });
}

/// The file became longer before it had a footer at its new end: a crash between the two, or no room for the
/// footer, and it was no VHD any more.
#[test]
fn a_fixed_vhd_that_cannot_grow_is_the_one_that_it_was() {
    Model::new(1).run(async |world| {
        let file = empty();
        vhd::create(&file.drive(), &new_vhd(Kind::Fixed, 1)).await.expect("made");
        let len = file.len();
        file.set_room(len);
        vhd::grow(&file.drive(), Some(Kind::Fixed), 2 * len, &mut |_, _| ()).await.expect_err("no room");
        assert_eq!(file.len(), len);
        let image = Image::open(&world, file.drive(), Access::Read).await.expect("opens");
        assert!(image.len_bytes() < len);
        file.set_room(u64::MAX);
        vhd::grow(&file.drive(), Some(Kind::Fixed), 2 * len, &mut |_, _| ()).await.expect("there is room");
        let image = Image::open(&world, file.drive(), Access::Read).await.expect("opens");
        assert_eq!(image.len_bytes(), 2 * len);
    });
}

/// Children know a VHDX by its DataWriteGuid: they could not be opened any more.
#[test]
fn a_parent_that_was_compacted_has_its_children() {
    Model::new(1).run(async |world| {
        let (file, parent) = dynamic_with_a_block(&world, true).await;
        parent.close().await.expect("closed");
        let parent = Image::open(&world, file.drive(), Access::Write).await.expect("opens");
        let id = Guid(parent.id());
        let of = vhdx::Parent { id, relative_path: "parent.vhdx".into(), absolute_path: None };
        let child = empty();
        vhdx::create(&child.drive(), &NewVhdx { parent: Some(of), ..new_vhdx(5) }).await.expect("made");
        parent.compact(|_, _| ()).await.expect("compacted");
        let open = async || Image::open(&world, file.drive(), Access::Write).await.expect("opens");
        let child = Image::open(&world, child.drive(), Access::Write).await.expect("opens");
        child.attach(open().await).expect("it is the parent");
        write(&open().await, 0, &[2; 4096]).await.expect("written");
    });
}

/// A dynamic VHD or VHDX that is open, and has ones in its first block.
async fn dynamic_with_a_block(world: &World, is_vhdx: bool) -> (File, Image) {
    let file = empty();
    match is_vhdx {
        true => vhdx::create(&file.drive(), &new_vhdx(1)).await.expect("made"),
        false => vhd::create(&file.drive(), &new_vhd(Kind::Dynamic, 1)).await.expect("made"),
    }
    let image = Image::open(world, file.drive(), Access::Write).await.expect("opens");
    write(&image, 0, &[1; 4096]).await.expect("written");
    image.flush().await.expect("durable");
    (file, image)
}

/// Writes that need space are refused while there is none, everything else goes on, and afterwards all of it.
#[test]
fn an_image_without_room_goes_on_as_soon_as_there_is_some() {
    Model::new(1).run(async |world| {
        for (is_vhdx, room_beyond) in [(false, 0), (false, 512 << 10), (true, 0), (true, 2048)] {
            let (file, image) = dynamic_with_a_block(&world, is_vhdx).await;
            file.set_room(file.len() + room_beyond);
            let refused = Device::write(&image, 2 * MIB, &Pieces::copy_of(&[2; 4096])).await;
            let flushed = Device::flush(&image).await;
            assert!(
                [&refused, &flushed].iter().any(|e| matches!(e, Err(BlockError::NoSpace { .. }))),
                "VHDX {is_vhdx}, {room_beyond}: {refused:?} {flushed:?}"
            );
            assert!(image.trouble().is_some_and(|trouble| matches!(trouble, ImageTrouble::NoRoom { .. })));
            assert_eq!(byte_at(&image, 0).await, 1, "reads go on");
            write(&image, 0, &[3; 4096]).await.expect("what has its place is written");
            file.set_room(u64::MAX);
            write(&image, 2 * MIB, &[4; 4096]).await.expect("there is room");
            image.flush().await.expect("durable");
            assert_eq!(image.trouble(), None);
            image.close().await.expect("closed");
            let again = Image::open(&world, file.drive(), Access::Write).await.expect("opens");
            assert_eq!(again.findings(), Default::default(), "VHDX: {is_vhdx}, {room_beyond} bytes beyond");
            assert_eq!((byte_at(&again, 0).await, byte_at(&again, 2 * MIB).await), (3, 4));
        }
    });
}

/// After a metadata write that failed the content of the file is unknown: nothing more is written, also when
/// the file has recovered, and reads go on.
#[test]
fn an_image_whose_metadata_write_failed_is_read_only_until_it_is_opened_again() {
    Model::new(1).run(async |world| {
        for is_vhdx in [false, true] {
            let (file, image) = dynamic_with_a_block(&world, is_vhdx).await;
            write(&image, 2 * MIB, &[2; 4096]).await.expect("written");
            file.set_failing(true);
            assert!(matches!(image.flush().await, Err(VdiskError::Drive(_))));
            file.set_failing(false);
            let before = file.whole();
            for refused in
                [write(&image, 0, &[3; 4096]).await, image.zero(0, 4096).await, image.flush().await]
            {
                assert!(matches!(refused, Err(VdiskError::Poisoned { .. })), "{refused:?}");
            }
            assert!(file.whole() == before, "nothing is written, VHDX: {is_vhdx}");
            assert!(image.trouble().is_some_and(|trouble| trouble.to_string().starts_with("read-only")));
            assert_eq!(byte_at(&image, 0).await, 1);
            drop(image);
            let again = Image::open(&world, file.drive(), Access::Write).await.expect("opens");
            assert_eq!(byte_at(&again, 0).await, 1);
            write(&again, 0, &[3; 4096]).await.expect("its metadata was read again");
        }
    });
}

/// What is asked of a file that does not answer fails, done or not done; when it answers again the image goes
/// on.
#[test]
fn an_image_whose_file_does_not_answer_goes_on_when_it_does_again() {
    Model::new(1).run(async |world| {
        for is_vhdx in [false, true] {
            for tries in 1..6 {
                let (file, image) = dynamic_with_a_block(&world, is_vhdx).await;
                file.set_silent(true);
                for i in 0..tries {
                    let refused =
                        Device::write(&image, (1 + i) * (MIB / 2), &Pieces::copy_of(&[2; 4096])).await;
                    assert!(matches!(refused, Err(BlockError::Silent { .. })), "{refused:?}");
                    let flushed = Device::flush(&image).await;
                    assert!(matches!(flushed, Err(BlockError::Silent { .. })), "{flushed:?}");
                }
                file.set_silent(false);
                assert_eq!((image.trouble(), byte_at(&image, 0).await), (None, 1));
                for i in 0..tries {
                    write(&image, (1 + i) * (MIB / 2), &[4; 4096]).await.expect("it answers");
                }
                image.flush().await.expect("durable");
                image.close().await.expect("closed");
                let again = Image::open(&world, file.drive(), Access::Write).await.expect("opens");
                assert_eq!(again.findings(), Default::default(), "VHDX: {is_vhdx}");
                for i in 0..tries {
                    assert_eq!(byte_at(&again, (1 + i) * (MIB / 2)).await, 4, "VHDX: {is_vhdx}, block {i}");
                }
            }
        }
    });
}

#[test]
fn foreign_images_are_read_whole_or_refused_and_checked() {
    Model::new(1).run(async |world| {
        let open = async |bytes: Vec<u8>| AnyDisk::open_drive(&world, File::new(bytes.into()).drive()).await;
        for bytes in [exercise::qcow2(), exercise::vmdk()] {
            let disk = open(bytes.clone()).await.expect("healthy");
            assert_eq!(disk.faults().await, Ok(vec![]));
            let mut out = Pieces::new();
            disk.read(0, 12 << 10, &mut out).await.expect("read");
            let firsts: Vec<u8> = out.joined().chunks(4096).map(|cluster| cluster[0]).collect();
            assert!(firsts == [7, 8, 0] || firsts == [7, 0, 8], "{firsts:?}");
            // A file that was cut is not a disk with zeros at its end.
            let cut = open(bytes[..bytes.len() / 2 - 512].to_vec()).await.expect("its tables are there");
            assert_ne!(cut.faults().await, Ok(vec![]));
            let mut is_whole = true;
            for at in 0..3 {
                is_whole &= cut.read(at * 4096, 4096, &mut Pieces::new()).await.is_ok();
            }
            assert!(!is_whole);
        }
        let refused = async |mut bytes: Vec<u8>, at: usize, part: &[u8], told: &str| {
            bytes[at..at + part.len()].copy_from_slice(part);
            let error = open(bytes).await.err().expect("is refused").to_string();
            assert!(error.contains(told), "{error:?} does not say {told:?}");
        };
        let parent = b"parentCID=12345678\nparentFileNameHint=\"base.vmdk\"\n";
        refused(exercise::vmdk(), 512 + 22, parent, "parent").await;
        refused(exercise::vmdk(), 73, b"\n \n\n", "text").await;
        refused(exercise::qcow2(), 8, &64_u64.to_be_bytes(), "backing file").await;
        refused(exercise::qcow2(), 32, &1_u32.to_be_bytes(), "encrypted").await;
        refused(exercise::qcow2(), 72, &2_u64.to_be_bytes(), "corrupt").await;
        refused(exercise::qcow2(), 72, &4_u64.to_be_bytes(), "external data file").await;
        refused(exercise::qcow2(), 72, &16_u64.to_be_bytes(), "subclusters").await;
        refused(exercise::qcow2(), 72, &(1_u64 << 40).to_be_bytes(), "unknown").await;
    });
}

/// An old footer stayed at the end of a file that had space before it, and other programs saw the old size.
#[test]
fn the_footer_of_a_grown_vhd_is_the_end_of_its_file() {
    Model::new(1).run(async |world| {
        let file = empty();
        vhd::create(&file.drive(), &new_vhd(Kind::Dynamic, 1)).await.expect("made");
        let (mut footer, end) = ([0; 512], file.len() - 512);
        file.peek(end, &mut footer);
        file.poke(end, &[0; 512]);
        file.drive().set_len(end + 8 * MIB + 512).await.expect("longer");
        file.poke(end + 8 * MIB, &footer);
        vhd::grow(&file.drive(), Some(Kind::Dynamic), 64 << 20, &mut |_, _| ()).await.expect("grown");
        file.peek(file.len() - 512, &mut footer);
        assert_eq!(vhd::Footer::parse(&footer).map(|footer| footer.len_bytes), Ok(64 << 20));
        let image = Image::open(&world, file.drive(), Access::Read).await.expect("opens");
        assert_eq!((image.findings(), image.used_len_bytes()), (Default::default(), file.len()));
    });
}

/// A conversion read every zero of a sparse disk.
#[test]
fn holes_of_foreign_images_are_found_in_their_tables() {
    Model::new(1).run(async |world| {
        let open = async |mut bytes: Vec<u8>, at: usize, part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            let drive = File::new(bytes.into()).drive();
            AnyDisk::open_drive(&world, drive.clone()).await.map(|disk| (disk, drive)).expect("healthy")
        };
        // A disk of 1 GiB, of which the first table exists only: of 2 MiB each.
        let len_and_tables = [&(1_u64 << 30).to_be_bytes()[..], &[0; 4], &512_u32.to_be_bytes()].concat();
        let (disk, file) = open(exercise::qcow2(), 24, &len_and_tables).await;
        let mut holes = Vec::new();
        for at in [0, 4096, 2 * 4096, 3 * 4096 + 512, 2 << 20, (2 << 20) + 4096] {
            holes.push(disk.hole(at).await);
        }
        let rest = (1 << 30) - (2 << 20);
        assert_eq!(holes, [0, 0, (2 << 20) - 8192, (2 << 20) - 12_288 - 512, rest, rest - 4096]);
        assert!(file.counts().reads < 16, "{} reads", file.counts().reads);

        // A disk of 1 MiB and 8 sectors: one table.
        let (disk, _) = open(exercise::vmdk(), 12, &2056_u64.to_le_bytes()).await;
        let mut holes = Vec::new();
        for at in [0, 4096, 4096 + 512, 8192, 12_288, 1 << 20] {
            holes.push(disk.hole(at).await);
        }
        assert_eq!(holes, [0, 4096, 3584, 0, (1 << 20) - 8192, 4096]);
    });
}

/// A stream-optimised VMDK: a disk of three grains, of which only the last one is there, compressed from
/// this content.
fn packed_vmdk(sectors: u64, last: &[u8]) -> Vec<u8> {
    let mut bytes = exercise::vmdk();
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(8, &(3_u32 | 1 << 16).to_le_bytes());
    put(12, &sectors.to_le_bytes());
    put(77, &1_u16.to_le_bytes());
    put(22 * 512, &[0_u32, 0, 32].map(u32::to_le_bytes).concat());
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(last, 6);
    put(32 * 512, &16_u64.to_le_bytes());
    put(32 * 512 + 8, &(packed.len() as u32).to_le_bytes());
    put(32 * 512 + 12, &packed);
    bytes
}

/// The last grain of a disk that is no multiple of its grains was refused as damaged.
#[test]
fn the_last_grain_of_a_compressed_vmdk_may_end_with_the_disk() {
    Model::new(1).run(async |world| {
        let read = async |last: &[u8]| {
            let bytes = packed_vmdk(19, last);
            let disk = AnyDisk::open_drive(&world, File::new(bytes.into()).drive()).await.expect("healthy");
            let mut out = Pieces::new();
            disk.read(0, 19 * 512, &mut out).await.map(|()| out.joined().to_vec())
        };
        let expected = [vec![0; 16 * 512], vec![7; 3 * 512]].concat();
        assert_eq!(read(&[7; 3 * 512]).await, Ok(expected.clone()), "as QEMU writes it");
        let padded = [vec![7; 3 * 512], vec![0; 5 * 512]].concat();
        assert_eq!(read(&padded).await, Ok(expected), "with zeros behind the disk");
        assert!(read(&[7; 3 * 512 - 1]).await.is_err(), "a byte is missing");
    });
}

/// `vdisk check` said "clean" of images whose compressed data no conversion can decompress.
#[test]
fn compressed_data_that_cannot_be_decompressed_are_found() {
    Model::new(1).run(async |world| {
        let faults = async |bytes: Vec<u8>| {
            let drive = File::new(bytes.into()).drive();
            AnyDisk::open_drive(&world, drive).await.expect("opens").faults().await.expect("examined")
        };
        let with = |mut bytes: Vec<u8>, at: usize, part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            bytes
        };
        let vmdk = || packed_vmdk(19, &[7; 3 * 512]);
        assert_eq!((faults(exercise::qcow2()).await, faults(vmdk()).await), (vec![], vec![]));
        // A reserved type of block; and a block that is stored, and shorter than the cluster.
        for damage in [&[7_u8][..], &[1, 0xff, 0x0f, 0x00, 0xf0]] {
            let found = faults(with(exercise::qcow2(), 0x4000, damage)).await;
            assert!(
                found.len() == 1 && found[0].starts_with("cluster 1: its compressed bytes: "),
                "{found:?}"
            );
        }
        let found = faults(with(vmdk(), 32 * 512 + 12, &[0xff; 2])).await;
        assert!(found.len() == 1 && found[0].starts_with("grain 2: its compressed bytes: "), "{found:?}");
    });
}

/// Every entry of a table may name the same compressed bytes: an examination that decompresses them for each
/// takes as long as the disk is large, whatever the file is.
#[test]
fn an_examination_decompresses_no_more_than_a_file_can_have() {
    Model::new(1).run(async |world| {
        // Clusters of 64 KiB: header, first table, second table, and one compressed cluster for all entries.
        let mut bytes = exercise::qcow2();
        let packed = miniz_oxide::deflate::compress_to_vec(&[0; 64 << 10], 9);
        bytes.resize(256 << 10, 0);
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(20, &16_u32.to_be_bytes());
        put(24, &(512_u64 << 20).to_be_bytes());
        put(40, &(64_u64 << 10).to_be_bytes());
        put(64 << 10, &((128_u64 << 10) | 1 << 63).to_be_bytes());
        put(192 << 10, &packed);
        // 62 - (16 - 8) = 54 bits of address, then the sectors behind the first.
        let entry = (1_u64 << 62 | (packed.len() as u64 / 512) << 54 | 192 << 10).to_be_bytes();
        (0..8192).for_each(|number| put((128 << 10) + number * 8, &entry));
        let drive = File::new(bytes.into()).drive();
        let disk = AnyDisk::open_drive(&world, drive).await.expect("opens");
        let found = disk.faults().await.expect("examined");
        assert!(found[0].contains("its compressed bytes are those of others, too"), "{found:?}");
        let max = 1032 * (256 << 10) / (64 << 10);
        assert!(found[0].starts_with(&format!("cluster {max}: ")), "{found:?}");
    });
}

/// A parent that is a pipe, a link that leads out, one in another directory, one that is its own child:
/// refused, and nothing waits.
#[test]
fn parents_are_regular_files_beneath_the_directory_of_the_image() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["images", "golden"] {
        std::fs::create_dir(path(name)).expect("made");
    }
    world_real::run(world_real::Options::default(), async |world| {
        let make = async |path: &Path, new: &NewVhd| {
            let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Create };
            vhd::create(&world.open_drive(&spec).await.expect("made"), new).await.expect("made");
        };
        let child = |parent: &str, id: u8, parent_id: u8| {
            let (relative_path, absolute_path) = (parent.to_owned(), None);
            let parent = vhd::Parent { id: [parent_id; 16], time_stamp_s: 0, relative_path, absolute_path };
            NewVhd { parent: Some(parent), ..new_vhd(Kind::Differencing, id) }
        };
        make(&path("golden/base.vhd"), &new_vhd(Kind::Dynamic, 1)).await;
        make(&path("images/over.vhd"), &child("../golden/base.vhd", 2, 1)).await;
        make(&path("images/piped.vhd"), &child("pipe", 3, 1)).await;
        make(&path("images/linked.vhd"), &child("link.vhd", 4, 1)).await;
        make(&path("images/own.vhd"), &child("twin.vhd", 5, 6)).await;
        make(&path("images/twin.vhd"), &child("own.vhd", 6, 5)).await;
        let made = std::process::Command::new("mkfifo").arg(path("images/pipe")).status();
        assert!(made.expect("mkfifo").success());
        std::os::unix::fs::symlink("../golden/base.vhd", path("images/link.vhd")).expect("linked");
        let check = async |name: &str, told: &str| {
            let error =
                open_file(&world, &path(name), Access::Read).await.err().expect("is refused").to_string();
            assert!(error.contains(told), "{error:?} does not say {told:?}");
        };
        check("images/over.vhd", "parents_in").await;
        check("images/piped.vhd", "not a regular file").await;
        check("images/linked.vhd", "leaves the directory").await;
        check("images/own.vhd", "already in the chain").await;
        check("images/pipe", "not a regular file").await;
        let over = path("images/over.vhd");
        let parents_in = [path("golden")];
        let chain = Chain { path: &over, access: Access::Read, format: None, parents_in: &parents_in };
        assert!(open_chain(&world, &chain).await.is_ok());
    })
    .expect("a ring");
}
