//! Unit attentions, task management, ordering, and the ends of nexuses.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::*;
use crate::host_view::HostView;
use crate::request::{TaskFunction, TaskOutcome};

#[test]
fn unit_attentions_come_once_in_order_and_not_to_inquiry() {
    bench(async |b| {
        let host = b.fresh_host(1);
        b.lu.threshold_reached();
        b.lu.threshold_reached();
        check(&host, "12 00 00 0024 00", &[], "good").await;
        check(&host, "a0 00 00 000000 00000100 00 00", &[], "good").await;
        check(&host, "28 00 00000000 00 0001 00", &[], "6/2900").await;
        let sense = check(&host, "03 00 00 00 ff 00", &[], "good").await;
        assert_eq!((sense_text(&sense).as_str(), sense.len()), ("6/3807", 18));
        let sense = check(&host, "03 01 00 00 ff 00", &[], "good").await;
        assert_eq!(sense_text(&sense), "0/0000 descriptor");
        check(&host, "28 00 00000000 00 0001 00", &[], "good").await;
        check(&host, "1e 00 00 00 01 00", &[], "good").await;
        check(&host, "1b 00 00 00 01 00", &[], "good").await;
        check(&host, "1b 00 00 00 02 00", &[], "5/2400 cdb 4.1").await;
        check(&host, "1d 04 00 0000 00", &[], "good").await;
        assert_eq!(check(&host, "1c 01 00 00ff 00", &[], "good").await, [0, 0, 0, 1, 0]);
    });
}

/// Starts a command as a task; its outcome appears in the cell.
fn start(
    b: &Bench,
    host: &Rc<View<ThinMemory>>,
    cdb: &'static str,
    data: Vec<u8>,
) -> Rc<RefCell<Option<String>>> {
    let outcome = Rc::new(RefCell::new(None));
    let (to, host) = (outcome.clone(), host.clone());
    b.world.spawn(async move {
        let (text, _) = send(&host, 0, request(cdb, &data)).await;
        *to.borrow_mut() = Some(text);
    });
    outcome
}

async fn settle(b: &Bench) {
    b.world.sleep(Duration::from_millis(1)).await;
}

#[test]
fn task_management_ends_commands_and_tells_the_others() {
    bench(async |b| {
        let (one, two) = (Rc::new(b.host(1).await), Rc::new(b.host(2).await));
        let lu = b.lu.clone();
        // Somebody holds block 0, so that writes to it are under way for as long as the test wants.
        let held = lu.locks.exclusive(0..512).await;
        let mine = start(&b, &one, "2a 00 00000000 00 0001 00", pattern(1, 1));
        let theirs = start(&b, &two, "2a 00 00000000 00 0001 00", pattern(2, 1));
        settle(&b).await;
        let managed = Rc::new(Cell::new(None));
        let (done, host) = (managed.clone(), one.clone());
        b.world.spawn(async move { done.set(Some(host.manage(TaskFunction::AbortTaskSet(Lun(0))).await)) });
        settle(&b).await;
        assert_eq!((managed.get(), mine.borrow().clone()), (None, None), "it waits for the command to end");
        drop(held);
        settle(&b).await;
        assert_eq!((managed.get(), mine.take().as_deref()), (Some(TaskOutcome::Complete), Some("aborted")));
        assert_eq!(theirs.take().as_deref(), Some("good"));
        assert_eq!(
            check(&one, "28 00 00000000 00 0001 00", &[], "good").await[0],
            3,
            "the aborted one wrote nothing"
        );

        let held = lu.locks.exclusive(0..512).await;
        let theirs = start(&b, &two, "2a 00 00000000 00 0001 00", pattern(8, 1));
        settle(&b).await;
        let host = one.clone();
        b.world.spawn(async move {
            host.manage(TaskFunction::ClearTaskSet(Lun(0))).await;
        });
        settle(&b).await;
        drop(held);
        settle(&b).await;
        assert_eq!(theirs.take().as_deref(), Some("aborted"));
        check(&two, "00", &[], "6/2f00").await;
        check(&one, "00", &[], "good").await;

        assert_eq!(one.manage(TaskFunction::LunReset(Lun(0))).await, TaskOutcome::Complete);
        for host in [&one, &two] {
            check(host, "00", &[], "6/2903").await;
            check(host, "00", &[], "good").await;
        }
        one.manage(TaskFunction::TargetReset).await;
        check(&two, "00", &[], "6/2900").await;
        assert_eq!(one.manage(TaskFunction::LunReset(Lun(9))).await, TaskOutcome::NoSuchLun);
    });
}

