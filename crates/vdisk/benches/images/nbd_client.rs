//! A small NBD client, so that two servers are measured with the same one: many requests in flight over one
//! connection.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use block::{BlockError, Device, Geometry, Pieces};
use world::sync::Signal;
use world::{Batch, Buf, Stream, StreamOptions, World};

/// A connection to an export.
#[derive(Clone)]
pub(crate) struct Client(Rc<Connection>);

struct Connection {
    stream: Stream,
    len_bytes: u64,
    next: Cell<u64>,
    outgoing: RefCell<Batch>,
    to_send: Signal,
    /// Bytes that each request in flight expects, and what came for those that have ended.
    expected: RefCell<BTreeMap<u64, usize>>,
    ended: RefCell<BTreeMap<u64, (u32, Option<Buf>)>>,
    came: Signal,
}

async fn take(stream: &Stream, len: usize) -> Option<Buf> {
    let (mut buf, mut done) = (Buf::new(len), 0);
    while done < len {
        let received = stream.recv(buf, done).await;
        buf = received.buf;
        done += received.result.ok().filter(|n| *n > 0)?;
    }
    Some(buf)
}

async fn send(stream: &Stream, bytes: &[u8]) -> Option<()> {
    let mut batch = Batch::default();
    batch.push_head(bytes);
    stream.send(batch).await.result.ok()
}

impl Client {
    /// Connects and chooses the export called `disk`. None: nobody is there.
    pub(crate) async fn connect(world: &World, addr: SocketAddr) -> Option<Client> {
        let stream = world.connect(addr, StreamOptions::default()).await.ok()?;
        take(&stream, 18).await?;
        let hello =
            [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &4_u32.to_be_bytes(), b"disk"];
        send(&stream, &hello.concat()).await?;
        let export = take(&stream, 10).await?;
        let len_bytes = u64::from_be_bytes(export[..8].try_into().expect("8 bytes"));
        let client = Client(Rc::new(Connection {
            stream,
            len_bytes,
            next: Cell::new(1),
            outgoing: RefCell::default(),
            to_send: Signal::default(),
            expected: RefCell::default(),
            ended: RefCell::default(),
            came: Signal::default(),
        }));
        world.spawn(client.clone().send_all());
        world.spawn(client.clone().receive_all());
        Some(client)
    }

    /// Ends the connection.
    pub(crate) fn disconnect(&self) {
        self.0.stream.close();
    }

    async fn send_all(self) {
        let mut spare = Batch::default();
        loop {
            self.0.to_send.wait_for(|| (!self.0.outgoing.borrow().is_empty()).then_some(())).await;
            let sent = self.0.stream.send(self.0.outgoing.replace(spare)).await;
            spare = sent.batch;
            if sent.result.is_err() {
                return;
            }
        }
    }

    async fn receive_all(self) {
        while let Some(head) = take(&self.0.stream, 16).await {
            let error = u32::from_be_bytes(head[4..8].try_into().expect("4 bytes"));
            let handle = u64::from_be_bytes(head[8..16].try_into().expect("8 bytes"));
            let len = self.0.expected.borrow_mut().remove(&handle).unwrap_or(0);
            let data = match len {
                0 => None,
                len => take(&self.0.stream, len).await,
            };
            self.0.ended.borrow_mut().insert(handle, (error, data));
            self.0.came.wake_all();
        }
    }

    async fn request(
        &self,
        kind: u16,
        at: u64,
        len: usize,
        data: Option<&Pieces>,
    ) -> Result<Option<Buf>, BlockError> {
        let handle = self.0.next.replace(self.0.next.get() + 1);
        let expected = if kind == 0 { len } else { 0 };
        self.0.expected.borrow_mut().insert(handle, expected);
        {
            let mut outgoing = self.0.outgoing.borrow_mut();
            let head =
                [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0], &kind.to_be_bytes(), &handle.to_be_bytes()]
                    .concat();
            outgoing.push_head(&head);
            outgoing.push_head(&[&at.to_be_bytes()[..], &(len as u32).to_be_bytes()].concat());
            data.into_iter().flat_map(Pieces::iter).for_each(|piece| outgoing.push_data(piece.clone()));
        }
        self.0.to_send.wake_all();
        let (error, data) = self.0.came.wait_for(|| self.0.ended.borrow_mut().remove(&handle)).await;
        match error {
            0 => Ok(data),
            error => Err(BlockError::Failed { cause: format!("error {error}").into() }),
        }
    }
}

impl Device for Client {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.len_bytes, block_bytes: 512 }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        if let Some(buf) = self.request(0, at, len, None).await? {
            out.push(buf.freeze());
        }
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.request(1, at, data.len(), Some(data)).await.map(|_| ())
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.request(6, at, len as usize, None).await.map(|_| ())
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.request(3, 0, 0, None).await.map(|_| ())
    }
}
