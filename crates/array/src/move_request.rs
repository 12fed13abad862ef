//! Moves of pools that hosts ask for, from the controllers to whoever changes the array.

/// Requests at most that nobody has taken yet: further ones are refused.
const QUEUE_LEN: usize = 64;

/// A host asks that a pool be served by another controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveRequest {
    /// As declared.
    pub pool: String,
    /// The controller whose ports are to be the optimized ones.
    pub controller: usize,
}

/// The sending end. Cheap to clone, usable from every thread; sending never waits.
#[derive(Clone, Debug)]
pub struct MoveSender(async_channel::Sender<MoveRequest>);

/// The receiving end.
#[derive(Clone, Debug)]
pub struct MoveReceiver(async_channel::Receiver<MoveRequest>);

/// Creates the channel.
pub fn move_channel() -> (MoveSender, MoveReceiver) {
    let (sender, receiver) = async_channel::bounded(QUEUE_LEN);
    (MoveSender(sender), MoveReceiver(receiver))
}

impl MoveSender {
    /// Whether the request was taken.
    pub(crate) fn ask(&self, request: MoveRequest) -> bool {
        self.0.try_send(request).is_ok()
    }
}

impl MoveReceiver {
    /// Waits for the next request; `None` when all senders are dropped.
    pub async fn next(&self) -> Option<MoveRequest> {
        self.0.recv().await.ok()
    }
}
