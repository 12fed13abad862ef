//! Ports that connections share: what they carry at most, and to whom.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use world::{Batch, Buf, Data, Instant, Listener, Stream, StreamOptions, World};

use crate::{FibreChannel, Link, Model, NetSpec};

fn addr() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 3260))
}

fn model_with(link: Link) -> Model {
    let model = Model::new(1);
    model.net().set_spec(NetSpec { cut_receives: false, ..NetSpec::default() });
    model.net().set_port(addr(), link);
    model
}

async fn pair(world: &World, listener: &Listener) -> (Stream, Stream) {
    let client = world.connect(addr(), StreamOptions::default()).await.expect("connect");
    (client, listener.accept().await.expect("accept"))
}

fn batch(len: usize) -> Batch {
    let mut batch = Batch::default();
    batch.push_data(Data::copy_of(&vec![7; len]));
    batch
}

async fn receive(stream: &Stream, len: usize) {
    let mut got = 0;
    while got < len {
        got += stream.recv(Buf::new(1 << 16), 0).await.result.expect("receive");
    }
    assert_eq!(got, len);
}

/// Until when each of so many connections has received `len` bytes that its listener sent in pieces.
fn streams(link: Link, connections: usize, len: usize) -> (Model, Vec<Duration>) {
    let model = model_with(link);
    let times = model.run(async |world| {
        let listener = world.listen(addr()).expect("listen");
        let times = Rc::new(RefCell::new(Vec::new()));
        let start = world.now();
        for _ in 0..connections {
            let (client, server) = pair(&world, &listener).await;
            world.spawn(async move {
                for _ in 0..len / 65_536 {
                    if server.send(batch(65_536)).await.result.is_err() {
                        return;
                    }
                }
            });
            let (times, now) = (times.clone(), world.clone());
            world.spawn(async move {
                receive(&client, len / 65_536 * 65_536).await;
                times.borrow_mut().push(now.now().since(start));
            });
        }
        while times.borrow().len() < connections {
            world.sleep(Duration::from_millis(1)).await;
        }
        times.take()
    });
    (model, times)
}

fn check_rate(link: Link, connections: usize, mb_per_s: f64) {
    let len = 16 << 20;
    let (model, times) = streams(link, connections, len);
    let all = (connections * len) as f64 / 1e6;
    let got = all / times.iter().max().expect("there are some").as_secs_f64();
    assert!((got / mb_per_s - 1.0).abs() <= 0.01, "{got:.1} MB/s of {mb_per_s}");
    let usage = model.net().port_usage(addr()).expect("it is a port");
    assert_eq!(usage.left.payload_bytes, (connections * len) as u64);
    assert!(usage.left.wire_bytes > usage.left.payload_bytes && usage.arrived.payload_bytes == 0);
    let busy = usage.left.busy_ns as f64 / times.iter().max().expect("there are some").as_nanos() as f64;
    assert!(busy > 0.99 && busy <= 1.0, "{busy}");
}

#[test]
fn streams_through_a_port_reach_its_ceiling_together_and_no_more() {
    check_rate(Link::ethernet(1, 1500).unwrap(), 1, 117.7);
    check_rate(Link::ethernet(1, 1500).unwrap(), 8, 117.7);
    check_rate(Link::ethernet(1, 9000).unwrap(), 4, 123.8);
    check_rate(Link::fibre_channel(FibreChannel::Gfc1), 2, 103.0);
    check_rate(Link::fibre_channel(FibreChannel::Gfc2), 8, 206.5);
    check_rate(Link::fibre_channel(FibreChannel::Gfc4), 2, 413.0);
    check_rate(Link::fibre_channel(FibreChannel::Gfc8), 2, 826.0);
}

#[test]
fn connections_of_a_port_take_turns() {
    let (_, times) = streams(Link::fibre_channel(FibreChannel::Gfc2), 8, 8 << 20);
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(first.as_secs_f64() > last.as_secs_f64() * 0.9, "{times:?}");
}

/// Reads of 4 KiB by iSCSI: a header of 48 bytes asks, header and data answer. 32 at once.
#[test]
fn small_reads_over_fibre_channel_lose_what_is_published() {
    let model = model_with(Link::fibre_channel(FibreChannel::Gfc2));
    const ROUNDS: usize = 200;
    let took = model.run(async |world| {
        let listener = world.listen(addr()).expect("listen");
        let (client, server) = pair(&world, &listener).await;
        world.spawn(async move {
            for _ in 0..ROUNDS * 32 {
                receive_some(&server, 48).await;
                if server.send(batch(48 + 4096)).await.result.is_err() {
                    return;
                }
            }
        });
        let start = world.now();
        client.send(batch(32 * 48)).await.result.expect("ask");
        for i in 0..ROUNDS * 32 {
            receive_some(&client, 48 + 4096).await;
            if i + 32 < ROUNDS * 32 {
                client.send(batch(48)).await.result.expect("ask");
            }
        }
        world.now().since(start)
    });
    let mb_per_s = (ROUNDS * 32 * 4096) as f64 / 1e6 / took.as_secs_f64();
    assert!((199.0..202.0).contains(&mb_per_s), "{mb_per_s:.1} MB/s");
}

/// Exactly so many bytes.
async fn receive_some(stream: &Stream, len: usize) {
    let mut left = len;
    while left > 0 {
        left -= stream.recv(Buf::new(left), 0).await.result.expect("receive");
    }
}

#[test]
fn a_port_may_be_exchanged_for_a_faster_one_while_it_is_used() {
    let model = model_with(Link::fibre_channel(FibreChannel::Gfc1));
    let net = model.net().clone();
    let [slow, fast] = model.run(async |world| {
        let listener = world.listen(addr()).expect("listen");
        let (client, server) = pair(&world, &listener).await;
        let mut took = [Duration::ZERO; 2];
        for (i, speed) in [FibreChannel::Gfc1, FibreChannel::Gfc2].into_iter().enumerate() {
            net.set_port(addr(), Link::fibre_channel(speed).with_latency(Duration::ZERO));
            let start: Instant = world.now();
            let send = server.send(batch(500_000));
            receive(&client, 500_000).await;
            send.await.result.expect("send");
            took[i] = world.now().since(start);
        }
        took
    });
    assert_eq!(slow.as_micros() / 2, fast.as_micros());
}

#[test]
fn a_broken_connection_leaves_its_turns_to_the_others() {
    let model = model_with(Link::ethernet(1, 1500).unwrap());
    let net = model.net().clone();
    model.run(async |world| {
        let listener = world.listen(addr()).expect("listen");
        let (broken, at_listener) = pair(&world, &listener).await;
        let (client, server) = pair(&world, &listener).await;
        let lost = at_listener.send(batch(1_000_000));
        let send = server.send(batch(500_000));
        world.sleep(Duration::from_millis(1)).await;
        net.reset(broken.local());
        drop(lost);
        let start = world.now();
        receive(&client, 500_000).await;
        send.await.result.expect("send");
        // Half a megabyte alone needs 4.2 ms.
        assert!(world.now().since(start) < Duration::from_millis(5));
    });
    // Another run of the same model finds the port free.
    let again = model.run(async |world| {
        let listener = world.listen(addr()).expect("listen");
        let (client, server) = pair(&world, &listener).await;
        let send = server.send(batch(1000));
        receive(&client, 1000).await;
        send.await.result.expect("send");
        world.now().0
    });
    // There and back to connect, and once for the data.
    let wire_ns = Link::ethernet(1, 1500).unwrap().wire_ns(1000);
    assert_eq!(again, 3 * 50_000 + wire_ns);
}
