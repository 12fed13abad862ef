//! A controller ends, and another one begins in its place, while hosts use its logical units at other ports.

use std::sync::Arc;
use std::time::Duration;

use block::Pieces;
use futures::future::{Either, join, select};
use scsi::Status;

use super::two_controllers::{BLOCK, Host, Rig, config};
use crate::control::{Control, Reply};
use crate::mailbox::Message;
use crate::{Began, Config, answer_for_absent};

const WRITE: u8 = 0x8a;
const READ: u8 = 0x88;
const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];

fn block(byte: u8) -> Pieces {
    Pieces::copy_of(&[byte; BLOCK as usize])
}

/// Reads one block; a unit attention is heard.
async fn read(host: &Host, lun: u16) -> Pieces {
    while host.send(lun, &[0; 6], Pieces::new(), 0).await.status == Status::CheckCondition {}
    host.transfer(READ, lun, 0, Pieces::new(), BLOCK).await
}

#[test]
fn another_controller_goes_on_with_what_waits_and_has_what_was_written() {
    Rig::run_in_one_process(async |mut rig| {
        let host = rig.host("a", 0, 2).await;
        host.transfer(WRITE, 1, 0, block(1), BLOCK).await;
        rig.end(1).await;
        assert_eq!(
            host.transfer(READ, 0, 0, Pieces::new(), BLOCK).await.len(),
            BLOCK as usize,
            "v0 is served"
        );
        // Nobody runs the controller: the command waits, and is not refused. What was in memory alone is
        // gone: POWER ON OCCURRED.
        let (waiting, ()) = join(host.outcome(1, &[0; 6]), rig.begin(1)).await;
        assert_eq!(waiting, (Status::CheckCondition, Some((6, 0x2900))));
        assert_eq!(host.transfer(READ, 1, 0, Pieces::new(), BLOCK).await.first_difference(&block(1)), None);
        host.transfer(WRITE, 1, 0, block(2), BLOCK).await;
        let other = rig.host("b", 1, 4).await;
        assert_eq!(read(&other, 1).await.first_difference(&block(2)), None, "at the port of the new one");
    });
}

#[test]
fn sessions_at_its_ports_are_forgotten_with_what_they_reserve() {
    Rig::run_in_one_process(async |mut rig| {
        let holder = rig.host("b", 1, 4).await;
        assert_eq!(holder.send(0, &RESERVE, Pieces::new(), 0).await.status, Status::Good);
        let host = rig.host("a", 0, 0).await;
        let blocked = async || {
            let write = host.send(0, &[0x0a, 0, 0, 0, 1, 0], block(3), 0).await;
            write.status == Status::ReservationConflict
        };
        while host.send(0, &[0; 6], Pieces::new(), 0).await.status == Status::CheckCondition {}
        assert!(blocked().await, "reserved");
        rig.end(1).await;
        assert!(blocked().await, "its controller may only have been slow");
        rig.begin(1).await;
        assert!(!blocked().await, "its session is gone");
        // A session of the new controller is not taken for one of the old.
        let again = rig.host("b", 1, 4).await;
        assert_eq!(again.send(0, &RESERVE, Pieces::new(), 0).await.status, Status::Good);
        assert!(blocked().await);
    });
}

#[test]
fn while_no_controller_runs_hosts_hear_busy_and_the_status_says_why() {
    Rig::run_in_one_process(async |mut rig| {
        let host = rig.host("a", 0, 2).await;
        rig.end(1).await;
        let (mailbox, config) = (rig.mailbox(1).clone(), Arc::new(config()));
        let absent = answer_for_absent(&mailbox, 1, &config, "node n2 is gone");
        let look = async {
            let response = host.send(1, &[0; 6], Pieces::new(), 0).await;
            assert_eq!(response.status, Status::Busy);
            let parts = rig.array.status().await.expect("a status");
            let missing: Vec<_> = parts[1].missing.iter().map(|m| (&*m.name, &*m.cause)).collect();
            let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, ["g1", "p1", "v1", "w1"]);
            assert!(missing.iter().all(|(_, cause)| *cause == "node n2 is gone"));
            let config = rig.array.config().clone();
            let refused = rig.array.apply(config).await.expect_err("not all can follow").to_string();
            assert!(refused.contains("node n2 is gone") && !refused.contains("undone"), "{refused}");
            rig.world.sleep(Duration::from_secs(1)).await;
        };
        match select(std::pin::pin!(absent), std::pin::pin!(look)).await {
            Either::Left(_) => panic!("it ended"),
            Either::Right(_) => {}
        }
        rig.begin(1).await;
        assert_eq!(read(&host, 1).await.len(), BLOCK as usize);
        let parts = rig.array.status().await.expect("a status");
        assert!(parts[1].missing.is_empty() && parts[1].pools.len() == 1);
    });
}

