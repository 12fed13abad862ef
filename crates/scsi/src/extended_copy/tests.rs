//! EXTENDED COPY as hypervisors send it, and as they should not.

use lu::CommandContext;
use lu::testing::ThinMemory;

use super::limits::*;
use super::list::List;
use super::rig::{Answer, BLOCK, BLOCKS, Dice, Rig, respond, send};
use crate::request::{Lun, Status};
use crate::view::View;

/// A list under construction.
#[derive(Clone, Default)]
struct Draft {
    id: u8,
    flags: u8,
    targets: Vec<u8>,
    segments: Vec<u8>,
}

impl Draft {
    fn of(id: u8) -> Draft {
        Draft { id, ..Draft::default() }
    }

    /// Names a logical unit of the rig by its NAA.
    fn target(mut self, rig: &Rig, unit: usize) -> Draft {
        let mut bytes = [0; 32];
        (bytes[0], bytes[4], bytes[5], bytes[7]) = (0xE4, 1, 3, 16);
        bytes[8..24].copy_from_slice(&rig.units[unit].identity().naa);
        bytes[30] = 2;
        self.targets.extend(bytes);
        self
    }

    fn segment(mut self, source: u16, destination: u16, blocks: u16, from: u64, to: u64) -> Draft {
        self.segments.extend([0x02, 0, 0, 24]);
        self.segments.extend(source.to_be_bytes());
        self.segments.extend(destination.to_be_bytes());
        self.segments.extend([0, 0]);
        self.segments.extend(blocks.to_be_bytes());
        self.segments.extend(from.to_be_bytes());
        self.segments.extend(to.to_be_bytes());
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.id, self.flags];
        out.extend((self.targets.len() as u16).to_be_bytes());
        out.extend([0; 4]);
        out.extend((self.segments.len() as u32).to_be_bytes());
        out.extend([0; 4]);
        out.extend(&self.targets);
        out.extend(&self.segments);
        out
    }

    /// The same as a list of LID4, with this identifier.
    fn lid4_bytes(&self, id: u32, immediate: bool) -> Vec<u8> {
        let mut out = vec![0; 48];
        (out[0], out[1], out[3], out[15], out[16]) = (1, self.flags, 0x20, u8::from(immediate), 0xFF);
        out[20..24].copy_from_slice(&id.to_be_bytes());
        out[42..44].copy_from_slice(&(self.targets.len() as u16).to_be_bytes());
        out[44..46].copy_from_slice(&(self.segments.len() as u16).to_be_bytes());
        out.extend(&self.targets);
        out.extend(&self.segments);
        out
    }

    async fn send(&self, view: &View<ThinMemory>) -> Answer {
        copy(view, &self.bytes()).await
    }
}

async fn copy(view: &View<ThinMemory>, list: &[u8]) -> Answer {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    send(view, 0, &cdb, list).await
}

async fn results(view: &View<ThinMemory>, action: u8, id: u8) -> Answer {
    send(view, 0, &[0x84, action, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0], &[]).await
}

#[test]
fn copies_share_pages_and_are_counted_at_the_destination() {
    Rig::run(2, |rig| async move {
        rig.fill(0, 0, 2048, 0xAA).await;
        let host = rig.host(1, &[0, 1]).await;
        let draft = Draft::of(1).target(&rig, 0).target(&rig, 1);
        // Whole pages, then an odd rest, then within one logical unit through the index that stands for
        // itself.
        let draft = draft.segment(0, 1, 2048, 0, 4096).segment(0, 1, 3, 0, 1).segment(
            0xFFFF,
            0,
            2048,
            0,
            BLOCKS - 2048,
        );
        draft.send(&host).await.good();
        assert!(
            rig.holds(1, 4096, 2048, 0xAA).await
                && rig.holds(1, 1, 3, 0xAA).await
                && rig.holds(1, 0, 1, 0).await
        );
        assert!(rig.holds(0, BLOCKS - 2048, 2048, 0xAA).await);
        let counted = rig.units[1].counters();
        assert_eq!((counted.shared_bytes, counted.moved_bytes), (2048 * BLOCK, 3 * BLOCK));
        assert_eq!(rig.units[0].counters().shared_bytes, 2048 * BLOCK);
        let status = results(&host, 0x00, 1).await.good();
        assert_eq!(status, [0, 0, 0, 8, 1, 0, 3, 0, 0, 0x20, 6, 0]);
    });
}

