//! `masu wait` and `masu stop`: until an array serves, and until it has ended.

use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use admin::ClientError;
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::request::{Where, client, socket_in, wait};

/// A start that has not come as far as its socket is asked again after this time.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until the array answers. Whoever connects while the array starts waits for the end of the start.
pub(super) fn until_served(at: &Where, limit: Duration) -> Result<ExitCode> {
    let client = client(at);
    let mut last = String::new();
    let served = async {
        loop {
            match client.status().await {
                Err(error) if may_serve_later(&error, at.is_remote()) => {
                    last = error.to_string();
                    tokio::time::sleep(PAUSE).await;
                }
                answer => return answer,
            }
        }
    };
    match wait(async { tokio::time::timeout(limit, served).await })? {
        Ok(status) => {
            let ports: Vec<_> = status?.ports.iter().map(|port| port.listen.to_string()).collect();
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
    println!("the array has stopped; its data are in {}", data.display());
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
