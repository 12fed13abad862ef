//! Options and kernel counters of TCP sockets; addresses in the kernel's format.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use world::{StreamOptions, TcpCounts};

/// Bytes of the TCP timestamp option, with its padding, in every segment (RFC 7323, appendix A). TCP_MAXSEG
/// counts them, the payload does not: Ethernet's 1460 carry 1448.
const TIMESTAMP_BYTES: i32 = 12;

/// A blocking stream socket: the ring waits for sockets only when they are not non-blocking.
pub(crate) fn stream_socket(addr: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?)
}

/// What every connection gets, on the listening socket already where it must hold from the first segment.
pub(crate) fn apply(fd: &OwnedFd, options: StreamOptions) -> io::Result<()> {
    // Responses leave at once: a batch is one send already, so Nagle's delay only harms.
    sockopt::set_tcp_nodelay(fd, true)?;
    if let Some(payload) = options.segment_bytes_max {
        set_segment_max(fd, i32::from(payload) + TIMESTAMP_BYTES)?;
    }
    Ok(())
}

fn set_segment_max(fd: &OwnedFd, bytes: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option takes an int, which lives through the call.
    let failed = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, (&raw const bytes).cast(), len)
    };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The front of the kernel's `struct tcp_info` (linux/tcp.h; fields are only ever appended), up to the last
/// one used.
#[repr(C)]
struct TcpInfo {
    states: [u8; 8],
    gauges: [u32; 24],
    pacing_rates: [u64; 2],
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
}

/// The kernel's counters of a connection; zeros when it does not tell any more.
pub(crate) fn counts(fd: &OwnedFd) -> TcpCounts {
    let mut info = MaybeUninit::<TcpInfo>::zeroed();
    let mut len = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `info`, which has that many.
    let failed = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if failed < 0 {
        return TcpCounts::default();
    }
    // SAFETY: all fields are integers, for which zeroed memory is valid; the kernel filled a prefix.
    let info = unsafe { info.assume_init() };
    TcpCounts {
        segments_out: info.segs_out.into(),
        segments_in: info.segs_in.into(),
        bytes_out: info.bytes_acked,
        bytes_in: info.bytes_received,
    }
}

/// The address of what has none.
pub(crate) const NO_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// This end's address.
pub(crate) fn local_addr(fd: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(fd)?)?)
}

/// The other end's address.
pub(crate) fn peer_addr(fd: &OwnedFd) -> io::Result<SocketAddr> {
    let addr = rustix::net::getpeername(fd)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
    Ok(SocketAddr::try_from(addr)?)
}

/// Closes a socket in both directions. Its operations in flight complete.
pub(crate) fn shut_down(fd: &OwnedFd) {
    // Fails only when the connection has ended already.
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both);
}

/// An address as the kernel writes it.
#[repr(C)]
pub(crate) union RawAddr {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddr {
    /// The address and its length.
    pub(crate) fn new(addr: &SocketAddr) -> (RawAddr, libc::socklen_t) {
        match addr {
            SocketAddr::V4(addr) => {
                (RawAddr { v4: raw_v4(addr) }, size_of::<libc::sockaddr_in>() as libc::socklen_t)
            }
            SocketAddr::V6(addr) => {
                (RawAddr { v6: raw_v6(addr) }, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
            }
        }
    }
}

fn raw_v4(addr: &SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: addr.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*addr.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

fn raw_v6(addr: &SocketAddrV6) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: addr.port().to_be(),
        sin6_flowinfo: addr.flowinfo(),
        sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
        sin6_scope_id: addr.scope_id(),
    }
}
