//! Valid images of each format, changed in their structures, with their checksums made right again: then
//! everything that masu does with an image is done with them. Whatever they say, the answer is an error or
//! data, and what was acknowledged is there when the image is opened again.

use std::rc::Rc;

use block::Pieces;
use vdisk::vhd::{self, Kind, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx};
use vdisk::{Access, AnyDisk, FileFormat, Image};
use world::World;

use super::medium::File;

/// Size of the disks.
const DISK: u64 = 4 << 20;
const MIB: u64 = 1 << 20;

/// An image that is whole, and where its structures lie.
pub(crate) struct Template {
    pub(crate) name: &'static str,
    bytes: Rc<[u8]>,
    /// First byte and length.
    places: Vec<(u64, u64)>,
    family: Family,
    format: FileFormat,
    parent: Option<Image>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Vhd,
    Vhdx,
    Foreign,
}

/// Choices, from a fuzzer's bytes or from a random stream.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn number(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }
}

/// All templates.
pub(crate) async fn templates(world: &World) -> Vec<Template> {
    let mut all = Vec::new();
    for kind in [Kind::Fixed, Kind::Dynamic, Kind::Differencing] {
        all.push(vhd_template(world, kind).await);
    }
    for (name, fixed, has_parent) in
        [("vhdx", false, false), ("vhdx fixed", true, false), ("vhdx child", false, true)]
    {
        all.push(vhdx_template(world, name, fixed, has_parent).await);
    }
    all.push(foreign("qcow2", qcow2(), vec![(0, 112), (0x1000, 16), (0x2000, 64)]));
    all.push(foreign("vmdk", vmdk(), vec![(0, 80), (512, 128), (21 * 512, 8), (22 * 512, 64)]));
    all
}

fn foreign(name: &'static str, bytes: Vec<u8>, places: Vec<(u64, u64)>) -> Template {
    let (family, format) = (Family::Foreign, FileFormat::Raw);
    Template { name, bytes: bytes.into(), places, family, format, parent: None }
}

async fn fill(image: &Image, at: u64, len: usize, byte: u8) {
    image.write(at, &Pieces::copy_of(&vec![byte; len])).await.expect("written");
}

async fn vhd_template(world: &World, kind: Kind) -> Template {
    let new = |kind, id| NewVhd { block_bytes: 512 << 10, ..NewVhd::new(kind, DISK, [id; 16], 0) };
    let mut made = new(kind, 1);
    let mut parent = None;
    if kind == Kind::Differencing {
        let file = File::new(Vec::new().into());
        vhd::create(&file.drive(), &new(Kind::Dynamic, 2)).await.expect("made");
        parent = Some(Image::open(world, file.drive(), Access::Read).await.expect("opens"));
        made.parent = Some(vhd::Parent {
            id: [2; 16],
            time_stamp_s: 0,
            relative_path: "p".into(),
            absolute_path: None,
        });
    }
    let file = File::new(Vec::new().into());
    vhd::create(&file.drive(), &made).await.expect("made");
    let image = Image::open(world, file.drive(), Access::Write).await.expect("opens");
    parent.iter().for_each(|parent| image.attach(parent.clone()).expect("it is the one"));
    fill(&image, 0, 4096, 1).await;
    fill(&image, 3 * MIB, 4096, 2).await;
    image.close().await.expect("closed");
    let end = file.len() - 512;
    let (name, format, places) = match kind {
        Kind::Fixed => ("vhd fixed", FileFormat::VhdFixed, vec![(end, 92)]),
        Kind::Dynamic => ("vhd dynamic", FileFormat::VhdDynamic, vhd_places(end)),
        Kind::Differencing => ("vhd child", FileFormat::VhdDifferencing, vhd_places(end)),
    };
    Template { name, bytes: file.whole(), places, family: Family::Vhd, format, parent }
}

/// The two footers, the header with its locators, the table, the bitmap of the first block.
fn vhd_places(end: u64) -> Vec<(u64, u64)> {
    vec![(0, 92), (end, 92), (512, 68), (512 + 576, 48), (1536, 64), (2048, 512)]
}

