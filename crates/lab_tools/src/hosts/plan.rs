//! What a host may leave to the array, and in which steps: decided from what the array says of itself, as
//! hosts do.

/// What an array says that it can do, read from VPD pages B0h, B1h, B2h and 8Fh and from RECEIVE COPY RESULTS
/// (operating parameters).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Logical block length.
    pub block_bytes: u32,
    /// Bytes of the LU.
    pub len_bytes: u64,
    /// Most bytes of one READ or WRITE (B0h); 0: not said.
    pub transfer_bytes_max: u64,
    /// Whether WRITE SAME(16) is taken, and the most bytes of one (B0h); 0: not said.
    pub write_same: bool,
    /// See above.
    pub write_same_bytes_max: u64,
    /// Whether WRITE SAME(16) with UNMAP gives space back (B2h LBPWS).
    pub write_same_unmaps: bool,
    /// Blocks of one COMPARE AND WRITE (B0h); 0: there is none.
    pub compare_and_write_blocks_max: u32,
    /// Whether UNMAP is taken (B2h LBPU), its most bytes and descriptors per command (B0h).
    pub unmap: bool,
    /// See above.
    pub unmap_bytes_max: u64,
    /// See above.
    pub unmap_descriptors_max: u32,
    /// Whether the LU is thin and reads zeros after UNMAP (B2h LBPRZ).
    pub reads_zeros: bool,
    /// EXTENDED COPY.
    pub copy: Option<CopyLimits>,
    /// Bytes of one token at which the array works best (8Fh); 0: there are no tokens, or it is not said.
    pub token_bytes_optimal: u64,
    /// The NAA designator of the LU (83h), by which copies name it.
    pub naa: Vec<u8>,
}

/// The operating parameters of the copy manager (SPC-4 6.18.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// Segment descriptors in one list.
    pub segments_max: usize,
    /// Bytes of all descriptors.
    pub descriptors_len_max: usize,
    pub segment_bytes_max: u64,
}

/// In which steps a host leaves work to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Longest range of one WRITE SAME.
    pub write_same_bytes: u64,
    /// Bytes of one segment of a copy.
    pub segment_bytes: u64,
    /// Segments of one command.
    pub segments: usize,
}

/// Two target descriptors of 32 bytes stand before the segments (SPC-4 6.4.1).
const TARGETS_LEN: usize = 64;
/// One segment descriptor, block to block (SPC-4 6.4.6.3).
const SEGMENT_LEN: usize = 28;
/// A segment counts its blocks in 16 bits.
const SEGMENT_BLOCKS_MAX: u64 = 65_535;
/// WRITE SAME(16) counts its blocks in 32 bits; what an array that states no limit gets is 1 GiB.
const WRITE_SAME_BYTES_UNSTATED: u64 = 1 << 30;

impl Capabilities {
    /// The largest steps that the array advertises, on whole units of `align` bytes where they hold one.
    pub fn advertised(&self, align: u64) -> Steps {
        let write_same = if self.write_same_bytes_max == 0 {
            WRITE_SAME_BYTES_UNSTATED
        } else {
            self.write_same_bytes_max
        };
        let limits = self.copy.unwrap_or(CopyLimits {
            segments_max: 1,
            descriptors_len_max: 4096,
            segment_bytes_max: 1 << 20,
        });
        self.clipped(
            Steps {
                write_same_bytes: write_same,
                segment_bytes: limits.segment_bytes_max,
                segments: limits.segments_max,
            },
            align,
        )
    }

    /// Steps that the array takes, no larger than those wanted.
    pub fn clipped(&self, wanted: Steps, align: u64) -> Steps {
        let whole = |bytes: u64| if bytes >= align { bytes / align * align } else { bytes };
        let block = u64::from(self.block_bytes);
        let most = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let segment = wanted.segment_bytes.min(SEGMENT_BLOCKS_MAX * block);
        let (segment, segments) = match self.copy {
            Some(limits) => {
                let room = limits.descriptors_len_max.saturating_sub(TARGETS_LEN) / SEGMENT_LEN;
                (
                    segment.min(most(limits.segment_bytes_max)),
                    wanted.segments.min(limits.segments_max).min(room),
                )
            }
            None => (segment, wanted.segments),
        };
        Steps {
            write_same_bytes: whole(
                wanted.write_same_bytes.min(most(self.write_same_bytes_max)).min(u64::from(u32::MAX) * block),
            ),
            segment_bytes: whole(segment),
            segments: segments.max(1),
        }
    }
}

