//! Offloaded data transfer as a host does it: populate, ask for the token, write with it; and what it must
//! not get away with.

use lu::testing::ThinMemory;

use std::time::Duration;

use super::limits::*;
use super::token::{RodType, TOKEN_LEN, Token};
use super::{populate, write};
use crate::extended_copy::rig::{Answer, BLOCK, BLOCKS, Dice, Rig, send};
use crate::request::Status;
use crate::view::View;

type Host = View<ThinMemory>;

fn cdb(opcode: u8, action: u8, list_id: u32, len: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, action);
    let at = if opcode == 0x83 { 6 } else { 2 };
    cdb[at..at + 4].copy_from_slice(&list_id.to_be_bytes());
    cdb[10..14].copy_from_slice(&(len as u32).to_be_bytes());
    cdb
}

/// The fixed part of a list with its lengths, and the ranges.
fn list(fixed_len: usize, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0; fixed_len];
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    let len = list.len();
    list[..2].copy_from_slice(&(len as u16 - 2).to_be_bytes());
    list[fixed_len - 2..fixed_len].copy_from_slice(&((len - fixed_len) as u16).to_be_bytes());
    list
}

async fn populate_list(host: &Host, lun: u16, id: u32, list: &[u8]) -> Answer {
    send(host, lun, &cdb(0x83, 0x10, id, list.len()), list).await
}

async fn write_list(host: &Host, lun: u16, id: u32, list: &[u8]) -> Answer {
    send(host, lun, &cdb(0x83, 0x11, id, list.len()), list).await
}

async fn information(host: &Host, lun: u16, id: u32) -> Answer {
    send(host, lun, &cdb(0x84, 0x07, id, 4096), &[]).await
}

/// Populates and fetches the token.
async fn token_of(host: &Host, lun: u16, idle_s: u32, ranges: &[(u64, u32)]) -> Token {
    let mut list = list(populate::FIXED_LEN, ranges);
    list[4..8].copy_from_slice(&idle_s.to_be_bytes());
    populate_list(host, lun, 0x1234_5678, &list).await.good();
    let info = information(host, lun, 0x1234_5678).await.good();
    assert_eq!((info[4], info[5], info[15]), (0x10, 0x01, 0xF1));
    assert_eq!(info.len(), 4 + u32::from_be_bytes(info[..4].try_into().expect("four")) as usize);
    let blocks: u64 = ranges.iter().map(|(_, blocks)| u64::from(*blocks)).sum();
    assert_eq!(info[16..24], blocks.to_be_bytes());
    assert_eq!(info[32..36], (2 + TOKEN_LEN as u32).to_be_bytes());
    info[38..].try_into().expect("a token has 512 bytes")
}

fn write_draft(token: &Token, flags: u8, offset: u64, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = list(write::FIXED_LEN, ranges);
    list[2] = flags;
    list[8..16].copy_from_slice(&offset.to_be_bytes());
    list[16..528].copy_from_slice(token);
    list
}

fn zero_token() -> Token {
    let mut token = [0; TOKEN_LEN];
    token[..4].copy_from_slice(&RodType::BLOCK_ZERO.0.to_be_bytes());
    (token[6], token[7]) = (0x01, 0xF8);
    token
}

