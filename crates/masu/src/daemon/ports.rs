//! Addresses to listen on, when a process begins.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

/// The kernel closes the sockets of an io_uring for a moment after their process has ended: whoever starts
/// masu again at once, as a service manager does, finds the addresses of the last process in use.
const TIME_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until the address can be listened on, for 3 s at most. Port 0 is any free one.
///
/// # Errors
/// Another process listens there, or it is no address of this machine.
pub(super) async fn until_free(address: SocketAddr) -> io::Result<()> {
    let end = Instant::now() + TIME_MAX;
    loop {
        match TcpListener::bind(address).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse || Instant::now() >= end => {
                return Err(error);
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// The same of several. What listens there next says what is wrong.
pub(super) async fn until_all_free(addresses: impl IntoIterator<Item = SocketAddr>) {
    for address in addresses {
        if until_free(address).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A standby that was started again right after its process had ended found its portal in use, and gave
    /// up.
    #[tokio::test]
    async fn an_address_that_is_in_use_for_a_moment_is_waited_for() {
        let held = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = held.local_addr().expect("its address");
        let freed = tokio::spawn(async move {
            sleep(Duration::from_millis(300)).await;
            drop(held);
        });
        until_free(address).await.expect("free after a moment");
        freed.await.expect("freed");
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_not_waited_for() {
        let began = Instant::now();
        until_free("192.0.2.1:0".parse().expect("an address")).await.expect_err("not of this machine");
        assert!(began.elapsed() < TIME_MAX / 2);
    }
}
