//! A connection of a host that a standby carries to the owner.
//!
//! Nothing is carried that the host may have given up and repeated on another path: it would overwrite what
//! the host wrote later. So a connection ends without delivering the rest when its host has hung up, and when
//! this process has stood still: what its sockets took meanwhile is of an age that nobody knows.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::PollFlags;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use world::Instant;
use world_real::boot_now;

use super::relay::{CONNECT_TIME, Owner, is_now};

/// Of each direction of a connection.
const BUFFER_BYTES: usize = 64 << 10;
/// While the owner takes nothing, the host is looked at so often.
const LOOK: Duration = Duration::from_millis(500);

/// A connection in the clear, or by TLS.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A host that is connected to the owner through this node.
pub(super) struct Connection {
    pub(super) host: TcpStream,
    /// Its end discards what the kernel has not delivered yet ([`discards`]).
    pub(super) owner: Box<dyn Bytes>,
    /// What the owner is told before the host's bytes.
    pub(super) front: Vec<u8>,
    /// Where the owner was reached, and its epoch.
    pub(super) address: SocketAddr,
    pub(super) epoch: u64,
    /// One of those that this node has room for.
    pub(super) place: OwnedSemaphorePermit,
}

/// What the host has given up must not arrive: the end of this connection discards what the kernel has not
/// delivered yet. A host that ends its session has its last response.
pub(super) fn discards(upwards: &TcpStream) {
    let _ = upwards.set_zero_linger();
}

/// Notices that the process stood still: it was stopped, or its machine was.
pub(super) struct Pulse(Mutex<(Instant, u64)>);

impl Pulse {
    /// It beats at least so often.
    pub(super) const EVERY: Duration = Duration::from_millis(500);
    /// Hosts give a path up after more (docs/cluster.md: 6 s).
    const STILL_MAX: Duration = Duration::from_secs(2);

    /// Beats. Returns how often the process has stood still so far.
    pub(super) fn stills(&self) -> u64 {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = boot_now();
        last.1 += u64::from(now - last.0 > Pulse::STILL_MAX);
        last.0 = now;
        last.1
    }
}

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse(Mutex::new((boot_now(), 0)))
    }
}

/// Carries what both sides send. When the owner's end breaks and the owner does not answer any more, the
/// host's stays open until there is another owner: sent away earlier, the host would only wait elsewhere,
/// and its timers would run.
pub(super) async fn carry(
    connection: Connection,
    mut sees: watch::Receiver<Option<Owner>>,
    pulse: Arc<Pulse>,
) {
    let Connection { host, owner, front, address, epoch, place: _place } = connection;
    // Halves are kept until the end: the host is not sent away before.
    let (mut from_host, mut to_host) = host.into_split();
    let (mut from_owner, mut to_owner) = split(owner);
    let up = async {
        let stills = pulse.stills();
        let is_given_up = |host: &OwnedReadHalf| pulse.stills() != stills || has_hung_up(host.as_ref());
        // If it fails, so does the first write.
        let _ = to_owner.write_all(&front).await;
        if requests(&mut from_host, &mut to_owner, is_given_up).await == Ended::Writing {
            owner_answers(address).await;
        }
    };
    let down = async {
        if responses(&mut from_owner, &mut to_host).await == Ended::Reading {
            owner_answers(address).await;
        }
    };
    let other = sees.wait_for(|owner| owner.as_ref().is_some_and(|other| other.epoch != epoch));
    tokio::select! {
        () = up => {}
        () = down => {}
        _ = other => {}
    }
}

/// Returns if the owner still accepts connections: then it has meant the end of the connection.
async fn owner_answers(address: SocketAddr) {
    if !timeout(CONNECT_TIME, TcpStream::connect(address)).await.is_ok_and(|alive| alive.is_ok()) {
        std::future::pending::<()>().await;
    }
}

/// Which side has ended a direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Or what was read is not delivered.
    Reading,
    Writing,
}

/// Carries what the array sends.
pub(super) async fn responses(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> Ended {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..len]).await.is_err() || to.flush().await.is_err() {
            return Ended::Writing;
        }
    }
    Ended::Reading
}

