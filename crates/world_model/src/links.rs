//! Links as hardware: how long bytes occupy the wire. Pure, like [`crate::drives`].
//!
//! A link carries frames; each takes its payload and an overhead. What is sent together fills frames one
//! after the other, and its last frame may be shorter. Both directions work at once, each at the full rate.
//!
//! What the model sends are iSCSI PDUs, header and data: over Ethernet that is what travels; over Fibre
//! Channel their 48-byte headers stand for the command, data and response frames of FCP, whose information is
//! about as long.

use std::time::Duration;

/// SOF (4), header (24), CRC (4), EOF (4), and at least six primitives of 4 bytes between two frames
/// (FC-FS-2).
const FC_FRAME_OVERHEAD_BYTES: u32 = 36 + 24;
/// What FCP puts into a frame: a power of two below the 2,112 that would fit, so that blocks do not straddle
/// frames.
const FC_PAYLOAD_BYTES: u32 = 2048;
/// 1GFC: 1.0625 GBd, ten bits on the wire for eight; faster ones are multiples.
const FC_BYTES_PER_S: u64 = 106_250_000;
/// Preamble (8), MAC header (14), FCS (4), the gap between frames (12).
const ETHERNET_OVERHEAD_BYTES: u32 = 38;
/// IPv4 (20), TCP (20), time stamps (12).
const TCP_OVERHEAD_BYTES: u32 = 52;
/// The smallest MTU of a link that carries IPv4 (RFC 791), and the largest that IPv4 has.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 68..=65_535;

/// A link, one direction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What the wire carries, frames and all, after line coding.
    pub bytes_per_s: u64,
    /// The payload of a full frame.
    pub frame_payload_bytes: u32,
    /// The overhead of a frame on the wire.
    pub frame_overhead_bytes: u32,
    /// The time of a bit from end to end, with what the electronics at both ends need.
    pub latency: Duration,
}

/// Fibre Channel, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibreChannel {
    /// 1.0625 GBd.
    Gfc1,
    /// 2.125 GBd.
    Gfc2,
    /// 4.25 GBd.
    Gfc4,
    /// 8.5 GBd.
    Gfc8,
}

/// Invalid parameters of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// An MTU that IPv4 does not have.
    #[error("invalid mtu of {0} bytes: must be {min} to {max}", min = MTU_BYTES.start(), max = MTU_BYTES.end())]
    Mtu(u32),
    /// No such speed.
    #[error("invalid ethernet speed of {0} Gbit/s: must be 1, 10, 25, 40 or 100")]
    Gbit(u32),
}

impl Link {
    /// A link that carries payload only.
    pub const fn plain(bytes_per_s: u64, latency: Duration) -> Link {
        Link { bytes_per_s, frame_payload_bytes: u32::MAX, frame_overhead_bytes: 0, latency }
    }

    /// Fibre Channel through one switch: some microseconds.
    pub const fn fibre_channel(speed: FibreChannel) -> Link {
        let times = match speed {
            FibreChannel::Gfc1 => 1,
            FibreChannel::Gfc2 => 2,
            FibreChannel::Gfc4 => 4,
            FibreChannel::Gfc8 => 8,
        };
        Link {
            bytes_per_s: FC_BYTES_PER_S * times,
            frame_payload_bytes: FC_PAYLOAD_BYTES,
            frame_overhead_bytes: FC_FRAME_OVERHEAD_BYTES,
            latency: Duration::from_micros(5),
        }
    }

    /// TCP over Ethernet. The latency is that of a switch and of two network stacks that coalesce interrupts:
    /// the slower, the longer.
    pub fn ethernet(gbit: u32, mtu_bytes: u32) -> Result<Link, LinkError> {
        if !MTU_BYTES.contains(&mtu_bytes) {
            return Err(LinkError::Mtu(mtu_bytes));
        }
        let latency = match gbit {
            1 => Duration::from_micros(50),
            10 | 25 | 40 | 100 => Duration::from_micros(20),
            _ => return Err(LinkError::Gbit(gbit)),
        };
        Ok(Link {
            bytes_per_s: u64::from(gbit) * 125_000_000,
            frame_payload_bytes: mtu_bytes - TCP_OVERHEAD_BYTES,
            frame_overhead_bytes: ETHERNET_OVERHEAD_BYTES + TCP_OVERHEAD_BYTES,
            latency,
        })
    }

    /// The same, this far away.
    pub const fn with_latency(self, latency: Duration) -> Link {
        Link { latency, ..self }
    }

    /// The wire bytes of this payload, sent at once.
    pub fn wire_bytes(&self, payload: u64) -> u64 {
        let frames = payload.div_ceil(u64::from(self.frame_payload_bytes.max(1)));
        payload.saturating_add(frames.saturating_mul(self.frame_overhead_bytes.into()))
    }

    /// How long it occupies the wire.
    pub fn wire_ns(&self, payload: u64) -> u64 {
        let ns = u128::from(self.wire_bytes(payload)) * 1_000_000_000 / u128::from(self.bytes_per_s.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// The maximum payload rate: full frames without gaps.
    pub fn ceiling_bytes_per_s(&self) -> u64 {
        let payload = u64::from(self.frame_payload_bytes);
        (u128::from(self.bytes_per_s) * u128::from(payload) / u128::from(self.wire_bytes(payload).max(1)))
            as u64
    }

    pub(crate) fn latency_ns(&self) -> u64 {
        u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_ceiling(link: Link, mb_per_s: f64) {
        let got = link.ceiling_bytes_per_s() as f64 / 1e6;
        assert!((got / mb_per_s - 1.0).abs() <= 0.003, "{got:.1} MB/s of {mb_per_s}: {link:?}");
    }

    #[test]
    fn ceilings_are_those_of_the_line_rates() {
        check_ceiling(Link::fibre_channel(FibreChannel::Gfc1), 103.0);
        check_ceiling(Link::fibre_channel(FibreChannel::Gfc2), 206.5);
        check_ceiling(Link::fibre_channel(FibreChannel::Gfc4), 413.0);
        check_ceiling(Link::fibre_channel(FibreChannel::Gfc8), 826.0);
        check_ceiling(Link::ethernet(1, 1500).unwrap(), 117.7);
        check_ceiling(Link::ethernet(1, 9000).unwrap(), 123.8);
        check_ceiling(Link::ethernet(10, 1500).unwrap(), 1177.0);
        check_ceiling(Link::ethernet(25, 9000).unwrap(), 3095.0);
        check_ceiling(Link::plain(1000, Duration::ZERO), 0.001);
    }

    #[test]
    fn the_last_frame_may_be_short_and_costs_as_much_beside_its_payload() {
        let link = Link::ethernet(1, 1500).unwrap();
        assert_eq!([0, 1, 1448, 1449].map(|n| link.wire_bytes(n)), [0, 91, 1538, 1629]);
        assert_eq!(link.wire_ns(1448), 1538 * 8);
        assert_eq!(link.wire_bytes(u64::MAX), u64::MAX);
    }

    #[test]
    fn no_link_is_like_this() {
        assert_eq!(Link::ethernet(1, 67), Err(LinkError::Mtu(67)));
        assert_eq!(Link::ethernet(2, 1500), Err(LinkError::Gbit(2)));
        assert!(Link::ethernet(1, 0).unwrap_err().to_string().contains("68 to 65535"));
    }
}
