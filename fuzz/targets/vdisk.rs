//! Images whose metadata is anything: opened, read as a whole, and written to when nothing is said against
//! it; then they open again.
#![no_main]

use block::Pieces;
use vdisk::vhd::{self, Kind, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx};
use vdisk::{Access, Image};
use world::{DriveSpec, World};
use world_model::{Disk, DiskSpec, Model};

const DISK: u64 = 4 << 20;
const FILE: u64 = 16 << 20;

/// Where a VHDX of ours has what has no checksum of its own: log, metadata and its items, table; and a VHD
/// headers, table and first block.
const VHDX_AT: [u64; 4] = [1 << 20, 2 << 20, (2 << 20) + (64 << 10), 3 << 20];
const VHD_AT: [u64; 4] = [0, 512, 1536, 2048];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(FILE));
    model.run(async |world| {
        let is_vhdx = choice & 1 != 0;
        create(&world, choice).await;
        // Four bytes say where: the place, and the offset from it; then how much, and what.
        let mut rest = data;
        while let [place, low, high, len, tail @ ..] = rest {
            let base = if is_vhdx { VHDX_AT } else { VHD_AT }[usize::from(place % 4)];
            let bytes = &tail[..tail.len().min(usize::from(len % 64))];
            disk.poke(base + u64::from(u16::from_le_bytes([*low, *high])) % 1024, bytes);
            rest = &tail[bytes.len()..];
        }
        if !is_vhdx {
            // Or nothing but checksums would be tried.
            mend(&disk, 0, 512, 64);
            mend(&disk, 512, 1024, 36);
        }
        use_it(&world).await;
    });
});

async fn create(world: &World, choice: u8) {
    let drive = world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("opens");
    let new =
        NewVhdx { block_bytes: 1 << 20, ..NewVhdx::new(DISK, [Guid([1; 16]), Guid([2; 16]), Guid([3; 16])]) };
    match choice % 4 {
        0 => {
            vhd::create(
                &drive,
                &NewVhd { block_bytes: 512 << 10, ..NewVhd::new(Kind::Dynamic, DISK, [1; 16], 0) },
            )
            .await
        }
        2 => {
            let parent =
                vhd::Parent { id: [2; 16], time_stamp_s: 0, relative_path: "p".into(), absolute_path: None };
            let new = NewVhd::new(Kind::Differencing, DISK, [1; 16], 0);
            vhd::create(&drive, &NewVhd { block_bytes: 512 << 10, parent: Some(parent), ..new }).await
        }
        1 => vhdx::create(&drive, &new).await,
        _ => {
            let parent = vhdx::Parent { id: Guid([9; 16]), relative_path: "p".into(), absolute_path: None };
            vhdx::create(&drive, &NewVhdx { parent: Some(parent), ..new }).await
        }
    }
    .expect("made");
}

/// Makes the checksum of a structure of a VHD right.
fn mend(disk: &Disk, at: u64, len: usize, checksum_at: usize) {
    let mut bytes = disk.peek(at, len);
    bytes[checksum_at..checksum_at + 4].fill(0);
    let sum = !bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    disk.poke(at + checksum_at as u64, &sum.to_be_bytes());
}

async fn open(world: &World, access: Access) -> Option<Image> {
    let drive = world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("opens");
    let image = Image::open(world, drive, access).await.ok()?;
    // More is not tried: reading it would take the time of a thousand other inputs.
    (image.len_bytes() <= 64 << 20).then_some(image)
}

async fn use_it(world: &World) {
    let Some(image) = open(world, Access::Read).await else { return };
    let sector = u64::from(image.sector_bytes());
    for at in (0..image.len_bytes()).step_by(1 << 20) {
        let len = (1 << 20).min(image.len_bytes() - at) / sector * sector;
        let _ = image.read(at, len, &mut Pieces::new()).await;
    }
    let Some(image) = open(world, Access::Write).await else {
        return;
    };
    let data = Pieces::copy_of(&vec![7; sector as usize]);
    let last = image.len_bytes() / sector * sector - sector;
    let written = image.write(0, &data).await.is_ok() && image.write(last, &data).await.is_ok();
    let durable = image.flush().await.is_ok() && image.close().await.is_ok();
    if written && durable {
        let again = open(world, Access::Write).await.expect("what was written to opens again");
        let mut out = Pieces::new();
        again.read(last, sector, &mut out).await.expect("what was written can be read");
        assert_eq!(out.first_difference(&data), None);
    }
}
