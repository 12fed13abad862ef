//! EXTENDED COPY between logical units of two controllers: the bytes move inside the array, and a host
//! reaches only what is mapped to it.

use std::time::Duration;

use block::Pieces;
use futures::join;
use scsi::Status;

use super::two_controllers::{BLOCK, Host, Rig, outcome};

/// Not a whole number of the steps in which a copy crosses.
const LEN: u64 = (2 << 20) + 5 * BLOCK;
const FROM: u64 = 3 * BLOCK;
const TO: u64 = 11 * BLOCK;

impl Host {
    /// EXTENDED COPY sent to `lun`: the status, and sense key with code.
    async fn copy(&self, lun: u16, naa: [[u8; 16]; 2]) -> (Status, Option<(u8, u16)>) {
        let mut list = vec![0; 16];
        list[1] = 0b11 << 3;
        list[2..4].copy_from_slice(&64u16.to_be_bytes());
        list[8..12].copy_from_slice(&28u32.to_be_bytes());
        for naa in naa {
            let mut target = [0; 32];
            (target[0], target[4], target[5], target[7]) = (0xe4, 1, 3, 16);
            target[8..24].copy_from_slice(&naa);
            target[29..].copy_from_slice(&(BLOCK as u32).to_be_bytes()[1..]);
            list.extend(target);
        }
        list.extend([0x02, 0, 0, 24, 0, 0, 0, 1, 0, 0]);
        list.extend(((LEN / BLOCK) as u16).to_be_bytes());
        list.extend((FROM / BLOCK).to_be_bytes());
        list.extend((TO / BLOCK).to_be_bytes());
        let mut cdb = [0; 16];
        cdb[0] = 0x83;
        cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
        outcome(&self.send(lun, &cdb, Pieces::copy_of(&list), 0).await)
    }
}

fn pattern() -> Pieces {
    let bytes: Vec<u8> = (0..LEN).map(|i| (i * 31 + (i >> 12)) as u8).collect();
    Pieces::copy_of(&bytes)
}

/// Before, such a copy was refused as unreachable, and the host read and wrote the bytes itself.
#[test]
fn a_copy_between_two_controllers_moves_the_bytes_inside_the_array() {
    Rig::run(|rig| async move {
        // From controller 0 to 1 and back, sent to the source and to the destination, at either port:
        // commands cross, and parts of copies cross once more.
        for (port, lun, source, destination) in [(0, 0, 0, 1), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 1, 0)] {
            let host = rig.host("a", port, 2).await;
            let naa = [host.naa(source).await, host.naa(destination).await];
            host.transfer(0x8a, source, FROM, pattern(), LEN).await;
            host.transfer(0x8a, destination, 0, Pieces::copy_of(&[0xee; 3 << 20]), 3 << 20).await;
            let volume = ["v0", "v1"][usize::from(destination)];
            let before = rig.moved(volume).await;
            assert_eq!(host.copy(lun, naa).await, (Status::Good, None), "port {port}, sent to LUN {lun}");
            assert_eq!(rig.moved(volume).await - before, LEN);
            let found = host.transfer(0x88, destination, TO, Pieces::new(), LEN).await;
            assert_eq!(found.first_difference(&pattern()), None, "port {port}, sent to LUN {lun}");
            for edge in [TO - BLOCK, TO + LEN] {
                let kept = host.transfer(0x88, destination, edge, Pieces::new(), BLOCK).await;
                assert!(kept.joined().iter().all(|byte| *byte == 0xee), "the block at {edge}");
            }
        }
    });
}

#[test]
fn what_is_not_mapped_to_the_host_is_unreachable_at_the_other_controller_too() {
    Rig::run(|rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        let (own, hidden) = (a.naa(0).await, b.naa(3).await);
        b.transfer(0x8a, 3, 0, Pieces::copy_of(&[0x77; 3 << 20]), 3 << 20).await;
        for naa in [[own, hidden], [hidden, own]] {
            assert_eq!(a.copy(0, naa).await, (Status::CheckCondition, Some((0xa, 0x0d02))));
        }
        assert_eq!((rig.moved("w1").await, rig.moved("v0").await), (0, 0));
        assert_eq!(b.copy(0, [own, hidden]).await, (Status::Good, None), "who sees both may");
    });
}

#[test]
fn a_reservation_at_the_other_controller_stops_a_copy() {
    Rig::run(|rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        let naa = [a.naa(0).await, a.naa(1).await];
        assert_eq!(b.send(1, &[0x16, 0, 0, 0, 0, 0], Pieces::new(), 0).await.status, Status::Good);
        assert_eq!(a.copy(0, naa).await, (Status::CheckCondition, Some((0xa, 0x0d01))));
        assert_eq!(rig.moved("v1").await, 0);
        assert_eq!(b.send(1, &[0x17, 0, 0, 0, 0, 0], Pieces::new(), 0).await.status, Status::Good);
        assert_eq!(a.copy(0, naa).await, (Status::Good, None));
    });
}

/// The mailbox of a controller has room for 1,024 messages: one that told of the session's end was lost, and
/// the view with its reservation stayed.
#[test]
fn a_session_that_ends_while_the_other_controller_is_busy_leaves_no_reservation() {
    Rig::run(|rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 0, 2).await);
        assert_eq!(a.send(1, &[0x16, 0, 0, 0, 0, 0], Pieces::new(), 0).await.status, Status::Good);
        let ready = || b.send(1, &[0; 6], Pieces::new(), 0);
        assert_eq!(ready().await.status, Status::ReservationConflict);
        let mut many: Vec<_> = (0..2000).map(|_| Box::pin(ready())).collect();
        for one in &mut many {
            assert!(futures::poll!(one).is_pending(), "commands cross");
        }
        drop(a);
        futures::future::join_all(many).await;
        assert_eq!(ready().await.status, Status::Good);
    });
}

/// The other controller heard of the end when the last command had ended, and wrote over what the host sent
/// over another path meanwhile.
#[test]
fn a_copy_that_waits_for_a_drive_ends_with_its_session_at_whichever_controller_it_runs() {
    Rig::run(|rig| async move {
        for (lun, source, destination) in [(0, 0, 1), (1, 0, 1), (0, 1, 0), (1, 1, 0)] {
            let (host, other_path) = (rig.host("a", 0, 2).await, rig.host("a", 1, 2).await);
            let naa = [host.naa(source).await, host.naa(destination).await];
            host.transfer(0x8a, source, FROM, Pieces::copy_of(&[0x77; 2 << 20]), 2 << 20).await;
            let drive = rig.disks.get(&format!("d{source}")).expect("a drive");
            drive.hang();
            let gives_up = async {
                rig.world.sleep(Duration::from_millis(100)).await;
                host.end();
                other_path.transfer(0x8a, destination, TO, pattern(), LEN).await;
                drive.resume();
            };
            let ((status, _), ()) = join!(host.copy(lun, naa), gives_up);
            assert_ne!(status, Status::Good, "it was given up");
            let found = other_path.transfer(0x88, destination, TO, Pieces::new(), LEN).await;
            assert_eq!(found.first_difference(&pattern()), None, "sent to LUN {lun}, for LUN {destination}");
        }
    });
}
