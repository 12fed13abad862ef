//! In steady state, reads and writes in place allocate nothing. Memory drives that answer at once stand in
//! for real ones, so that what is counted is the pool's and the group's own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use block::{Buf, Device, Pieces};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io, World};
use world_model::Model;

use super::rig::PAGE;
use crate::{Pool, PoolSpec, Provisioning};

const BLOCK: u64 = 4096;

/// Answers at once; keeps blocks, and gives a recycled buffer's worth of them.
#[derive(Default)]
struct Memory(RefCell<BTreeMap<u64, [u8; BLOCK as usize]>>);

impl DriveBackend for Memory {
    fn read(&self, at: u64, mut buf: Buf) -> Io<Filled> {
        for (i, part) in buf.chunks_mut(BLOCK as usize).enumerate() {
            match self.0.borrow().get(&(at / BLOCK + i as u64)) {
                Some(block) => part.copy_from_slice(block),
                None => part.fill(0),
            }
        }
        Io::ready(Filled { buf, result: Ok(()) })
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        for (i, part) in data.chunks(BLOCK as usize).enumerate() {
            let mut blocks = self.0.borrow_mut();
            blocks.entry(at / BLOCK + i as u64).or_insert([0; BLOCK as usize]).copy_from_slice(part);
        }
        Io::ready(Ok(()))
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.0.borrow_mut().retain(|block, _| *block < at / BLOCK || *block >= (at + len) / BLOCK);
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }
}

fn drive(i: usize) -> Drive {
    let info = DriveInfo {
        name: format!("m{i}"),
        len_bytes: 32 << 20,
        block_bytes: BLOCK as u32,
        volatile_cache: false,
        cheap_zero: true,
    };
    Drive::new(info, Box::new(Memory::default()))
}

async fn pool(world: &World, level: Level) -> Pool {
    let spec = GroupSpec::new("g", level, ArrayId([1; 16]));
    let group = Group::create(world.clone(), spec, (0..2).map(drive).collect()).await.expect("group");
    let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
    Pool::create(world.clone(), spec, vec![group]).await.expect("pool")
}

/// Drives a future that never has to wait.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here waits"),
    }
}

#[test]
fn reads_and_writes_in_place_allocate_nothing() {
    for level in [Level::Raid0, Level::Raid1] {
        Model::new(1).run(async |world| {
            let pool = Rc::new(pool(&world, level).await);
            let v = pool.create_volume("v", 4 << 20, Provisioning::Thin).await.expect("create");
            let data: Pieces = Buf::zeroed(4096).freeze().into();
            v.write(8192, &data).await.expect("write");
            v.flush().await.expect("flush");
            let round = |at: u64| {
                let mut out = Pieces::new();
                at_once(v.read(at, 4096, &mut out)).expect("read");
                assert_eq!(out.len(), 4096);
            };
            round(8192);
            let mapped = allocation_counter::measure(|| (0..100).for_each(|_| round(8192)));
            assert_eq!(mapped.count_total, 0, "{level}: reads of a mapped page");
            let unmapped = allocation_counter::measure(|| (0..100).for_each(|_| round(1 << 20)));
            assert_eq!(unmapped.count_total, 0, "{level}: reads of what is not mapped");
            let write = || (0..100).for_each(|_| at_once(v.write(8192, &data)).expect("write"));
            write();
            let written = allocation_counter::measure(write);
            assert_eq!(written.count_total, 0, "{level}: writes in place");
        });
    }
}
