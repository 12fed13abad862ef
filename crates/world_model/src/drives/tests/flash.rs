//! Drives with flash, reckoned by hand.

use super::*;
use crate::drives::FlashParameters;

/// Two units of 100 µs behind links of 1 GB/s, in front of flash that programs 100 MB/s, twice for each byte.
fn flash(protected_buffer: bool) -> DriveModel {
    DriveModel::new(&DriveParameters::Flash(FlashParameters {
        name: Cow::Borrowed("flash"),
        len_blocks: 1 << 20,
        units: 2,
        read_ns: 100_000,
        write_ns: 10_000,
        link_read_bytes_per_s: 1_000_000_000,
        link_write_bytes_per_s: 1_000_000_000,
        buffer_bytes: 1_024_000,
        program_bytes_per_s: 100_000_000,
        amplification_percent: 200,
        protected_buffer,
    }))
    .expect("a drive can be like this")
}

fn times(done: &[Completion]) -> Vec<u64> {
    done.iter().map(|done| done.at_ns).collect()
}

#[test]
fn reads_share_units_and_link() {
    let reads = [0, 1, 2].map(|i| request(i, Kind::Read, i * 8, 8));
    // 4,096 bytes need 4,096 ns of the link; the third read waits for a unit.
    assert_eq!(times(&at_once(&mut flash(true), 0, &reads)), [104_096, 108_192, 204_096]);
}

#[test]
fn writes_are_as_fast_as_the_link_until_the_buffer_is_full_and_then_as_flash() {
    let mut drive = flash(false);
    let write_ns = |drive: &mut DriveModel, at_ns| alone(drive, at_ns, Kind::Write, 0, 1000) - at_ns;
    assert_eq!(write_ns(&mut drive, 0), 522_000);
    let mut at_ns = 522_000;
    for _ in 0..20 {
        at_ns += write_ns(&mut drive, at_ns);
    }
    // 512,000 bytes, twice, at 100 MB/s.
    assert_eq!(write_ns(&mut drive, at_ns), 10_240_000);
    at_ns += 10_240_000;
    // A flush empties the buffer, which holds 1,024,000 bytes; one whose content survives a loss of power
    // need not.
    let flushed_ns = alone(&mut drive, at_ns, Kind::Flush, 0, 0) - at_ns;
    assert!((20_000_000..20_600_000).contains(&flushed_ns), "{flushed_ns}");
    assert_eq!(alone(&mut flash(true), 0, Kind::Flush, 0, 0), 10_000);
}
