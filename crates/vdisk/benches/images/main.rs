//! What an image costs over the file that it lies in, and how it compares with another server of the same
//! file.
//!
//! ```text
//! cargo bench -p vdisk --bench images -- DIR [MIB] [ROUNDS]
//! ```
//!
//! In `DIR` (O_DIRECT, a real file system): a raw file and a VHDX of the same size, both made anew for every
//! round and written once. Then 64 KiB random reads and 64 KiB sequential writes, 16 in flight, of each; the
//! ratio of a round is VHDX over raw. If `qemu-storage-daemon` is there, it and masu's NBD server then serve
//! that same VHDX in turn to one and the same client, interleaved, too. Medians over the rounds; nothing is
//! dropped.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement by hand")]

mod nbd_client;

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use block::{Device, Pieces};
use nbd_client::Client;
use vdisk::nbd::{Export, serve};
use vdisk::vhdx::{Guid, NewVhdx, create};
use vdisk::{Access, Image, open_file};
use world::sync::Signal;
use world::{Buf, DriveSpec, ImageAccess, World};

const IO: u64 = 64 << 10;
const DEPTH: usize = 16;
/// How long one measurement takes.
const TIME: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    RandomReads,
    SequentialWrites,
}

/// Bytes per second of a pattern.
async fn measure<D: Device + Clone + 'static>(world: &World, device: &D, pattern: Pattern) -> f64 {
    let blocks = device.geometry().len_bytes / IO;
    let (next, bytes, running) =
        (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(DEPTH)));
    let ended = Rc::new(Signal::default());
    let begin = Instant::now();
    for worker in 0..DEPTH {
        let (device, next, bytes, running, ended) =
            (device.clone(), next.clone(), bytes.clone(), running.clone(), ended.clone());
        let mut rng = fastrand::Rng::with_seed(worker as u64);
        world.spawn(async move {
            let data = Pieces::from(Buf::copy_of(&[worker as u8 + 1; IO as usize]).freeze());
            while begin.elapsed() < TIME {
                match pattern {
                    Pattern::RandomReads => {
                        let mut out = Pieces::new();
                        device.read(rng.u64(..blocks) * IO, IO as usize, &mut out).await.expect("read");
                    }
                    Pattern::SequentialWrites => {
                        let block = next.replace(next.get() + 1) % blocks;
                        device.write(block * IO, &data).await.expect("written");
                    }
                }
                bytes.set(bytes.get() + IO);
            }
            running.set(running.get() - 1);
            ended.wake_all();
        });
    }
    ended.wait_for(|| (running.get() == 0).then_some(())).await;
    bytes.get() as f64 / begin.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The ratios of all rounds in a few words.
fn told(ratios: Vec<f64>) -> String {
    let (least, most) = ratios.iter().fold((f64::MAX, 0.0_f64), |(l, m), r| (l.min(*r), m.max(*r)));
    format!("ratio {:.3} ({least:.3} to {most:.3})", median(ratios))
}

async fn fill(image: &Image) {
    let data = Pieces::from(Buf::copy_of(&vec![0xa5; 1 << 20]).freeze());
    for at in (0..image.len_bytes()).step_by(1 << 20) {
        image.write(at, &data).await.expect("written");
    }
    image.flush().await.expect("durable");
}

async fn prepare(world: &World, raw: &Path, vhdx: &Path, len: u64) {
    let made = async |path: &Path| {
        let _ = std::fs::remove_file(path);
        let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Create };
        world.open_drive(&spec).await.expect("made")
    };
    let drive = made(raw).await;
    drive.set_len(len).await.expect("made so long");
    fill(&Image::open_raw(drive, Access::Write).expect("opens")).await;
    create(&made(vhdx).await, &NewVhdx::new(len, [Guid([1; 16]), Guid([2; 16]), Guid([3; 16])]))
        .await
        .expect("made");
    let image = open_file(world, vhdx, Access::Write).await.expect("opens");
    fill(&image).await;
    image.close().await.expect("closed");
}

const PATTERNS: [(&str, Pattern); 2] =
    [("random reads", Pattern::RandomReads), ("sequential writes", Pattern::SequentialWrites)];

async fn beside_raw(world: &World, raw: &Path, vhdx: &Path, (len, rounds): (u64, usize)) {
    let mut seen = PATTERNS.map(|_| (vec![], vec![], vec![]));
    for round in 0..rounds {
        // With the same two files for all rounds the median of writes was 0.84 in one run and 1.14 in
        // another, with every round of it on the same side of 1: perhaps where the file system had put them.
        // So no pair decides alone.
        prepare(world, raw, vhdx, len).await;
        let spec = DriveSpec::Image { path: raw.to_owned(), access: ImageAccess::Write };
        let raw =
            Image::open_raw(world.open_drive(&spec).await.expect("opens"), Access::Write).expect("opens");
        let image = open_file(world, vhdx, Access::Write).await.expect("opens");
        for ((_, pattern), (ours, theirs, ratios)) in PATTERNS.into_iter().zip(&mut seen) {
            // Who is first changes: what one leaves in the drive the other one meets.
            let (a, b) = match round % 2 {
                0 => (measure(world, &raw, pattern).await, measure(world, &image, pattern).await),
                _ => {
                    let b = measure(world, &image, pattern).await;
                    (measure(world, &raw, pattern).await, b)
                }
            };
            theirs.push(a);
            ours.push(b);
            ratios.push(b / a);
        }
        image.close().await.expect("closed");
    }
    for ((name, _), (ours, theirs, ratios)) in PATTERNS.into_iter().zip(seen) {
        let (ours, theirs) = (median(ours) / 1e6, median(theirs) / 1e6);
        println!("64 KiB {name}: raw {theirs:.0} MB/s, VHDX {ours:.0} MB/s, {}", told(ratios));
    }
}

