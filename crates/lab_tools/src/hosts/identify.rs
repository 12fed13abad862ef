//! What an array says of a LU, parsed: READ CAPACITY(16), VPD pages, operating parameters. Nothing that it
//! answers panics here.

use super::plan::{Capabilities, CopyLimits};

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at + len).map_or(0, |b| b.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

/// READ CAPACITY(16): bytes and block length.
pub(super) fn capacity(data: &[u8]) -> Option<(u64, u32)> {
    let block = number(data, 8, 4);
    let blocks = number(data, 0, 8).checked_add(1)?;
    (data.len() >= 12 && block > 0).then(|| blocks.checked_mul(block).map(|bytes| (bytes, block as u32)))?
}

/// The answers of a LU to the questions that a host asks before it leaves work to the array. An empty answer
/// is a page that the LU does not have.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// READ CAPACITY(16).
    pub capacity: Vec<u8>,
    /// VPD page 83h.
    pub identification: Vec<u8>,
    /// VPD page B0h.
    pub limits: Vec<u8>,
    /// VPD page B2h.
    pub provisioning: Vec<u8>,
    /// VPD page 8Fh.
    pub third_party_copy: Vec<u8>,
    /// RECEIVE COPY RESULTS, operating parameters.
    pub copy: Vec<u8>,
    /// REPORT SUPPORTED OPERATION CODES for WRITE SAME(16).
    pub write_same: Vec<u8>,
}

impl Answers {
    /// What they mean.
    pub(super) fn capabilities(&self) -> Option<Capabilities> {
        let (len_bytes, block_bytes) = capacity(&self.capacity)?;
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(block_bytes));
        let limits = &self.limits;
        let provisioning = number(&self.provisioning, 5, 1);
        // SUPPORT 011b: as the standard says; an array without the command that reports it is taken at its
        // block limits.
        let write_same_reported = number(&self.write_same, 1, 1) & 0b111 == 0b011;
        let write_same_bytes_max = bytes(number(limits, 36, 8));
        Some(Capabilities {
            block_bytes,
            len_bytes,
            transfer_bytes_max: bytes(number(limits, 8, 4)),
            write_same: write_same_reported || write_same_bytes_max > 0,
            write_same_bytes_max,
            write_same_unmaps: provisioning & 0x40 != 0,
            compare_and_write_blocks_max: number(limits, 5, 1) as u32,
            unmap: provisioning & 0x80 != 0,
            unmap_bytes_max: bytes(number(limits, 20, 4)),
            unmap_descriptors_max: number(limits, 24, 4) as u32,
            reads_zeros: provisioning & 0x1c != 0,
            copy: self.copy_limits(),
            token_bytes_optimal: bytes(token_blocks_optimal(&self.third_party_copy)),
            naa: naa(&self.identification).unwrap_or_default(),
        })
    }

    fn copy_limits(&self) -> Option<CopyLimits> {
        let data = &self.copy;
        let segments_max = number(data, 10, 2) as usize;
        // Bytes 43 on: the descriptor types. Both that are used must be there.
        let types = data.get(44..44 + number(data, 43, 1) as usize)?;
        let usable = segments_max > 0 && types.contains(&0x02) && types.contains(&0xe4);
        usable.then(|| CopyLimits {
            segments_max,
            descriptors_len_max: number(data, 12, 4) as usize,
            segment_bytes_max: number(data, 16, 4),
        })
    }
}

/// OPTIMAL TRANSFER COUNT of the block device ROD token limits in VPD page 8Fh (SBC-4 6.6.9.3).
fn token_blocks_optimal(page: &[u8]) -> u64 {
    let mut rest = page.get(4..).unwrap_or_default();
    while rest.len() >= 4 {
        let (kind, len) = (number(rest, 0, 2), number(rest, 2, 2) as usize);
        if kind == 0x0000 {
            return number(rest, 28, 8);
        }
        rest = rest.get(4 + len..).unwrap_or_default();
    }
    0
}