#[test]
fn a_token_stands_for_the_data_as_they_were() {
    Rig::run(2, |rig| async move {
        let host = rig.host(1, &[0, 1]).await;
        rig.fill(0, 0, 256, 0x11).await;
        rig.fill(0, 1024, 128, 0x22).await;
        let token = token_of(&host, 0, 0, &[(0, 256), (1024, 128)]).await;
        assert_eq!(RodType::of(&token), RodType::POINT_IN_TIME);
        rig.fill(0, 0, 256, 0x99).await;
        write_list(&host, 1, 2, &write_draft(&token, 0, 0, &[(512, 384)])).await.good();
        assert!(rig.holds(1, 512, 256, 0x11).await && rig.holds(1, 768, 128, 0x22).await);
        // From an offset, into two ranges, across the border of the source ranges.
        write_list(&host, 1, 2, &write_draft(&token, 0, 255, &[(5, 1), (9, 2)])).await.good();
        assert!(
            rig.holds(1, 5, 1, 0x11).await && rig.holds(1, 9, 2, 0x22).await && rig.holds(1, 6, 3, 0).await
        );
        let counted = rig.units[1].counters();
        assert_eq!((counted.shared_bytes, counted.moved_bytes), (384 * BLOCK, 3 * BLOCK));
        let info = information(&host, 1, 2).await.good();
        assert_eq!(
            (info[4], info[5], &info[16..24], info.len()),
            (0x11, 0x01, &[0, 0, 0, 0, 0, 0, 0, 3][..], 36)
        );
        assert_eq!(information(&host, 1, 3).await.failed(), (5, 0x2400));
    });
}

#[test]
fn a_sanitize_operation_takes_the_tokens_of_its_logical_unit_along() {
    Rig::run(2, |rig| async move {
        let host = rig.host(1, &[0, 1]).await;
        rig.fill(0, 0, 256, 0x11).await;
        rig.fill(1, 0, 256, 0x22).await;
        let token = token_of(&host, 0, 0, &[(0, 256)]).await;
        let other = token_of(&host, 1, 0, &[(0, 256)]).await;
        let mut erase = [0; 16];
        (erase[0], erase[1]) = (0x48, 0x02);
        send(&host, 0, &erase[..10], &[]).await.good();
        let again = write_list(&host, 1, 2, &write_draft(&token, 0, 0, &[(512, 256)])).await;
        assert_eq!(again.failed(), (5, 0x2307), "what was destroyed is not read again");
        write_list(&host, 0, 3, &write_draft(&other, 0, 0, &[(0, 256)])).await.good();
        assert!(rig.holds(0, 0, 256, 0x22).await);
    });
}

/// Starts to write all of a LU with a token of another one, so that its first pieces wait; then the other
/// host does something; and gives how the command ends.
async fn interrupted(rig: &Rig, token: &Token, host: &Host, other: &[u8], data: &[u8], by: &Host) -> Answer {
    let held = rig.units[0].locks.exclusive(0..BLOCKS * BLOCK).await;
    let list = write_draft(token, 0, 0, &[(0, BLOCKS as u32)]);
    let mut copy = Box::pin(write_list(host, 0, 2, &list));
    assert!(futures::FutureExt::now_or_never(copy.as_mut()).is_none());
    send(by, 0, other, data).await.good();
    rig.world.sleep(Duration::from_millis(1)).await;
    drop(held);
    let ended = copy.await;
    rig.world.sleep(Duration::from_secs(1)).await;
    ended
}

#[test]
fn a_write_with_a_token_stops_when_the_logical_unit_is_sanitized_or_reserved() {
    Rig::run(2, |rig| async move {
        let (host, by) = (rig.host(1, &[0, 1]).await, rig.host(2, &[0]).await);
        for lba in (0..BLOCKS).step_by(8192) {
            rig.fill(1, lba, 8192, 0x22).await;
        }
        let token = token_of(&host, 1, 0, &[(0, BLOCKS as u32)]).await;
        let erase = [0x48, 0x82, 0, 0, 0, 0, 0, 0, 0, 0];
        let ended = interrupted(&rig, &token, &host, &erase, &[], &by).await;
        assert_eq!(ended.failed(), (2, 0x041b));
        assert!(rig.holds(0, 0, 8192, 0).await, "nothing is written on what was erased");

        let register = [&[0; 8][..], &[0xa1; 8], &[0; 8]].concat();
        send(&by, 0, &[0x5f, 6, 0, 0, 0, 0, 0, 0, 24, 0], &register).await.good();
        let reserve = [&[0xa1; 8][..], &[0; 16]].concat();
        let exclusive = [0x5f, 1, 3, 0, 0, 0, 0, 0, 24, 0];
        let ended = interrupted(&rig, &token, &host, &exclusive, &reserve, &by).await;
        assert_eq!(ended.status, Status::ReservationConflict);
        assert!(rig.holds(0, 0, 8192, 0).await);
    });
}