#[test]
fn a_target_outside_the_view_is_not_reachable() {
    Rig::run(3, |rig| async move {
        rig.fill(2, 0, 8, 0x55).await;
        let host = rig.host(1, &[0, 1]).await;
        for (source, destination) in [(2, 0), (0, 2)] {
            let draft = Draft::of(1).target(&rig, source).target(&rig, destination).segment(0, 1, 8, 0, 0);
            assert_eq!(draft.send(&host).await.failed(), (0x0A, 0x0D02));
        }
        assert!(rig.holds(0, 0, 8, 0).await && rig.holds(2, 0, 8, 0x55).await);
        // One that no segment uses is not looked for.
        Draft::of(1).target(&rig, 0).target(&rig, 2).segment(0, 0, 8, 0, 64).send(&host).await.good();
    });
}

#[test]
fn reservations_and_write_protection_hold_at_both_ends() {
    Rig::run(2, |rig| async move {
        let host = rig.host(1, &[0, 1]).await;
        let other = rig.host(2, &[0, 1]).await;
        let mut register = [0; 24];
        register[15] = 7;
        let draft = |from, to| Draft::of(1).target(&rig, 0).target(&rig, 1).segment(from, to, 8, 0, 0);
        for (kind, reads) in [(1, true), (3, false)] {
            let out = |action, kind| [0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0];
            send(&other, 1, &out(6, 0), &register).await.good();
            let mut list = [0; 24];
            list[7] = 7;
            send(&other, 1, &out(1, kind), &list).await.good();
            assert_eq!(draft(0, 1).send(&host).await.failed(), (0x0A, 0x0D01), "writing there, type {kind}");
            let read = draft(1, 0).send(&host).await;
            assert_eq!(read.status == Status::Good, reads, "reading there, type {kind}");
            draft(0, 1).send(&other).await.good();
            send(&other, 1, &out(3, 0), &list).await.good();
        }
    });
}

#[test]
fn lists_are_refused_for_what_is_wrong_with_them() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        let good = Draft::of(1).target(&rig, 0).segment(0, 0, 8, 0, 64);
        good.send(&host).await.good();
        copy(&host, &[]).await.good();
        let many = |targets: usize, segments: usize| {
            let draft = (0..targets).fold(Draft::of(1), |draft, _| draft.target(&rig, 0));
            (0..segments).fold(draft, |draft, _| draft.segment(0, 0, 8, 0, 64))
        };
        many(TARGETS_MAX, SEGMENTS_MAX).send(&host).await.good();
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.bytes();
            bytes[at] = byte;
            bytes
        };
        let cut = |len: usize| good.bytes()[..len].to_vec();
        let cases: Vec<(&str, Vec<u8>, (u8, u16))> = vec![
            ("header cut", cut(15), (5, 0x1A00)),
            ("target cut", cut(47), (5, 0x1A00)),
            ("segment cut", cut(75), (5, 0x1A00)),
            ("too many targets", many(TARGETS_MAX + 1, 1).bytes(), (5, 0x2606)),
            ("too many segments", many(1, SEGMENTS_MAX + 1).bytes(), (5, 0x2608)),
            ("too long", many(TARGETS_MAX + 1, SEGMENTS_MAX + 9).bytes(), (5, 0x1A00)),
            ("inline data", changed(15, 1), (5, 0x260B)),
            ("target list of 31 bytes", changed(3, 31), (5, 0x2600)),
            ("target type", changed(16, 0xE0), (5, 0x2607)),
            ("designator length", changed(23, 21), (5, 0x2600)),
            ("designator of a port", changed(21, 0x13), (5, 0x2600)),
            ("block length", changed(16 + 30, 16), (5, 0x2600)),
            ("segment type", changed(48, 0x03), (5, 0x2609)),
            ("segment length", changed(51, 23), (5, 0x2600)),
            ("list id usage", changed(1, 0x08), (5, 0x2600)),
            ("list id without use", changed(1, 0x18), (5, 0x2600)),
            ("source index", changed(53, 1), (0x0A, 0x0804)),
            ("destination index", changed(55, 1), (0x0A, 0x0804)),
            ("device type", changed(17, 0x01), (0x0A, 0x0D03)),
            ("another NAA", changed(30, 0x99), (0x0A, 0x0D02)),
            ("source past the end", changed(60, 1), (0x0A, 0x0000)),
            ("destination past the end", changed(68, 0xFF), (0x0A, 0x0000)),
        ];
        for (case, bytes, expected) in cases {
            assert_eq!(copy(&host, &bytes).await.failed(), expected, "{case}");
        }
        // LU ID TYPE is ignored (SPC-4).
        copy(&host, &changed(17, 0xC0)).await.good();
    });
}

