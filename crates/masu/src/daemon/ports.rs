//! Addresses to listen on, when a process begins.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use config::one_socket;
use tokio::net::TcpSocket;
use tokio::time::{Instant, sleep};

/// The kernel closes the sockets of an io_uring for a moment after their process has ended: whoever starts
/// masu again at once, as a service manager does, finds the addresses of the last process in use.
const TIME_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Where this process listens beside its portals.
#[derive(Clone, Copy, Default)]
pub(super) struct OwnPorts {
    pub(super) node_listen: Option<SocketAddr>,
    pub(super) api: Option<SocketAddr>,
}

impl OwnPorts {
    /// Refuses two at one address: the system would only say that the second is in use.
    ///
    /// # Errors
    /// Which two.
    pub(super) fn refuse_shared(self, portals: impl IntoIterator<Item = SocketAddr>) -> Result<()> {
        let mut named: Vec<_> = portals.into_iter().map(|at| ("portal", at)).collect();
        for (option, at) in [("--api", self.api), ("--node-listen", self.node_listen)] {
            let Some(at) = at else { continue };
            if let Some((what, other)) = named.iter().find(|(_, other)| one_socket(at, *other)) {
                bail!("{option} {at}: {what} {other} listens there, too: choose another port");
            }
            named.push((option, at));
        }
        Ok(())
    }
}

/// Waits until the address can be listened on, for 3 s at most. Port 0 is any free one.
///
/// # Errors
/// Another process listens there, or it is no address of this machine.
pub(super) async fn until_free(address: SocketAddr) -> io::Result<()> {
    let end = Instant::now() + TIME_MAX;
    loop {
        match is_free(address) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse || Instant::now() >= end => {
                return Err(error);
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Binds without listening: the kernel would take connections of hosts for a listener, and reset them when
/// it is closed again.
fn is_free(address: SocketAddr) -> io::Result<()> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A port in TIME_WAIT is free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)
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
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn two_that_would_listen_at_one_address_are_named() {
        let at = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let refused = |portals: &[&str], node: &str, api: &str| {
            let some = |text: &str| Some(text).filter(|text| !text.is_empty()).map(at);
            let own = OwnPorts { node_listen: some(node), api: some(api) };
            own.refuse_shared(portals.iter().map(|text| at(text))).err().map(|error| error.to_string())
        };
        for (portals, node, api, said) in [
            (&["10.0.0.1:1"][..], "10.0.0.1:1", "", "--node-listen 10.0.0.1:1: portal 10.0.0.1:1 "),
            (&["10.0.0.1:1", "10.0.0.1:2"], "10.0.0.1:2", "", "--node-listen 10.0.0.1:2: portal 10.0.0.1:2 "),
            (&["0.0.0.0:1"], "10.0.0.1:1", "", "--node-listen 10.0.0.1:1: portal 0.0.0.0:1 "),
            (&["[::1]:1"], "", "[::]:1", "--api [::]:1: portal [::1]:1 "),
            (&["10.0.0.1:1"], "10.0.0.1:2", "0.0.0.0:2", "--node-listen 10.0.0.1:2: --api 0.0.0.0:2 "),
        ] {
            let cause = refused(portals, node, api).unwrap_or_default();
            assert!(cause.starts_with(said) && cause.ends_with("choose another port"), "{said}: {cause}");
        }
        for (portal, node, api) in [
            ("10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"),
            ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"),
            ("10.0.0.1:0", "10.0.0.1:0", "10.0.0.1:0"),
            ("0.0.0.0:1", "[::1]:1", ""),
        ] {
            assert_eq!(refused(&[portal], node, api), None);
        }
    }

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

    /// A host that connected while a start looked at the port was reset.
    #[tokio::test]
    async fn nobody_is_connected_to_a_port_that_is_looked_at() {
        // Not an ephemeral port, from which a connection could be made to itself.
        let address: SocketAddr = ([127, 0, 0, 1], test_ports::claim()).into();
        let looking = tokio::task::spawn_blocking(move || {
            for _ in 0..20_000 {
                is_free(address).expect("free");
            }
        });
        let mut attempts = 0;
        while !looking.is_finished() {
            TcpStream::connect(address).await.expect_err("nobody listens");
            attempts += 1;
        }
        looking.await.expect("looked at");
        assert!(attempts > 0);
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_not_waited_for() {
        let began = Instant::now();
        until_free("192.0.2.1:0".parse().expect("an address")).await.expect_err("not of this machine");
        assert!(began.elapsed() < TIME_MAX / 2);
    }
}
