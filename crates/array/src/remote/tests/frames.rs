//! Frames that are wrong end the connection, whatever they are.

use futures::FutureExt;
use futures::channel::oneshot;

use super::link::{Link, frame, take, waiting};
use super::samples;
use crate::control::Control;
use crate::mailbox::Message;
use crate::remote::frame::{decode, encode};
use crate::remote::messages::{Ask, Header, Message as Said};
use crate::remote::{FRAME_MAX, PROTOCOL, RemoteError};

fn said(message: Said) -> Vec<u8> {
    encode(&Header { events: 0, message }, &block::Pieces::new()).expect("it fits")
}

fn hello(protocol: u32) -> Vec<u8> {
    said(Said::Hello { protocol })
}

/// Valid frames of every kind: from the owner, and from the node.
fn frames() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (link, mut of_owner, mut of_node) = (Link::unheard(), Vec::new(), Vec::new());
    let offer = |message| assert!(link.to_node.offer(message).is_ok());
    for control in samples::controls() {
        offer(Message::Control(control, oneshot::channel().0));
    }
    for request in samples::copies() {
        offer(Message::Copy { nexus: samples::nexus(), request, reply: oneshot::channel().0 });
    }
    let nexus = samples::nexus();
    offer(Message::Execute { nexus, lun: None, request: samples::request(), reply: oneshot::channel().0 });
    offer(Message::Open { nexus: samples::nexus() });
    link.events.0.tell(super::standing::events().remove(0));
    let mut replies = samples::replies().into_iter();
    loop {
        let (a, b) = (frame(&link.owner), frame(&link.node));
        if a.is_none() && b.is_none() {
            return (of_owner, of_node);
        }
        a.iter().for_each(|a| take(&link.node, a).expect("valid"));
        b.iter().for_each(|b| take(&link.owner, b).expect("valid"));
        of_owner.extend(a);
        of_node.extend(b);
        while let Some(message) = link.at_node.next().now_or_never().flatten() {
            if let (Message::Control(_, reply), Some(answer)) = (message, replies.next()) {
                let _ = reply.send(Ok(answer));
            }
        }
    }
}

#[test]
fn damaged_frames_are_errors_and_nothing_else() {
    let (of_owner, of_node) = frames();
    assert!(of_owner.len() > 40 && of_node.len() > 10, "{} {}", of_owner.len(), of_node.len());
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for frame in of_owner.iter().chain(&of_node) {
        for _ in 0..40 {
            let mut frame = frame[4..].to_vec();
            match random.u8(..4) {
                0 => frame.truncate(random.usize(..frame.len())),
                1 => (0..8.min(frame.len())).for_each(|at| frame[at] = random.u8(..)),
                // In the header, which has digits and names.
                _ => {
                    let at = random.usize(..frame.len().min(400));
                    frame[at] = *b"0189-{}[]\"n,\xff".get(random.usize(..13)).unwrap_or(&0);
                }
            }
            let link = Link::new();
            for to in [&link.owner, &link.node] {
                let len = frame.len();
                let taken = to.incoming(&frame).now_or_never().expect("it never waits");
                refused += usize::from(taken.is_err());
                // What it may have asked is answered or not; nothing of it panics.
                while super::link::frame(to).is_some() {}
                assert_eq!(frame.len(), len);
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn the_first_frame_is_the_version_and_it_is_the_same() {
    let link = Link::unheard();
    assert_eq!(take(&link.owner, &hello(PROTOCOL + 1)), Err(RemoteError::Protocol { theirs: PROTOCOL + 1 }));
    let first = RemoteError::Unexpected { what: "something else than its version first" };
    assert_eq!(take(&link.owner, &said(Said::Events)), Err(first));
    // Nothing is asked of a side that has not said what it speaks.
    let (reply, _answer) = oneshot::channel();
    assert!(link.to_node.offer(Message::Control(Control::Ping, reply)).is_ok());
    let greeting = frame(&link.owner).expect("a greeting");
    let (header, _) = decode(&greeting[4..]).expect("valid");
    assert!(matches!(header.message, Said::Hello { protocol: PROTOCOL }) && frame(&link.owner).is_none());
    assert_eq!(take(&link.owner, &hello(PROTOCOL)), Ok(()));
    let twice = RemoteError::Unexpected { what: "its version twice" };
    assert_eq!(take(&link.owner, &hello(PROTOCOL)), Err(twice));
    assert!(frame(&link.owner).is_some());
}

#[test]
fn a_side_takes_only_what_may_come_from_the_other() {
    let (link, ask) = (Link::new(), |to| {
        let control = Box::new(crate::remote::controls::Controlled::Ping);
        said(Said::Ask { number: 1, to, ask: Ask::Control(control) })
    });
    assert_eq!(take(&link.node, &ask(0)), Err(RemoteError::NoController(0)));
    assert_eq!(take(&link.node, &ask(1)), Ok(()));
    let answer = crate::remote::messages::Answer::Delivered;
    let answer = said(Said::Answer { number: 1, answer });
    assert!(matches!(take(&link.node, &answer), Err(RemoteError::Unexpected { .. })), "nobody has asked");
    let news = said(Said::News(crate::remote::told::News::Refused(1)));
    assert!(matches!(take(&link.node, &news), Err(RemoteError::Unexpected { .. })), "it is not the owner");
    assert_eq!(take(&link.owner, &news), Ok(()));
}

#[test]
fn no_side_has_to_remember_more_than_the_limit_of_each_lane() {
    let link = Link::new();
    let control = || Box::new(crate::remote::controls::Controlled::Ping);
    let ask = |number| said(Said::Ask { number, to: 1, ask: Ask::Control(control()) });
    let function = scsi::TaskFunction::TargetReset;
    let of_host = |number| {
        said(Said::Ask { number, to: 1, ask: Ask::Manage { nexus: samples::nexus().into(), function } })
    };
    let limit = crate::PENDING_MAX as u64;
    for number in 1..=limit {
        assert_eq!(take(&link.node, &of_host(number)), Ok(()));
    }
    assert!(matches!(take(&link.node, &of_host(0)), Err(RemoteError::Unexpected { .. })));
    for number in limit + 1..=limit + 1024 {
        assert_eq!(take(&link.node, &ask(number)), Ok(()));
    }
    assert!(matches!(take(&link.node, &ask(0)), Err(RemoteError::Unexpected { .. })));
}

#[test]
fn a_frame_that_is_too_long_is_neither_sent_nor_taken() {
    let link = Link::new();
    let too_long = vec![0; FRAME_MAX + 1];
    let taken = link.node.incoming(&too_long).now_or_never().expect("it never waits");
    assert_eq!(taken, Err(RemoteError::TooLong { len: FRAME_MAX + 1 }));
    // Who asks for it gets an error, and the exchange goes on.
    let name = "v".repeat(FRAME_MAX);
    let mut ask = Box::pin(link.to_node.ask(Control::Scrub(name)));
    let mut then = Box::pin(link.to_node.ask(Control::Ping));
    let waits = ask.as_mut().now_or_never().is_none();
    assert!(waits && then.as_mut().now_or_never().is_none());
    link.pass_on();
    let error = ask.now_or_never().expect("an answer").expect_err("too long");
    assert!(error.to_string().starts_with("message between nodes: "), "{error}");
    assert_eq!(waiting(&link.at_node), 1);
}