#[test]
fn a_failed_copy_tells_the_segment() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        rig.fill(0, 0, 8, 1).await;
        assert_eq!(results(&host, 0x00, 9).await.failed(), (5, 0x2400));
        let draft = Draft::of(9)
            .target(&rig, 0)
            .segment(0, 0, 8, 0, 64)
            .segment(0, 0, 8, 0, BLOCKS - 1)
            .segment(0, 0, 8, 0, 96);
        let list = draft.bytes();
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x83, list.len() as u8);
        let response = respond(&host, 0, &cdb, &list).await;
        assert_eq!(response.sense[8..12], [0, 0, 0, 1], "the second segment");
        assert!(rig.holds(0, 64, 8, 1).await && rig.holds(0, 96, 8, 0).await);
        assert_eq!(results(&host, 0x00, 9).await.good()[4..7], [2, 0, 1]);
        let details = results(&host, 0x04, 9).await.good();
        assert_eq!((details[56], &details[60..]), (2, &response.sense[..]));
        let mut forgotten = Draft::of(0).target(&rig, 0).segment(0, 0, 8, 0, 64);
        forgotten.flags = 0x18;
        forgotten.send(&host).await.good();
        assert_eq!(results(&host, 0x00, 0).await.failed(), (5, 0x2400));
        assert_eq!(results(&host, 0x01, 9).await.failed(), (5, 0x2400), "there is no held data");
    });
}

#[test]
fn a_full_pool_and_a_bad_sector_abort_the_copy_with_their_cause() {
    Rig::run(2, |rig| async move {
        let host = rig.host(1, &[0, 1]).await;
        rig.fill(0, 0, 8, 1).await;
        let draft = Draft::of(1).target(&rig, 0).target(&rig, 1).segment(0, 1, 7, 0, 1);
        let pool = rig.units[1].disk().pool();
        pool.pages.set(0);
        assert_eq!(draft.send(&host).await.failed(), (0x0A, 0x2707));
        pool.pages.set(1 << 20);
        rig.units[0].disk().fail_with(Some(block::BlockError::Unreadable { at: 0, cause: "test".into() }));
        assert_eq!(draft.send(&host).await.failed(), (0x0A, 0x1100));
        rig.units[0].disk().fail_with(None);
        draft.send(&host).await.good();
    });
}

