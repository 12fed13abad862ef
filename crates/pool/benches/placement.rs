//! A pool on a fast group and a slow one, a load of which nine tenths go to a tenth of the pages, and what
//! placement makes of it: a line for each interval. All of it in the model world, so that every run prints
//! the same.
//!
//! ```text
//! cargo bench -p pool --bench placement
//! ```

#![expect(clippy::print_stdout, reason = "a measurement by hand")]

use std::time::Duration;

use block::{Buf, Data, Device, Pieces};
use pool::{Class, Pool, PoolSpec, Provisioning, Volume};
use raid::{ArrayId, Group, GroupSpec, Level, Throttle};
use world::{DriveSpec, Rng, World};
use world_model::{DiskSpec, Model};

const PAGE: u64 = 64 << 10;
const PAGES: u64 = 2000;
const OPERATIONS: u64 = 20_000;
/// As in the array.
const INTERVAL: Duration = Duration::from_secs(300);
/// The hot pages become others after this interval.
const SHIFT_AFTER: u64 = 8;

async fn group(world: &World, name: &str) -> Group {
    let drive = world.open_now(&DriveSpec::Modelled { name: name.into() }).expect("the disk is there");
    let spec = GroupSpec::new(name, Level::Raid0, ArrayId([1; 16]));
    Group::create(world.clone(), spec, vec![drive]).await.expect("create")
}

/// An interval of the load; how long the operations took on average, in microseconds.
async fn load(world: &World, v: &Volume, rng: &mut Rng, shift: u64) -> u64 {
    let data: Data = Buf::zeroed(4096).freeze();
    let begun = world.now();
    for _ in 0..OPERATIONS {
        let hot = rng.u64(0..10) > 0;
        let page = if hot { rng.u64(0..PAGES / 10) * 10 + shift } else { rng.u64(0..PAGES) };
        let at = page * PAGE + rng.u64(0..16) * 4096;
        match rng.u64(0..5) {
            0 => v.write(at, &data.clone().into()).await.expect("write"),
            _ => v.read(at, 4096, &mut Pieces::new()).await.expect("read"),
        }
    }
    let took = (world.now() - begun).as_micros() as u64;
    world.sleep(INTERVAL.saturating_sub(world.now() - begun)).await;
    took / OPERATIONS
}

fn main() {
    let model = Model::new(1);
    model.disk("fast", DiskSpec::new(32 << 20).with_latency(Duration::from_micros(100)));
    model.disk("slow", DiskSpec::new(256 << 20).with_latency(Duration::from_millis(5)));
    model.run(async |world| {
        let groups = [group(&world, "slow").await, group(&world, "fast").await];
        let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
        let pool = Pool::create(world.clone(), spec, groups[..1].to_vec()).await.expect("create");
        let v = pool.create_volume("v", PAGES * PAGE, Provisioning::Thick).await.expect("create");
        pool.add_group(groups[1].clone()).await.expect("add");
        pool.set_class(groups[1].id(), Class::Fast).expect("it is in the pool");
        println!("minutes  share of the fast class  mean latency  promoted  demoted  why");
        let mut rng = Rng::with_seed(1);
        for interval in 1..=16 {
            let latency_us = load(&world, &v, &mut rng, if interval > SHIFT_AFTER { 7 } else { 3 }).await;
            let pace = pool.paced(Throttle::new(world.clone(), 70));
            let placed = pool.place(pace).await.expect("place");
            let (heat, minutes) = (pool.heat(), interval * INTERVAL.as_secs() / 60);
            println!(
                "{minutes:>7}  {:>21} %  {latency_us:>9} µs  {:>8}  {:>7}  {:?}",
                f64::from(heat.classes[0].share_permille) / 10.0,
                placed.promoted,
                placed.demoted,
                heat.decisions[0].reason
            );
        }
    });
}
