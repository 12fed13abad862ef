//! Sockets of the real world: exchanges, ends, refusals, many connections.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use world::{Batch, Buf, Data, NetError, Stream, StreamOptions, World};
use world_real::{Options, run};

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// Two ends of one connection.
async fn pair(world: &World, options: StreamOptions) -> (Stream, Stream) {
    let listener = world.listen_with(loopback(), options).expect("listens");
    let accept = listener.accept();
    let near = world.connect(listener.local(), options).await.expect("connects");
    let far = accept.await.expect("accepts");
    assert_eq!((near.peer(), far.peer()), (far.local(), near.local()));
    (near, far)
}

async fn receive_all(stream: &Stream, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = Buf::new(64 * 1024);
    while all.len() < len {
        let got = stream.recv(buf, 0).await;
        let count = got.result.expect("receives");
        assert!(count > 0, "the peer closed after {} of {len} bytes", all.len());
        all.extend_from_slice(&got.buf[..count]);
        buf = got.buf;
    }
    all
}

#[test]
fn a_batch_larger_than_every_kernel_buffer_arrives_in_order() {
    run(Options::default(), |world| async move {
        let (near, far) = pair(&world, StreamOptions::default()).await;
        // 3,000 pieces: more than one system call takes, and far more bytes than the socket's buffers hold.
        let mut batch = Batch::default();
        let mut expected = Vec::new();
        for i in 0..1500u32 {
            let body = vec![i as u8; 4096 + i as usize % 7];
            batch.push_head(&i.to_be_bytes());
            batch.push_data(Data::copy_of(&body));
            expected.extend_from_slice(&i.to_be_bytes());
            expected.extend_from_slice(&body);
        }
        let sending = near.send(batch);
        let got = receive_all(&far, expected.len()).await;
        let sent = sending.await;
        assert_eq!(sent.result, Ok(()));
        assert!(sent.batch.is_empty());
        assert!(got == expected);
        let counts = near.tcp_counts();
        assert!(counts.bytes_out >= expected.len() as u64 && counts.segments_out > 1, "{counts:?}");
        assert_eq!(far.tcp_counts().bytes_in, expected.len() as u64);
    })
    .expect("runs");
}

#[test]
fn the_payload_of_a_segment_is_as_asked_in_both_directions() {
    run(Options::default(), |world| async move {
        const LEN: usize = 1448 * 500;
        let options = StreamOptions { segment_bytes_max: Some(1448) };
        let (near, far) = pair(&world, options).await;
        for (from, to) in [(&near, &far), (&far, &near)] {
            let before = from.tcp_counts().segments_out;
            let mut batch = Batch::default();
            batch.push_data(Data::copy_of(&vec![1; LEN]));
            let sending = from.send(batch);
            receive_all(to, LEN).await;
            assert_eq!(sending.await.result, Ok(()));
            let segments = from.tcp_counts().segments_out - before;
            // Some acknowledgements and rests more; none of the segments is larger.
            assert!((500..600).contains(&segments), "{segments} segments for 500 full ones");
        }
    })
    .expect("runs");
}

#[test]
fn close_ends_a_receive_in_flight_and_the_peer_sees_the_end() {
    run(Options::default(), |world| async move {
        let (near, far) = pair(&world, StreamOptions::default()).await;
        let pending = near.recv(Buf::new(100), 0);
        world.sleep(Duration::from_millis(5)).await;
        near.close();
        near.close();
        assert!(matches!(pending.await.result, Err(NetError::Closed(_))));
        assert!(matches!(near.recv(Buf::new(1), 0).await.result, Err(NetError::Closed(_))));
        assert_eq!(far.recv(Buf::new(1), 0).await.result, Ok(0));
        // Dropping the last handle closes, too, although a receive is in flight.
        let (near, far) = pair(&world, StreamOptions::default()).await;
        let pending = near.recv(Buf::new(100), 0);
        drop(near);
        assert_eq!(far.recv(Buf::new(1), 0).await.result, Ok(0));
        assert!(pending.await.result.is_err());
        // A send that the peer never reads ends with the connection.
        let (near, far) = pair(&world, StreamOptions::default()).await;
        let mut batch = Batch::default();
        for _ in 0..4 {
            batch.push_data(Data::copy_of(&vec![0; 8 << 20]));
        }
        let stuck = near.send(batch);
        world.sleep(Duration::from_millis(5)).await;
        drop(far);
        assert!(matches!(stuck.await.result, Err(NetError::Closed(_))));
    })
    .expect("runs");
}