#[test]
fn a_range_moves_over_itself_as_if_it_were_read_first() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        for block in 0..6000 {
            rig.fill(0, block, 1, (block / 24) as u8).await;
        }
        for (from, to) in [(0, 24), (48, 0)] {
            let before = rig.units[0].disk().clone();
            let mut expected = block::Pieces::new();
            lu::LogicalDisk::read(
                &before,
                CommandContext::DETACHED,
                from * BLOCK,
                5000 * BLOCK as usize,
                &mut expected,
            )
            .await
            .expect("reads");
            Draft::of(1).target(&rig, 0).segment(0, 0, 5000, from, to).send(&host).await.good();
            let mut found = block::Pieces::new();
            lu::LogicalDisk::read(
                &before,
                CommandContext::DETACHED,
                to * BLOCK,
                5000 * BLOCK as usize,
                &mut found,
            )
            .await
            .expect("reads");
            assert_eq!(found.first_difference(&expected), None, "{from} to {to}");
        }
    });
}

#[test]
fn hostile_lists_are_answered() {
    Rig::run(1, |rig| async move {
        let good = Draft::of(1)
            .target(&rig, 0)
            .target(&rig, 0)
            .segment(0, 1, 8, 0, 64)
            .segment(0, 1, 8, 0, 64)
            .bytes();
        let mut dice = Dice(11);
        let mut parsed = 0;
        for _ in 0..100_000 {
            let mut bytes = good.clone();
            dice.spoil(&mut bytes);
            if let Ok(list) = List::parse_lid1(&bytes) {
                parsed += 1;
                assert!(list.targets.len() <= TARGETS_MAX && list.segments.len() <= SEGMENTS_MAX);
            }
        }
        assert!((10_000..99_000).contains(&parsed), "{parsed} of 100,000 were accepted");
        let host = rig.host(1, &[0]).await;
        for _ in 0..2_000 {
            let mut bytes = good.clone();
            dice.spoil(&mut bytes);
            let answer = copy(&host, &bytes).await;
            assert!(matches!(answer.status, Status::Good | Status::CheckCondition));
        }
    });
}

#[test]
fn a_reservation_made_meanwhile_stops_the_rest_of_a_copy() {
    Rig::run(2, |rig| async move {
        let (host, other) = (rig.host(1, &[0, 1]).await, rig.host(2, &[0, 1]).await);
        let half = (BLOCKS / 2) as u16;
        rig.fill(0, 0, 8, 4).await;
        rig.fill(0, u64::from(half), 8, 4).await;
        let draft = Draft::of(1).target(&rig, 0).target(&rig, 1).segment(0, 1, half, 0, 0);
        let draft = draft.segment(0, 1, half, u64::from(half), u64::from(half));
        let held = rig.units[1].locks.exclusive(u64::from(half) * BLOCK..u64::from(half) * BLOCK + 1).await;
        let reserve_then_let_go = async {
            rig.world.sleep(std::time::Duration::from_millis(1)).await;
            send(&other, 1, &[0x16, 0, 0, 0, 0, 0], &[]).await.good();
            drop(held);
        };
        let (mut copy, mut reserve) =
            (std::pin::pin!(draft.send(&host)), std::pin::pin!(reserve_then_let_go));
        let mut reserved = false;
        let answer = std::future::poll_fn(|cx| {
            reserved = reserved || reserve.as_mut().poll(cx).is_ready();
            copy.as_mut().poll(cx)
        })
        .await;
        assert_eq!(answer.failed(), (0x0A, 0x0D01));
        assert!(rig.holds(1, 0, 8, 4).await && rig.holds(1, u64::from(half), 8, 0).await);
    });
}

/// Before, only a disk with a journal made it durable, whatever the host had set.
#[test]
fn a_copy_to_a_unit_without_a_write_cache_is_durable_when_it_ends() {
    Rig::run(2, async |rig| {
        let host = rig.host(1, &[0, 1]).await;
        let draft = Draft::of(1).target(&rig, 0).target(&rig, 1).segment(0, 1, 100, 0, 0);
        draft.send(&host).await.good();
        let flushes = || [0, 1].map(|unit: usize| rig.units[unit].disk().flushes());
        assert_eq!(flushes(), [0, 0], "a volatile write cache");
        Rig::write_through(&host, 1).await;
        let before = flushes();
        draft.send(&host).await.good();
        assert_eq!(flushes(), [before[0], before[1] + 1]);
    });
}