/// The other server, for as long as it is held.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn daemon(vhdx: &Path, port: u16) -> Option<Daemon> {
    let file = format!("driver=file,node-name=f,filename={},cache.direct=on,aio=io_uring", vhdx.display());
    let child = Command::new("qemu-storage-daemon")
        .args(["--blockdev", &file, "--blockdev", "driver=vhdx,node-name=v,file=f,cache.direct=on"])
        .args(["--nbd-server", &format!("addr.type=inet,addr.host=127.0.0.1,addr.port={port}")])
        .args(["--export", "type=nbd,id=e,node-name=v,name=disk,writable=on"])
        .stdin(Stdio::null())
        .spawn();
    child.ok().map(Daemon)
}

/// Measures over NBD, with whoever listens at the address.
async fn over_nbd(world: &World, addr: SocketAddr, pattern: Pattern) -> f64 {
    let mut tries = 0;
    let client = loop {
        match Client::connect(world, addr).await {
            Some(client) => break client,
            None => tries += 1,
        }
        assert!(tries < 100, "nobody listens at {addr}");
        world.sleep(Duration::from_millis(50)).await;
    };
    let measured = measure(world, &client, pattern).await;
    client.flush().await.expect("durable");
    client.disconnect();
    measured
}

/// Serves the image from a thread of its own until `stop` is dropped.
fn ours(
    vhdx: PathBuf,
    port: u16,
    stop: std::sync::mpsc::Receiver<()>,
) -> std::thread::JoinHandle<Result<(), world_real::RunError>> {
    world_real::start("server", world_real::Options::default(), move |world| async move {
        let image = open_file(&world, &vhdx, Access::Write).await.expect("opens");
        let listener = world.listen(SocketAddr::from(([127, 0, 0, 1], port))).expect("listens");
        let export = Export { device: image.clone(), name: "disk".into(), read_only: false };
        world.spawn(serve(world.clone(), listener.clone(), export));
        while stop.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            world.sleep(Duration::from_millis(20)).await;
        }
        listener.close();
        image.close().await.expect("closed");
    })
    .expect("a thread")
}

async fn served_by_daemon(world: &World, vhdx: &Path, pattern: Pattern) -> Option<f64> {
    let port = test_ports::claim();
    let _daemon = daemon(vhdx, port)?;
    Some(over_nbd(world, SocketAddr::from(([127, 0, 0, 1], port)), pattern).await)
}

async fn served_by_masu(world: &World, vhdx: &Path, pattern: Pattern) -> f64 {
    let port = test_ports::claim();
    let (stop, stopped) = std::sync::mpsc::channel();
    let server = ours(vhdx.to_owned(), port, stopped);
    let measured = over_nbd(world, SocketAddr::from(([127, 0, 0, 1], port)), pattern).await;
    drop(stop);
    server.join().expect("no panic").expect("ran");
    measured
}

async fn beside_daemon(world: &World, vhdx: &Path, rounds: usize) {
    for (name, pattern) in PATTERNS {
        let (mut mine, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        for round in 0..rounds {
            let first = if round % 2 == 0 { None } else { Some(served_by_masu(world, vhdx, pattern).await) };
            let Some(b) = served_by_daemon(world, vhdx, pattern).await else {
                println!("qemu-storage-daemon is not here: nothing to compare with");
                return;
            };
            let a = match first {
                Some(a) => a,
                None => served_by_masu(world, vhdx, pattern).await,
            };
            mine.push(a);
            theirs.push(b);
            ratios.push(a / b);
        }
        let (mine, theirs) = (median(mine) / 1e6, median(theirs) / 1e6);
        println!(
            "64 KiB {name} over NBD, the same VHDX: qemu-storage-daemon {theirs:.0} MB/s, masu {mine:.0} MB/s, {}",
            told(ratios)
        );
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let dir = PathBuf::from(args.first().map_or("target/bench", String::as_str));
    let number = |i: usize, or: u64| args.get(i).and_then(|text| text.parse().ok()).unwrap_or(or);
    let (len, rounds) = (number(1, 1024) << 20, number(2, 9) as usize);
    let (raw, vhdx) = (dir.join("vdisk.raw"), dir.join("vdisk.vhdx"));
    world_real::run(world_real::Options::default(), async |world| {
        beside_raw(&world, &raw, &vhdx, (len, rounds)).await;
        beside_daemon(&world, &vhdx, rounds).await;
    })
    .expect("a ring");
    for path in [raw, vhdx] {
        let _ = std::fs::remove_file(path);
    }
}
