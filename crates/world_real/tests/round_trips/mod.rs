//! What every kind of drive keeps.

use world::{BUF_LEN_MAX, Buf, Data, Drive, Rng};

/// Random operations on the first `len_bytes` of a drive of zeros, each read compared with a plain vector.
pub(crate) async fn check(drive: &Drive, len_bytes: u64) {
    let block = u64::from(drive.info().block_bytes);
    let mut plain = vec![0u8; len_bytes as usize];
    let mut rng = Rng::with_seed(11);
    for step in 0..120u32 {
        let at = rng.u64(0..len_bytes / block) * block;
        let len = (rng.u64(1..=256) * block).min(len_bytes - at);
        let (from, to) = (at as usize, (at + len) as usize);
        match rng.u8(0..6) {
            0 => {
                assert_eq!(drive.zero(at, len).await, Ok(()));
                plain[from..to].fill(0);
            }
            1 => {
                // Neighbours of different sizes, the last of them unaligned in memory.
                let mut long = Buf::new(len as usize + 7);
                long.fill(step as u8);
                let (cut, long) = ((len / block / 2 * block) as usize, long.freeze());
                let parts = [long.slice(0..cut), long.slice(cut + 7..)];
                let list = parts.into_iter().filter(|part| !part.is_empty()).collect();
                assert_eq!(drive.write_vectored(at, list).await, Ok(()));
                plain[from..to].fill(step as u8);
            }
            2 => {
                // Memory that does not lie on the device's alignment.
                let mut long = Buf::new(len as usize + 7);
                long.fill(step as u8);
                assert_eq!(drive.write(at, long.freeze().slice(7..)).await, Ok(()));
                plain[from..to].fill(step as u8);
            }
            3 => assert_eq!(drive.flush().await, Ok(())),
            4 => {
                let got = drive.read(at, Buf::new(len as usize)).await;
                assert_eq!(got.result, Ok(()));
                assert!(got.buf[..] == plain[from..to], "step {step}: {len} bytes at {at}");
            }
            _ => {
                let data = Data::copy_of(&vec![!step as u8; len as usize]);
                assert_eq!(drive.write(at, data).await, Ok(()));
                plain[from..to].fill(!step as u8);
            }
        }
    }
    for (at, part) in (0..).step_by(BUF_LEN_MAX).zip(plain.chunks(BUF_LEN_MAX)) {
        let got = drive.read(at, Buf::new(part.len())).await;
        assert!(got.result.is_ok() && got.buf[..] == *part);
    }
}
