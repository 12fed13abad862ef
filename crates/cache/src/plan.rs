//! Selects the next destage: the elevator over (unit, address), and runs of neighbours that are written at
//! once.
//!
//! ```text
//!   block   0   1   2   3   4   5   6   7        D dirty, whole     c clean, whole (read before)
//!           D   D   c   D   -   D   p   D        p dirty, partial   - not present
//!           └── one run ┘       1   1   1        the gap at 2 is closed when 1 and 3 are of one row
//! ```
//!
//! Closing a gap costs writing data that the device already has, and saves the reads of old data and parity
//! of a partial row. Partial frames are separate runs: a run of several blocks writes whole blocks, in one
//! transfer.

use crate::frames::{ALL_SECTORS, FRAME_BYTES, FrameState, Frames, Key, UnitId};

/// Limit of blocks of one run: 1 MiB, a transfer that keeps every drive of a row busy and still ends soon.
pub const RUN_BLOCKS_MAX: u64 = (1 << 20) / FRAME_BYTES as u64;

/// Neighbouring frames that are destaged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Run {
    pub unit: UnitId,
    /// The first block.
    pub first: u64,
    /// The number of blocks: dirty ones, and clean ones between them. If there are several, each is fully
    /// valid.
    pub blocks: u32,
}

impl Run {
    /// Where the elevator continues.
    pub fn end(self) -> (UnitId, u64) {
        (self.unit, self.first + u64::from(self.blocks))
    }

    /// Its length in bytes.
    pub fn len_bytes(self) -> u64 {
        u64::from(self.blocks) * FRAME_BYTES as u64
    }
}

/// The next run from `from` (unit and block) on, in order of units and addresses, wrapping at the end. A row
/// of a unit has `row_blocks` blocks.
pub fn next_run(frames: &Frames, from: (UnitId, u64), row_blocks: impl Fn(UnitId) -> u64) -> Option<Run> {
    let (unit, block) = from;
    let here = frames.dirty_after(unit, block).next().map(|first| Key { unit, block: first });
    let first = here.or_else(|| {
        let behind = unit.0.checked_add(1).and_then(|next| frames.dirty_unit_from(UnitId(next)));
        let unit = behind.or_else(|| frames.dirty_unit_from(UnitId(0)))?;
        frames.dirty_after(unit, 0).next().map(|block| Key { unit, block })
    })?;
    Some(run_from(frames, first, row_blocks(first.unit)))
}

/// The run around a dirty block that has to be destaged now.
pub fn run_at(frames: &Frames, key: Key, row_blocks: u64) -> Run {
    // From the start of its row: the rest of the row makes the write cheap.
    let limit = (key.block - key.block % row_blocks.max(1)).max(key.block.saturating_sub(RUN_BLOCKS_MAX - 1));
    let mut first = key.block;
    if is_whole(frames, key, FrameState::Dirty) {
        while first > limit && is_whole(frames, Key { block: first - 1, ..key }, FrameState::Dirty) {
            first -= 1;
        }
    }
    run_from(frames, Key { block: first, ..key }, row_blocks)
}

fn is_whole(frames: &Frames, key: Key, state: FrameState) -> bool {
    frames.peek(key).is_some_and(|frame| frame.state == state && frame.valid == ALL_SECTORS)
}