/// A host that has lost a path sends its write again over another one, and writes anew when that has ended:
/// the first one, still under way at a slow drive, landed on top.
#[test]
fn a_write_waits_for_an_older_one_to_its_blocks_and_a_read_does_not() {
    bench(async |b| {
        let host = Rc::new(b.host(1).await);
        let lu = b.lu.clone();
        let older = lu.locks.write(0..512).await;
        let again = [
            start(&b, &host, "2a 00 00000000 00 0001 00", pattern(1, 1)),
            start(&b, &host, "41 00 00000000 00 0001 00", pattern(2, 1)),
        ];
        let beside = start(&b, &host, "2a 00 00000001 00 0001 00", pattern(3, 1));
        settle(&b).await;
        assert!(again.iter().all(|outcome| outcome.borrow().is_none()));
        assert_eq!(beside.take().as_deref(), Some("good"));
        check(&host, "28 00 00000000 00 0001 00", &[], "good").await;
        drop(older);
        settle(&b).await;
        assert!(again.iter().all(|outcome| outcome.borrow().as_deref() == Some("good")));
    });
}

#[test]
fn an_aborted_command_is_told_when_the_control_page_says_so() {
    bench(async |b| {
        let (one, two) = (Rc::new(b.host(1).await), Rc::new(b.host(2).await));
        check(&one, "15 10 00 00 10 00", &hex("00000000 0a0a 00 10 00 40 0000 0000 0000"), "good").await;
        check(&two, "00", &[], "6/2a01").await;
        let lu = b.lu.clone();
        let held = lu.locks.exclusive(0..512).await;
        let theirs = start(&b, &two, "28 00 00000000 00 0001 00", vec![]);
        settle(&b).await;
        let host = one.clone();
        b.world.spawn(async move {
            host.manage(TaskFunction::ClearTaskSet(Lun(0))).await;
        });
        settle(&b).await;
        drop(held);
        settle(&b).await;
        assert_eq!(theirs.take().as_deref(), Some("TaskAborted"));
    });
}

#[test]
fn an_ordered_command_waits_for_the_older_and_stops_the_younger() {
    bench(async |b| {
        let host = Rc::new(b.host(1).await);
        let lu = b.lu.clone();
        let held = lu.locks.shared(0..512).await;
        let ordered = Rc::new(Cell::new(false));
        let (done, view) = (ordered.clone(), host.clone());
        b.world.spawn(async move {
            let mut request = request("2a 00 00000100 00 0001 00", &pattern(1, 1));
            request.attribute = TaskAttribute::Ordered;
            send(&view, 0, request).await;
            done.set(true);
        });
        settle(&b).await;
        let younger = start(&b, &host, "28 00 00000800 00 0001 00", vec![]);
        settle(&b).await;
        assert!(!ordered.get() && younger.borrow().is_none());
        drop(held);
        settle(&b).await;
        assert!(ordered.get() && younger.borrow().is_some());
    });
}

#[test]
fn contention_on_one_range_does_not_stop_the_others() {
    bench(async |b| {
        let host = Rc::new(b.host(1).await);
        let lu = b.lu.clone();
        let held = lu.locks.exclusive(0..512).await;
        let swap = start(&b, &host, "89 00 0000000000000000 000000 01 00 00", vec![0; 2 * BLOCK]);
        let read = start(&b, &host, "28 00 00000000 00 0001 00", vec![]);
        let elsewhere = start(&b, &host, "28 00 00000001 00 0001 00", vec![]);
        settle(&b).await;
        assert_eq!((swap.borrow().is_none(), read.borrow().is_none()), (true, true));
        assert_eq!(elsewhere.take().as_deref(), Some("good"));
        drop(held);
        settle(&b).await;
        assert_eq!((swap.take().as_deref(), read.take().as_deref()), (Some("good"), Some("good")));
    });
}

#[test]
fn the_end_of_a_nexus_leaves_nothing_behind() {
    bench(async |b| {
        let one = b.host(1).await;
        check(&one, "16 00 00 00 00 00", &[], "good").await;
        let two = b.host_that_conflicts(2).await;
        drop(one);
        check(&two, "28 00 00000000 00 0001 00", &[], "good").await;
        assert_eq!(b.lu.nexuses().len(), 1);
        assert_eq!(b.lu.counters().reservation_conflicts, 1);
    });
}

impl Bench {
    /// A host that meets another host's reservation on its first command after the power-on attention.
    async fn host_that_conflicts(&self, number: u64) -> View<ThinMemory> {
        let host = self.host(number).await;
        check(&host, "00", &[], "conflict").await;
        host
    }
}
