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
    let served = async {
        loop {
            match client.status().await {
                Err(ClientError::Unreachable { .. }) => tokio::time::sleep(PAUSE).await,
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
        Err(_) => bail!(
            "no array serves at {} after {limit:?}: is `masu serve` running with this data directory?",
            at.place()
        ),
    }
}

/// Stops the array in order, and waits until its process has ended.
pub(super) fn stop(at: &Where, limit: Duration) -> Result<ExitCode> {
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
