//! Reservations through the logical unit: status, unit attentions, records, and tasks that are aborted.

use std::time::Duration;

use block::Pieces;
use lu::NexusId;
use lu::testing::ThinMemory;

use crate::extended_copy::rig::{Answer, Rig, send};
use crate::host_view::HostView;
use crate::request::Status;
use crate::reservation::Persistence;
use crate::unit::{LogicalUnit, Origin};
use crate::view::View;

type Host = View<ThinMemory>;

const KEY: u64 = 0x1234;

/// PERSISTENT RESERVE OUT with the basic list.
async fn out(host: &Host, action: u8, kind: u8, key: u64, action_key: u64, flags: u8) -> Answer {
    let mut list = key.to_be_bytes().to_vec();
    list.extend(action_key.to_be_bytes());
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    send(host, 0, &[0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0], &list).await
}

async fn register(host: &Host, key: u64, flags: u8) {
    out(host, 6, 0, 0, key, flags).await.good();
}

async fn read_in(host: &Host, action: u8, allocation_len: u8) -> Answer {
    send(host, 0, &[0x5E, action, 0, 0, 0, 0, 0, 0, allocation_len, 0], &[]).await
}

async fn ready(host: &Host) -> Answer {
    send(host, 0, &[0; 6], &[]).await
}

/// The pending unit attention; the next command finds none.
async fn attention(host: &Host) -> u16 {
    let (key, asc) = ready(host).await.failed();
    assert_eq!(key, 6);
    ready(host).await.good();
    asc
}

