//! The connection between an owner and a node that runs controllers for it.

use std::sync::Arc;
use std::time::Duration;

use array::Exchange;
use cluster::lending::SILENT_MAX;
use tokio::io::{AsyncWriteExt, split};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::frames::Frame;
use super::told;
use crate::daemon::nodes::carry::Bytes;

/// Frames that wait for the connection, and for who reads them.
const QUEUE_LEN: usize = 64;
/// Of the length field of a message.
const LEN_BYTES: usize = 4;
/// How long the last frames may take.
const END_TIME: Duration = Duration::from_millis(500);

/// The task that sends the messages of controllers.
pub(super) struct Carries {
    ends: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Carries {
    /// Sends what there is, and no more: the answers of controllers that have ended.
    pub(super) async fn end(self) {
        self.ends.send_replace(true);
        let _ = self.task.await;
    }
}

/// Frames, both ways. It ends when the peer breaks off, or has been silent for too long.
pub(super) struct Wire {
    out: mpsc::Sender<Frame>,
    frames: mpsc::Receiver<Frame>,
    reads: JoinHandle<()>,
    writes: JoinHandle<()>,
}

impl Wire {
    pub(super) fn over(stream: Box<dyn Bytes>) -> Wire {
        let (mut from, mut to) = split(stream);
        let (out, mut waiting) = mpsc::channel::<Frame>(QUEUE_LEN);
        let (read, frames) = mpsc::channel(QUEUE_LEN);
        let reads = tokio::spawn(async move {
            while let Ok(Ok(frame)) = timeout(SILENT_MAX, Frame::read(&mut from)).await {
                if read.send(frame).await.is_err() {
                    return;
                }
            }
        });
        let writes = tokio::spawn(async move {
            while let Some(frame) = waiting.recv().await {
                if !matches!(timeout(SILENT_MAX, frame.write(&mut to)).await, Ok(Ok(()))) {
                    return;
                }
            }
            let _ = to.shutdown().await;
        });
        Wire { out, frames, reads, writes }
    }

    /// The next frame; none: the connection has ended.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        self.frames.recv().await
    }

    /// A frame for a peer that is gone is dropped: [`Wire::next`] says that it is.
    pub(super) async fn send(&self, frame: Frame) {
        let _ = self.out.send(frame).await;
    }

    /// Sends what the controllers of this side have for the other side.
    pub(super) fn carry(&self, exchange: Arc<Exchange>) -> Carries {
        let (out, (ends, mut end)) = (self.out.clone(), watch::channel(false));
        let task = tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    biased;
                    message = exchange.outgoing() => message,
                    () = told(&mut end) => None,
                };
                let Some(mut message) = message else { return };
                // The length is that of the frame around it.
                message.drain(..LEN_BYTES);
                if out.send(Frame::Message(message)).await.is_err() {
                    return;
                }
            }
        });
        Carries { ends, task }
    }

    /// Sends what waits, and ends the connection.
    pub(super) async fn end(self) {
        drop(self.out);
        let _ = timeout(END_TIME, self.writes).await;
        self.reads.abort();
    }
}
