//! Clients that do not do what clients do.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Device, Geometry, Pieces};
use world::{Batch, Buf, Stream, StreamOptions, World};
use world_model::Model;

use super::wire::{FIXED_NEWSTYLE, FLUSH, NO_ZEROES, OPTION, READ, REQUEST};
use super::{Export, serve};

const LEN: u64 = 64 << 20;
const READ_LEN: u32 = 8 << 20;
const REPLY_BYTES: usize = 16;

/// Zeros, and how many reads and flushes were asked for.
#[derive(Clone, Default)]
struct Zeros(Rc<Cell<u64>>);

impl Device for Zeros {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: LEN, block_bytes: 512 }
    }
    async fn read(&self, _at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.0.set(self.0.get() + 1);
        out.push(Buf::zeroed(len).freeze());
        Ok(())
    }
    async fn write(&self, _at: u64, _data: &Pieces) -> Result<(), BlockError> {
        Ok(())
    }
    async fn zero(&self, _at: u64, _len: u64) -> Result<(), BlockError> {
        Ok(())
    }
    async fn flush(&self) -> Result<(), BlockError> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

fn addr() -> SocketAddr {
    ([10, 0, 0, 1], 10_809).into()
}

fn serve_zeros(world: &World) -> Zeros {
    let device = Zeros::default();
    let listener = world.listen(addr()).expect("listens");
    let export = Export { device: device.clone(), name: String::new(), read_only: false };
    world.spawn(serve(world.clone(), listener, export));
    device
}

async fn connect(world: &World) -> Stream {
    world.connect(addr(), StreamOptions::default()).await.expect("connects")
}

async fn send(stream: &Stream, bytes: &[u8]) -> bool {
    let mut batch = Batch::default();
    batch.push_head(bytes);
    stream.send(batch).await.result.is_ok()
}

/// Whether so many bytes come.
async fn receive(stream: &Stream, len: usize) -> bool {
    let mut left = len;
    while left > 0 {
        match stream.recv(Buf::new(left.min(1 << 20)), 0).await.result {
            Ok(n) if n > 0 => left -= n,
            _ => return false,
        }
    }
    true
}

/// A client that has chosen the export in the old way: 18 bytes of greeting, 10 of the export.
async fn client(world: &World) -> Stream {
    let stream = connect(world).await;
    let flags = u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes();
    let option = [&OPTION.to_be_bytes()[..], &1_u32.to_be_bytes(), &0_u32.to_be_bytes()].concat();
    assert!(send(&stream, &[&flags[..], &option].concat()).await && receive(&stream, 28).await);
    stream
}

fn request(kind: u16, len: u32) -> Vec<u8> {
    let (magic, flags) = (REQUEST.to_be_bytes(), 0_u16.to_be_bytes());
    [&magic[..], &flags, &kind.to_be_bytes(), &[0; 16], &len.to_be_bytes()].concat()
}

#[test]
fn of_a_client_that_reads_no_replies_no_more_is_received_than_has_room() {
    Model::new(3).run(async |world| {
        let device = serve_zeros(&world);
        let stream = client(&world).await;
        assert!(send(&stream, &request(READ, READ_LEN).repeat(8)).await);
        world.sleep(Duration::from_secs(60)).await;
        // 32 MiB of replies, beside the one whose first bytes are in the socket.
        assert!((4..=5).contains(&device.0.get()), "{} reads", device.0.get());
        // Another one is served meanwhile; and when the first reads a reply, there is room for another one.
        let other = client(&world).await;
        assert!(send(&other, &request(READ, 512)).await && receive(&other, REPLY_BYTES + 512).await);
        let before = device.0.get();
        assert!(receive(&stream, 4 * (REPLY_BYTES + READ_LEN as usize)).await);
        world.sleep(Duration::from_secs(1)).await;
        assert!(device.0.get() > before, "{before} reads before and after");
    });
}

#[test]
fn replies_without_data_are_bounded_too() {
    Model::new(3).run(async |world| {
        let device = serve_zeros(&world);
        let stream = client(&world).await;
        // The socket holds 1 MiB each way: so many replies go out unread.
        let (count, in_socket) = (100_000_u64, (1 << 20) / REPLY_BYTES as u64);
        let sender = stream.clone();
        world.spawn(async move { _ = send(&sender, &request(FLUSH, 0).repeat(count as usize)).await });
        world.sleep(Duration::from_secs(60)).await;
        assert!(device.0.get() < in_socket + 1024, "{} flushes", device.0.get());
        assert!(receive(&stream, count as usize * REPLY_BYTES).await);
        assert_eq!(device.0.get(), count);
    });
}

#[test]
fn who_chooses_nothing_is_let_go_and_who_comes_when_all_places_are_taken_is_not_served() {
    Model::new(3).run(async |world| {
        serve_zeros(&world);
        let mut silent = Vec::new();
        for _ in 0..16 {
            silent.push(connect(&world).await);
        }
        world.sleep(Duration::from_secs(1)).await;
        let refused = connect(&world).await;
        assert!(!receive(&refused, 18).await, "there is no place");
        world.sleep(Duration::from_secs(10)).await;
        for stream in &silent {
            assert!(receive(stream, 18).await && !receive(stream, 1).await, "it said nothing for 10 s");
        }
        client(&world).await;
    });
}
