//! The transmission: requests in, operations on the device, replies out in the order of completion.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use block::{BlockError, Buf, Device, Pieces};
use world::sync::{Permit, Permits, Signal};
use world::{BUF_LEN_MAX, Batch, Listener, Stream, World};

use super::negotiation::{Facts, Input, negotiate};
use super::wire::{
    DISCONNECT, EINVAL, EPERM, FLUSH, FUA, Header, READ, REPLY, REQUEST_BYTES, TRIM, WRITE, WRITE_ZEROES,
    errno,
};

/// Concurrent requests of one connection; further ones wait in the socket.
const WORKERS: usize = 64;
/// Limit of bytes of requests and replies of one connection in memory: four of the longest. They are released
/// when the reply has been sent, so a client that reads no replies is not received from.
const BYTES_MAX: u64 = 4 * BUF_LEN_MAX as u64;
/// Limit of received and unanswered requests of one connection: a reply without data takes memory, too.
const REQUESTS_MAX: u64 = 256;
/// Limit of connections: with their memory half a GiB. Further ones are closed at once.
const CONNECTIONS_MAX: u64 = 16;
const _: () = assert!(CONNECTIONS_MAX * BYTES_MAX <= 512 << 20);
/// Time limit for a client to choose the export.
const NEGOTIATION_TIME_MAX: Duration = Duration::from_secs(10);
/// Time limit for a client that sends nothing more to read its replies.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// An export.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Export<D> {
    pub device: D,
    pub name: String,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// Serves an export to all clients that connect, until the listener is closed.
pub async fn serve<D: Device + Clone + 'static>(world: World, listener: Listener, export: Export<D>) {
    let places = Permits::new(CONNECTIONS_MAX);
    while let Ok(stream) = listener.accept().await {
        let Some(place) = places.try_take(1) else {
            stream.close();
            continue;
        };
        let (world, export) = (world.clone(), export.clone());
        let connection = connection(world.clone(), stream, export, place);
        world.spawn(connection);
    }
}

/// Memory of a request until its reply has been sent.
struct Held {
    _bytes: Permit,
    _place: Permit,
}

struct Request {
    header: Header,
    data: Pieces,
    held: Held,
}

/// State shared by the tasks of one connection.
#[derive(Default)]
struct Session {
    requests: RefCell<VecDeque<Request>>,
    came: Signal,
    replies: RefCell<(Batch, Vec<Held>)>,
    answered: Signal,
    /// All replies have been sent, or the client no longer reads them.
    gone: Cell<bool>,
    /// No further requests arrive; the number of remaining workers.
    ended: Cell<bool>,
    workers: Cell<usize>,
}

async fn connection<D: Device + Clone + 'static>(
    world: World,
    stream: Stream,
    export: Export<D>,
    place: Permit,
) {
    let geometry = export.device.geometry();
    let facts = Facts {
        name: export.name.clone(),
        len_bytes: geometry.len_bytes,
        block_bytes: geometry.block_bytes,
        read_only: export.read_only,
    };
    let mut input = Input::new(stream.clone());
    let chosen = within(&world, NEGOTIATION_TIME_MAX, negotiate(&stream, &mut input, &facts)).await;
    if chosen.flatten().is_none() {
        stream.close();
        return;
    }
    let session = Rc::new(Session::default());
    session.workers.set(WORKERS);
    for _ in 0..WORKERS {
        world.spawn(work(session.clone(), export.clone()));
    }
    world.spawn(write_replies(session.clone(), stream.clone()));
    read_requests(&session, &mut input, facts.block_bytes).await;
    session.ended.set(true);
    session.came.wake_all();
    session.answered.wake_all();
    let gone = session.answered.wait_for(|| session.gone.get().then_some(()));
    if within(&world, DRAIN_TIME_MAX, gone).await.is_none() {
        stream.close();
    }
    drop(place);
}

