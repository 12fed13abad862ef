//! How much of a bare loopback exchange the sockets of a world keep.
//!
//! The exchange is that of 4 KiB reads over iSCSI, without iSCSI: 48 bytes out, 48 + 4,096 back, a number of
//! them in flight, answered batch by batch. Server and client are pinned to a core each. "bare" is two
//! threads with blocking sockets, one receive and one vectored send per batch: the simplest program, and
//! about the best that a kernel does.
//!
//! ```text
//! cargo run --release -p world_real --example loopback -- --depth 32 --seconds 3
//! ```
//!
//! `--bare` runs the bare exchange alone, once, and prints its exchanges per second: a turn of `make bench`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the bare exchange is threads, sockets and the system's clock"
)]

use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use world::{Batch, Buf, Data, Stream, StreamOptions, World};
use world_real::{Options, start};

const REQUEST_LEN: usize = 48;
const PAYLOAD_LEN: usize = 4096;
const ANSWER_LEN: usize = REQUEST_LEN + PAYLOAD_LEN;
const REPEATS: usize = 5;
const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;

#[derive(Clone, Copy)]
struct Load {
    depth: usize,
    time: Duration,
}

#[derive(Clone, Copy)]
enum Side {
    Bare,
    /// A world that watches before it sleeps.
    World,
    /// A world that always sleeps at once.
    Sleepy,
}

/// What one run came to.
#[derive(Clone, Copy)]
struct Outcome {
    exchanges_per_s: f64,
    server_cpu_ns: f64,
    client_cpu_ns: f64,
}

fn main() {
    let (load, bare_only) = parse();
    if bare_only {
        println!("{:.0}", exchange(Side::Bare, Side::Bare, load).exchanges_per_s);
        return;
    }
    let kinds = [
        ("bare, both sides", Side::Bare, Side::Bare),
        ("World server, bare client", Side::World, Side::Bare),
        ("World, both sides", Side::World, Side::World),
        ("World without watch, both", Side::Sleepy, Side::Sleepy),
    ];
    let mut outcomes = vec![Vec::new(); kinds.len()];
    for _ in 0..REPEATS {
        for (into, (_, server, client)) in outcomes.iter_mut().zip(kinds) {
            into.push(exchange(server, client, load));
        }
    }
    println!("depth {}, {REPEATS} alternating repeats of {:?}, medians", load.depth, load.time);
    let bare = median(&outcomes[0], |o| o.exchanges_per_s);
    for ((name, _, _), runs) in kinds.iter().zip(&outcomes) {
        let rate = median(runs, |o| o.exchanges_per_s);
        println!(
            "{name:<28} {rate:>9.0} exchanges/s  {:>4.0} % of bare  CPU per exchange: server {:>5.0} ns, client {:>5.0} ns",
            100.0 * rate / bare,
            median(runs, |o| o.server_cpu_ns),
            median(runs, |o| o.client_cpu_ns),
        );
    }
}

fn parse() -> (Load, bool) {
    let mut load = Load { depth: 32, time: Duration::from_secs(1) };
    let mut bare_only = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--bare" {
            bare_only = true;
            continue;
        }
        let number = args.next().and_then(|n| n.parse::<f64>().ok()).filter(|n| *n > 0.0);
        match (arg.as_str(), number) {
            ("--depth", Some(n)) => load.depth = n as usize,
            ("--seconds", Some(n)) => load.time = Duration::from_secs_f64(n),
            _ => {
                eprintln!("{arg}: expected --depth N, --seconds S or --bare");
                std::process::exit(2);
            }
        }
    }
    (load, bare_only)
}

fn median(runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("two CPUs");
}

fn exchange(server: Side, client: Side, load: Load) -> Outcome {
    let (tell, told) = std::sync::mpsc::channel();
    let server = thread::spawn(move || match server {
        Side::Bare => serve_bare(|addr| tell.send(addr).expect("the main thread waits")),
        _ => world(SERVER_CPU, matches!(server, Side::World), move |w| async move {
            let listener = w.listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
            tell.send(listener.local()).expect("the main thread waits");
            serve(listener.accept().await.expect("accepts")).await
        }),
    });
    let addr = told.recv().expect("the server listens");
    let client = thread::spawn(move || match client {
        Side::Bare => ask_bare(addr, load),
        _ => world(CLIENT_CPU, matches!(client, Side::World), move |w| async move {
            let stream = w.connect(addr, StreamOptions::default()).await.expect("connects");
            ask(&w, stream, load).await
        }),
    });
    let (count, time, client_cpu) = client.join().expect("no panic");
    let server_cpu = server.join().expect("no panic");
    let per = |cpu: Duration| cpu.as_nanos() as f64 / count as f64;
    Outcome {
        exchanges_per_s: count as f64 / time.as_secs_f64(),
        server_cpu_ns: per(server_cpu),
        client_cpu_ns: per(client_cpu),
    }
}

