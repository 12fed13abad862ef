//! Before controllers begin anew: nobody else may write to their drives any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use config::Config;
use tokio::time::{Instant, sleep};

use crate::daemon::nodes::fence::fence_part;
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

/// Fences the drives of a part of the declaration, and waits until no other process holds one: that may be a
/// process that was stopped and not continued, so there is no limit. A drive that cannot be fenced is left
/// out as where a node takes the whole array over ([`fence_part`]). `tell` hears what it waits for, once for
/// each cause, and what is left out.
pub(super) async fn claim(part: &Config, tell: impl Fn(String)) {
    let (begun, mut said) = (Instant::now(), String::new());
    loop {
        let cause = match try_claim(part, begun.elapsed()).await {
            Ok(None) => return,
            Ok(Some(left_out)) => {
                return tell(format!("they begin without what cannot be fenced: {left_out}"));
            }
            Err(cause) => cause,
        };
        if cause != said {
            tell(cause.clone());
            said = cause;
        }
        sleep(PAUSE).await;
    }
}

async fn try_claim(part: &Config, waited: Duration) -> Result<Option<String>, String> {
    let left_out = fence_part(part, waited).await.map_err(|error| format!("{error:#}"))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (part, seen, _stops) = (part.clone(), stop.clone(), Stops(stop));
    let free = tokio::task::spawn_blocking(move || wait_until_all_free(&part, &seen)).await;
    free.map_err(|error| error.to_string())?.map_err(|error| format!("{error:#}"))?;
    Ok(left_out)
}
