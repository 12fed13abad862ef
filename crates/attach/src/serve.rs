//! Processes requests of the kernel in a world.

use std::rc::Rc;

use block::{BlockError, Data, Device, Pieces};
use fuser::{ReplyData, ReplyEmpty, ReplyWrite};
use world::World;
use world::sync::Signal;

use crate::error::errno;
use crate::sectors::Sectors;

/// Requests processed at once.
const WORKERS: usize = 64;
/// Requests that wait for a worker in our memory; further ones wait in the kernel.
const WAITING_MAX: usize = 16;

/// A request of the kernel. Dropping the reply returns EIO.
#[derive(Debug)]
pub(crate) enum Request {
    Read { at: u64, len: u32, reply: ReplyData },
    Write { at: u64, data: Data, reply: ReplyWrite },
    Zero { at: u64, len: u64, reply: ReplyEmpty },
    Flush { reply: ReplyEmpty },
}

/// The receiving end of the requests.
#[derive(Debug)]
pub struct Requests(async_channel::Receiver<Request>);

/// The sending end, for the kernel's thread.
pub(crate) struct Sender(async_channel::Sender<Request>);

pub(crate) fn channel() -> (Sender, Requests) {
    let (sender, receiver) = async_channel::bounded(WAITING_MAX);
    (Sender(sender), Requests(receiver))
}

impl Sender {
    /// Waits while the channel is full. Returns the request if no worker is left.
    pub(crate) fn send(&self, request: Request) -> Result<(), Request> {
        self.0.send_blocking(request).map_err(|refused| refused.0)
    }
}

/// Processes the kernel's requests to a device until the file system is unmounted. Calls `failed` for every
/// operation that the device failed.
pub async fn serve<D: Device + 'static>(
    world: &World,
    requests: Requests,
    device: D,
    failed: impl Fn(&BlockError) + 'static,
) {
    let shared = Rc::new((Sectors::new(device), failed));
    let ended = Rc::new(Signal::default());
    for _ in 0..WORKERS {
        let (requests, shared, ended) = (requests.0.clone(), shared.clone(), ended.clone());
        world.spawn(async move {
            while let Ok(request) = requests.recv().await {
                work(&shared.0, request, &shared.1).await;
            }
            drop(shared);
            ended.wake_all();
        });
    }
    ended.wait_for(|| (Rc::strong_count(&shared) == 1).then_some(())).await;
}

async fn work<D: Device>(sectors: &Sectors<D>, request: Request, failed: &impl Fn(&BlockError)) {
    let told = |error: BlockError| {
        failed(&error);
        errno(&error)
    };
    match request {
        Request::Read { at, len, reply } => {
            let mut out = Pieces::new();
            match sectors.read(at, len as usize, &mut out).await {
                Ok(()) => reply.data(&out.joined()),
                Err(error) => reply.error(told(error)),
            }
        }
        Request::Write { at, data, reply } => {
            let len = data.len() as u32;
            match sectors.write(at, data.into()).await {
                Ok(()) => reply.written(len),
                Err(error) => reply.error(told(error)),
            }
        }
        Request::Zero { at, len, reply } => answer(sectors.zero(at, len).await.map_err(told), reply),
        Request::Flush { reply } => answer(sectors.device().flush().await.map_err(told), reply),
    }
}

fn answer(done: Result<(), fuser::Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