#[test]
fn the_zero_token_needs_no_source() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        rig.fill(0, 0, 512, 7).await;
        write_list(&host, 0, 1, &write_draft(&zero_token(), 0, 0, &[(128, 256)])).await.good();
        assert!(
            rig.holds(0, 0, 128, 7).await
                && rig.holds(0, 128, 256, 0).await
                && rig.holds(0, 384, 128, 7).await
        );
        assert_eq!(rig.units[0].counters().zeroed_bytes, 256 * BLOCK);
    });
}

#[test]
fn a_copy_in_the_background_is_reported_until_it_is_done() {
    Rig::run(2, |rig| async move {
        let host = rig.host(1, &[0, 1]).await;
        rig.fill(0, 1, 4096, 3).await;
        let token = token_of(&host, 0, 0, &[(1, 4096)]).await;
        write_list(&host, 1, 5, &write_draft(&token, 1, 0, &[(0, 4096)])).await.good();
        assert_eq!(information(&host, 1, 5).await.good()[5], 0x12);
        let again = write_list(&host, 1, 5, &write_draft(&token, 0, 0, &[(0, 1)])).await;
        assert_eq!(again.failed(), (5, 0x0016), "the name is in use");
        while information(&host, 1, 5).await.good()[5] == 0x12 {
            rig.world.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(information(&host, 1, 5).await.good()[5], 0x01);
        assert!(rig.holds(1, 0, 4096, 3).await);
    });
}

#[test]
fn a_token_is_good_only_for_hosts_that_see_its_source() {
    Rig::run(3, |rig| async move {
        rig.fill(0, 0, 8, 1).await;
        let owner = rig.host(1, &[0, 1]).await;
        let cluster = rig.host(2, &[1, 0]).await;
        let stranger = rig.host(3, &[2]).await;
        let token = token_of(&owner, 0, 0, &[(0, 8)]).await;
        let draft = write_draft(&token, 0, 0, &[(0, 8)]);
        write_list(&cluster, 0, 1, &draft).await.good();
        assert_eq!(write_list(&stranger, 0, 1, &draft).await.failed(), (5, 0x2304));
        assert!(rig.holds(1, 0, 8, 1).await && rig.holds(2, 0, 8, 0).await);
        assert_eq!(
            information(&cluster, 1, 0x1234_5678).await.failed(),
            (5, 0x2400),
            "results belong to the nexus"
        );
    });
}

#[test]
fn tokens_expire_are_deleted_and_cannot_be_forged() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        rig.fill(0, 0, 8, 1).await;
        let token = token_of(&host, 0, 5, &[(0, 8)]).await;
        let draft = |token: &Token, flags| write_draft(token, flags, 0, &[(64, 8)]);
        let mut changed = token;
        changed[460] ^= 1;
        assert_eq!(write_list(&host, 0, 1, &draft(&changed, 0)).await.failed(), (5, 0x2305));
        changed[3] = 1;
        assert_eq!(write_list(&host, 0, 1, &draft(&changed, 0)).await.failed(), (5, 0x2301));
        let mut short = token;
        short[7] = 0;
        assert_eq!(write_list(&host, 0, 1, &draft(&short, 0)).await.failed(), (5, 0x230A));
        for _ in 0..3 {
            rig.world.sleep(Duration::from_secs(4)).await;
            write_list(&host, 0, 1, &draft(&token, 0)).await.good();
        }
        rig.world.sleep(Duration::from_secs(4)).await;
        assert_eq!(rig.tokens.alive(), 1, "every use begins its time anew");
        rig.world.sleep(Duration::from_secs(2)).await;
        assert_eq!(rig.tokens.alive(), 0, "it dies of itself and gives its pages back");
        assert_eq!(write_list(&host, 0, 1, &draft(&token, 0)).await.failed(), (5, 0x2307));
        let token = token_of(&host, 0, 5, &[(0, 8)]).await;
        write_list(&host, 0, 1, &draft(&token, 2)).await.good();
        assert_eq!(
            (rig.tokens.alive(), write_list(&host, 0, 1, &draft(&token, 0)).await.failed()),
            (0, (5, 0x2307))
        );
    });
}

