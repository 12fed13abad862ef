//! What a side brings to the negotiation, made from bytes: always one that an operator could configure.

use iscsi::Offer;
use iscsi::fuzzing::Digests;
use libfuzzer_sys::arbitrary::{Result, Unstructured};

fn digests(u: &mut Unstructured) -> Result<Digests> {
    u.choose(&[Digests::Never, Digests::Allowed, Digests::Preferred, Digests::Required]).copied()
}

fn len(u: &mut Unstructured) -> Result<u32> {
    u.int_in_range(512..=(1 << 24) - 1)
}

/// An offer within the bounds of RFC 7143 clause 13.
pub fn offer(u: &mut Unstructured) -> Result<Offer> {
    Ok(Offer {
        header_digest: digests(u)?,
        data_digest: digests(u)?,
        initial_r2t: u.arbitrary()?,
        immediate_data: u.arbitrary()?,
        recv_segment_len_max: len(u)?,
        max_burst_len: len(u)?,
        first_burst_len: len(u)?,
        max_outstanding_r2t: u.int_in_range(1..=65_535)?,
        time2wait_s: u.int_in_range(0..=3600)?,
        time2retain_s: u.int_in_range(0..=3600)?,
    })
}
