//! Commands that were at their transport when something happened to their logical unit: each arrives
//! ([`request`]), then that happens, and only then it is executed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::host_view::{CopyAnswer, CopyRequest, Elsewhere, HostView, Owner, Remote};
use crate::request::{Response, Status, TaskFunction, TaskOutcome};
use crate::reservation::Persistence;
use crate::sense::Format;

const WRITE: &str = "2a 00 00000000 00 0001 00";
const READ: &str = "28 00 00000000 00 0001 00";

fn write() -> Request {
    request(WRITE, &pattern(0x40, 1))
}

async fn ends(host: &View<ThinMemory>, request: Request) -> String {
    send(host, 0, request).await.0
}

/// Whether nothing was written to the first block.
async fn is_untouched(host: &View<ThinMemory>) -> bool {
    check(host, READ, &[], "good").await == [0; BLOCK]
}

fn another(b: &Bench) -> Rc<LogicalUnit<ThinMemory>> {
    let disk = ThinMemory::new(BLOCKS * BLOCK as u64, BLOCK as u32, PAGE);
    LogicalUnit::new(b.world.clone(), Identity::of(0x1234_5678_9abc, 8), disk)
}

#[test]
fn a_write_does_not_reach_the_unit_that_has_taken_its_lun() {
    bench(async |b| {
        let host = b.host(1).await;
        let other = another(&b);
        let (swapped, inquiry) = (write(), request("12 00 00 0024 00", &[]));
        host.change(&[Lun(0)], BTreeMap::from([(Lun(0), other.clone())]));
        assert_eq!(ends(&host, swapped).await, "5/2500");
        assert_eq!(ends(&host, inquiry).await, "good", "it asks what is there");
        for attention in ["6/2900", "6/3f03", "6/3f0e"] {
            check(&host, "00", &[], attention).await;
        }
        assert!(is_untouched(&host).await);
        check(&host, WRITE, &pattern(1, 1), "good").await;

        // Between the two the LUN was empty; and then the first one comes back.
        let one = write();
        host.unmap(Lun(0));
        let (two, three) = (write(), write());
        assert_eq!(ends(&host, two).await, "5/2500");
        host.map(Lun(0), b.lu.clone());
        for late in [one, three] {
            assert_eq!(ends(&host, late).await, "5/2500");
        }
        let fourth = write();
        host.unmap(Lun(0));
        host.map(Lun(0), b.lu.clone());
        assert_eq!(ends(&host, fourth).await, "5/2500", "the host has lost it meanwhile");
        for attention in ["6/2900", "6/3f0e"] {
            check(&host, "00", &[], attention).await;
        }
        assert!(is_untouched(&host).await);
    });
}

#[test]
fn a_unit_that_moves_while_it_is_held_takes_its_commands_along() {
    bench(async |b| {
        let host = b.host(1).await;
        let moving = write();
        host.hold([Lun(0)].into());
        host.move_out(Lun(0));
        let elsewhere =
            vec![Elsewhere { lun: Lun(0), key: b.lu.identity.key, block_bytes: 512, owner: None }];
        host.set_elsewhere(elsewhere);
        let state = b.lu.move_out();
        let moved = LogicalUnit::moved_in(
            b.world.clone(),
            b.lu.identity.clone(),
            b.disk.clone(),
            (state, Persistence::AsAsked),
        );
        host.map(Lun(0), moved);
        host.set_elsewhere(Vec::new());
        host.hold([].into());
        check(&host, "00", &[], "6/2a06").await;
        assert_eq!(ends(&host, moving).await, "good");
    });
}

#[test]
fn the_list_of_luns_has_changed_when_a_unit_of_another_controller_is_another_one() {
    bench(async |b| {
        let host = b.host(1).await;
        let unit = |key| vec![Elsewhere { lun: Lun(2), key, block_bytes: 512, owner: None }];
        host.set_elsewhere(unit(70));
        check(&host, "00", &[], "6/3f0e").await;
        host.set_elsewhere(unit(70));
        check(&host, "00", &[], "good").await;
        host.set_elsewhere(unit(71));
        check(&host, "00", &[], "6/3f0e").await;
    });
}

#[test]
fn resets_and_clear_task_set_reach_commands_of_others_that_are_not_in_the_task_set_yet() {
    bench(async |b| {
        let (one, two) = (b.host(1).await, b.host(2).await);
        for (function, attention) in [
            (TaskFunction::ClearTaskSet(Lun(0)), "6/2f00"),
            (TaskFunction::LunReset(Lun(0)), "6/2903"),
            (TaskFunction::TargetReset, "6/2900"),
        ] {
            let (late, later) = (write(), write());
            one.manage(function).await;
            assert_eq!(ends(&two, late).await, "aborted", "{function:?}");
            check(&two, "00", &[], attention).await;
            assert_eq!(ends(&two, later).await, "aborted", "{function:?}");
            assert!(is_untouched(&two).await, "one unit attention, and nothing is written");
            // Its own transport knows which of its commands are older.
            let _ = ends(&one, request("00", &[])).await;
        }
        check(&two, WRITE, &pattern(1, 1), "good").await;
    });
}

