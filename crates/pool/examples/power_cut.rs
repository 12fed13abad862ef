//! How a pool is used, and how a crash is tried: a volume is written, flushed and written again, the power is
//! cut, and the next life of the process finds what was flushed. A seed determines the whole run.
//!
//! ```text
//! cargo run -p pool --example power_cut
//! ```

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::error::Error;

use block::{Buf, Data, Device, Pieces};
use pool::{Pool, PoolSpec, Provisioning};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{DriveSpec, World};
use world_model::{DiskSpec, Model, Outcome};

const BLOCK: usize = 4096;

fn block_of(byte: u8) -> Data {
    let mut block = Buf::zeroed(BLOCK);
    block.fill(byte);
    block.freeze()
}

fn spec() -> GroupSpec {
    GroupSpec::new("g0", Level::Raid0, ArrayId([1; 16]))
}

fn drives(world: &World) -> Result<Vec<world::Drive>, world::OpenError> {
    Ok(vec![world.open_now(&DriveSpec::Modelled { name: "d0".into() })?])
}

fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::new(1);
    model.disk("d0", DiskSpec::new(64 << 20));
    let outcome = model.run_until_crash(async |world| -> Result<(), Box<dyn Error>> {
        let group = Group::create(world.clone(), spec(), drives(&world)?).await?;
        let pool = Pool::create(world.clone(), PoolSpec::new("p0"), vec![group]).await?;
        let volume = pool.create_volume("v0", 16 << 20, Provisioning::Thin).await?;
        volume.write(0, &block_of(1).into()).await?;
        volume.flush().await?;
        // Acknowledged, and not flushed: after a crash it may be there, or not.
        volume.write(0, &block_of(2).into()).await?;
        // The next write that a drive completes is its last.
        model.disks().cut_power_after(model.disks().persistence_points() + 1);
        volume.write(BLOCK as u64, &block_of(3).into()).await?;
        Ok(())
    });
    if let Outcome::Finished(ended) = outcome {
        return ended.and(Err("the power was to be cut".into()));
    }
    model.reboot();
    model.run(async |world| {
        let group = Group::open(world.clone(), spec(), drives(&world)?).await?;
        let pool = Pool::open(world.clone(), vec![group]).await?;
        let volume = pool.volume("v0").ok_or("the volume was durable")?;
        let mut read = Pieces::new();
        volume.read(0, BLOCK, &mut read).await?;
        let found = read.joined()[0];
        println!(
            "after the power cut the block holds {found}: what was flushed (1), or what was written later (2)"
        );
        assert!([1, 2].contains(&found), "nothing else is allowed");
        Ok(())
    })
}