/// The run that begins with a dirty block.
fn run_from(frames: &Frames, first: Key, row_blocks: u64) -> Run {
    let (unit, row_blocks) = (first.unit, row_blocks.max(1));
    let key = |block| Key { unit, block };
    let mut end = first.block + 1;
    let mut goes_on = false;
    if is_whole(frames, first, FrameState::Dirty) {
        for dirty in frames.dirty_after(unit, end) {
            let one_row = dirty / row_blocks == (end - 1) / row_blocks;
            let closes = dirty == end
                || one_row && (end..dirty).all(|gap| is_whole(frames, key(gap), FrameState::Clean));
            if !closes || !is_whole(frames, key(dirty), FrameState::Dirty) {
                break;
            }
            if dirty - first.block >= RUN_BLOCKS_MAX {
                goes_on = true;
                break;
            }
            end = dirty + 1;
        }
    }
    // A run that is limited by its length ends with a row.
    let row_end = end - end % row_blocks;
    if goes_on && row_end > first.block {
        end = row_end;
    }
    Run { unit, first: first.block, blocks: (end - first.block) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::PartitionId;
    use world::Data;

    const P: PartitionId = PartitionId(0);
    const U: UnitId = UnitId(3);

    /// Frames of unit 3 from a picture as above.
    fn frames(picture: &str) -> Frames {
        let mut frames = Frames::new(10_000);
        add(&mut frames, U, 0, picture);
        frames
    }

    fn add(frames: &mut Frames, unit: UnitId, from: u64, picture: &str) {
        let data = Data::copy_of(&[7; FRAME_BYTES]);
        for (i, c) in picture.chars().enumerate() {
            let key = Key { unit, block: from + i as u64 };
            match c {
                'D' => frames.write(P, key, data.clone(), ALL_SECTORS, 0).unwrap(),
                'p' => frames.write(P, key, data.clone(), 0x0f, 0).unwrap(),
                'c' => assert!(frames.insert_clean(P, key, data.clone(), ALL_SECTORS)),
                'i' => assert!(frames.insert_clean(P, key, data.clone(), 0x0f)),
                'F' => {
                    frames.write(P, key, data.clone(), ALL_SECTORS, 0).unwrap();
                    frames.begin_destage(key);
                }
                _ => {}
            }
        }
    }

    /// All runs from block 0 of unit 3 on, as (first, blocks), each taken into flight as a destage would.
    fn runs(frames: &mut Frames, row_blocks: u64) -> Vec<(u64, u32)> {
        let mut from = (U, 0);
        let mut runs = Vec::new();
        while let Some(run) = next_run(frames, from, |_| row_blocks) {
            for block in run.first..run.end().1 {
                frames.begin_destage(Key { unit: run.unit, block });
            }
            runs.push((run.first, run.blocks));
            from = run.end();
        }
        runs
    }

    #[test]
    fn neighbours_are_joined_and_gaps_are_closed_within_a_row() {
        assert_eq!(runs(&mut frames("DDcD-DpD"), 8), [(0, 4), (5, 1), (6, 1), (7, 1)]);
        assert_eq!(runs(&mut frames("DDcD-DpD"), 2), [(0, 2), (3, 1), (5, 1), (6, 1), (7, 1)]);
        assert_eq!(runs(&mut frames("cDDccDc"), 8), [(1, 5)], "the ends are not filled");
        assert_eq!(runs(&mut frames("DiDFD"), 8), [(0, 1), (2, 1), (4, 1)], "not known, or on its way");
        assert_eq!(runs(&mut frames("DDcp"), 8), [(0, 2), (3, 1)], "a gap before a partial frame stays");
        assert_eq!(runs(&mut frames("ccii"), 8), []);
    }

    #[test]
    fn long_runs_are_cut_at_a_row() {
        let long = "D".repeat(600);
        assert_eq!(runs(&mut frames(&long), 1), [(0, 256), (256, 256), (512, 88)]);
        assert_eq!(runs(&mut frames(&long), 96), [(0, 192), (192, 192), (384, 216)]);
        // A row longer than a run is cut all the same; each piece is as long as it can be.
        assert_eq!(runs(&mut frames(&long), 400), [(0, 256), (256, 144), (400, 200)]);
    }

    #[test]
    fn the_elevator_goes_around() {
        let mut frames = frames("--D-D");
        add(&mut frames, UnitId(1), 7, "DD");
        add(&mut frames, UnitId(9), 1 << 40, "D");
        let expect = |from, unit, first, blocks| {
            let run = next_run(&frames, from, |_| 8).unwrap();
            assert_eq!(run, Run { unit: UnitId(unit), first, blocks });
        };
        expect((UnitId(0), 0), 1, 7, 2);
        expect((UnitId(1), 9), 3, 2, 1);
        expect((U, 3), 3, 4, 1);
        expect((U, 5), 9, 1 << 40, 1);
        expect((UnitId(9), u64::MAX), 1, 7, 2);
        expect((UnitId(u32::MAX), 0), 1, 7, 2);
    }

    #[test]
    fn a_run_around_a_block_holds_it_and_its_row() {
        let frames = frames(&format!("{}p{}", "D".repeat(300), "D".repeat(20)));
        let run = |block, row| {
            let run = run_at(&frames, Key { unit: U, block }, row);
            assert!((run.first..run.end().1).contains(&block));
            (run.first, run.blocks)
        };
        assert_eq!(run(10, 8), (8, 256));
        assert_eq!(run(299, 1 << 20), (44, 256));
        assert_eq!(run(300, 8), (300, 1));
        assert_eq!(run(310, 1000), (301, 20));
    }
}