/// It stayed closed at both: what the other controller was to give back, nobody answered for.
#[test]
fn a_pool_that_is_to_move_to_a_controller_that_is_gone_stays_where_it_is() {
    Rig::run_in_one_process(async |mut rig| {
        let host = rig.host("a", 0, 1).await;
        host.transfer(WRITE, 0, 0, block(1), BLOCK).await;
        rig.end(1).await;
        let (mailbox, config) = (rig.mailbox(1).clone(), Arc::new(config()));
        let absent = answer_for_absent(&mailbox, 1, &config, "node n2 is gone");
        let moves = async {
            let refused = rig.array.move_pool("p0", 1).await.expect_err("nobody opens it there");
            assert!(refused.to_string().contains("node n2 is gone"), "{refused}");
            // The ports' states have changed, and changed back.
            let heard = host.outcome(0, &[0; 6]).await;
            assert!(heard.1.is_none_or(|(key, _)| key == 6), "it is served here: {heard:?}");
            assert_eq!(read(&host, 0).await.first_difference(&block(1)), None);
            let drives = |of| rig.array.openers().part(&[of]).drives.len();
            assert_eq!((drives(0), drives(1)), (1, 1), "each has its own");
        };
        if let Either::Left(_) = select(std::pin::pin!(absent), std::pin::pin!(moves)).await {
            panic!("it ended");
        }
    });
}

/// The controller may have opened it before it was gone: until its drives are taken from it, nobody else
/// does.
#[test]
fn a_pool_whose_new_controller_is_gone_in_the_middle_is_opened_when_that_begins_anew() {
    Rig::run_in_one_process(async |mut rig| {
        let host = rig.host("a", 0, 1).await;
        host.transfer(WRITE, 0, 0, block(1), BLOCK).await;
        rig.end(1).await;
        let (mailbox, config) = (rig.mailbox(1).clone(), Arc::new(config()));
        let gone = async {
            while let Some(message) = mailbox.next().await {
                match message {
                    Message::Control(Control::Prepare { .. }, _) => break,
                    Message::Control(_, reply) => _ = reply.send(Ok(Reply::Done(vec![]))),
                    _ => {}
                }
            }
            answer_for_absent(&mailbox, 1, &config, "node n2 is gone").await;
        };
        let moves = async {
            rig.array.move_pool("p0", 1).await.expect_err("without an answer");
            let drives = |of| rig.array.openers().part(&[of]).drives.len();
            assert_eq!((drives(0), drives(1)), (1, 2), "those of both pools are to be fenced");
            let same = rig.array.config().clone();
            let refused = rig.array.apply(same).await.expect_err("it would open the pool").to_string();
            assert!(refused.contains("not free yet"), "{refused}");
        };
        if let Either::Left(_) = select(std::pin::pin!(gone), std::pin::pin!(moves)).await {
            panic!("it ended");
        }
        // Nobody has opened it: commands wait.
        let (waiting, ()) = join(host.outcome(0, &[0; 6]), rig.begin(1)).await;
        assert!(waiting.1.is_none_or(|(key, _)| key == 6), "a unit attention at most: {waiting:?}");
        assert_eq!(read(&host, 0).await.first_difference(&block(1)), None);
        let drives = |of| rig.array.openers().part(&[of]).drives.len();
        assert_eq!((drives(0), drives(1)), (1, 1));
    });
}

/// Another pool moved before it was told to open its own: it showed what was declared, and had opened none of
/// it.
#[test]
fn a_controller_that_begins_anew_serves_nothing_before_it_has_opened_its_pools() {
    Rig::run_in_one_process(async |mut rig| {
        let host = rig.host("a", 0, 2).await;
        rig.end(1).await;
        rig.start_anew(1);
        let commit = Control::Commit(Arc::new(config()));
        rig.array.controllers()[1].ask(commit).await.expect("it is not for it");
        let (waiting, brought) = join(host.outcome(1, &[0; 6]), rig.array.bring_up(1)).await;
        assert_eq!(waiting, (Status::CheckCondition, Some((6, 0x2900))), "POWER ON OCCURRED");
        assert!(brought.is_ok());
    });
}