#[test]
fn tokens_are_bounded_and_the_oldest_of_the_same_host_goes_first() {
    Rig::run(1, |rig| async move {
        let (greedy, modest) = (rig.host(1, &[0]).await, rig.host(2, &[0]).await);
        let kept = token_of(&modest, 0, 600, &[(0, 8)]).await;
        let first = token_of(&greedy, 0, 600, &[(0, 8)]).await;
        for _ in 0..TOKENS_PER_HOST_MAX {
            rig.world.sleep(Duration::from_millis(1)).await;
            token_of(&greedy, 0, 600, &[(0, 8)]).await;
        }
        assert_eq!(rig.tokens.alive(), TOKENS_PER_HOST_MAX + 1);
        assert_eq!(
            write_list(&greedy, 0, 1, &write_draft(&first, 0, 0, &[(8, 8)])).await.failed(),
            (5, 0x2307)
        );
        write_list(&modest, 0, 1, &write_draft(&kept, 0, 0, &[(8, 8)])).await.good();
    });
}

#[test]
fn lists_are_refused_for_what_is_wrong_with_them() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        let good = list(populate::FIXED_LEN, &[(0, 8), (64, 8)]);
        let with = |ranges: &[(u64, u32)]| list(populate::FIXED_LEN, ranges);
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let typed = |code: u32| {
            let mut bytes = changed(2, 2);
            bytes[8..12].copy_from_slice(&code.to_be_bytes());
            bytes
        };
        let cases: Vec<(&str, Vec<u8>, (u8, u16))> = vec![
            ("cut in the header", good[..15].to_vec(), (5, 0x1A00)),
            ("cut in the ranges", good[..40].to_vec(), (5, 0x1A00)),
            ("data length", changed(1, 29), (5, 0x2600)),
            ("range length", changed(15, 15), (5, 0x2600)),
            ("range length over data length", changed(15, 48), (5, 0x2600)),
            ("idle too long", changed(4, 1), (5, 0x2600)),
            ("access upon reference", typed(0x0001_0000), (5, 0x2600)),
            ("too many ranges", with(&[(0, 1); RANGES_MAX + 1]), (5, 0x2608)),
            ("overlap", with(&[(0, 8), (7, 1)]), (5, 0x2600)),
            ("nothing", with(&[(0, 0)]), (5, 0x2600)),
            ("past the end", with(&[(BLOCKS - 1, 2)]), (5, 0x2100)),
            ("far past the end", with(&[(u64::MAX, 2)]), (5, 0x2100)),
        ];
        for (case, bytes, expected) in cases {
            assert_eq!(populate_list(&host, 0, 1, &bytes).await.failed(), expected, "{case}");
        }
        populate_list(&host, 0, 1, &[]).await.good();
        populate_list(&host, 0, 1, &typed(0x0080_0000)).await.good();
        populate_list(&host, 0, 1, &typed(0x0080_FFFF)).await.good();
        let token = token_of(&host, 0, 0, &[(0, 8)]).await;
        let write = |offset, ranges: &[(u64, u32)]| write_draft(&token, 0, offset, ranges);
        assert_eq!(write_list(&host, 0, 1, &write(8, &[(0, 1)])).await.failed(), (5, 0x2600), "offset");
        assert_eq!(
            write_list(&host, 0, 1, &write(u64::MAX, &[(0, 1)])).await.failed(),
            (5, 0x2600),
            "huge offset"
        );
        assert_eq!(
            write_list(&host, 0, 1, &write(4, &[(0, 5)])).await.failed(),
            (0x0A, 0x0D04),
            "more than there is"
        );
        assert_eq!(
            write_list(&host, 0, 1, &write(0, &[(0, 4), (3, 4)])).await.failed(),
            (5, 0x2600),
            "overlap"
        );
        assert_eq!(write_list(&host, 0, 1, &write(0, &[(BLOCKS, 1)])).await.failed(), (5, 0x2100));
    });
}