#[test]
fn a_reset_reaches_commands_of_the_same_host_at_another_lun_of_the_unit() {
    bench(async |b| {
        let host = b.host(1).await;
        host.map(Lun(1), b.lu.clone());
        let heard = async || {
            for lun in [0, 1] {
                while send(&host, lun, request("00", &[])).await.0 != "good" {}
            }
        };
        heard().await;
        for function in [TaskFunction::LunReset(Lun(0)), TaskFunction::ClearTaskSet(Lun(0))] {
            let late = write();
            host.manage(function).await;
            assert_eq!(send(&host, 1, late).await.0, "aborted", "{function:?}");
            heard().await;
            assert!(is_untouched(&host).await);
        }
        // A target reset is for all of its commands: the transport has aborted those of both LUNs.
        let newer = write();
        host.manage(TaskFunction::TargetReset).await;
        heard().await;
        assert_eq!(send(&host, 1, newer).await.0, "good");
    });
}

/// The owner of the logical units of another view.
struct Other(Rc<View<ThinMemory>>);

impl Owner for Other {
    fn execute(&self, lun: Lun, request: Request) -> Remote<Response> {
        let view = self.0.clone();
        Box::pin(async move { view.execute(Some(lun), request).await })
    }

    fn copy(&self, _: CopyRequest) -> Remote<Option<CopyAnswer>> {
        Box::pin(async { None })
    }

    fn manage(&self, function: TaskFunction) -> Remote<TaskOutcome> {
        let view = self.0.clone();
        Box::pin(async move { view.manage(function).await })
    }

    fn end(&self) {
        self.0.end_nexus();
    }
}

#[test]
fn a_port_refuses_in_the_format_of_a_unit_of_another_controller() {
    bench(async |b| {
        let (near, far) = (b.host(1).await, Rc::new(b.host(2).await));
        let another_host = b.host(3).await;
        near.unmap(Lun(0));
        let unit = |key| {
            let owner: Rc<dyn Owner> = Rc::new(Other(far.clone()));
            vec![Elsewhere { lun: Lun(0), key, block_bytes: 512, owner: Some(owner) }]
        };
        near.set_elsewhere(unit(b.lu.identity.key));
        while send(&near, 0, request("00", &[])).await.0 != "good" {}
        assert_eq!(near.sense_format(Some(Lun(0))), Format::Fixed);
        let select = |d_sense: u8| {
            let page = hex(&format!("00000000 0a0a {d_sense:02x} 10 00 00 0000 0000 0000"));
            request("15 10 00 00 10 00", &page)
        };
        assert_eq!(near.execute(Some(Lun(0)), select(4)).await.status, Status::Good);
        assert_eq!(near.sense_format(Some(Lun(0))), Format::Descriptor, "its own MODE SELECT");
        // That of another host raises a unit attention.
        assert_eq!(another_host.execute(Some(Lun(0)), select(0)).await.status, Status::CheckCondition);
        assert_eq!(another_host.execute(Some(Lun(0)), select(0)).await.status, Status::Good);
        assert_eq!(near.execute(Some(Lun(0)), request("00", &[])).await.sense[0], 0x70);
        assert_eq!(near.sense_format(Some(Lun(0))), Format::Fixed);
        assert_eq!(near.execute(Some(Lun(0)), select(4)).await.status, Status::Good);
        // What was sent to another logical unit is refused by this one, in its format.
        let late = write();
        near.set_elsewhere(vec![]);
        near.set_elsewhere(unit(b.lu.identity.key));
        let refused = near.execute(Some(Lun(0)), late).await;
        assert_eq!(refused.sense[..4], [0x72, 5, 0x25, 0], "{:02x?}", refused.sense);
        near.set_elsewhere(unit(1));
        assert_eq!(near.sense_format(Some(Lun(0))), Format::Fixed, "nothing is known of that one");
    });
}

#[test]
fn a_command_that_is_overtaken_is_told_when_the_control_page_says_so() {
    bench(async |b| {
        let (one, two) = (b.host(1).await, b.host(2).await);
        check(&one, "15 10 00 00 10 00", &hex("00000000 0a0a 00 10 00 40 0000 0000 0000"), "good").await;
        check(&two, "00", &[], "6/2a01").await;
        let late = write();
        // The reset restores the page.
        one.manage(TaskFunction::LunReset(Lun(0))).await;
        assert_eq!(ends(&two, late).await, "TaskAborted");
    });
}

#[test]
fn preempt_and_abort_reaches_commands_that_are_not_in_the_task_set_yet() {
    bench(async |b| {
        let (one, two, three) = (b.host(1).await, b.host(2).await, b.host(3).await);
        let out = |action: u8, key: u64, of: u64| {
            let cdb = format!("5f {action:02x} 00 00 00 00 00 0018 00");
            request(&cdb, &[&key.to_be_bytes()[..], &of.to_be_bytes(), &[0; 8]].concat())
        };
        for (host, key) in [(&one, 0xa1), (&two, 0xb2)] {
            assert_eq!(ends(host, out(6, 0, key)).await, "good");
        }
        let (late, of_another) = (write(), request("2a 00 00000009 00 0001 00", &pattern(1, 1)));
        assert_eq!(ends(&one, out(5, 0xa1, 0xb2)).await, "good");
        assert_eq!(ends(&two, late).await, "aborted");
        check(&two, "00", &[], "6/2a05").await;
        assert!(is_untouched(&two).await);
        assert_eq!(ends(&three, of_another).await, "good");
        check(&two, WRITE, &pattern(1, 1), "good").await;
    });
}