/// It waited for controllers that had stopped, and with it the end of the process.
#[test]
fn a_change_of_place_that_comes_after_the_stop_is_refused() {
    Rig::run_in_one_process(async |mut rig| {
        rig.array.stop().await.expect("stopped");
        let changed = rig.array.change_places(&[1], async || panic!("nothing has ended")).await;
        assert!(changed.is_err());
        assert!(rig.array.bring_up(1).await.is_err());
    });
}

/// A node that was to run a controller waited for its drives, and nothing of the array could change
/// meanwhile.
#[test]
fn the_array_changes_while_a_controller_waits_to_begin_and_its_hosts_go_on_with_what_they_reserved() {
    Rig::run_in_one_process(async |mut rig| {
        let (holder, host) = (rig.host("b", 0, 4).await, rig.host("a", 0, 0).await);
        assert_eq!(holder.send(1, &RESERVE, Pieces::new(), 0).await.status, Status::Good);
        while host.send(1, &[0; 6], Pieces::new(), 0).await.status == Status::CheckCondition {}
        let closed = rig.array.change_places(&[1], async || Began::Later).await.expect("closed");
        let closed = closed.expect("it is to begin");
        let (mailbox, config) = (rig.mailbox(1).clone(), Arc::new(config()));
        let absent = answer_for_absent(&mailbox, 1, &config, "its node waits for its drives");
        let mut waiting = std::pin::pin!(host.send(1, &[0x0a, 0, 0, 0, 1, 0], block(3), 0));
        let changes = async {
            // Another change lets go of what waits for it, and not of what waits for this controller.
            let refused = rig.array.move_pool("p0", 1).await.expect_err("nobody opens it there");
            assert!(refused.to_string().contains("its node waits"), "{refused}");
            read(&host, 0).await;
            rig.world.sleep(Duration::from_secs(1)).await;
        };
        {
            let (absent, changes) = (std::pin::pin!(absent), std::pin::pin!(changes));
            match select(absent, select(&mut waiting, changes)).await {
                Either::Left(_) => panic!("it ended"),
                Either::Right((Either::Left(_), _)) => panic!("the command was answered, and nobody serves"),
                Either::Right((Either::Right(_), _)) => {}
            }
        }
        let (waiting, begun) = join(waiting, rig.begin_left(closed)).await;
        begun.expect("it opens its pool");
        let mut waiting = waiting.status;
        while waiting == Status::CheckCondition {
            waiting = host.send(1, &[0x0a, 0, 0, 0, 1, 0], block(3), 0).await.status;
        }
        assert_eq!(waiting, Status::ReservationConflict, "what was in memory came along");
        rig.array.move_pool("p0", 1).await.expect("moved");
    });
}

/// It was started, and nobody told it to stop: the end of the process waited for it.
#[test]
fn a_controller_that_waits_to_begin_does_not_when_the_array_has_stopped() {
    Rig::run_in_one_process(async |mut rig| {
        let closed = rig.array.change_places(&[1], async || Began::Later).await.expect("closed");
        let (mailbox, config) = (rig.mailbox(1).clone(), Arc::new(config()));
        let absent = answer_for_absent(&mailbox, 1, &config, "its node waits for its drives");
        let stop = async { rig.array.stop().await.expect("stopped") };
        if let Either::Left(_) = select(std::pin::pin!(absent), std::pin::pin!(stop)).await {
            panic!("it ended");
        }
        let begun = rig.array.begin_places(closed.expect("it is to begin"), async || panic!("begun")).await;
        assert!(begun.is_err());
    });
}

/// The volumes were held at the controllers that had answered before, until the next move.
#[test]
fn a_move_that_a_lost_node_interrupts_says_so_and_hosts_go_on() {
    let config = Config { controller_nodes: vec!["n1".into(), "n2".into()], ..config() };
    Rig::run_with(config, None, |mut rig| async move {
        let host = rig.host("a", 0, 1).await;
        rig.lose(1);
        let refused = rig.array.move_pool("p0", 1).await.expect_err("nobody opens it").to_string();
        assert!(refused.starts_with("pool \"p0\": not moved: node n2, which runs controller 1"), "{refused}");
        let write = host.transfer(WRITE, 0, 0, block(1), BLOCK);
        match select(std::pin::pin!(write), std::pin::pin!(rig.world.sleep(Duration::from_secs(60)))).await {
            Either::Left(_) => {}
            Either::Right(_) => panic!("the host waits for ever"),
        }
    });
}
