//! Serial numbers of 32 bits that wrap (RFC 1982 arithmetic, as RFC 7143 4.2.2.1 requires for CmdSN, StatSN
//! and DataSN).

/// Whether `a` is before `b`.
pub(crate) fn before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

/// Whether `sn` is in `first..=last`.
pub(crate) fn within(sn: u32, first: u32, last: u32) -> bool {
    !before(sn, first) && !before(last, sn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_over_the_wrap() {
        assert!(before(u32::MAX, 0));
        assert!(!before(0, u32::MAX));
        assert!(!before(5, 5));
        assert!(within(2, u32::MAX - 1, 7));
        assert!(!within(8, u32::MAX - 1, 7));
        assert!(!within(u32::MAX - 2, u32::MAX - 1, 7));
    }
}