async fn write(host: &Host) -> Status {
    send(host, 0, &[0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[7; 512]).await.status
}

async fn read(host: &Host) -> Status {
    send(host, 0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[]).await.status
}

#[test]
fn a_conflict_is_a_status_and_the_others_are_told_once() {
    Rig::run(1, |rig| async move {
        let (a, b, c) = (rig.host(1, &[0]).await, rig.host(2, &[0]).await, rig.host(3, &[0]).await);
        register(&a, KEY, 0).await;
        register(&b, KEY + 1, 0).await;
        out(&a, 1, 6, KEY, 0, 0).await.good();
        assert_eq!((write(&b).await, read(&b).await), (Status::Good, Status::Good));
        assert_eq!(
            (write(&c).await, read(&c).await),
            (Status::ReservationConflict, Status::ReservationConflict)
        );
        ready(&c).await.good();
        assert_eq!(out(&c, 1, 1, KEY, 0, 0).await.status, Status::ReservationConflict);
        out(&a, 2, 6, KEY, 0, 0).await.good();
        assert_eq!(attention(&b).await, 0x2A04);
        ready(&a).await.good();
        ready(&c).await.good();
        out(&a, 4, 0, KEY, KEY + 1, 0).await.good();
        assert_eq!(attention(&b).await, 0x2A05);
        register(&b, KEY + 1, 0).await;
        out(&a, 3, 0, KEY, 0, 0).await.good();
        assert_eq!(attention(&b).await, 0x2A03);
        assert_eq!(rig.units[0].counters().reservation_conflicts, 3);
    });
}

/// Hosts start every path before they know which of them holds the reservation.
#[test]
fn a_start_is_allowed_under_any_reservation_and_a_stop_is_not() {
    Rig::run(1, |rig| async move {
        let (a, b) = (rig.host(1, &[0]).await, rig.host(2, &[0]).await);
        let start_stop = async |flags| send(&b, 0, &[0x1b, 0, 0, 0, flags, 0], &[]).await.status;
        register(&a, KEY, 0).await;
        for kind in [1, 3, 5, 6, 7, 8] {
            out(&a, 1, kind, KEY, 0, 0).await.good();
            assert_eq!(start_stop(1).await, Status::Good, "type {kind}");
            assert_eq!(start_stop(0).await, Status::ReservationConflict, "type {kind}");
            out(&a, 2, kind, KEY, 0, 0).await.good();
        }
        out(&a, 3, 0, KEY, 0, 0).await.good();
        send(&a, 0, &[0x16, 0, 0, 0, 0, 0], &[]).await.good();
        assert_eq!((start_stop(1).await, start_stop(0).await), (Status::Good, Status::ReservationConflict));
    });
}

#[test]
fn answers_are_cut_and_say_how_much_there_is() {
    Rig::run(1, |rig| async move {
        let a = rig.host(1, &[0]).await;
        register(&a, KEY, 0).await;
        assert_eq!(read_in(&a, 0, 8).await.good(), [0, 0, 0, 1, 0, 0, 0, 8]);
        assert_eq!(read_in(&a, 0, 255).await.good()[8..], KEY.to_be_bytes());
        assert_eq!(read_in(&a, 2, 255).await.good(), [0, 8, 0x1D, 0x90, 0xEA, 0x01, 0, 0]);
        assert_eq!(read_in(&a, 3, 255).await.good().len(), 8 + 24 + 44);
        assert_eq!(read_in(&a, 4, 255).await.failed(), (5, 0x2400));
        assert_eq!(out(&a, 8, 0, KEY, 0, 0).await.failed(), (5, 0x2400));
        assert_eq!(out(&a, 1, 2, KEY, 0, 0).await.failed(), (5, 0x2400));
        let short = send(&a, 0, &[0x5F, 6, 0, 0, 0, 0, 0, 0, 16, 0], &[0; 16]).await;
        assert_eq!(short.failed(), (5, 0x1A00));
        out(&a, 1, 1, KEY, 0, 0).await.good();
        assert_eq!(out(&a, 2, 3, KEY, 0, 0).await.failed(), (5, 0x2604));
    });
}

#[test]
fn reservations_with_aptpl_are_there_after_power_on() {
    Rig::run(1, |mut rig| async move {
        let a = rig.host(1, &[0]).await;
        register(&a, KEY, 1).await;
        out(&a, 1, 3, KEY, 0, 0).await.good();
        // The power goes: of the logical unit nothing is left but its disk.
        let (identity, disk) = (rig.units[0].identity().clone(), rig.units[0].disk().clone());
        drop(a);
        rig.units[0] = LogicalUnit::new(rig.world.clone(), identity, disk);
        let (a, b) = (rig.host(1, &[0]).await, rig.host(2, &[0]).await);
        assert_eq!((read(&a).await, read(&b).await), (Status::Good, Status::ReservationConflict));
        // A registration without APTPL ends that.
        register(&a, KEY, 0).await;
        let (identity, disk) = (rig.units[0].identity().clone(), rig.units[0].disk().clone());
        rig.units[0] = LogicalUnit::new(rig.world.clone(), identity, disk);
        let b = rig.host(2, &[0]).await;
        assert_eq!(read(&b).await, Status::Good);
    });
}

impl Rig {
    /// The process ends: of the logical unit nothing is left but its disk, with which another one begins.
    fn begins_again(&mut self, persistence: Persistence) {
        let (identity, disk) = (self.units[0].identity().clone(), self.units[0].disk().clone());
        self.units[0] =
            LogicalUnit::open(self.world.clone(), identity, disk, (Origin::Reopened, persistence));
    }
}

#[test]
fn at_several_nodes_each_reservation_that_was_acknowledged_is_there_at_the_next_one() {
    Rig::run(1, |mut rig| async move {
        rig.begins_again(Persistence::Always);
        let a = rig.host(1, &[0]).await;
        register(&a, KEY, 0).await;
        out(&a, 1, 3, KEY, 0, 0).await.good();
        let before = read_in(&a, 3, 255).await.good();
        rig.begins_again(Persistence::Always);
        let (a, b) = (rig.host(1, &[0]).await, rig.host(2, &[0]).await);
        assert_eq!((read(&a).await, read(&b).await), (Status::Good, Status::ReservationConflict));
        assert_eq!(read_in(&a, 3, 255).await.good(), before, "PRgeneration, too");
        // The array is one of one process from now on: what was not asked for has ended, for good.
        rig.begins_again(Persistence::AsAsked);
        let a = rig.host(1, &[0]).await;
        assert_eq!(read_in(&a, 0, 8).await.good(), [0; 8]);
        register(&a, KEY, 0).await;
        out(&a, 3, 0, KEY, 0, 0).await.good();
        rig.begins_again(Persistence::Always);
        assert_eq!(read_in(&rig.host(2, &[0]).await, 0, 8).await.good(), [0; 8]);
    });
}

#[test]
fn reserve_goes_with_its_nexus_and_with_a_reset() {
    Rig::run(1, |rig| async move {
        let (a, b) = (rig.host(1, &[0]).await, rig.host(2, &[0]).await);
        send(&a, 0, &[0x16, 0, 0, 0, 0, 0], &[]).await.good();
        assert_eq!(ready(&b).await.status, Status::ReservationConflict);
        assert_eq!(send(&b, 0, &[0x16, 0, 0, 0, 0, 0], &[]).await.status, Status::ReservationConflict);
        send(&b, 0, &[0x12, 0, 0, 0, 36, 0], &[]).await.good();
        send(&b, 0, &[0x17, 0, 0, 0, 0, 0], &[]).await.good();
        assert_eq!(write(&b).await, Status::ReservationConflict, "RELEASE by another nexus has no effect");
        drop(a);
        assert_eq!(write(&b).await, Status::Good);
        send(&b, 0, &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]).await.good();
        let c = rig.host(3, &[]).await;
        c.map(crate::Lun(0), rig.units[0].clone());
        b.manage(crate::TaskFunction::LunReset(crate::Lun(0))).await;
        while ready(&c).await.status == Status::CheckCondition {}
        assert_eq!(write(&c).await, Status::Good);
    });
}