/// The output of a future, if it completes in time.
async fn within<T>(world: &World, time: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut end) = (pin!(future), pin!(world.sleep(time)));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => end.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Receives until the client disconnects, or sends an invalid request.
async fn read_requests(session: &Session, input: &mut Input, block_bytes: u32) {
    let (memory, places) = (Permits::new(BYTES_MAX), Permits::new(REQUESTS_MAX));
    while let Some(bytes) = input.take::<REQUEST_BYTES>().await {
        let Some(header) = Header::parse(&bytes) else { return };
        if header.kind == DISCONNECT {
            return;
        }
        let carries = matches!(header.kind, READ | WRITE);
        let _place = places.take(1).await;
        if carries && header.len as usize > BUF_LEN_MAX {
            // The data of a write that is too long cannot be distinguished from requests.
            if header.kind == WRITE {
                return;
            }
            let held = Held { _bytes: memory.take(0).await, _place };
            session.reply(header.handle, EINVAL, Pieces::new(), held);
            continue;
        }
        let held = Held { _bytes: memory.take(if carries { header.len.into() } else { 0 }).await, _place };
        let mut data = Pieces::new();
        if header.kind == WRITE && header.len > 0 {
            let Some(buf) = input.fill(Buf::new(header.len as usize)).await else { return };
            data.push(buf.freeze());
        }
        let aligned = header.at.is_multiple_of(block_bytes.into()) && header.len.is_multiple_of(block_bytes);
        if header.kind != FLUSH && (!aligned || header.len == 0) {
            session.reply(header.handle, EINVAL, Pieces::new(), held);
            continue;
        }
        session.requests.borrow_mut().push_back(Request { header, data, held });
        session.came.wake_one();
    }
}

/// One worker: one operation after the other.
async fn work<D: Device>(session: Rc<Session>, export: Export<D>) {
    loop {
        let next = session.came.wait_for(|| match session.requests.borrow_mut().pop_front() {
            Some(request) => Some(Some(request)),
            None => session.ended.get().then_some(None),
        });
        let Some(request) = next.await else { break };
        let mut out = Pieces::new();
        let header = request.header;
        let error = match execute(&export, &header, &request.data, &mut out).await {
            Ok(()) => 0,
            Err(error) => error,
        };
        drop(request.data);
        session.reply(header.handle, error, if error == 0 { out } else { Pieces::new() }, request.held);
    }
    session.workers.set(session.workers.get() - 1);
    session.answered.wake_all();
}

async fn execute<D: Device>(
    export: &Export<D>,
    header: &Header,
    data: &Pieces,
    out: &mut Pieces,
) -> Result<(), u32> {
    let (device, at, len) = (&export.device, header.at, u64::from(header.len));
    let told = |error: BlockError| errno(&error);
    if export.read_only && matches!(header.kind, WRITE | TRIM | WRITE_ZEROES) {
        return Err(EPERM);
    }
    match header.kind {
        READ => device.read(at, header.len as usize, out).await.map_err(told)?,
        WRITE => device.write(at, data).await.map_err(told)?,
        TRIM | WRITE_ZEROES => device.zero(at, len).await.map_err(told)?,
        FLUSH => device.flush().await.map_err(told)?,
        _ => return Err(EINVAL),
    }
    if header.flags & FUA != 0 && matches!(header.kind, WRITE | TRIM | WRITE_ZEROES) {
        device.flush().await.map_err(told)?;
    }
    Ok(())
}

impl Session {
    fn reply(&self, handle: u64, error: u32, data: Pieces, held: Held) {
        let (replies, waiting) = &mut *self.replies.borrow_mut();
        waiting.push(held);
        let head = [&REPLY.to_be_bytes()[..], &error.to_be_bytes(), &handle.to_be_bytes()].concat();
        replies.push_head(&head);
        for piece in data {
            replies.push_data(piece);
        }
        self.answered.wake_all();
    }
}

/// Sends gathered replies together, until there are no more.
async fn write_replies(session: Rc<Session>, stream: Stream) {
    let mut spare = (Batch::default(), Vec::new());
    loop {
        let more = session.answered.wait_for(|| match session.replies.borrow().0.is_empty() {
            false => Some(true),
            true => (session.ended.get() && session.workers.get() == 0).then_some(false),
        });
        if !more.await {
            break;
        }
        let (batch, mut held) = session.replies.replace(spare);
        let sent = stream.send(batch).await;
        held.clear();
        spare = (sent.batch, held);
        if sent.result.is_err() {
            break;
        }
    }
    stream.close();
    session.gone.set(true);
    session.answered.wake_all();
}
