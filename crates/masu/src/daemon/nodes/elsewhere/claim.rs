//! Before controllers begin anew: nobody else may write to their drives any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use cluster::lending::CLAIM_MAX;
use config::Config;
use lab_core::console::causes;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::daemon::nodes::fence::{Fenced, fence_part};
use crate::held::wait_until_all_free;

/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Ends what waits on another thread when nobody waits for it any more.
struct Stops(Arc<AtomicBool>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A node's claim of the drives of controllers that it is to run.
pub(super) struct Claims {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<(), String>>,
}

impl Claims {
    /// Goes on for [`CLAIM_MAX`] at most.
    pub(super) fn begin(part: Config) -> Claims {
        let (stop, begun) = (Arc::<AtomicBool>::default(), Instant::now());
        let ends = stop.clone();
        let task = tokio::spawn(async move {
            let (mut said, mut done) = (String::new(), vec![]);
            loop {
                let left = CLAIM_MAX.saturating_sub(begun.elapsed());
                match try_claim(&part, (&mut done, begun.elapsed()), (&ends, left)).await {
                    Ok(left_out) => {
                        left_out.iter().for_each(|what| tracing::warn!("{}", without(what)));
                        return Ok(());
                    }
                    Err(cause) if ends.load(Relaxed) || begun.elapsed() + PAUSE >= CLAIM_MAX => {
                        return Err(cause);
                    }
                    Err(cause) if cause != said => {
                        tracing::warn!("controllers wait for their drives: {cause}");
                        said = cause;
                    }
                    Err(_) => {}
                }
                sleep(PAUSE).await;
            }
        });
        Claims { stop, task }
    }

    /// Whether it has succeeded, or why not. It may be dropped and called again until it returns.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        (&mut self.task).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Gives up. A fence that is under way ends first: one that goes on later would be against the owner.
    pub(super) async fn give_up(mut self) {
        self.stop.store(true, Relaxed);
        let _ = self.end().await;
    }
}

fn without(left_out: &str) -> String {
    format!("they begin without this: {left_out}")
}

/// Fences the drives of a part of the declaration, and waits until no other process holds one: that may be a
/// process that was stopped and not continued, so there is no limit. A drive that cannot be fenced is left
/// out as where a node takes the whole array over ([`fence_part`]). `tell` hears what it waits for, once for
/// each cause, and what is left out.
pub(super) async fn claim(part: &Config, tell: impl Fn(String)) {
    let (begun, mut said, mut done) = (Instant::now(), String::new(), vec![]);
    let stops = Stops(Arc::default());
    loop {
        let cause = match try_claim(part, (&mut done, begun.elapsed()), (&stops.0, Duration::MAX)).await {
            Ok(None) => return,
            Ok(Some(left_out)) => return tell(without(&left_out)),
            Err(cause) => cause,
        };
        if cause != said {
            tell(cause.clone());
            said = cause;
        }
        sleep(PAUSE).await;
    }
}

/// Returns what is left out. Once `stop` is set, it does not wait for locks any more, and fails.
async fn try_claim(
    part: &Config,
    (done, waited): (&mut Vec<Fenced>, Duration),
    (stop, left): (&Arc<AtomicBool>, Duration),
) -> Result<Option<String>, String> {
    let left_out = fence_part(part, done, waited).await.map_err(|error| causes(&error))?;
    let (part, seen) = (part.clone(), stop.clone());
    let free = tokio::task::spawn_blocking(move || wait_until_all_free(&part, &seen, left)).await;
    free.map_err(|error| error.to_string())?.map_err(|error| causes(&error))?;
    match stop.load(Relaxed) {
        true => Err("the claim was given up".into()),
        false => Ok(left_out),
    }
}
