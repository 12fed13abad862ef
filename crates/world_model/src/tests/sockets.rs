//! Sockets: bytes in order whatever the cuts, back-pressure, and how connections end.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use world::{Batch, Buf, Data, NetError, Rng, Stream, StreamOptions, World};

use crate::{Link, Model, NetSpec};

fn addr() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 3260))
}

/// A connection with both its ends.
async fn pair(world: &World) -> (Stream, Stream) {
    let listener = world.listen(addr()).expect("listen");
    let client = world.connect(addr(), StreamOptions::default()).await.expect("connect");
    let server = listener.accept().await.expect("accept");
    assert_eq!((client.peer(), client.local()), (server.local(), server.peer()));
    (client, server)
}

fn batch_of(rng: &mut Rng, sent: &mut Vec<u8>, bytes_max: usize) -> Batch {
    let mut batch = Batch::default();
    for _ in 0..1 + rng.usize(..4) {
        let mut head = vec![0; rng.usize(..100)];
        rng.fill(&mut head);
        batch.push_head(&head);
        let mut data = Buf::new(1 + rng.usize(..bytes_max));
        rng.fill(&mut data);
        sent.extend_from_slice(&head);
        sent.extend_from_slice(&data);
        batch.push_data(data.freeze());
    }
    batch
}

/// Receives until the end of the stream; the pieces' sizes, too.
async fn receive_all(stream: &Stream, room: usize) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let received = stream.recv(Buf::new(room), 3).await;
        match received.result.expect("receive") {
            0 => return (bytes, sizes),
            n => {
                bytes.extend_from_slice(&received.buf[3..3 + n]);
                sizes.push(n);
            }
        }
    }
}

fn one_way(seed: u64) -> u64 {
    let model = Model::new(seed);
    model.run(async |world| {
        let (client, server) = pair(&world).await;
        let mut rng = world.random("workload");
        let mut sent = Vec::new();
        let batches: Vec<Batch> = (0..50).map(|_| batch_of(&mut rng, &mut sent, 20_000)).collect();
        world.spawn(async move {
            for batch in batches {
                client.send(batch).await.result.expect("send");
            }
            // Dropped here: it closes after what is under way.
        });
        let (received, sizes) = receive_all(&server, 8192).await;
        assert!(received == sent, "{} bytes sent, {} received, or not the same", sent.len(), received.len());
        assert!(
            sizes.iter().any(|n| *n < 512) && sizes.contains(&8189),
            "receives are cut, and not all of them"
        );
        assert_eq!(server.tcp_counts().bytes_in, sent.len() as u64);
    });
    model.digest()
}

#[test]
fn bytes_come_in_order_whatever_the_cuts() {
    for seed in 0..20 {
        assert_eq!(one_way(seed), one_way(seed));
    }
}

#[test]
fn a_slow_reader_holds_the_sender_back() {
    let model = Model::new(1);
    model.net().set_spec(NetSpec { window_bytes: 100_000, ..NetSpec::default() });
    model.run(async |world| {
        let (client, server) = pair(&world).await;
        let mut batch = Batch::default();
        batch.push_data(Data::copy_of(&[7; 150_000]));
        let send = client.send(batch);
        world.sleep(Duration::from_secs(1)).await;
        let send = send.try_now().expect_err("a third does not fit");
        let mut got = 0;
        while got < 50_000 {
            got += server.recv(Buf::new(10_000), 0).await.result.expect("receive");
        }
        let sent = send.await;
        sent.result.expect("all of it is under way");
        assert!(sent.batch.is_empty());
    });
}

#[test]
fn time_on_the_wire_is_latency_and_bandwidth() {
    let model = Model::new(1);
    let link = Link::plain(1_000_000_000, Duration::from_micros(500));
    model.net().set_spec(NetSpec { link, window_bytes: 1 << 20, cut_receives: false });
    let time = model.run(async |world| {
        let (client, server) = pair(&world).await;
        let start = world.now();
        let mut batch = Batch::default();
        batch.push_data(Data::copy_of(&[7; 500_000]));
        let _send = client.send(batch);
        let mut got = 0;
        while got < 500_000 {
            got += server.recv(Buf::new(1 << 20), 0).await.result.expect("receive");
        }
        world.now().since(start)
    });
    assert_eq!(time, Duration::from_micros(1000));
}