#[test]
fn preempt_and_abort_ends_the_commands_of_the_preempted() {
    Rig::run(1, |rig| async move {
        let (a, b) = (rig.host(1, &[0]).await, rig.host(2, &[0]).await);
        register(&a, KEY, 0).await;
        register(&b, KEY + 1, 0).await;
        // A command of B waits for a range that somebody holds.
        let held = rig.units[0].locks.exclusive(0..u64::MAX).await;
        let stuck = std::rc::Rc::new(std::cell::Cell::new(None));
        let (b, seen) = (std::rc::Rc::new(b), stuck.clone());
        let sender = b.clone();
        rig.world.spawn(async move {
            let cdb = [0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
            let request = crate::Request::new(cdb, Pieces::copy_of(&[9; 512]), 0);
            seen.set(Some(sender.execute(Some(crate::Lun(0)), request).await.aborted));
        });
        let world = rig.world.clone();
        let release = rig.units[0].clone();
        rig.world.sleep(Duration::from_millis(1)).await;
        assert_eq!(release.tasks.abort(None, None, |id| id == NexusId(99)), 0);
        // The lock goes when the preemption is under way; it must wait for the end of B's command.
        let ranges_held = std::cell::RefCell::new(Some(held));
        let preempt = out(&a, 5, 0, KEY, KEY + 1, 0);
        let unlock = async {
            world.sleep(Duration::from_millis(1)).await;
            drop(ranges_held.borrow_mut().take());
        };
        let (mut preempt, mut unlock) = (std::pin::pin!(preempt), std::pin::pin!(unlock));
        let mut unlocked = false;
        let answer = std::future::poll_fn(|cx| {
            unlocked = unlocked || unlock.as_mut().poll(cx).is_ready();
            preempt.as_mut().poll(cx)
        })
        .await;
        answer.good();
        assert!(unlocked && stuck.get() == Some(true), "B's write was aborted before the command ended");
        assert!(rig.holds(0, 0, 1, 0).await);
        assert_eq!(attention(&b).await, 0x2A05);
    });
}
