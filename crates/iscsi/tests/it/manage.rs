//! Task management, task attributes, command order.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Done, Error, Options, Session};
use iscsi::pdu::{FINAL, Header, IMMEDIATE, NopIn, NopOut, ScsiCommand, TAG_NONE, function, opcode, outcome};
use iscsi::target::Limits;
use scsi::{Lun, TaskAttribute, TaskFunction};

use crate::ram::SLOW_READ;
use crate::raw::Raw;
use crate::rig::{READ, Rig, cdb10, check};

type Outcome = Rc<RefCell<Option<Result<Done, Error>>>>;

/// Starts a read that does not end until the memory is released.
async fn slow_read(rig: &Rig, session: &Session) -> Outcome {
    let (outcome, session) = (Outcome::default(), session.clone());
    let result = outcome.clone();
    rig.world.spawn(async move {
        let done = session.command(Lun(0), cdb10(SLOW_READ, 0, 1), Pieces::new(), 512).await;
        *result.borrow_mut() = Some(done);
    });
    rig.sleep_ms(50).await;
    outcome
}

#[test]
fn abort_task_suppresses_the_response_and_waits() {
    check(|rig| async move {
        rig.ram.holds.set(true);
        let session = rig.session(1).await;
        let outcome = slow_read(&rig, &session).await;
        let tag = session.tags()[0];
        let (world, ram) = (rig.world.clone(), rig.ram.clone());
        rig.world.spawn(async move {
            world.sleep(std::time::Duration::from_secs(2)).await;
            ram.release();
        });
        let before = rig.world.now();
        assert_eq!(session.abort_task(Lun(0), tag).await, Ok(outcome::COMPLETE));
        assert!(rig.world.now().since(before).as_secs() >= 1, "answered before the task had ended");
        rig.sleep_ms(1000).await;
        assert!(outcome.borrow().is_none(), "an aborted task is not answered");
        assert_eq!(session.abort_task(Lun(0), 0x1234_5678).await, Ok(outcome::NO_SUCH_TASK));
        // The slot and its place in the window are free: a whole window of commands goes through.
        for _ in 0..300 {
            let done =
                session.command(Lun(0), cdb10(READ, 0, 1), Pieces::new(), 512).await.expect("an answer");
            assert!(done.is_good());
        }
    });
}

/// A command holds its session, which has its slot, which holds the command: a simulation of thousands of
/// lives grew by 10 MB with each.
#[test]
fn nothing_is_left_of_a_session_whose_executor_ends_in_the_middle_of_a_command() {
    let left = Rc::new(RefCell::new(None));
    check(|rig| {
        let left = left.clone();
        async move {
            rig.ram.holds.set(true);
            let session = rig.session(1).await;
            let outcome = slow_read(&rig, &session).await;
            assert!(outcome.borrow().is_none() && rig.ram.nexuses.get() == 1);
            *left.borrow_mut() = Some(rig.ram.clone());
        }
    });
    let ram = left.take().expect("the test has run");
    assert_eq!(ram.nexuses.get(), 0);
}

#[test]
fn sets_and_resets_reach_the_array_and_abort_own_tasks() {
    check(|rig| async move {
        let session = rig.session(1).await;
        for (code, want) in [
            (function::ABORT_TASK_SET, TaskFunction::AbortTaskSet(Lun(0))),
            (function::CLEAR_TASK_SET, TaskFunction::ClearTaskSet(Lun(0))),
            (function::LUN_RESET, TaskFunction::LunReset(Lun(0))),
            (function::TARGET_WARM_RESET, TaskFunction::TargetReset),
        ] {
            rig.ram.holds.set(true);
            let outcome = slow_read(&rig, &session).await;
            let (world, ram) = (rig.world.clone(), rig.ram.clone());
            rig.world.spawn(async move {
                world.sleep(std::time::Duration::from_secs(1)).await;
                ram.release();
            });
            assert_eq!(session.task_function(code, Lun(0)).await, Ok(outcome::COMPLETE));
            assert_eq!(rig.ram.managed.borrow_mut().pop(), Some(want));
            assert!(outcome.borrow().is_none());
        }
        for (code, lun, want) in [
            (function::LUN_RESET, 5, outcome::NO_SUCH_LUN),
            (function::CLEAR_ACA, 0, outcome::NOT_SUPPORTED),
            (function::TASK_REASSIGN, 0, outcome::REASSIGN_NOT_SUPPORTED),
            (99, 0, outcome::NOT_SUPPORTED),
        ] {
            assert_eq!(session.task_function(code, Lun(lun)).await, Ok(want), "function {code}");
        }
    });
}

#[test]
fn a_cold_reset_ends_the_sessions_of_who_asks_for_it() {
    check(|rig| async move {
        let (one, two) = (rig.session(1).await, rig.session(2).await);
        let other = Options { initiator: "iqn.2026-01.example.host:two".into(), ..rig.options(1) };
        let other = rig.login(&other).await.expect("another host");
        for reset in [function::TARGET_WARM_RESET, function::TARGET_COLD_RESET] {
            assert_eq!(one.task_function(reset, Lun(0)).await, Ok(outcome::COMPLETE));
        }
        rig.wait_until("both sessions' end", || one.error().is_some() && two.error().is_some()).await;
        assert_eq!(rig.ram.nexuses.get(), 1);
        rig.sleep_ms(10_000).await;
        assert_eq!(other.error(), None, "another host's session goes on");
        other.ping(b"here").await.expect("an answer");
        rig.session(1).await.ping(b"again").await.expect("a new session");
    });
}