/// The NAA designator of the logical unit in VPD page 83h.
fn naa(page: &[u8]) -> Option<Vec<u8>> {
    let mut rest = page.get(4..4 + number(page, 2, 2) as usize)?;
    while rest.len() >= 4 {
        let len = usize::from(rest[3]);
        let value = rest.get(4..4 + len)?;
        // Code set 1 (binary), association 0 (logical unit), type 3 (NAA).
        if rest[0] & 0x0f == 1 && rest[1] & 0x3f == 3 && matches!(len, 8 | 16) {
            return Some(value.to_vec());
        }
        rest = &rest[4 + len..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Answers {
        let mut capacity = vec![0; 32];
        capacity[..8].copy_from_slice(&0x3f_ffffu64.to_be_bytes());
        capacity[8..12].copy_from_slice(&512u32.to_be_bytes());
        let mut limits = vec![0; 64];
        limits[5] = 128;
        limits[20..24].copy_from_slice(&(1u32 << 20).to_be_bytes());
        limits[24..28].copy_from_slice(&256u32.to_be_bytes());
        limits[36..44].copy_from_slice(&(8u64 << 20).to_be_bytes());
        let mut copy = vec![0; 44];
        copy[10..12].copy_from_slice(&64u16.to_be_bytes());
        copy[12..16].copy_from_slice(&4096u32.to_be_bytes());
        copy[16..20].copy_from_slice(&(31u32 << 20).to_be_bytes());
        copy[43] = 2;
        copy.extend([0x02, 0xe4]);
        let mut identification = vec![0, 0x83, 0, 32];
        identification.extend([2, 1, 0, 8]);
        identification.extend(*b"masu    ");
        identification.extend([1, 3, 0, 16]);
        identification.extend([0x66; 16]);
        let mut third_party_copy = vec![0, 0x8f, 0, 44, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 32];
        third_party_copy.extend([0; 16]);
        third_party_copy.extend((8u64 << 20).to_be_bytes());
        third_party_copy.extend((1u64 << 19).to_be_bytes());
        Answers {
            capacity,
            identification,
            limits,
            provisioning: vec![0, 0xb2, 0, 4, 11, 0xe4, 2, 0],
            copy,
            third_party_copy,
            write_same: vec![0, 3],
        }
    }

    #[test]
    fn answers_become_capabilities() {
        let caps = answers().capabilities().expect("a capacity");
        assert_eq!((caps.len_bytes, caps.block_bytes), (2 << 30, 512));
        assert_eq!((caps.write_same_bytes_max, caps.unmap_bytes_max), (4 << 30, 512 << 20));
        assert!(caps.write_same && caps.unmap && caps.reads_zeros);
        assert_eq!(caps.copy.map(|c| (c.segments_max, c.segment_bytes_max)), Some((64, 31 << 20)));
        assert_eq!(caps.naa, [0x66; 16]);
        assert_eq!(caps.token_bytes_optimal, 256 << 20);
    }

    #[test]
    fn short_or_missing_answers_mean_no_capability() {
        let whole = answers();
        for cut in 0..64 {
            let short = |v: &Vec<u8>| v[..v.len().min(cut)].to_vec();
            let some = Answers {
                capacity: whole.capacity.clone(),
                identification: short(&whole.identification),
                limits: short(&whole.limits),
                provisioning: short(&whole.provisioning),
                copy: short(&whole.copy),
                third_party_copy: short(&whole.third_party_copy),
                write_same: short(&whole.write_same),
            };
            let caps = some.capabilities().expect("the capacity is whole");
            assert_eq!(caps.copy.is_some(), cut >= 46, "cut at {cut}");
            assert_eq!(caps.token_bytes_optimal > 0, cut >= 48, "cut at {cut}");
            let none = Answers { capacity: short(&whole.capacity), ..some };
            assert_eq!(none.capabilities().is_some(), cut >= 12);
        }
        let nothing =
            Answers { capacity: whole.capacity, ..Answers::default() }.capabilities().expect("a capacity");
        assert!(!nothing.write_same && !nothing.unmap && nothing.copy.is_none() && nothing.naa.is_empty());
    }
}
