//! A memory-backed target on a port, and a load against it, for measurements.
//!
//! * `serve_ram serve ADDR [MIB]`: serves until it is ended.
//! * `serve_ram load ADDR [DEPTH] [SECONDS] [BLOCKS] [TARGET]`: random 4 KiB reads (8 blocks) of any target's
//!   LUN 0.
//! * `serve_ram stream ADDR read|write [DEPTH] [SECONDS] [KIB] [TARGET]`: sequential transfers through a
//!   session.
//! * `serve_ram both [DEPTH] [SECONDS] [BLOCKS]`: target and load in one process, each on its own CPU.

#![expect(
    clippy::disallowed_methods,
    reason = "two worlds on two threads, and a moment for the first to begin"
)]

#[path = "../tests/it/ram.rs"]
#[expect(dead_code, reason = "its switches are for tests")]
mod ram;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Options, Session, load};
use iscsi::target::{Limits, Portal, serve};
use world::Buf;
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
        Some("stream") => {
            let target = args.get(6).cloned().unwrap_or(ram::TARGET.into());
            let writes = args.get(2).is_some_and(|a| a == "write");
            run_stream(addr(1), &target, writes, number(3, 8), number(4, 5), number(5, 1024));
        }
        Some("both") => {
            let at: SocketAddr = "127.0.0.1:13260".parse().expect("an address");
            std::thread::spawn(move || run_target(at, 256, Some(0)));
            std::thread::sleep(Duration::from_millis(300));
            run_load(at, ram::TARGET, number(1, 32), number(2, 5), number(3, 8), Some(1));
        }
        _ => eprintln!(
            "serve_ram serve ADDR [MIB] | load ADDR [DEPTH] [SECONDS] [BLOCKS] [TARGET] \
             | stream ADDR read|write [DEPTH] [SECONDS] [KIB] [TARGET] | both [DEPTH] [SECONDS] [BLOCKS]"
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

fn run_stream(at: SocketAddr, target: &str, writes: bool, depth: u64, seconds: u64, kib: u64) {
    let options = Options::new(at, "iqn.2026-01.example.masu:load", target, 1);
    let (bytes, taken) = world_real::run(RunOptions::default(), |world| async move {
        let session = Session::login(&world, &options).await.expect("a login");
        let (begin, len) = (world.now(), (kib << 10) as usize);
        let (next, bytes, alive) =
            (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64)), Rc::new(Cell::new(depth)));
        for _ in 0..depth {
            let (world2, session, next, bytes, alive) =
                (world.clone(), session.clone(), next.clone(), bytes.clone(), alive.clone());
            world.spawn(async move {
                let data = if writes { Pieces::from(Buf::zeroed(len).freeze()) } else { Pieces::new() };
                while world2.now().since(begin) < Duration::from_secs(seconds) {
                    let at = next.get() * len as u64 % (64 << 20);
                    next.set(next.get() + 1);
                    let mut cdb = [0u8; 16];
                    cdb[0] = if writes { 0x2a } else { 0x28 };
                    cdb[2..6].copy_from_slice(&((at / 512) as u32).to_be_bytes());
                    cdb[7..9].copy_from_slice(&((len / 512) as u16).to_be_bytes());
                    let room = if writes { 0 } else { len as u32 };
                    let done =
                        session.command(scsi::Lun(0), cdb, data.clone(), room).await.expect("an answer");
                    assert!(done.is_good(), "{done:?}");
                    bytes.set(bytes.get() + len as u64);
                }
                alive.set(alive.get() - 1);
            });
        }
        while alive.get() > 0 {
            world.sleep(Duration::from_millis(10)).await;
        }
        (bytes.get(), world.now().since(begin).as_secs_f64())
    })
    .expect("a world");
    let what = if writes { "writes" } else { "reads" };
    println!("{what} of {kib} KiB at depth {depth}: {:.2} GB/s", bytes as f64 / taken / 1e9);
}
