//! How a group is used: created on four drives, it loses one, serves its data from the others, and is rebuilt
//! on a fifth. The drives are modelled, so that a run takes no time and prints the same every time.
//!
//! ```text
//! cargo run -p raid --example lose_a_drive
//! ```

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::error::Error;

use block::{Buf, Device, Pieces};
use raid::{ArrayId, Group, GroupSpec, Level, Throttle};
use world::{Drive, DriveSpec, World};
use world_model::{DiskSpec, Model};

const DRIVE_BYTES: u64 = 64 << 20;
/// Some rows, so that every drive has a part.
const LEN: usize = 1 << 20;

fn open(world: &World, number: usize) -> Result<Drive, world::OpenError> {
    world.open_now(&DriveSpec::Modelled { name: format!("d{number}") })
}

fn tell(group: &Group, what: &str) {
    let status = group.status();
    println!("{:<28} {:?}, {} more may fail", what, status.state, status.tolerates);
}

fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::new(1);
    let disks: Vec<_> =
        (0..5).map(|number| model.disk(&format!("d{number}"), DiskSpec::new(DRIVE_BYTES))).collect();
    model.run(async |world| {
        // Which array and which group a drive belongs to is in its label.
        let spec = GroupSpec::new("g0", Level::Raid5, ArrayId([1; 16]));
        let drives = (0..4).map(|number| open(&world, number)).collect::<Result<_, _>>()?;
        let group = Group::create(world.clone(), spec, drives).await?;
        group.write(0, &Buf::zeroed(LEN).freeze().into()).await?;
        group.flush().await?;
        tell(&group, "created, written, flushed:");

        disks[2].kill();
        let mut read = Pieces::new();
        group.read(0, LEN, &mut read).await?;
        // The write that finds the drive dead is done without it.
        group.write(0, &read).await?;
        tell(&group, "a drive is dead:");

        group.replace(2, open(&world, 4)?).await?;
        tell(&group, "another takes its position:");
        group.rebuild(&Throttle::none(world.clone())).await?;
        tell(&group, "rebuilt:");
        Ok(group.close().await?)
    })
}
