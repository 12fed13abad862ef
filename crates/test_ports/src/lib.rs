//! TCP ports of this machine, for tests that start servers as processes of their own.
//!
//! A test that binds port 0, closes the socket and passes the number on has a race: until the server listens,
//! the system may give the same number to another test, or to a client as its local port; a client that has
//! the port it connects to is connected to itself. Ports of [`claim`] come from below the range that
//! the system gives out, and stay claimed until the process ends.

#![expect(clippy::disallowed_types, reason = "sockets of the real world")]

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// Below what Linux gives to clients (`net.ipv4.ip_local_port_range`, 32768 and up), and below the ports of
/// the judges' scripts (20000 and up).
const RANGE: std::ops::Range<u16> = 10_000..20_000;

/// A TCP port at which nobody listens, and that no other call returns while this process lives, in no process
/// of this machine.
///
/// # Panics
///
/// If all ports are taken.
#[must_use]
pub fn claim() -> u16 {
    RANGE.clone().find(|port| is_claimed_now(*port)).expect("a free port in 10000..20000")
}

/// UDP and TCP have port numbers of their own: the UDP socket of the same number is the claim, and the system
/// takes it back when the process ends, however it ends.
fn is_claimed_now(port: u16) -> bool {
    let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { return false };
    // A server of another program may listen at any address.
    if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_err() {
        return false;
    }
    std::mem::forget(claim);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice_while_nobody_listens_yet() {
        let mut ports: Vec<u16> = (0..200).map(|_| claim()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 200);
    }

    #[test]
    fn a_port_at_which_somebody_listens_is_not_given() {
        let next = claim() + 1;
        // Taken here, or by another test: not free either way.
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        let given: Vec<u16> = (0..50).map(|_| claim()).collect();
        assert!(taken.is_err() || !given.contains(&next), "{next} was given");
    }
}