async fn vhdx_template(world: &World, name: &'static str, fixed: bool, has_parent: bool) -> Template {
    let new = |id: u8| NewVhdx {
        block_bytes: 1 << 20,
        ..NewVhdx::new(DISK, [Guid([id; 16]), Guid([id + 1; 16]), Guid([id + 2; 16])])
    };
    let mut made = NewVhdx { fixed, ..new(1) };
    let mut parent = None;
    if has_parent {
        let file = File::new(Vec::new().into());
        vhdx::create(&file.drive(), &new(9)).await.expect("made");
        let base = Image::open(world, file.drive(), Access::Read).await.expect("opens");
        made.parent =
            Some(vhdx::Parent { id: Guid(base.id()), relative_path: "p".into(), absolute_path: None });
        parent = Some(base);
    }
    let file = File::new(Vec::new().into());
    vhdx::create(&file.drive(), &made).await.expect("made");
    let image = Image::open(world, file.drive(), Access::Write).await.expect("opens");
    parent.iter().for_each(|parent| image.attach(parent.clone()).expect("it is the one"));
    fill(&image, 0, 4096, 1).await;
    fill(&image, 3 * MIB, 4096, 2).await;
    // Not closed: there is a log to be replayed.
    image.flush().await.expect("durable");
    fill(&image, 2 * MIB, 4096, 3).await;
    image.flush().await.expect("durable");
    let metadata = 2 * MIB;
    let places = vec![
        (64 << 10, 80),
        (128 << 10, 80),
        (192 << 10, 80),
        (256 << 10, 80),
        (MIB, 128),
        (MIB + 4096, 64),
        (MIB + 8192, 128),
        (metadata, 224),
        (metadata + (64 << 10), 160),
        (3 * MIB, 64),
    ];
    Template { name, bytes: file.whole(), places, family: Family::Vhdx, format: FileFormat::Vhdx, parent }
}

/// Clusters of 4 KiB: header, first table, second table, then a plain cluster and a compressed one, in a
/// block that is stored.
pub(crate) fn qcow2() -> Vec<u8> {
    let mut bytes = vec![0; 0x8000];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    put(20, &12_u32.to_be_bytes());
    put(24, &MIB.to_be_bytes());
    put(36, &1_u32.to_be_bytes());
    put(40, &0x1000_u64.to_be_bytes());
    put(100, &112_u32.to_be_bytes());
    put(0x1000, &(0x2000_u64 | 1 << 63).to_be_bytes());
    put(0x2000, &(0x3000_u64 | 1 << 63).to_be_bytes());
    // 62 - (12 - 8) = 58 bits of address, then the sectors behind the first.
    put(0x2008, &(1_u64 << 62 | 8 << 58 | 0x4000).to_be_bytes());
    put(0x2010, &1_u64.to_be_bytes());
    put(0x3000, &[7; 4096]);
    put(0x4000, &[1, 0x00, 0x10, 0xff, 0xef]);
    put(0x4005, &[8; 4096]);
    bytes
}

/// Grains of 4 KiB: header, descriptor, directory, one table, two grains.
pub(crate) fn vmdk() -> Vec<u8> {
    let mut bytes = vec![0; 64 * 512];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"KDMV");
    for (at, value) in [(4, 1_u32), (8, 3), (44, 512)] {
        put(at, &value.to_le_bytes());
    }
    for (at, value) in [(12, 2048_u64), (20, 8), (28, 1), (36, 20), (56, 21), (64, 32)] {
        put(at, &value.to_le_bytes());
    }
    put(73, b"\n \r\n");
    put(
        512,
        b"# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\nRW 2048 SPARSE \"disk.vmdk\"\n",
    );
    put(21 * 512, &22_u32.to_le_bytes());
    put(22 * 512, &32_u32.to_le_bytes());
    put(22 * 512 + 8, &40_u32.to_le_bytes());
    put(32 * 512, &[7; 4096]);
    put(40 * 512, &[8; 4096]);
    bytes
}