#[test]
fn hostile_lists_are_answered() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        let token = token_of(&host, 0, 0, &[(0, 64)]).await;
        let populates = list(populate::FIXED_LEN, &[(0, 8), (64, 8), (128, 8)]);
        let writes = write_draft(&token, 0, 0, &[(64, 8), (128, 8)]);
        let mut dice = Dice(5);
        let mut parsed = 0;
        for _ in 0..100_000 {
            let mut bytes = populates.clone();
            dice.spoil(&mut bytes);
            parsed += usize::from(populate::List::parse(&bytes).is_ok());
            let mut bytes = writes.clone();
            dice.spoil(&mut bytes);
            parsed += usize::from(write::List::parse(&bytes).is_ok());
        }
        assert!((20_000..199_000).contains(&parsed), "{parsed} of 200,000 were accepted");
        for _ in 0..2_000 {
            let (mut one, mut other) = (populates.clone(), writes.clone());
            dice.spoil(&mut one);
            dice.spoil(&mut other);
            let answers = [populate_list(&host, 0, 1, &one).await, write_list(&host, 0, 2, &other).await];
            assert!(
                answers
                    .iter()
                    .all(|a| matches!(a.status, Status::Good | Status::CheckCondition | Status::Busy))
            );
        }
        assert!(rig.tokens.alive() <= TOKENS_PER_HOST_MAX);
    });
}

#[test]
fn what_a_token_wrote_is_durable_at_the_end_without_a_write_cache() {
    Rig::run(2, async |rig| {
        let host = rig.host(1, &[0, 1]).await;
        let token = token_of(&host, 0, 0, &[(0, 64)]).await;
        Rig::write_through(&host, 1).await;
        for token in [token, zero_token()] {
            let before = rig.units[1].disk().flushes();
            write_list(&host, 1, 9, &write_draft(&token, 0, 0, &[(0, 64)])).await.good();
            assert_eq!(rig.units[1].disk().flushes(), before + 1);
        }
    });
}

/// The pool needed the pages: the host is told that the token is no more, and copies by itself.
#[test]
fn a_token_that_gave_way_to_writes_has_expired() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        rig.fill(0, 0, 128, 0x11).await;
        let token = token_of(&host, 0, 0, &[(0, 128)]).await;
        rig.units[0].disk.discard_rods();
        let refused = write_list(&host, 0, 2, &write_draft(&token, 0, 0, &[(512, 128)])).await;
        assert_eq!(refused.sense, Some((0x5, 0x2307)), "{refused:?}");
    });
}

/// A write that found no page discarded the token in the middle of the command.
#[test]
fn a_token_is_kept_from_giving_way_as_long_as_a_command_uses_it() {
    Rig::run(1, |rig| async move {
        let host = rig.host(1, &[0]).await;
        let token = token_of(&host, 0, 0, &[(0, 64), (64, 64)]).await;
        let users = |of: &super::store::InUse<ThinMemory>| -> Vec<u32> {
            of.rods.list.iter().map(|(rod, _)| rod.users()).collect()
        };
        let take = || rig.tokens.take(&token, |_| true).expect("it is known");
        let (first, second) = (take(), take());
        assert_eq!(users(&first), [2, 2]);
        drop(second);
        assert_eq!(users(&first), [1, 1]);
        let rods = first.rods.clone();
        drop(first);
        assert!(rods.list.iter().all(|(rod, _)| rod.users() == 0));
    });
}
