//! What a node says before a connection that it carries from a host to the portal of another node: version 2
//! of the PROXY protocol (haproxy, proxy-protocol.txt), with the portal group tag and a key in a TLV of its
//! own.
//!
//! It cannot be taken for a login: iSCSI has no request whose first byte is 0Dh.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use proxy_header::{ParseConfig, ProxiedAddress, ProxyHeader, Tlv};

/// The first bytes of each header (2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version, family and length.
const FIXED_LEN: usize = 16;
/// No header of a node is longer.
const LEN_MAX: usize = 128;
/// The first type that the protocol leaves to its users (2.2.7).
const TLV_TYPE: u8 = 0xe0;

/// What a node has to know to relay connections to another one. Comparing takes the same time for all keys.
#[derive(Clone, Eq)]
pub struct RelayKey(pub [u8; 16]);

impl PartialEq for RelayKey {
    fn eq(&self, other: &RelayKey) -> bool {
        self.0.iter().zip(other.0).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

impl fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelayKey(..)")
    }
}

/// A connection that another node carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// Where the host connects from.
    pub host: SocketAddr,
    /// The portal that it has connected to.
    pub portal: SocketAddr,
    /// The portal group tag of that portal.
    pub portal_group: u16,
    /// The key of the node that the connection is carried to.
    pub key: RelayKey,
}

/// The front of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// No header: the host connects itself.
    Direct,
    /// More bytes are needed.
    Partial,
    /// A header, and its length.
    Relayed(Relayed, usize),
}

impl Relayed {
    /// The bytes before those of the host.
    pub fn encode(&self) -> Vec<u8> {
        let (mut host, mut portal) = (self.host, self.portal);
        if host.is_ipv4() != portal.is_ipv4() {
            // The header has one address family.
            host.set_ip(mapped(host.ip()));
            portal.set_ip(mapped(portal.ip()));
        }
        let mut header = ProxyHeader::with_address(ProxiedAddress::stream(host, portal));
        let value = [&self.key.0[..], &self.portal_group.to_be_bytes()].concat();
        header.append_tlv(Tlv::Custom(TLV_TYPE, value.into()));
        let mut out = Vec::with_capacity(LEN_MAX);
        header.encode_v2(&mut out).expect("addresses of one family and a short TLV have a header");
        out
    }

    /// Reads the front of a connection that must have a header, and how long that is. None: more bytes are
    /// needed.
    ///
    /// # Errors
    /// It does not begin with the header of a node.
    pub fn read(bytes: &[u8]) -> Result<Option<(Relayed, usize)>, &'static str> {
        match front(bytes)? {
            Front::Relayed(relayed, len) => Ok(Some((relayed, len))),
            Front::Partial => Ok(None),
            Front::Direct => Err("no header of a node"),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Relayed> {
        let config = ParseConfig { include_tlvs: true, allow_v1: false, allow_v2: true };
        let (header, _) = ProxyHeader::parse(bytes, config).ok()?;
        let address = header.proxied_address()?;
        let value = header.tlvs().find_map(|tlv| match tlv {
            Ok(Tlv::Custom(TLV_TYPE, value)) => <[u8; 18]>::try_from(&*value).ok(),
            _ => None,
        })?;
        let (key, group) = value.split_first_chunk::<16>()?;
        Some(Relayed {
            host: address.source,
            portal: address.destination,
            portal_group: u16::from_be_bytes(group.try_into().ok()?),
            key: RelayKey(*key),
        })
    }
}

fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        IpAddr::V6(_) => ip,
    }
}

/// Looks for a header at the front of what has arrived.
///
/// # Errors
/// It begins like a header, and is none of a node.
pub(crate) fn front(bytes: &[u8]) -> Result<Front, &'static str> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Ok(Front::Direct);
    }
    let Some(fixed) = bytes.first_chunk::<FIXED_LEN>() else { return Ok(Front::Partial) };
    let len = FIXED_LEN + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if len > LEN_MAX {
        return Err("a PROXY header that is too long");
    }
    let Some(header) = bytes.get(..len) else { return Ok(Front::Partial) };
    let relayed = Relayed::decode(header).ok_or("a PROXY header that is not of a node of this array")?;
    Ok(Front::Relayed(relayed, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(host: &str, portal: &str) -> Relayed {
        let (host, portal) = (host.parse().expect("an address"), portal.parse().expect("an address"));
        Relayed { host, portal, portal_group: 0x0141, key: RelayKey(*b"0123456789abcdef") }
    }

    #[test]
    fn what_a_node_says_is_read_as_soon_as_it_is_whole_and_the_login_behind_it_is_left_alone() {
        for one in [relayed("10.0.0.9:41000", "10.0.0.2:3260"), relayed("[fd00::9]:41000", "[fd00::2]:3260")]
        {
            let bytes = one.encode();
            for len in 0..bytes.len() {
                assert_eq!(front(&bytes[..len]), Ok(Front::Partial), "{len} bytes");
            }
            let with_login = [&bytes[..], &[0x43, 0x87]].concat();
            assert_eq!(Relayed::read(&with_login), Ok(Some((one.clone(), bytes.len()))));
            assert_eq!(front(&with_login), Ok(Front::Relayed(one, bytes.len())));
        }
        let Ok(Front::Relayed(two_families, _)) = front(&relayed("10.0.0.9:1", "[fd00::2]:2").encode())
        else {
            panic!("no header")
        };
        assert_eq!(two_families.host.ip().to_canonical().to_string(), "10.0.0.9");
    }

    #[test]
    fn a_login_is_direct_and_a_header_of_another_proxy_is_refused() {
        assert_eq!(front(&[0x43, 0x87, 0, 0]), Ok(Front::Direct));
        assert!(Relayed::read(&[0x43, 0x87, 0, 0]).is_err(), "where a header must be");
        assert_eq!(front(b"\r\n\r\nGET / HTTP/1.1"), Ok(Front::Direct));
        let mut long = relayed("10.0.0.9:1", "10.0.0.2:2").encode();
        long[14..16].copy_from_slice(&113_u16.to_be_bytes());
        assert!(front(&long).is_err(), "before the rest of it is waited for");
        let mut plain = Vec::new();
        let addresses =
            ProxiedAddress::stream("10.0.0.9:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"));
        ProxyHeader::with_address(addresses).encode_v2(&mut plain).expect("encoded");
        assert!(front(&plain).is_err(), "without a key");
        for at in 12..plain.len() {
            let mut damaged = plain.clone();
            damaged[at] ^= 0xff;
            assert!(!matches!(front(&damaged), Ok(Front::Relayed(..))), "byte {at}");
        }
    }

    #[test]
    fn keys_differ_in_any_byte_and_are_not_printed() {
        let key = RelayKey([7; 16]);
        for at in 0..16 {
            let mut other = key.clone();
            other.0[at] ^= 1;
            assert_ne!(key, other);
        }
        assert_eq!(format!("{key:?}"), "RelayKey(..)");
    }
}
