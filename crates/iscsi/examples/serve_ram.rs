//! A memory-backed target on a port, and a load against it, for measurements.
//!
//! * `serve_ram serve ADDR [MIB]`: serves until it is ended.
//! * `serve_ram load ADDR [DEPTH] [SECONDS] [BLOCKS] [TARGET]`: random 4 KiB reads (8 blocks) of any target's LUN 0.
//! * `serve_ram both [DEPTH] [SECONDS] [BLOCKS]`: target and load in one process, each on its own CPU.

#![expect(
    clippy::disallowed_methods,
    reason = "two worlds on two threads, and a moment for the first to begin"
)]

#[path = "../tests/it/ram.rs"]
#[expect(dead_code, reason = "its switches are for tests")]
mod ram;

use std::net::SocketAddr;
use std::time::Duration;

use iscsi::initiator::{Options, load};
use iscsi::target::{Limits, Portal, serve};
use world_real::Options as RunOptions;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let addr = |i: usize| -> SocketAddr { args.get(i).expect("an address").parse().expect("an address") };
    match args.first().map(String::as_str) {
        Some("serve") => run_target(addr(1), number(2, 256), None),
        Some("load") => {
            let target = args.get(5).cloned().unwrap_or(ram::TARGET.into());
            run_load(addr(1), &target, number(2, 32), number(3, 5), number(4, 8), None);
        }
        Some("both") => {
            let at: SocketAddr = "127.0.0.1:13260".parse().expect("an address");
            std::thread::spawn(move || run_target(at, 256, Some(0)));
            std::thread::sleep(Duration::from_millis(300));
            run_load(at, ram::TARGET, number(1, 32), number(2, 5), number(3, 8), Some(1));
        }
        _ => eprintln!(
            "serve_ram serve ADDR [MIB] | load ADDR [DEPTH] [SECONDS] [BLOCKS] [TARGET] | both [DEPTH] [SECONDS] [BLOCKS]"
        ),
    }
}

fn run_target(at: SocketAddr, mib: u64, cpu: Option<usize>) {
    let run = RunOptions { cpu, ..RunOptions::default() };
    world_real::run(run, |world| async move {
        let ram = ram::Ram::new((mib as usize) << 20);
        let listener = world.listen(at).expect("a free port");
        serve(world, listener, ram, Limits::default(), Portal::new()).await;
    })
    .expect("a world");
}

fn run_load(at: SocketAddr, target: &str, depth: u64, seconds: u64, blocks: u64, cpu: Option<usize>) {
    let run = RunOptions { cpu, ..RunOptions::default() };
    let options = Options::new(at, "iqn.2026-01.example.masu:load", target, 1);
    let (seconds_taken, totals) = world_real::run(run, |world| async move {
        let (begin, mut rng) = (world.now(), fastrand::Rng::with_seed(1));
        let clock = world.clone();
        let mut count = 0u64;
        let next = || {
            count += 1;
            // The clock is looked at now and then only.
            if count.is_multiple_of(256) && clock.now().since(begin) > Duration::from_secs(seconds) {
                return None;
            }
            let lba = rng.u64(..(64 << 20) / 512 / blocks) * blocks;
            Some(load::Read { lun: scsi::Lun(0), lba, blocks: blocks as u32, block_bytes: 512 })
        };
        let totals = load::read(&world, &options, depth as u16, next, |_| {}).await.expect("a load");
        (world.now().since(begin).as_secs_f64(), totals)
    })
    .expect("a world");
    let iops = totals.reads as f64 / seconds_taken;
    println!(
        "depth {depth}, {} bytes: {iops:.0} reads/s, {:.2} us each, {:.2} GB/s, {} failed",
        blocks * 512,
        1e6 / iops,
        iops * blocks as f64 * 512.0 / 1e9,
        totals.failed
    );
}