/// Ranges cut into steps.
pub fn steps(ranges: &[(u64, u64)], step_bytes: u64) -> Vec<(u64, u64)> {
    assert!(step_bytes > 0);
    let cut = |(at, len): &(u64, u64)| {
        let (at, len) = (*at, *len);
        (0..len.div_ceil(step_bytes))
            .map(move |i| (at + i * step_bytes, step_bytes.min(len - i * step_bytes)))
    };
    ranges.iter().flat_map(cut).collect()
}

/// One range of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// On the source.
    pub from: u64,
    /// On the destination.
    pub to: u64,
    /// Bytes.
    pub len: u64,
}

/// Pairs the ranges of two files of the same length, and cuts the pairs into segments.
pub fn segments(from: &[(u64, u64)], to: &[(u64, u64)], segment_bytes: u64) -> Vec<Segment> {
    assert!(segment_bytes > 0);
    let mut out = Vec::new();
    let (mut sources, mut destinations) = (from.iter().copied(), to.iter().copied());
    let (mut source, mut destination) = (sources.next(), destinations.next());
    while let (Some((f, f_len)), Some((t, t_len))) = (source, destination) {
        let len = f_len.min(t_len).min(segment_bytes);
        out.push(Segment { from: f, to: t, len });
        source = if f_len > len { Some((f + len, f_len - len)) } else { sources.next() };
        destination = if t_len > len { Some((t + len, t_len - len)) } else { destinations.next() };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn capable() -> Capabilities {
        Capabilities {
            block_bytes: 512,
            write_same_bytes_max: 4 << 30,
            copy: Some(CopyLimits {
                segments_max: 64,
                descriptors_len_max: 4096,
                segment_bytes_max: 65_535 * 512,
            }),
            ..Capabilities::default()
        }
    }

    #[test]
    fn steps_are_what_the_array_advertises_on_whole_pages() {
        let steps = capable().advertised(MIB);
        assert_eq!(steps, Steps { write_same_bytes: 4 << 30, segment_bytes: 31 * MIB, segments: 64 });
        let paper = Steps { write_same_bytes: MIB, segment_bytes: 4 * MIB, segments: 1 };
        assert_eq!(capable().clipped(paper, MIB), paper);
        let narrow = Capabilities {
            write_same_bytes_max: MIB / 2,
            copy: Some(CopyLimits {
                segments_max: 64,
                descriptors_len_max: 64 + 28 * 3,
                segment_bytes_max: MIB,
            }),
            ..capable()
        };
        let wide = Steps { segments: 10, ..paper };
        assert_eq!(
            narrow.clipped(wide, MIB),
            Steps { write_same_bytes: MIB / 2, segment_bytes: MIB, segments: 3 }
        );
    }

    #[test]
    fn an_array_that_states_no_limit_gets_a_careful_one() {
        let silent = Capabilities { block_bytes: 512, write_same: true, ..Capabilities::default() };
        assert_eq!(
            silent.advertised(MIB),
            Steps { write_same_bytes: 1 << 30, segment_bytes: MIB, segments: 1 }
        );
    }

    #[test]
    fn ranges_are_cut_and_paired() {
        assert_eq!(steps(&[(0, 10), (20, 4)], 4), [(0, 4), (4, 4), (8, 2), (20, 4)]);
        let paired = segments(&[(0, 10)], &[(100, 3), (200, 7)], 5);
        let expected =
            [(0, 100, 3), (3, 200, 5), (8, 205, 2)].map(|(from, to, len)| Segment { from, to, len });
        assert_eq!(paired, expected);
    }
}
