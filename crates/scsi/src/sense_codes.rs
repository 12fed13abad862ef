//! What an initiator reads of sense data.

/// Sense key, additional sense code and qualifier of sense data in fixed or descriptor format (SPC-5 4.4);
/// `None` for other data, or for data that end before them.
pub fn sense_codes(sense: &[u8]) -> Option<(u8, u8, u8)> {
    let at = |index: usize| sense.get(index).copied();
    match at(0)? & 0x7f {
        0x70 | 0x71 => Some((at(2)? & 0x0f, at(12)?, at(13)?)),
        0x72 | 0x73 => Some((at(1)? & 0x0f, at(2)?, at(3)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_in_both_formats() {
        let fixed = [0xf0, 0, 0x23, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0x04];
        assert_eq!(sense_codes(&fixed), Some((3, 0x11, 4)), "of byte 2 the key alone");
        assert_eq!(sense_codes(&[0x72, 6, 0x29, 1, 0, 0, 0, 0]), Some((6, 0x29, 1)));
        assert_eq!(sense_codes(&[0x7f, 6, 0x29, 1]), None, "vendor specific");
        for short in [&fixed[..13], &[0x72, 6, 0x29], &[]] {
            assert_eq!(sense_codes(short), None, "{short:02x?}");
        }
    }
}