async fn copy_lid4(view: &View<ThinMemory>, list: &[u8]) -> Answer {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x83, 0x01);
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    send(view, 0, &cdb, list).await
}

/// RECEIVE COPY STATUS(LID4).
async fn status_lid4(view: &View<ThinMemory>, id: u32) -> Answer {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[12]) = (0x84, 0x05, 1);
    cdb[2..6].copy_from_slice(&id.to_be_bytes());
    send(view, 0, &cdb, &[]).await
}

#[test]
fn lid4_copies_alike_and_keeps_its_results_by_four_bytes() {
    Rig::run(2, async |rig| {
        let host = rig.host(1, &[0, 1]).await;
        rig.fill(0, 10, 100, 0x5A).await;
        let id = 0x8000_0001;
        let draft = Draft::of(0).target(&rig, 0).target(&rig, 1).segment(0, 1, 60, 10, 500);
        let draft = draft.segment(0, 1, 40, 70, 560);
        copy_lid4(&host, &draft.lid4_bytes(id, false)).await.good();
        assert!(rig.holds(1, 500, 100, 0x5A).await);
        let status = status_lid4(&host, id).await.good();
        // Action, done; GOOD, no sense, in blocks; 100 blocks of two segments.
        assert_eq!((status[4], status[5], status[15]), (0x01, 0x01, 0xF1));
        assert_eq!(status[16..26], [0, 0, 0, 0, 0, 0, 0, 100, 0, 2]);
        assert_eq!(status.len(), 32);
        assert_eq!(status_lid4(&host, 1).await.failed(), (5, 0x2400), "of another identifier");
        // Usage 11b: no identifier, no result.
        let forgotten = Draft { flags: 0b11 << 3, ..draft.clone() };
        assert_eq!(copy_lid4(&host, &forgotten.lid4_bytes(id, false)).await.failed(), (5, 0x2600));
        copy_lid4(&host, &forgotten.lid4_bytes(0, false)).await.good();
        // In the background nobody could ask for its end, and no identifier would count it.
        assert_eq!(copy_lid4(&host, &forgotten.lid4_bytes(0, true)).await.failed(), (5, 0x2600));
        assert_eq!(status_lid4(&host, 0).await.failed(), (5, 0x2400));
        // A segment that names no target: the first one is done, and the result says so.
        let failing = Draft::of(0).target(&rig, 0).segment(0, 0, 1, 10, 2000).segment(0, 9, 1, 10, 2000);
        assert_eq!(copy_lid4(&host, &failing.lid4_bytes(id, false)).await.failed(), (0xA, 0x0804));
        assert!(rig.holds(0, 2000, 1, 0x5A).await);
        let status = status_lid4(&host, id).await.good();
        assert_eq!((status[5], status[12], status[25]), (0x02, 0x02, 1));
        assert_eq!((status[32 + 2] & 0x0F, &status[32 + 12..32 + 14]), (0xA, &[0x08, 0x04][..]));
    });
}

