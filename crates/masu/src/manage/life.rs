//! `masu wait` and `masu stop`: until an array serves, and until it has ended.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use admin::{ClientError, Status, Store};
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::Instant;

use crate::daemon::epoch_seen;

use super::request::{Where, client, socket_in, wait};

/// A start that has not come as far as its socket is asked again after this time.
const PAUSE: Duration = Duration::from_millis(50);

/// A service manager has started an array again within this time, if it does: an end is no end before.
const AGAIN: Duration = Duration::from_millis(500);

/// The process of an array on this machine, once it has a socket.
#[derive(Default)]
struct Seen(Option<(i32, OwnedFd)>);

impl Seen {
    /// Looks for it, if there is none that lives.
    async fn look(&mut self, at: &Where) {
        let Ok(data) = at.data_here() else { return };
        if self.0.is_some() && self.ended().is_none() {
            return;
        }
        let Ok(stream) = tokio::net::UnixStream::connect(socket_in(data)).await else { return };
        let Some(pid) = stream.peer_cred().ok().and_then(|peer| peer.pid()) else { return };
        let process = Pid::from_raw(pid).and_then(|of| pidfd_open(of, PidfdFlags::empty()).ok());
        self.0 = process.map(|process| (pid, process)).or(self.0.take());
    }

    /// The number of a process that was seen and has ended.
    fn ended(&self) -> Option<i32> {
        let (pid, process) = self.0.as_ref()?;
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        let count = retry_on_intr(|| poll(&mut ended, Some(&at_once))).unwrap_or(0);
        (count > 0).then_some(*pid)
    }
}

/// Waits until the array answers. Whoever connects while the array starts waits for the end of the start.
/// None: its process has ended, and no other one has begun.
async fn answers(at: &Where, last: &mut String) -> Result<Option<Status>> {
    let (client, mut seen, mut gone_since) = (client(at), Seen::default(), None);
    loop {
        seen.look(at).await;
        match client.status().await {
            Err(error) if may_serve_later(&error, at.is_remote()) => *last = error.to_string(),
            answer => return Ok(Some(answer?)),
        }
        match seen.ended() {
            None => gone_since = None,
            Some(pid) if gone_since.get_or_insert_with(Instant::now).elapsed() >= AGAIN => {
                *last = format!("its process {pid} has ended");
                return Ok(None);
            }
            Some(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until the array answers, or has ended.
pub(super) fn until_served(at: &Where, limit: Duration) -> Result<ExitCode> {
    let mut last = String::new();
    let served = wait(async { tokio::time::timeout(limit, answers(at, &mut last)).await })?;
    match served {
        Ok(answer) => {
            let Some(status) = answer? else {
                bail!("no array serves at {}: {last}; its log says why", at.place());
            };
            let ports: Vec<_> = status.ports.iter().map(|port| port.listen.to_string()).collect();
            println!(
                "the array serves at {}",
                if ports.is_empty() { "no port".into() } else { ports.join(", ") }
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(_) if last.is_empty() => bail!("no answer within {limit:?} from an array at {}", at.place()),
        Err(_) => bail!("no array serves at {} after {limit:?}: {last}", at.place()),
    }
}

/// Whether to ask again: nobody answers yet, a node stands by, or its socket has closed the connection
/// because it goes on from standby to owner. From afar, what is no answer of masu does not become one.
fn may_serve_later(error: &ClientError, is_remote: bool) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Unavailable(_) => true,
        ClientError::Protocol { .. } => !is_remote,
        ClientError::Tls { .. } | ClientError::Refused(_) => false,
    }
}

/// Stops the array in order, and waits until its process has ended.
pub(super) fn stop(at: &Where, limit: Duration) -> Result<ExitCode> {
    at.refuse_dry_run("stop")?;
    let data = at.data_here()?;
    let socket = socket_in(data);
    let shown = socket.display();
    let stream = UnixStream::connect(&socket)
        .with_context(|| format!("no array runs with this data directory: {shown}"))?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).with_context(|| shown.to_string())?;
    // The connection is open, so this is its process and no later one with the same number.
    let process = pidfd_open(peer.pid, PidfdFlags::empty()).context("the array's process")?;
    pidfd_send_signal(&process, Signal::TERM).context("cannot stop the array")?;
    drop(stream);
    let limit_s = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
    let timeout = Timespec { tv_sec: limit_s, tv_nsec: i64::from(limit.subsec_nanos()) };
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut ended, Some(&timeout))).context("waiting for the array's end")? == 0 {
        bail!(
            "the array (process {}) has not ended after {limit:?}; it still makes data durable",
            peer.pid.as_raw_nonzero()
        );
    }
    // One of several: the array may go on at another node.
    let is_node = Store::open(data).is_ok_and(|store| epoch_seen(&store).is_ok_and(|epoch| epoch > 0));
    println!(
        "the {} has stopped; its data are in {}",
        if is_node { "node" } else { "array" },
        data.display()
    );
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stands_by_may_serve_later_and_one_that_refuses_does_not() {
        let (place, cause) = (|| "socket".to_owned(), || "why".to_owned());
        let rows = [
            (ClientError::Unreachable { place: place(), cause: cause() }, true, true),
            (ClientError::Unavailable("standby of n1".into()), true, true),
            (ClientError::Protocol { place: place(), cause: cause() }, true, false),
            (ClientError::Refused("no such token".into()), false, false),
        ];
        for (error, here, remote) in rows {
            assert_eq!(
                (may_serve_later(&error, false), may_serve_later(&error, true)),
                (here, remote),
                "{error}"
            );
        }
    }
}