/// Changes an image as `choices` say, and uses it in every way.
pub(crate) async fn run(world: &World, template: &Template, choices: &mut Choices<'_>) {
    let file = File::new(template.bytes.clone());
    let changes = 1 + choices.byte() % 4;
    for _ in 0..changes {
        change(&file, template, choices);
    }
    if !choices.byte().is_multiple_of(16) {
        match template.family {
            Family::Vhd => mend_vhd(&file),
            Family::Vhdx => mend_vhdx(&file),
            Family::Foreign => {}
        }
    }
    if choices.byte().is_multiple_of(16) {
        let len = choices.number() % (file.len() + 1) / 512 * 512;
        drop(file.drive().set_len(len).await);
    }
    match template.family {
        Family::Foreign => use_foreign(world, &file).await,
        _ => use_image(world, &file, template, choices).await,
    }
}

fn change(file: &File, template: &Template, choices: &mut Choices<'_>) {
    let (from, len) = template.places[usize::from(choices.byte()) % template.places.len()];
    let width = [1, 2, 4, 8][usize::from(choices.byte() % 4)];
    let at = from + u64::from(choices.byte()) * width as u64 % len;
    let mut old = [0; 8];
    file.peek(at, &mut old[..width]);
    let is_big = choices.byte() & 1 != 0;
    if is_big {
        old[..width].reverse();
    }
    let old = u64::from_le_bytes(old);
    let new = match choices.byte() % 12 {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => 1 << (choices.byte() % 64),
        4 => (1_u64 << (choices.byte() % 64)).wrapping_sub(1),
        5 => old.wrapping_add(1),
        6 => old.wrapping_sub(1),
        7 => old << (choices.byte() % 16),
        8 => old >> (choices.byte() % 16),
        9 => old ^ (1 << (choices.byte() % 64)),
        10 => u64::from(choices.word()),
        _ => choices.number(),
    };
    let mut bytes = new.to_le_bytes();
    if is_big {
        bytes[..width].reverse();
    }
    if at + width as u64 <= file.len() {
        file.poke(at, &bytes[..width]);
    }
}

pub(crate) fn mend_vhd(file: &File) {
    for (at, len, checksum_at) in [(0, 512, 64), (file.len() - 512, 512, 64), (512, 1024, 36)] {
        let mut bytes = vec![0; len];
        file.peek(at, &mut bytes);
        if ![&b"conectix"[..], b"cxsparse"].contains(&&bytes[..8]) {
            continue;
        }
        bytes[checksum_at..checksum_at + 4].fill(0);
        let sum = !bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
        file.poke(at + checksum_at as u64, &sum.to_be_bytes());
    }
}

fn mend_vhdx(file: &File) {
    for (at, len) in [(64 << 10, 4096), (128 << 10, 4096), (192 << 10, 64 << 10), (256 << 10, 64 << 10)] {
        mend_at(file, at, len);
    }
    for page in 0..8 {
        let at = MIB + page * 4096;
        let mut head = [0; 16];
        file.peek(at, &mut head);
        let len = u32::from_le_bytes(head[8..12].try_into().expect("4 bytes"));
        if head[..4] == *b"loge" && (4096..=64 << 10).contains(&len) {
            mend_at(file, at, len as usize);
        }
    }
}

pub(crate) fn mend_at(file: &File, at: u64, len: usize) {
    let mut bytes = vec![0; len];
    file.peek(at, &mut bytes);
    bytes[4..8].fill(0);
    file.poke(at + 4, &crc32c(&bytes).to_le_bytes());
}

fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let (mut table, mut i) = ([0; 256], 0);
        while i < 256 {
            let (mut crc, mut bit) = (i as u32, 0);
            while bit < 8 {
                crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc: u32, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

async fn use_foreign(world: &World, file: &File) {
    let Ok(disk) = AnyDisk::open_drive(world, file.drive()).await else { return };
    let faults = disk.faults().await.expect("the file can be read");
    let (len, mut is_whole) = (disk.len_bytes(), true);
    let step = (len / 64).max(64 << 10).next_multiple_of(512);
    for at in (0..len).step_by(step as usize).take(64) {
        is_whole &= disk.read(at, (64 << 10).min(len - at), &mut Pieces::new()).await.is_ok();
    }
    if step == 64 << 10 && faults.is_empty() && !is_whole {
        // Only what is compressed is not looked into by a check.
        assert_ne!(disk.format_name(), "vmdk", "a check finds what a conversion meets");
    }
}

async fn open(world: &World, file: &File, template: &Template, access: Access) -> Option<Image> {
    let image = Image::open_as(world, file.drive(), access, template.format).await.ok()?;
    let parent = template.parent.iter().find(|_| image.parent_link().is_some());
    parent.into_iter().for_each(|parent| drop(image.attach(parent.clone())));
    Some(image)
}

async fn use_image(world: &World, file: &File, template: &Template, choices: &mut Choices<'_>) {
    let Some(image) = open(world, file, template, Access::Read).await else { return };
    let sector = u64::from(image.sector_bytes());
    let len = image.len_bytes();
    let step = (len / 32).max(256 << 10).next_multiple_of(sector);
    for at in (0..len).step_by(step as usize).take(32) {
        drop(image.read(at, (64 << 10).min(len - at) / sector * sector, &mut Pieces::new()).await);
        image.extent(at, u64::MAX);
    }
    drop(image);
    let Some(image) = open(world, file, template, Access::Write).await else { return };
    if choices.byte().is_multiple_of(4) {
        file.set_room(file.len());
    }
    let data = Pieces::copy_of(&vec![7; sector as usize]);
    let last = len / sector * sector - sector;
    let middle = choices.number() % len / sector * sector;
    let mut is_written = true;
    for at in [0, middle, last] {
        is_written &= image.write(at, &data).await.is_ok();
    }
    drop(image.flush().await);
    drop(image.zero(middle / MIB * MIB, MIB.min(len - middle / MIB * MIB) / sector * sector).await);
    file.set_room(u64::MAX);
    is_written &= image.write(last, &data).await.is_ok();
    if image.trouble().is_none()
        && len <= 64 << 20
        && image.block_bytes().is_some()
        && choices.byte().is_multiple_of(2)
    {
        drop(image.compact(|_, _| ()).await);
    }
    let is_durable = image.flush().await.is_ok() && image.close().await.is_ok();
    drop(image);
    if is_durable && is_written {
        let again =
            open(world, file, template, Access::Write).await.expect("what was written to opens again");
        let mut out = Pieces::new();
        again.read(last, sector, &mut out).await.expect("what was written can be read");
        assert_eq!(out.first_difference(&data), None, "{}", template.name);
    }
    grow(world, file, template, choices).await;
}

async fn grow(world: &World, file: &File, template: &Template, choices: &mut Choices<'_>) {
    let Some(image) = open(world, file, template, Access::Read).await else { return };
    let len = image.len_bytes().saturating_add(u64::from(choices.byte()) << (12 + choices.byte() % 14));
    drop(image);
    let drive = file.drive();
    let grown = match template.format {
        FileFormat::VhdFixed => vhd::grow(&drive, Some(Kind::Fixed), len, &mut |_, _| ()).await,
        FileFormat::VhdDynamic => vhd::grow(&drive, Some(Kind::Dynamic), len, &mut |_, _| ()).await,
        FileFormat::VhdDifferencing => vhd::grow(&drive, Some(Kind::Differencing), len, &mut |_, _| ()).await,
        FileFormat::Vhdx | FileFormat::Raw => vhdx::grow(&drive, len, world.seed(), &mut |_, _| ()).await,
    };
    if grown.is_ok() {
        let image = open(world, file, template, Access::Read).await.expect("what grew opens");
        assert_eq!((image.len_bytes(), image.findings().faults), (len, vec![]), "{}", template.name);
    }
}
