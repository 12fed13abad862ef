//! Designation descriptors (SPC-5 7.7.6): the names of a logical unit, a port, the array.

use crate::nexus::PROTOCOL_ISCSI;

/// Where a designator belongs to (SPC-5 7.7.6).
#[derive(Clone, Copy)]
pub(crate) enum Association {
    Unit = 0x00,
    Port = 0x10,
    Device = 0x20,
}

/// One designation descriptor. Code sets: 1 binary, 2 ASCII, 3 UTF-8.
pub(crate) fn designator(out: &mut Vec<u8>, association: Association, kind: u8, code_set: u8, value: &[u8]) {
    let protocol = match association {
        Association::Unit => 0,
        Association::Port | Association::Device => 0x80,
    };
    let code_set = if protocol == 0 { code_set } else { PROTOCOL_ISCSI << 4 | code_set };
    out.extend([code_set, protocol | association as u8 | kind, 0, value.len() as u8]);
    out.extend(value);
}

/// A SCSI name string ends with a zero byte and is padded to four bytes (SPC-5 7.7.6.11); at most 256 bytes
/// do not fit the one-byte length, so 252.
pub(crate) fn name_string(name: &str) -> Vec<u8> {
    let mut value = name.as_bytes()[..name.len().min(251)].to_vec();
    value.push(0);
    value.resize(value.len().next_multiple_of(4), 0);
    value
}

/// The designation descriptor of the array itself.
pub(crate) fn target_device(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    designator(&mut out, Association::Device, 8, 3, &name_string(name));
    out
}