#[test]
fn an_immediate_copy_goes_on_after_its_command() {
    Rig::run(2, async |rig| {
        let host = rig.host(1, &[0, 1]).await;
        for lba in (0..BLOCKS / 2).step_by(8192) {
            rig.fill(0, lba, 8192, 0x5A).await;
        }
        let draft = Draft::of(0).target(&rig, 0).target(&rig, 1).segment(0, 1, 32_000, 0, 1);
        let list = draft.lid4_bytes(7, true);
        copy_lid4(&host, &list).await.good();
        assert_eq!(status_lid4(&host, 7).await.good()[5], 0x12, "it runs in the background");
        assert_eq!(copy_lid4(&host, &list).await.failed(), (5, 0x0016), "its identifier is in use");
        let status = loop {
            world::yield_now().await;
            let status = status_lid4(&host, 7).await.good();
            if status[5] != 0x12 {
                break status;
            }
        };
        assert_eq!((status[5], u16::from_be_bytes([status[22], status[23]])), (0x01, 32_000));
        for lba in (1..32_001).step_by(8000) {
            assert!(rig.holds(1, lba, 8000, 0x5A).await);
        }
        // The end of the nexus ends the copy: what it has not reached stays.
        let list = Draft::of(0).target(&rig, 0).target(&rig, 1).segment(0, 1, 32_000, 0, 32_001);
        copy_lid4(&host, &list.lid4_bytes(8, true)).await.good();
        drop(host);
        for _ in 0..10_000 {
            world::yield_now().await;
        }
        assert!(!rig.holds(1, 64_000, 1, 0x5A).await);
    });
}

#[test]
fn lists_of_lid4_that_are_not_well_formed_are_refused() {
    Rig::run(1, async |rig| {
        let host = rig.host(1, &[0]).await;
        let good = Draft::of(0).target(&rig, 0).segment(0, 0, 1, 0, 9).lid4_bytes(1, false);
        for (at, value, expected) in [
            (0, 0, (5, 0x2600)),
            (3, 0x1F, (5, 0x2600)),
            (16, 0xE4, (5, 0x2600)),
            (1, 0b01 << 3, (5, 0x2600)),
            (43, 31, (5, 0x2600)),
            (45, 29, (5, 0x1A00)),
            (47, 1, (5, 0x260B)),
            (42, 0xFF, (5, 0x1A00)),
        ] {
            let mut list = good.clone();
            list[at] = value;
            assert_eq!(copy_lid4(&host, &list).await.failed(), expected, "byte {at}");
        }
        assert_eq!(copy_lid4(&host, &good[..47]).await.failed(), (5, 0x1A00));
        copy_lid4(&host, &good).await.good();
    });
}

#[test]
fn spoilt_lists_of_lid4_never_panic() {
    Rig::run(2, async |rig| {
        let host = rig.host(1, &[0, 1]).await;
        let mut dice = Dice(4);
        for id in 0..3000 {
            let draft = Draft::of(0).target(&rig, 0).target(&rig, 1).segment(0, 1, 9, 3, 9);
            let mut list = draft.lid4_bytes(id % 3, id % 2 == 0);
            dice.spoil(&mut list);
            let answer = copy_lid4(&host, &list).await;
            assert!(answer.status == Status::Good || answer.sense.is_some(), "{list:02x?}");
            status_lid4(&host, id % 3).await;
        }
    });
}

/// All segments are resolved before the first one is copied: a LUN that is taken away later is reached no
/// more.
#[test]
fn a_copy_stops_at_a_unit_that_was_unmapped_meanwhile() {
    Rig::run(3, async |rig| {
        let host = rig.host(1, &[0, 1, 2]).await;
        rig.fill(1, 0, 100, 0x5A).await;
        let draft = Draft::of(0).target(&rig, 1).target(&rig, 2).segment(0, 1, 100, 0, 0);
        copy_lid4(&host, &draft.lid4_bytes(7, true)).await.good();
        host.unmap(Lun(2));
        assert_eq!(status_lid4(&host, 7).await.failed(), (6, 0x3F0E));
        while status_lid4(&host, 7).await.good()[5] == 0x12 {
            world::yield_now().await;
        }
        let status = status_lid4(&host, 7).await.good();
        assert_eq!((status[5], &status[32 + 12..32 + 14]), (0x02, &[0x0D, 0x02][..]));
        assert!(rig.holds(2, 0, 100, 0).await, "nothing was written");
    });
}
