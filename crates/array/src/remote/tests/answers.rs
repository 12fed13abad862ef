//! What controllers answer crosses whole, in any order.

use futures::channel::oneshot;
use scsi::{Response, Status, TaskFunction, TaskOutcome};

use super::link::{Link, next};
use super::samples;
use crate::control::{Control, ControlError, Reply};
use crate::mailbox::Message;

type Answer = Result<Reply, ControlError>;

fn ask(link: &Link) -> oneshot::Receiver<Answer> {
    let (reply, answer) = oneshot::channel();
    assert!(link.to_node.offer(Message::Control(Control::Status, reply)).is_ok());
    answer
}

fn asked(link: &Link) -> oneshot::Sender<Answer> {
    let Message::Control(_, reply) = next(&link.at_node) else { panic!("a request") };
    reply
}

fn answered<T>(mut answer: oneshot::Receiver<T>) -> T {
    answer.try_recv().expect("it was not dropped").expect("an answer")
}

#[test]
fn every_reply_and_every_error_crosses_whole() {
    let link = Link::new();
    let replies = samples::replies().into_iter().map(Ok);
    for answer in replies.chain(samples::failures().into_iter().map(Err)) {
        let (sent, waiting) = (format!("{answer:?}"), ask(&link));
        link.pass_on();
        asked(&link).send(answer).expect("somebody waits");
        link.pass_on();
        assert_eq!(format!("{:?}", answered(waiting)), sent);
    }
}

#[test]
fn answers_come_in_any_order() {
    let link = Link::new();
    let waiting: Vec<_> = (0..5).map(|_| ask(&link)).collect();
    link.pass_on();
    let asks: Vec<_> = (0..5).map(|_| asked(&link)).collect();
    for (n, reply) in asks.into_iter().enumerate().rev() {
        reply.send(Ok(Reply::Done(vec![n.to_string()]))).expect("somebody waits");
        link.pass_on();
    }
    for (n, answer) in waiting.into_iter().enumerate() {
        assert!(matches!(answered(answer), Ok(Reply::Done(lines)) if lines == [n.to_string()]));
    }
}

#[test]
fn responses_cross_with_the_same_bytes_and_without_a_trace() {
    let link = Link::new();
    let statuses = samples::all(Status::Good, |status| match status {
        Status::Good => Some(Status::CheckCondition),
        Status::CheckCondition => Some(Status::Busy),
        Status::Busy => Some(Status::ReservationConflict),
        Status::ReservationConflict => Some(Status::TaskSetFull),
        Status::TaskSetFull => Some(Status::TaskAborted),
        Status::TaskAborted => None,
    });
    for status in statuses {
        let (reply, waiting) = oneshot::channel();
        let (nexus, request) = (samples::nexus(), samples::request());
        assert!(link.to_node.offer(Message::Execute { nexus, lun: None, request, reply }).is_ok());
        link.pass_on();
        let Message::Execute { reply, .. } = next(&link.at_node) else { panic!("a command") };
        let response = Response {
            status,
            sense: (0..=251).collect(),
            data_in: samples::data(),
            data_in_wanted: u64::MAX,
            data_out_wanted: 1 << 40,
            aborted: true,
            trace: None,
        };
        reply.send(response.clone()).expect("somebody waits");
        link.pass_on();
        let came = answered(waiting);
        assert_eq!(came.data_in.joined()[..], response.data_in.joined()[..]);
        let plain = |r: Response| format!("{:?}", Response { data_in: Default::default(), ..r });
        assert_eq!(plain(came), plain(response));
    }
}

#[test]
fn outcomes_and_answers_of_copies_cross_whole() {
    let link = Link::new();
    let outcomes = samples::all(TaskOutcome::Complete, |outcome| match outcome {
        TaskOutcome::Complete => Some(TaskOutcome::NoSuchLun),
        TaskOutcome::NoSuchLun => None,
    });
    for outcome in outcomes {
        let (reply, waiting) = oneshot::channel();
        let (nexus, function) = (samples::nexus(), TaskFunction::TargetReset);
        assert!(link.to_node.offer(Message::Manage { nexus, function, reply }).is_ok());
        link.pass_on();
        let Message::Manage { reply, .. } = next(&link.at_node) else { panic!("a function") };
        reply.send(outcome).expect("somebody waits");
        link.pass_on();
        assert_eq!(answered(waiting), outcome);
    }
    for answer in samples::copied() {
        let (reply, waiting) = oneshot::channel();
        let (nexus, request) = (samples::nexus(), scsi::CopyRequest::Find([1; 16]));
        assert!(link.to_node.offer(Message::Copy { nexus, request, reply }).is_ok());
        link.pass_on();
        let Message::Copy { reply, .. } = next(&link.at_node) else { panic!("a copy") };
        reply.send(answer.clone()).expect("somebody waits");
        link.pass_on();
        let plain = |answer: scsi::CopyAnswer| match answer {
            scsi::CopyAnswer::Done(data) => (String::new(), data.joined().to_vec()),
            other => (format!("{other:?}"), vec![]),
        };
        assert_eq!(plain(answered(waiting)), plain(answer));
    }
}

#[test]
fn who_asks_a_controller_that_has_stopped_learns_it() {
    let link = Link::new();
    let waiting = ask(&link);
    link.pass_on();
    drop(asked(&link));
    link.pass_on();
    assert!(waiting.now_or_never_canceled());
    link.at_node.close();
    let waiting = ask(&link);
    link.pass_on();
    assert!(waiting.now_or_never_canceled());
}

/// Whether the answer will not come.
trait Canceled {
    fn now_or_never_canceled(self) -> bool;
}

impl<T> Canceled for oneshot::Receiver<T> {
    fn now_or_never_canceled(mut self) -> bool {
        self.try_recv().is_err()
    }
}
