//! What the connections of a model are.

use std::time::Duration;

use crate::links::Link;

/// What connections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetSpec {
    /// The link of each connection, unless it shares that of a port.
    pub link: Link,
    /// How many bytes one direction holds, sent and not yet received.
    pub window_bytes: usize,
    /// Whether receives are cut at drawn points.
    pub cut_receives: bool,
}

impl Default for NetSpec {
    /// A local 10 Gbit/s Ethernet (1.25 GB/s less 5 % for headers), 20 µs away, with windows of 1 MiB.
    fn default() -> NetSpec {
        NetSpec {
            link: Link::plain(1_187_500_000, Duration::from_micros(20)),
            window_bytes: 1 << 20,
            cut_receives: true,
        }
    }
}
