//! The connection of a node, as the owner has it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use array::{ControlError, Exchange};
use futures::channel::oneshot;
use world::{Instant, World};

use super::wire::{Carries, Wire};

/// A task that has controllers change their place.
pub(super) struct Changing(oneshot::Receiver<Result<(), ControlError>>, Rc<Cell<bool>>);

impl Changing {
    pub(super) fn begin(
        world: &World,
        change: impl Future<Output = Result<(), ControlError>> + 'static,
    ) -> Changing {
        let ((tell, ended), finished) = (oneshot::channel(), Rc::<Cell<bool>>::default());
        let done = finished.clone();
        world.spawn(async move {
            let changed = change.await;
            done.set(true);
            let _ = tell.send(changed);
        });
        Changing(ended, finished)
    }

    pub(super) async fn end(self) -> Result<(), ControlError> {
        self.0.await.expect("the machine lives")
    }

    pub(super) fn is_finished(&self) -> bool {
        self.1.get()
    }
}

/// A node, as far as it runs controllers.
pub(super) enum Place {
    Idle,
    /// They are closed here, to begin there: `closed` says when, and takes when they have begun.
    Closing {
        changing: Changing,
        closed: oneshot::Receiver<oneshot::Sender<()>>,
    },
    /// It claims their drives, until this time at most; `begins` is told when they have begun there. Dropped,
    /// they begin here again.
    Beginning {
        changing: Changing,
        begins: oneshot::Sender<()>,
        until: Instant,
    },
    /// It runs them; `changing` opens them there, and brings them back at last: `closed` says when they are
    /// closed there, and takes when they are to begin here.
    There {
        exchange: Arc<Exchange>,
        carries: Carries,
        changing: Changing,
        closed: Option<oneshot::Receiver<oneshot::Sender<()>>>,
    },
}

/// The connection of a node.
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) number: u16,
    pub(super) wire: Wire,
    pub(super) place: Place,
    pub(super) controllers: BTreeSet<usize>,
    /// When its term is over; none: it had none yet.
    pub(super) over: Option<Instant>,
    /// Whether it has stopped its controllers in order.
    pub(super) ended: bool,
    pub(super) leaves: bool,
    /// What was sent to its controllers, for a fault that delivers it again.
    pub(super) sent: Rc<RefCell<Vec<Vec<u8>>>>,
}

/// What begins the controllers when they are closed here, or why they stay.
pub(super) async fn closed(place: &mut Place) -> Result<oneshot::Sender<()>, String> {
    let Place::Closing { changing, closed } = place else { return std::future::pending().await };
    match closed.await {
        Ok(begins) => Ok(begins),
        Err(_) => Err(match (&mut changing.0).await {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => "they have begun here again".into(),
            Err(error) => error.to_string(),
        }),
    }
}