/// A session was ended as soon as another one of its initiator had reset the target: a task management
/// function that it waited for (its own reset, beside one that ended at once) had no response.
#[test]
fn a_cold_reset_leaves_no_task_management_function_of_the_initiator_without_its_response() {
    check(|rig| async move {
        let (one, two) = (rig.session(1).await, rig.session(2).await);
        rig.ram.holds.set(true);
        let _read = slow_read(&rig, &two).await;
        let answer = Rc::new(RefCell::new(None));
        let (told, waiting) = (answer.clone(), two.clone());
        rig.world.spawn(async move {
            let response = waiting.task_function(function::TARGET_COLD_RESET, Lun(0)).await;
            *told.borrow_mut() = Some(response);
        });
        rig.sleep_ms(100).await;
        assert!(answer.borrow().is_none(), "it waits for the read");
        assert_eq!(one.task_function(function::TARGET_COLD_RESET, Lun(0)).await, Ok(outcome::COMPLETE));
        rig.sleep_ms(500).await;
        rig.ram.release();
        rig.wait_until("both sessions' end", || one.error().is_some() && two.error().is_some()).await;
        assert_eq!(*answer.borrow(), Some(Ok(outcome::COMPLETE)));
    });
}

/// A command marked with a number, with an attribute.
fn marked(raw: &mut Raw, mark: u8, attribute: u8, code: u8) -> [u8; 48] {
    let mut cdb = cdb10(code, 0, 1);
    cdb[15] = mark;
    raw.command(mark.into(), cdb, ScsiCommand::READ | attribute, 512)
}

#[test]
fn ordered_tasks_keep_their_place() {
    check(|rig| async move {
        rig.ram.holds.set(true);
        let mut raw = Raw::login(&rig, 9, "").await;
        let commands = [
            marked(&mut raw, 1, 1, SLOW_READ),
            marked(&mut raw, 2, 2, READ),
            marked(&mut raw, 3, 1, READ),
            marked(&mut raw, 4, 3, READ),
        ];
        for command in &commands {
            raw.send_pdu(command, &[]).await;
        }
        rig.sleep_ms(500).await;
        let so_far: Vec<u8> = rig.ram.order.borrow().iter().map(|o| o.0).collect();
        assert_eq!(so_far, [4], "only the head of the queue passes");
        rig.ram.release();
        for _ in 0..4 {
            raw.next().await.expect("an answer");
        }
        let order = rig.ram.order.borrow().clone();
        assert_eq!(order.iter().map(|o| o.0).collect::<Vec<_>>(), [4, 1, 2, 3]);
        assert_eq!(order[2].1, TaskAttribute::Ordered);
        assert_eq!(order[0].1, TaskAttribute::HeadOfQueue);
    });
}

#[test]
fn command_numbers_order_commands_and_bound_the_window() {
    check(|rig| async move {
        let mut raw = Raw::login(&rig, 9, "").await;
        let [a, b, c] = [1, 2, 3].map(|mark| marked(&mut raw, mark, 1, READ));
        let at = |header: [u8; 48], cmd_sn: u32| {
            let mut header = header;
            header[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
            header
        };
        // Too high, too low, and twice: no word of it.
        raw.send_pdu(&at(a, 1 + 128), &[]).await;
        raw.send_pdu(&at(a, 0), &[]).await;
        rig.sleep_ms(3000).await;
        assert_eq!(rig.ram.order.borrow().len(), 0);
        // Out of turn: the third, the second twice, then the first.
        for header in [&c, &b, &b, &a] {
            raw.send_pdu(header, &[]).await;
        }
        // Simple tasks may end in any order.
        let mut tags = Vec::new();
        for _ in 0..3 {
            tags.push(raw.next().await.expect("an answer").header::<NopIn>().itt.get());
        }
        tags.sort_unstable();
        assert_eq!(tags, [1, 2, 3]);
        assert_eq!(rig.portal.counts().ignored, 2);
    });
}

#[test]
fn pings_go_both_ways() {
    check(|rig| async move {
        let session = rig.session(1).await;
        assert_eq!(session.ping(&[7; 5000]).await.expect("an answer").len(), 5000);
        // Silent, but there: the initiator answers the target's pings.
        rig.sleep_ms(300_000).await;
        assert!(session.error().is_none());
        // Silent and not there: asked once, then dropped.
        let mut raw = Raw::login(&rig, 9, "").await;
        let before = rig.world.now();
        let ping = raw.next().await.expect("a ping");
        assert_eq!(ping.opcode(), opcode::NOP_IN);
        assert_ne!(ping.header::<NopIn>().ttt.get(), TAG_NONE);
        assert!(raw.next().await.is_none(), "dropped");
        let (waited, limits) = (rig.world.now().since(before), Limits::default());
        let allowed = limits.ping_after + limits.ping_time;
        assert!(
            (allowed..allowed + Duration::from_secs(5)).contains(&(waited + Duration::from_secs(1))),
            "{waited:?}"
        );
    });
}

#[test]
fn too_many_immediate_commands_are_rejected() {
    check(|rig| async move {
        rig.ram.holds.set(true);
        let mut raw = Raw::login(&rig, 9, "").await;
        for i in 0..20u8 {
            let mut header = marked(&mut raw, i + 1, 1, SLOW_READ);
            header[0] |= IMMEDIATE;
            raw.send_pdu(&header, &[]).await;
        }
        for _ in 0..4 {
            let reject = raw.next().await.expect("a reject");
            assert_eq!((reject.opcode(), reject.bhs[2]), (opcode::REJECT, 6));
        }
        let nop = NopOut {
            opcode: IMMEDIATE,
            flags: FINAL,
            itt: 99.into(),
            ttt: TAG_NONE.into(),
            ..NopOut::default()
        };
        raw.send_pdu(nop.bytes(), b"still there").await;
        assert_eq!(raw.next().await.expect("an answer").data, b"still there");
        rig.ram.release();
    });
}