fn world<T: Send + 'static, F: Future<Output = T>>(
    cpu: usize,
    watch: bool,
    f: impl FnOnce(World) -> F + Send + 'static,
) -> T {
    let options = Options { cpu: Some(cpu), watch, ..Options::default() };
    start("world", options, f).expect("starts").join().expect("no panic").expect("runs")
}

fn serve_bare(listening: impl FnOnce(SocketAddr)) -> Duration {
    pin_to(SERVER_CPU);
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    listening(listener.local_addr().expect("bound"));
    let (mut stream, _) = listener.accept().expect("accepts");
    stream.set_nodelay(true).expect("a socket");
    let begin = cpu_time();
    let (head, payload) = ([7u8; REQUEST_LEN], [9u8; PAYLOAD_LEN]);
    let mut buf = vec![0u8; 64 * 1024];
    let mut have = 0;
    while let Ok(count @ 1..) = stream.read(&mut buf[have..]) {
        have += count;
        let answers = have / REQUEST_LEN;
        have %= REQUEST_LEN;
        buf.copy_within(answers * REQUEST_LEN..answers * REQUEST_LEN + have, 0);
        let mut pieces: Vec<IoSlice> = Vec::with_capacity(2 * answers);
        for _ in 0..answers {
            pieces.extend([IoSlice::new(&head), IoSlice::new(&payload)]);
        }
        let mut rest = &mut pieces[..];
        while !rest.is_empty() {
            let Ok(sent) = stream.write_vectored(rest) else { return cpu_time() - begin };
            IoSlice::advance_slices(&mut rest, sent);
        }
    }
    cpu_time() - begin
}

fn ask_bare(addr: SocketAddr, load: Load) -> (u64, Duration, Duration) {
    pin_to(CLIENT_CPU);
    let mut stream = TcpStream::connect(addr).expect("connects");
    stream.set_nodelay(true).expect("a socket");
    let requests = vec![1u8; load.depth * REQUEST_LEN];
    let mut buf = vec![0u8; load.depth * ANSWER_LEN];
    let (begin, cpu) = (Instant::now(), cpu_time());
    stream.write_all(&requests).expect("sends");
    let (mut have, mut count) = (0, 0u64);
    while begin.elapsed() < load.time {
        have += stream.read(&mut buf).expect("receives");
        let answers = have / ANSWER_LEN;
        have %= ANSWER_LEN;
        count += answers as u64;
        stream.write_all(&requests[..answers * REQUEST_LEN]).expect("sends");
    }
    (count, begin.elapsed(), cpu_time() - cpu)
}

async fn serve(stream: Stream) -> Duration {
    let begin = cpu_time();
    let payload = Data::copy_of(&[9u8; PAYLOAD_LEN]);
    let mut batch = Batch::default();
    let mut receiving = stream.recv(Buf::new(64 * 1024), 0);
    let mut have = 0;
    loop {
        let mut got = receiving.await;
        let Ok(count @ 1..) = got.result else { break };
        have += count;
        let answers = have / REQUEST_LEN;
        have %= REQUEST_LEN;
        got.buf.copy_within(answers * REQUEST_LEN..answers * REQUEST_LEN + have, 0);
        for _ in 0..answers {
            batch.push_head(&[7u8; REQUEST_LEN]);
            batch.push_data(payload.clone());
        }
        let sending = stream.send(batch);
        receiving = stream.recv(got.buf, have);
        let sent = sending.await;
        if sent.result.is_err() {
            break;
        }
        batch = sent.batch;
    }
    cpu_time() - begin
}

async fn ask(world: &World, stream: Stream, load: Load) -> (u64, Duration, Duration) {
    let (begin, cpu) = (world.now(), cpu_time());
    let mut batch = Batch::default();
    batch.push_head(&vec![1u8; load.depth * REQUEST_LEN]);
    let mut sending = stream.send(batch);
    let mut buf = Buf::new(load.depth * ANSWER_LEN);
    let (mut have, mut count) = (0, 0u64);
    while world.now().since(begin) < load.time {
        let got = stream.recv(buf, 0).await;
        buf = got.buf;
        have += got.result.expect("receives");
        let answers = have / ANSWER_LEN;
        have %= ANSWER_LEN;
        count += answers as u64;
        let mut batch = sending.await.batch;
        for _ in 0..answers {
            batch.push_head(&[1u8; REQUEST_LEN]);
        }
        sending = stream.send(batch);
    }
    (count, world.now().since(begin), cpu_time() - cpu)
}