#[test]
fn a_command_is_answered_when_its_lun_is_taken_away_and_not_when_its_session_ends() {
    bench(async |b| {
        for (ends_session, want) in [(false, "5/2500"), (true, "aborted")] {
            let host = Rc::new(b.host(1).await);
            let held = b.lu.locks.exclusive(0..512).await;
            let mut running = Box::pin(send(&host, 0, write()));
            assert!(futures::FutureExt::now_or_never(running.as_mut()).is_none());
            if ends_session {
                host.end();
            } else {
                host.unmap(Lun(0));
            }
            b.world.sleep(Duration::from_millis(1)).await;
            drop(held);
            assert_eq!(running.await.0, want);
        }
        assert!(is_untouched(&b.host(2).await).await);
    });
}

#[test]
fn a_write_whose_data_have_not_all_come_writes_nothing() {
    bench(async |b| {
        let host = b.host(1).await;
        let two_blocks = "2a 00 00000000 00 0002 00";
        let short = |announced| Request { data_out_max: announced, ..request(two_blocks, &pattern(1, 1)) };
        assert_eq!(ends(&host, short(1024)).await, "b/0e01");
        assert_eq!(ends(&host, short(2048)).await, "b/0e01");
        assert!(is_untouched(&host).await);
        assert_eq!(ends(&host, short(512)).await, "good", "the host has announced no more");
    });
}

/// Sanitizes while commands wait that arrived before.
async fn sanitized(b: &Bench, host: &View<ThinMemory>, late: Vec<Request>, want: &str) {
    let held = b.lu.locks.exclusive(0..512).await;
    let mut running: Vec<_> = late.into_iter().map(|request| Box::pin(send(host, 0, request))).collect();
    for one in &mut running {
        assert!(futures::FutureExt::now_or_never(one.as_mut()).is_none());
    }
    check(host, "48 82 00 00 00 00 00 0000 00", &[], "good").await;
    b.world.sleep(Duration::from_millis(1)).await;
    drop(held);
    for one in running {
        assert_eq!(one.await.0, want);
    }
    while check_any(host).await != "good" {
        b.world.sleep(Duration::from_millis(1)).await;
    }
    assert!(is_untouched(host).await);
}

async fn check_any(host: &View<ThinMemory>) -> String {
    ends(host, request("00", &[])).await
}

#[test]
fn a_sanitize_operation_is_not_overtaken_by_writes_that_began_before() {
    bench(async |b| {
        let host = b.host(1).await;
        let atomic = request("9c 00 0000000000000000 0000 0001 00 00", &pattern(1, 1));
        sanitized(&b, &host, vec![write(), atomic], "2/041b").await;
        // It has ended when the data of this one are there.
        let late = write();
        check(&host, "48 02 00 00 00 00 00 0000 00", &[], "good").await;
        assert_eq!(ends(&host, late).await, "2/041b");
        assert!(is_untouched(&host).await);
    });
}

#[test]
fn lengths_at_the_limits() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "41 00 00010000 00 0000 00", &[0; BLOCK], "5/2100").await;
        check(&host, "93 00 0000000000010000 00000000 00 00", &[0; BLOCK], "5/2100").await;
        let large = Bench::on(b.world.clone(), ThinMemory::new(64 << 20, BLOCK as u32, PAGE));
        let host = large.host(2).await;
        check(&host, "90 00 0000000000000000 00010000 00 00", &[], "good").await;
        check(&host, "90 00 0000000000000000 00010001 00 00", &[], "5/2400 cdb 10").await;
        check(&host, "34 00 00000000 00 ffff 00", &[], "good").await;
    });
}

/// It reached the port of another process of the array after the reset, but before that process had heard of
/// it. Its host waited for an answer that did not come.
#[test]
fn a_command_of_another_process_that_may_be_younger_than_a_reset_is_answered() {
    bench(async |b| {
        let (one, two) = (b.host(1).await, b.host(2).await);
        for (function, attention) in
            [(TaskFunction::ClearTaskSet(Lun(0)), "6/2f00"), (TaskFunction::LunReset(Lun(0)), "6/2903")]
        {
            let late = write();
            let crossed = Request { arrival: late.arrival.renumbered(late.arrival.after()), ..late.clone() };
            one.manage(function).await;
            assert_eq!(ends(&two, crossed).await, "Busy", "{function:?}");
            assert_eq!(ends(&two, late).await, "aborted", "{function:?}: it is known to be older");
            check(&two, "00", &[], attention).await;
            assert!(is_untouched(&two).await);
            while ends(&one, request("00", &[])).await != "good" {}
        }
    });
}