#[test]
fn refusals_name_the_address_and_the_cause() {
    run(Options::default(), |world| async move {
        let listener = world.listen(loopback()).expect("listens");
        let addr = listener.local();
        let error = world.listen(addr).err().expect("the port is in use");
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {addr}: the address is in use by another process")
        );
        let strange = "203.0.113.1:0".parse().expect("an address");
        let error = world.listen(strange).err().expect("not ours");
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {strange}: no network interface of this machine has this address")
        );
        let accept = listener.accept();
        world.sleep(Duration::from_millis(1)).await;
        listener.close();
        assert!(matches!(accept.await, Err(NetError::Closed(_))));
        drop(listener);
        let error = world.connect(addr, StreamOptions::default()).await.err().expect("nobody listens");
        assert_eq!(error.to_string(), format!("cannot connect to {addr}: Connection refused (os error 111)"));
    })
    .expect("runs");
}

#[test]
fn two_thousand_connections_at_once() {
    const COUNT: usize = 2000;
    let files = world_real::raise_open_files_max();
    if files < 2 * COUNT as u64 + 100 {
        println!("skipped: at most {files} open files are allowed here");
        return;
    }
    run(Options::default(), |world| async move {
        let listener = world.listen(loopback()).expect("listens");
        let addr = listener.local();
        let served = Rc::new(Cell::new(0));
        let accepting = world.clone();
        let count = served.clone();
        world.spawn(async move {
            for _ in 0..COUNT {
                let stream = listener.accept().await.expect("accepts");
                let count = count.clone();
                accepting.spawn(async move {
                    let mut batch = Batch::default();
                    let got = stream.recv(Buf::new(4096), 0).await;
                    batch.push_head(&got.buf[..got.result.expect("receives")]);
                    assert_eq!(stream.send(batch).await.result, Ok(()));
                    count.set(count.get() + 1);
                    // Stays open until the peer goes.
                    assert_eq!(stream.recv(got.buf, 0).await.result, Ok(0));
                });
            }
        });
        let mut streams = Vec::new();
        for _ in 0..COUNT {
            streams.push(world.connect(addr, StreamOptions::default()).await.expect("connects"));
        }
        for (i, stream) in streams.iter().enumerate() {
            let mut batch = Batch::default();
            batch.push_head(&(i as u64).to_be_bytes());
            assert_eq!(stream.send(batch).await.result, Ok(()));
        }
        for (i, stream) in streams.iter().enumerate() {
            assert_eq!(receive_all(stream, 8).await, (i as u64).to_be_bytes());
        }
        assert_eq!(served.get(), COUNT);
    })
    .expect("runs");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the peer is another program, with files and threads")]
fn a_socket_at_a_path_exchanges_bytes_and_stops_listening() {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s");
    let client = path.clone();
    run(Options::default(), |world| async move {
        let listener = world.listen_local(&path).expect("listens");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else may connect");
        let again = world.listen_local(&path).err().expect("taken").to_string();
        assert!(again.contains("already"), "{again}");
        let peer = std::thread::spawn(move || {
            let mut stream = std::os::unix::net::UnixStream::connect(&client).expect("connects");
            stream.write_all(b"question").expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("received");
            answer
        });
        let stream = listener.accept().await.expect("accepts");
        assert_eq!(receive_all(&stream, 8).await, b"question");
        let mut batch = Batch::default();
        batch.push_head(b"answer");
        assert_eq!(stream.send(batch).await.result, Ok(()));
        stream.close();
        assert_eq!(peer.join().expect("no panic"), "answer");
        let accept = listener.accept();
        listener.close();
        assert!(accept.await.is_err());
    })
    .expect("a ring");
}
