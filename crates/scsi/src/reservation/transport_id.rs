//! TransportIDs of iSCSI initiator ports in parameter lists and in READ FULL STATUS (SPC-5 7.6.4.6).

use crate::nexus::{InitiatorPort, PROTOCOL_ISCSI};

/// The longest iSCSI name in bytes (RFC 7143 4.2.7.2).
pub(super) const ISCSI_NAME_LEN_MAX: usize = 223;

/// Byte 0, bits 7..6: the name alone.
const FORMAT_NAME: u8 = 0b00;
/// Byte 0, bits 7..6: name, separator and ISID.
const FORMAT_NAME_ISID: u8 = 0b01;
/// The separator between name and ISID in format 01b.
const SEPARATOR: &str = ",i,0x";
/// The minimum length of a TransportID (SPC-5 7.6.4.6: ADDITIONAL LENGTH at least 20).
const LEN_MIN: usize = 24;
const ISID_DIGITS: usize = 12;

/// The object that a TransportID names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// Format 01b: one initiator port.
    Port(InitiatorPort),
    /// Format 00b: every known port of an initiator device.
    Device(String),
}

/// Decodes the TransportID at the beginning of `bytes`; returns its object and its length.
pub(super) fn decode(bytes: &[u8]) -> Option<(Named, usize)> {
    let head = bytes.get(..4)?;
    if head[0] & 0x0F != PROTOCOL_ISCSI {
        return None;
    }
    let len = 4 + usize::from(u16::from_be_bytes([head[2], head[3]]));
    if len < LEN_MIN || len % 4 != 0 {
        return None;
    }
    let text = bytes.get(4..len)?;
    let end = text.iter().position(|&b| b == 0)?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    let named = match head[0] >> 6 {
        FORMAT_NAME => Named::Device(checked_name(text)?),
        FORMAT_NAME_ISID => {
            let (name, digits) = text.split_once(SEPARATOR)?;
            Named::Port(InitiatorPort { name: checked_name(name)?, isid: isid(digits)? })
        }
        _ => return None,
    };
    Some((named, len))
}

/// In the form in which sessions have their names, which are compared without regard to case (RFC 7143
/// 4.2.7.1).
fn checked_name(name: &str) -> Option<String> {
    (!name.is_empty() && name.len() <= ISCSI_NAME_LEN_MAX).then(|| name.to_lowercase())
}

/// Hexadecimal digits, possibly without leading ones.
fn isid(digits: &str) -> Option<[u8; 6]> {
    if digits.is_empty() || digits.len() > ISID_DIGITS || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(digits, 16).ok()?.to_be_bytes();
    let mut isid = [0; 6];
    isid.copy_from_slice(&value[2..]);
    Some(isid)
}

/// The name of a port, truncated to the limit. A login refuses longer names; records and parameter lists have
/// no room for them.
pub(super) fn name_of(port: &InitiatorPort) -> &str {
    let mut end = port.name.len().min(ISCSI_NAME_LEN_MAX);
    while !port.name.is_char_boundary(end) {
        end -= 1;
    }
    &port.name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_out_and_come_back() {
        for name in ["iqn.a", "iqn.2026-01.org.example:host-1", &"n".repeat(ISCSI_NAME_LEN_MAX)] {
            let port = InitiatorPort { name: (*name).to_owned(), isid: [0x80, 1, 2, 3, 4, 0xFF] };
            let bytes = port.transport_id();
            assert_eq!(bytes.len() % 4, 0);
            assert!(bytes.len() >= LEN_MIN);
            assert_eq!(decode(&bytes), Some((Named::Port(port), bytes.len())));
        }
    }

    #[test]
    fn what_is_not_an_iscsi_port_is_refused() {
        let good = InitiatorPort { name: "iqn.a".into(), isid: [0; 6] }.transport_id();
        let breaks: [fn(&mut Vec<u8>); 6] = [
            |b| b[0] = 0x46,
            |b| b[0] = 0x85,
            |b| b[3] = 16,
            |b| b[4..24].fill(b'x'),
            |b| b[4] = 0xFF,
            |b| b.truncate(23),
        ];
        for (i, change) in breaks.iter().enumerate() {
            let mut bytes = good.clone();
            change(&mut bytes);
            assert_eq!(decode(&bytes), None, "case {i}");
        }
        let mut device = good.clone();
        device[0] = 0x05;
        device[4..].fill(0);
        device[4..9].copy_from_slice(b"iqn.b");
        assert_eq!(decode(&device), Some((Named::Device("iqn.b".into()), good.len())));
        device[4..9].copy_from_slice(b"IQN.B");
        assert_eq!(decode(&device), Some((Named::Device("iqn.b".into()), good.len())), "capitals");
    }
}
