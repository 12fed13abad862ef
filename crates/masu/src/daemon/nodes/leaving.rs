//! An owner that was told to stop and has handed over: hosts that come back to its portals reach the next
//! owner through them for a moment, so that none of them waits for a path that is gone.
//!
//! It has no lease any more: it looks at the registry, and cannot become the owner again.

use std::net::SocketAddr;
use std::time::Duration;

use std::sync::Arc;

use admin::{NodeTls, random};
use anyhow::{Context, Result};
use cluster::Successor;
use lab_core::console::causes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::owner::owner_at;
use super::relay::{Portals, Relay};
use crate::daemon::signals::Signals;
use crate::registry_option::RegistryOption;

/// Without a next owner by then, hosts wait elsewhere.
const SUCCESSOR_TIME_MAX: Duration = Duration::from_secs(10);
/// So long hosts are led to the next owner.
const RELAY_TIME: Duration = Duration::from_secs(3);
/// Without a host for so long, none comes back.
const QUIET_TIME: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

/// When the process ends.
struct Leaving {
    begun: Instant,
    /// When the next owner was seen first.
    led: Option<Instant>,
    /// When a host was connected last; before, when the next owner was seen.
    used: Instant,
}

/// Why it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NoSuccessor,
    NoHosts,
    Time,
}

impl Leaving {
    fn new(now: Instant) -> Leaving {
        Leaving { begun: now, led: None, used: now }
    }

    /// The next owner is known.
    fn leads(&mut self, now: Instant) {
        if self.led.is_none() {
            (self.led, self.used) = (Some(now), now);
        }
    }

    /// Whether to end now, with so many hosts connected through this node; `is_alone`: no other node lives.
    fn end(&mut self, carried: usize, is_alone: bool, now: Instant) -> Option<End> {
        if is_alone {
            return Some(End::NoSuccessor);
        }
        if carried > 0 {
            self.used = now;
        }
        match self.led {
            None => (now - self.begun >= SUCCESSOR_TIME_MAX).then_some(End::NoSuccessor),
            Some(led) if now - led >= RELAY_TIME => Some(End::Time),
            Some(_) => (now - self.used >= QUIET_TIME).then_some(End::NoHosts),
        }
    }
}

/// An owner that has handed over.
pub(in crate::daemon) struct Left {
    pub(super) name: String,
    pub(super) number: u16,
    /// Of its ownership.
    pub(super) epoch: u64,
    /// All that it has.
    pub(super) portals: Vec<SocketAddr>,
    pub(super) tls: Arc<NodeTls>,
}

/// Leads hosts from those portals that are open to the next owner, until they have gone or for 3 s. A signal
/// ends it at once.
pub(in crate::daemon) async fn relay_to_successor(
    registry: &RegistryOption,
    left: Left,
    open: Portals,
    signals: &mut Signals,
) -> Result<()> {
    if open.is_empty() {
        return Ok(());
    }
    let relay = Relay::start(&left.portals, open, &left.tls).context("cannot listen on the portals")?;
    let mut sees = look_for(registry, &left)?;
    let mut leaving = Leaving::new(Instant::now());
    loop {
        let Seen { next, is_alone } = sees.borrow_and_update().clone();
        if let Some(Successor { node, epoch, about }) = next {
            if leaving.led.is_none() {
                tracing::info!(
                    "leads hosts to {node} (epoch {epoch}) for at most {} s",
                    RELAY_TIME.as_secs()
                );
            }
            leaving.leads(Instant::now());
            relay.set_owner(Some(owner_at(&about, epoch, left.number)));
        }
        if let Some(end) = leaving.end(relay.carried(), is_alone, Instant::now()) {
            let hosts = relay.carried();
            tracing::info!(
                "{}",
                match end {
                    End::NoSuccessor if is_alone => "ends: no other node lives".into(),
                    End::NoSuccessor => "ends: no other node has taken over".into(),
                    End::NoHosts => "ends: no hosts are connected through this node".into(),
                    End::Time =>
                        format!("ends: {hosts} connections of hosts go to the portals of other nodes"),
                }
            );
            return Ok(());
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            () = signals.stop() => {
                tracing::info!("a second signal: ends at once");
                return Ok(());
            }
        }
    }
}

/// What the registry says of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The next owner, as soon as there is one.
    next: Option<Successor>,
    /// No other node lives that could be it.
    is_alone: bool,
}

/// Looks at the registry until nobody wants to know any more.
fn look_for(registry: &RegistryOption, left: &Left) -> Result<watch::Receiver<Seen>> {
    let (tell, sees) = watch::channel(Seen::default());
    let (registry, epoch, name) = (registry.clone(), left.epoch, left.name.clone());
    let seed = u64::from_le_bytes(random()?);
    let options = world_real::Options { seed, watch: false, ..world_real::Options::default() };
    let started = world_real::start("successor", options, move |world| async move {
        let registry = match registry.open_named(&world) {
            Ok(registry) => registry,
            Err(error) => return tracing::warn!("the next owner is not looked for: {}", causes(&error)),
        };
        while !tell.is_closed() {
            // What cannot be read now is read at the next look.
            let next = cluster::successor(&*registry, epoch).await.ok().flatten();
            let is_alone = matches!(cluster::another_lives(&*registry, &name).await, Ok(false));
            tell.send_if_modified(|last| {
                let next = next.or_else(|| last.next.clone());
                let now = Seen { next, is_alone };
                std::mem::replace(last, now.clone()) != now
            });
            world.sleep(LOOK).await;
        }
    });
    // Nobody waits for its end: the process may end at any time.
    started.context("cannot start the thread that looks for the next owner")?;
    Ok(sees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_led_until_they_have_gone_or_the_time_is_over() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut leaving = Leaving::new(begun);
        assert_eq!(leaving.end(0, false, at(9_999)), None);
        assert_eq!(leaving.end(0, false, at(10_000)), Some(End::NoSuccessor));
        // Found late: the time begins then, and begins once.
        leaving.leads(at(5_000));
        leaving.leads(at(5_500));
        assert_eq!(leaving.end(0, false, at(5_999)), None);
        assert_eq!(leaving.end(0, false, at(6_000)), Some(End::NoHosts));
        assert_eq!(leaving.end(2, false, at(6_500)), None);
        assert_eq!(leaving.end(0, false, at(7_499)), None);
        assert_eq!(leaving.end(0, false, at(7_500)), Some(End::NoHosts));
        assert_eq!(leaving.end(1, false, at(7_999)), None);
        assert_eq!(leaving.end(1, false, at(8_000)), Some(End::Time));
        // All nodes are stopped: nobody leads them anywhere.
        assert_eq!(Leaving::new(begun).end(1, true, at(0)), Some(End::NoSuccessor));
    }
}