/// Carries what the host sends. Ends without delivering more when that `is_given_up`.
pub(super) async fn requests<R: AsyncRead + Unpin>(
    from: &mut R,
    to: &mut (impl AsyncWrite + Unpin),
    is_given_up: impl Fn(&R) -> bool,
) -> Ended {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        let mut rest = &buffer[..len];
        loop {
            if is_given_up(from) {
                return Ended::Reading;
            }
            // What TLS has encrypted is not sent by then.
            let taken = match rest.is_empty() {
                true => timeout(LOOK, to.flush()).await.map(|flushed| flushed.map(|()| 0)),
                false => timeout(LOOK, to.write(rest)).await,
            };
            match taken {
                Ok(Ok(_)) if rest.is_empty() => break,
                Ok(Ok(written @ 1..)) => rest = &rest[written..],
                Ok(_) => return Ended::Writing,
                // The owner takes nothing now.
                Err(_) => {}
            }
        }
    }
    Ended::Reading
}

/// Whether the peer has closed its end, whatever is still to be read from it.
pub(super) fn has_hung_up(socket: &impl AsFd) -> bool {
    // An error is left to the read.
    is_now(socket, PollFlags::RDHUP).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let connecting = TcpStream::connect(listener.local_addr().expect("its address"));
        let (connected, accepted) = tokio::join!(connecting, listener.accept());
        (connected.expect("connected"), accepted.expect("accepted").0)
    }

    /// What of these bytes arrives at the owner, if the host hangs up before the standby reads, or the
    /// standby has stood still.
    async fn arrives(hangs_up: bool, stands_still: bool) -> Vec<u8> {
        let ((mut host, near), (far, mut owner)) = (pair().await, pair().await);
        host.write_all(b"write").await.expect("sent");
        let host = if hangs_up {
            drop(host);
            None
        } else {
            Some(host)
        };
        let ((mut read, _near), (_far, mut write)) = (near.into_split(), far.into_split());
        let is_given_up = |near: &OwnedReadHalf| stands_still || has_hung_up(near.as_ref());
        let carrying = requests(&mut read, &mut write, is_given_up);
        let _ = timeout(Duration::from_millis(200), carrying).await;
        drop(write);
        drop(host);
        let mut arrived = Vec::new();
        owner.read_to_end(&mut arrived).await.expect("the end");
        arrived
    }

    #[tokio::test]
    async fn what_a_host_has_given_up_does_not_arrive() {
        assert_eq!(arrives(false, false).await, b"write");
        assert_eq!(arrives(true, false).await, b"", "it has hung up");
        assert_eq!(arrives(false, true).await, b"", "the standby has stood still");
    }

    #[tokio::test]
    async fn an_owner_that_takes_nothing_for_a_while_gets_all_of_it_or_what_came_before_the_end() {
        let ((host, near), (far, mut owner)) = (pair().await, pair().await);
        let stands_still = Cell::new(false);
        let ((mut read, _keep), (_other, mut write)) = (near.into_split(), far.into_split());
        let carrying = requests(&mut read, &mut write, |_| stands_still.get());
        let (mut taken, sent) = (0, 32 << 20);
        let (_, mut to) = host.into_split();
        let send = async move {
            let chunk = vec![7; 1 << 20];
            for _ in 0..32 {
                to.write_all(&chunk).await.expect("sent");
            }
            to
        };
        let take = async {
            tokio::time::sleep(LOOK * 3).await;
            let mut buffer = vec![0; 1 << 20];
            while taken < sent {
                taken += owner.read(&mut buffer).await.expect("received");
            }
        };
        tokio::select! {
            _ = carrying => panic!("ended"),
            (_to, ()) = async { tokio::join!(send, take) } => {}
        }
        assert_eq!(taken, sent);
    }

    #[test]
    fn a_pulse_counts_the_times_without_a_beat() {
        let pulse = Pulse::default();
        assert_eq!((pulse.stills(), pulse.stills()), (0, 0));
        let before = |time: Duration| {
            pulse.0.lock().expect("not poisoned").0 = Instant(boot_now().0 - time.as_nanos() as u64)
        };
        before(Pulse::STILL_MAX / 2);
        assert_eq!(pulse.stills(), 0);
        before(Pulse::STILL_MAX * 2);
        assert_eq!((pulse.stills(), pulse.stills()), (1, 1));
        before(Pulse::STILL_MAX * 2);
        assert_eq!(pulse.stills(), 2);
    }
}
