//! The API of a node that does not own the array: each request is refused with what the node is. Only the
//! unix socket answers; who connects over TCP waits until the node owns the array.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::routing::get;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::api::problem::Problem;
use crate::api::state::{healthz, version};
use crate::server::Bound;

/// A standby that answers.
pub struct Standby {
    text: Arc<Mutex<String>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Bound {
    /// Answers until [`Standby::end`]; then the array may be served.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub fn stand_by(&self) -> std::io::Result<Standby> {
        // A second descriptor of the same socket: closing this one loses nothing that waits in its queue.
        let listener = std::os::unix::net::UnixListener::from(self.unix.as_fd().try_clone_to_owned()?);
        let listener = UnixListener::from_std(listener)?;
        let text = Arc::new(Mutex::new(String::new()));
        let (stop, stopped) = oneshot::channel::<()>();
        let said = text.clone();
        let answer = move || {
            let said = said.clone();
            async move { unavailable(&said) }
        };
        let health = Router::new().route("/healthz", get(healthz)).route("/version", get(version));
        let routes = health.fallback(answer);
        let serving = tokio::spawn(async move {
            tokio::select! {
                _ = axum::serve(listener, routes) => {}
                _ = stopped => {}
            }
        });
        Ok(Standby { text, stop, serving })
    }
}

fn unavailable(text: &Mutex<String>) -> Problem {
    let text = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Problem::unavailable(text)
}

impl Standby {
    /// What it answers from now on.
    pub fn say(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Stops answering.
    pub async fn end(self) {
        let _ = self.stop.send(());
        // Aborted with the runtime: then nobody answers, either.
        let _ = self.serving.await;
    }
}
