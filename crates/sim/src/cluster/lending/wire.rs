//! The connection between an owner and a node that runs controllers for it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::Exchange;
use async_channel::{Receiver, Sender, bounded};
use cluster::lending::SILENT_MAX;
use futures::FutureExt;
use futures::channel::oneshot;
use world::sync::Signal;
use world::{Batch, Buf, Stream, World};

use super::frames::{Frame, HEAD_LEN};
use super::process::within;

/// Frames that wait for the connection, and for who reads them.
const QUEUE_LEN: usize = 64;
/// Of the length field of a message.
const LEN_BYTES: usize = 4;
/// How long the last frames may take.
const END_TIME: Duration = Duration::from_millis(500);
const READ_BYTES: usize = 64 << 10;

/// The task that sends the messages of controllers.
pub(super) struct Carries {
    ends: Rc<(std::cell::Cell<bool>, Signal)>,
    ended: oneshot::Receiver<()>,
}

impl Carries {
    /// Sends what there is, and no more: the answers of controllers that have ended.
    pub(super) async fn end(self) {
        self.ends.0.set(true);
        self.ends.1.wake_all();
        let _ = self.ended.await;
    }
}

/// Frames, both ways. It ends when the peer breaks off, or has been silent for too long.
pub(super) struct Wire {
    world: World,
    stream: Stream,
    out: Sender<Frame>,
    frames: Receiver<Frame>,
    written: oneshot::Receiver<()>,
}

impl Wire {
    pub(super) fn over(world: &World, stream: Stream) -> Wire {
        let ((out, waiting), (read, frames)) = (bounded::<Frame>(QUEUE_LEN), bounded(QUEUE_LEN));
        let (clock, mut from) = (world.clone(), Reads { stream: stream.clone(), bytes: vec![] });
        world.spawn(async move {
            while let Some(Some(frame)) = within(&clock, SILENT_MAX, from.frame()).await {
                if read.send(frame).await.is_err() {
                    return;
                }
            }
        });
        let (clock, to, (ended, written)) = (world.clone(), stream.clone(), oneshot::channel());
        world.spawn(async move {
            let mut batch = Batch::default();
            while let Ok(frame) = waiting.recv().await {
                batch.push_head(&frame.encode());
                match within(&clock, SILENT_MAX, to.send(std::mem::take(&mut batch))).await {
                    Some(sent) if sent.result.is_ok() => batch = sent.batch,
                    _ => return,
                }
            }
            let _ = ended.send(());
        });
        Wire { world: world.clone(), stream, out, frames, written }
    }

    /// The next frame; none: the connection has ended.
    pub(super) async fn next(&self) -> Option<Frame> {
        self.frames.recv().await.ok()
    }

    /// A frame for a peer that is gone is dropped: [`Wire::next`] says that it is.
    pub(super) async fn send(&self, frame: Frame) {
        let _ = self.out.send(frame).await;
    }

    /// Sends what the controllers of this side have for the other side. `copy` hears of each message.
    pub(super) fn carry(&self, exchange: Arc<Exchange>, copy: impl Fn(&[u8]) + 'static) -> Carries {
        let (out, ends, (told, ended)) = (self.out.clone(), Rc::<(_, Signal)>::default(), oneshot::channel());
        let end: Rc<(std::cell::Cell<bool>, Signal)> = ends.clone();
        self.world.spawn(async move {
            loop {
                let is_over = end.1.wait_for(|| end.0.get().then_some(()));
                let message = futures::select_biased! {
                    message = exchange.outgoing().boxed_local().fuse() => message,
                    () = is_over.boxed_local().fuse() => None,
                };
                let Some(mut message) = message else { break };
                message.drain(..LEN_BYTES);
                copy(&message);
                if out.send(Frame::Message(message)).await.is_err() {
                    break;
                }
            }
            drop(exchange);
            let _ = told.send(());
        });
        Carries { ends, ended }
    }

    /// Sends what waits, and ends the connection.
    pub(super) async fn end(self) {
        self.out.close();
        within(&self.world, END_TIME, self.written).await;
        self.stream.close();
    }
}

struct Reads {
    stream: Stream,
    bytes: Vec<u8>,
}

impl Reads {
    /// None: the connection has ended.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some((len, rest)) = self.bytes.split_first_chunk::<4>()
                && let Some((kind, rest)) = rest.split_first()
                && let Some(body) = rest.get(..u32::from_le_bytes(*len) as usize)
            {
                let frame = Frame::decode(*kind, body);
                let len = HEAD_LEN + body.len();
                self.bytes.drain(..len);
                return Some(frame);
            }
            let received = self.stream.recv(Buf::new(READ_BYTES), 0).await;
            match received.result {
                Ok(len) if len > 0 => self.bytes.extend_from_slice(&received.buf[..len]),
                _ => return None,
            }
        }
    }
}
