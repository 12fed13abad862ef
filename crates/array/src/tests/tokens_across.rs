//! Offloaded data transfer between logical units of two controllers: a token that one controller made is good
//! at the other, for a host that sees its source.

use block::Pieces;
use scsi::Status;

use super::two_controllers::{BLOCK, Host, Rig, outcome};

/// Not a whole number of the steps in which a copy crosses.
pub(super) const LEN: u64 = (2 << 20) + 5 * BLOCK;
const FROM: u64 = 3 * BLOCK;
const TO: u64 = 11 * BLOCK;
const DELETE: u8 = 0x02;
const GOOD: (Status, Option<(u8, u16)>) = (Status::Good, None);

pub(super) type Token = [u8; 512];

fn range(at: u64, len: u64) -> Vec<u8> {
    let mut out = (at / BLOCK).to_be_bytes().to_vec();
    out.extend(((len / BLOCK) as u32).to_be_bytes());
    out.extend([0; 4]);
    out
}

fn invalid_token(code: u16) -> (Status, Option<(u8, u16)>) {
    (Status::CheckCondition, Some((5, 0x2300 | code)))
}

impl Host {
    async fn token_command(&self, lun: u16, action: u8, list: &[u8]) -> (Status, Option<(u8, u16)>) {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[9]) = (0x83, action, 7);
        cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
        outcome(&self.send(lun, &cdb, Pieces::copy_of(list), 0).await)
    }

    /// A token for `LEN` bytes at `FROM`.
    pub(super) async fn populate(&self, lun: u16) -> Token {
        let mut list = vec![0, 30, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 16];
        list.extend(range(FROM, LEN));
        assert_eq!(self.token_command(lun, 0x10, &list).await, GOOD);
        let cdb = [0x84, 7, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
        let information = self.send(lun, &cdb, Pieces::new(), 1024).await.data_in.joined();
        *information[38..].first_chunk().expect("a token")
    }

    /// WRITE USING TOKEN of bytes from `offset` of the token on, in two ranges, to `TO`.
    pub(super) async fn write_using(
        &self,
        lun: u16,
        token: &Token,
        (flags, offset, len): (u8, u64, u64),
    ) -> (Status, Option<(u8, u16)>) {
        let mut list = vec![0; 16];
        list[..2].copy_from_slice(&566u16.to_be_bytes());
        list[2] = flags;
        list[8..].copy_from_slice(&(offset / BLOCK).to_be_bytes());
        list.extend(token);
        list.extend([0, 0, 0, 0, 0, 0, 0, 32]);
        list.extend(range(TO, 3 * BLOCK));
        list.extend(range(TO + 3 * BLOCK, len - 3 * BLOCK));
        self.token_command(lun, 0x11, &list).await
    }
}

fn pattern(seed: u64) -> Pieces {
    let bytes: Vec<u8> = (0..LEN).map(|i| (i * 31 + (i >> 12) + seed) as u8).collect();
    Pieces::copy_of(&bytes)
}

/// Before, the token was unknown there, and the host read and wrote the bytes itself.
#[test]
fn a_token_of_one_controller_is_good_at_the_other() {
    Rig::run(|rig| async move {
        for (port, source, destination) in [(0, 0, 1), (1, 0, 1), (0, 1, 0), (1, 1, 0)] {
            let host = rig.host("a", port, 2).await;
            host.transfer(0x8a, source, FROM, pattern(7), LEN).await;
            host.transfer(0x8a, destination, 0, Pieces::copy_of(&[0xee; 3 << 20]), 3 << 20).await;
            let token = host.populate(source).await;
            // What is written after the token was made is not in it.
            host.transfer(0x8a, source, FROM, pattern(99), LEN).await;
            let volume = ["v0", "v1"][usize::from(destination)];
            let before = rig.moved(volume).await;
            let offset = 2 * BLOCK;
            assert_eq!(host.write_using(destination, &token, (0, offset, LEN - offset)).await, GOOD);
            assert_eq!(rig.moved(volume).await - before, LEN - offset, "port {port}, to {volume}");
            let found = host.transfer(0x88, destination, TO, Pieces::new(), LEN - offset).await;
            assert_eq!(found.joined()[..], pattern(7).joined()[offset as usize..]);
            for edge in [TO - BLOCK, TO + LEN - offset] {
                let kept = host.transfer(0x88, destination, edge, Pieces::new(), BLOCK).await;
                assert!(kept.joined().iter().all(|byte| *byte == 0xee), "the block at {edge}");
            }
            let underrun = (Status::CheckCondition, Some((0xa, 0x0d04)));
            assert_eq!(host.write_using(destination, &token, (0, offset, LEN)).await, underrun);
            assert_eq!(host.write_using(destination, &token, (DELETE, 0, LEN)).await, GOOD);
            let expired = invalid_token(7);
            assert_eq!(host.write_using(destination, &token, (0, 0, LEN)).await, expired, "it was deleted");
        }
    });
}

#[test]
fn a_token_is_unknown_to_a_host_that_does_not_see_its_source() {
    Rig::run(|rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        let (shared, hidden) = (b.populate(0).await, b.populate(2).await);
        assert_eq!(a.write_using(1, &hidden, (0, 0, LEN)).await, invalid_token(4));
        assert_eq!(rig.moved("v1").await, 0);
        assert_eq!(a.write_using(1, &shared, (0, 0, LEN)).await, GOOD, "hosts of a cluster exchange tokens");
        assert_eq!(b.write_using(1, &hidden, (0, 0, LEN)).await, GOOD);
    });
}

#[test]
fn a_changed_token_is_refused_by_the_controller_that_made_it() {
    Rig::run(|rig| async move {
        let host = rig.host("a", 0, 2).await;
        let token = host.populate(0).await;
        for (at, fault) in [(60, 5), (460, 5), (511, 5), (450, 4)] {
            let mut changed = token;
            changed[at] ^= 1;
            assert_eq!(host.write_using(1, &changed, (0, 0, LEN)).await, invalid_token(fault), "byte {at}");
        }
        assert_eq!(host.write_using(1, &token, (0, 0, LEN)).await, GOOD);
    });
}