#[test]
fn both_ends_talk_at_once() {
    Model::new(4).run(async |world| {
        let (client, server) = pair(&world).await;
        let (echo, done) = (server.clone(), Rc::new(()));
        world.spawn(async move {
            let _done = done;
            loop {
                let received = echo.recv(Buf::new(4096), 0).await;
                let Ok(n @ 1..) = received.result else { return };
                let mut batch = Batch::default();
                batch.push_data(received.buf.freeze().slice(..n));
                echo.send(batch).await.result.expect("echo");
            }
        });
        let mut rng = world.random("workload");
        for _ in 0..100 {
            let mut sent = Vec::new();
            client.send(batch_of(&mut rng, &mut sent, 3000)).await.result.expect("send");
            let mut back = Vec::new();
            while back.len() < sent.len() {
                let received = client.recv(Buf::new(4096), 0).await;
                let n = received.result.expect("receive");
                back.extend_from_slice(&received.buf[..n]);
            }
            assert!(back == sent);
        }
    });
}

#[test]
fn a_close_ends_what_is_in_flight_and_the_peer_reads_the_rest_then_the_end() {
    Model::new(1).run(async |world| {
        let (client, server) = pair(&world).await;
        let mut batch = Batch::default();
        batch.push_head(b"goodbye");
        client.send(batch).await.result.expect("send");
        let receive = client.recv(Buf::new(100), 0);
        client.close();
        client.close();
        assert!(matches!(receive.await.result, Err(NetError::Closed(_))));
        let mut bytes = Vec::new();
        loop {
            let received = server.recv(Buf::new(100), 0).await;
            match received.result.expect("the end is no error") {
                0 => break,
                n => bytes.extend_from_slice(&received.buf[..n]),
            }
        }
        assert_eq!(bytes, b"goodbye");
        let mut batch = Batch::default();
        batch.push_head(b"too late");
        assert!(server.send(batch).await.result.is_err());
    });
}

#[test]
fn a_reset_fails_both_ends_and_a_silent_connection_neither() {
    let model = Model::new(1);
    model.run(async |world| {
        let (client, server) = pair(&world).await;
        assert_eq!(model.net().connections(), [(client.local(), addr())]);
        let receives = (client.recv(Buf::new(10), 0), server.recv(Buf::new(10), 0));
        model.net().reset(client.local());
        assert_eq!(receives.0.await.result, Err(NetError::Closed("reset".into())));
        assert_eq!(receives.1.await.result, Err(NetError::Closed("reset".into())));
        assert_eq!(model.net().connections(), []);
        drop((client, server));
        let (client, server) = pair(&world).await;
        model.net().silence(client.local());
        let mut batch = Batch::default();
        batch.push_head(b"hello?");
        client.send(batch).await.result.expect("the kernel takes it");
        let receive = server.recv(Buf::new(10), 0);
        world.sleep(Duration::from_secs(3600)).await;
        assert!(receive.try_now().is_err(), "nothing arrives");
    });
}

#[test]
fn addresses_are_used_once_and_nobody_there_is_an_error() {
    Model::new(1).run(async |world| {
        let refused = world.connect(addr(), StreamOptions::default()).await.err().expect("refused");
        assert_eq!(refused.to_string(), "cannot connect to 127.0.0.1:3260: connection refused: no listener");
        let listener = world.listen(addr()).expect("listen");
        let taken = world.listen(addr()).err().expect("taken");
        assert_eq!(
            taken.to_string(),
            "cannot listen on 127.0.0.1:3260: the address is in use by another listener"
        );
        let accept = listener.accept();
        listener.close();
        assert!(accept.await.is_err());
        let any = world.listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("any port");
        assert!(any.local().port() >= 49_152);
        world.listen(addr()).expect("free again");
    });
}
