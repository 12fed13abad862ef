//! The conformance suite of [`Device`]: every layer runs it, in both worlds.

use world::{Buf, Rng};

use crate::{Device, Pieces};

/// Random reads, writes, zeros and flushes compared with a shadow in memory: `operations` of them, then a
/// full comparison. Panics at the first difference and names the operation. Overwrites the first `min(len, 4
/// MiB)` bytes of the device.
pub async fn random_against_shadow(device: &impl Device, rng: &mut Rng, operations: usize) {
    let geometry = device.geometry();
    let block = geometry.block_bytes as usize;
    let len = geometry.len_bytes.min(4 << 20) as usize;
    let mut shadow = vec![0u8; len];
    device.zero(0, len as u64).await.expect("zero the whole range");
    for step in 0..operations {
        let at = rng.usize(..len / block) * block;
        let n = (1 + rng.usize(..64.min(len / block - at / block))) * block;
        match rng.u8(..10) {
            0..=3 => {
                let mut buf = Buf::new(n);
                rng.fill(&mut buf);
                shadow[at..at + n].copy_from_slice(&buf);
                device
                    .write(at as u64, &buf.freeze().into())
                    .await
                    .unwrap_or_else(|e| panic!("step {step}: write: {e}"));
            }
            4 => {
                shadow[at..at + n].fill(0);
                device.zero(at as u64, n as u64).await.unwrap_or_else(|e| panic!("step {step}: zero: {e}"));
            }
            5 => device.flush().await.unwrap_or_else(|e| panic!("step {step}: flush: {e}")),
            _ => compare(device, &shadow, at, n, step).await,
        }
    }
    for at in (0..len).step_by(1 << 20) {
        compare(device, &shadow, at, (1 << 20).min(len - at), operations).await;
    }
}

async fn compare(device: &impl Device, shadow: &[u8], at: usize, n: usize, step: usize) {
    let mut out = Pieces::new();
    device.read(at as u64, n, &mut out).await.unwrap_or_else(|e| panic!("step {step}: read: {e}"));
    assert_eq!(out.len(), n, "step {step}: a read of {n} bytes at {at} gave {}", out.len());
    let joined = out.joined();
    if let Some(i) = (0..n).find(|&i| joined[i] != shadow[at + i]) {
        panic!("step {step}: byte {} is {:#x}, expected {:#x}", at + i, joined[i], shadow[at + i]);
    }
}

/// A range past the end is an error, never a panic or a partial transfer that succeeds.
pub async fn refuses_what_is_out_of_range(device: &impl Device) {
    let end = device.geometry().len_bytes;
    let block = u64::from(device.geometry().block_bytes);
    let data = Pieces::from(Buf::zeroed(2 * block as usize).freeze());
    for at in [end, end - block, u64::MAX / block * block] {
        let mut out = Pieces::new();
        assert!(device.read(at, 2 * block as usize, &mut out).await.is_err(), "read at {at}");
        assert!(device.write(at, &data).await.is_err(), "write at {at}");
        assert!(device.zero(at, 2 * block).await.is_err(), "zero at {at}");
    }
}
