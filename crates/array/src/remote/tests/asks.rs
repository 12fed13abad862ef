//! What is asked crosses whole and in order, and no more than may be unanswered.

use std::fmt::Debug;

use futures::FutureExt;
use futures::channel::oneshot;
use scsi::Lun;

use super::link::{Link, frame, next, pass, take, waiting};
use super::samples;
use crate::control::{Control, ControlError, Reply};
use crate::event::event_channel;
use crate::mailbox::{ControllerHandle, Message};
use crate::move_request::{MoveRequest, move_channel};
use crate::remote::{Exchange, PENDING_MAX, Told};

fn text(what: &impl Debug) -> String {
    format!("{what:?}")
}

fn send(link: &Link, message: Message) {
    assert!(link.to_node.offer(message).is_ok(), "the mailbox has room");
}

fn ping() -> Message {
    Message::Control(Control::Ping, oneshot::channel().0)
}

#[test]
fn every_request_of_the_control_plane_crosses_whole() {
    let link = Link::new();
    for control in samples::controls() {
        let sent = text(&control);
        let (reply, mut answer) = oneshot::channel();
        let is_nodes = matches!(control, Control::Nodes(_));
        send(&link, Message::Control(control, reply));
        link.pass_on();
        if is_nodes {
            assert_eq!(waiting(&link.at_node), 0);
            assert!(matches!(answer.try_recv(), Ok(Some(Ok(Reply::Done(_))))), "answered at this side");
            continue;
        }
        let Message::Control(came, _) = next(&link.at_node) else { panic!("{sent}") };
        assert_eq!(text(&came), sent);
    }
}

#[test]
fn commands_cross_with_the_same_bytes_and_without_a_trace() {
    let link = Link::new();
    for lun in [None, Some(Lun(16383))] {
        let (request, (reply, _answer)) = (samples::request(), oneshot::channel());
        send(&link, Message::Execute { nexus: samples::nexus(), lun, request: request.clone(), reply });
        link.pass_on();
        let Message::Execute { nexus, lun: at, request: came, .. } = next(&link.at_node) else {
            panic!("a command")
        };
        assert_eq!((nexus, at), (samples::nexus(), lun));
        assert_eq!(came.data_out.joined()[..], request.data_out.joined()[..]);
        let plain = |request: scsi::Request| text(&scsi::Request { data_out: Default::default(), ..request });
        assert_eq!(plain(came), plain(request));
    }
    for function in samples::functions() {
        let (reply, _answer) = oneshot::channel();
        send(&link, Message::Manage { nexus: samples::nexus(), function, reply });
        link.pass_on();
        let Message::Manage { nexus, function: came, .. } = next(&link.at_node) else { panic!("a function") };
        assert_eq!((nexus, came), (samples::nexus(), function));
    }
}

#[test]
fn parts_of_copies_cross_with_the_same_bytes() {
    let link = Link::new();
    for request in samples::copies() {
        let (reply, _answer) = oneshot::channel();
        send(&link, Message::Copy { nexus: samples::nexus(), request: request.clone(), reply });
        link.pass_on();
        let Message::Copy { nexus, request: came, .. } = next(&link.at_node) else { panic!("a copy") };
        assert_eq!(nexus, samples::nexus());
        let plain = |request: scsi::CopyRequest| match request {
            scsi::CopyRequest::Write { end, at, data, arrival } => {
                (text(&(end, at, arrival)), data.joined().to_vec())
            }
            other => (text(&other), vec![]),
        };
        assert_eq!(plain(came), plain(request));
    }
}

#[test]
fn messages_of_one_mailbox_stay_in_order_and_go_both_ways() {
    let link = Link::new();
    for n in 0..300 {
        let nexus = samples::nexus();
        send(&link, if n % 2 == 0 { Message::Open { nexus } } else { Message::Close { nexus } });
        send(&link, Message::Control(Control::Announce(n), oneshot::channel().0));
    }
    assert!(link.to_owner.offer(ping()).is_ok());
    link.pass_on();
    for n in 0..300 {
        match (n % 2, next(&link.at_node)) {
            (0, Message::Open { nexus }) | (1, Message::Close { nexus }) => {
                assert_eq!(nexus, samples::nexus());
            }
            _ => panic!("message {n}"),
        }
        let Message::Control(Control::Announce(came), _) = next(&link.at_node) else { panic!("ask {n}") };
        assert_eq!(came, n);
    }
    assert!(matches!(next(&link.at_owner), Message::Control(Control::Ping, _)));
}

#[test]
fn asks_and_answers_take_turns() {
    let link = Link::new();
    (0..100).for_each(|_| assert!(link.to_owner.offer(ping()).is_ok()));
    link.pass_on();
    while let Some(Some(Message::Control(_, reply))) = link.at_owner.next().now_or_never() {
        assert!(reply.send(Ok(Reply::Done(vec![]))).is_ok());
    }
    // The owner has a hundred answers and a hundred asks.
    (0..100).for_each(|_| send(&link, ping()));
    let is_ask = |frame: Vec<u8>| {
        let (header, _) = crate::remote::frame::decode(&frame[4..]).expect("valid");
        matches!(header.message, crate::remote::messages::Message::Ask { .. })
    };
    let asks =
        std::iter::from_fn(|| frame(&link.owner)).take(20).filter(|frame| is_ask(frame.clone())).count();
    assert!((5..=15).contains(&asks), "{asks} of 20");
}

fn manage() -> Message {
    let function = scsi::TaskFunction::TargetReset;
    Message::Manage { nexus: samples::nexus(), function, reply: oneshot::channel().0 }
}

/// Until no more asks of hosts cross, and no more fit into the mailboxes of both sides. Gives how many
/// crossed.
fn fill(link: &Link) -> usize {
    let mut carried = 0;
    loop {
        let mut room = false;
        while link.to_node.offer(manage()).is_ok() {
            room = true;
        }
        match pass(&link.owner, &link.node).expect("valid") {
            0 if !room => return carried,
            passed => carried += passed,
        }
    }
}

#[test]
fn a_mailbox_is_not_read_while_too_much_is_unanswered() {
    let link = Link::new();
    assert_eq!(fill(&link), PENDING_MAX);
    assert!(frame(&link.owner).is_none());
    assert!(link.to_node.offer(manage()).is_err(), "the rest is in the mailbox, where senders wait");
    // An answer makes room for one more.
    let Message::Manage { reply, .. } = next(&link.at_node) else { panic!("a function") };
    assert!(reply.send(scsi::TaskOutcome::Complete).is_ok(), "the exchange waits for it");
    drop(next(&link.at_node));
    assert_eq!(pass(&link.node, &link.owner), Ok(2));
    assert_eq!(pass(&link.owner, &link.node), Ok(2));
}

/// While a pool moves, its owner may hold as many commands as there can be: the request that ends this waited
/// behind them, and they for it.
#[test]
fn requests_of_the_control_plane_cross_while_as_many_commands_as_may_be_are_unanswered() {
    let link = Link::new();
    fill(&link);
    let mut ask = Box::pin(link.to_node.ask(Control::Hold(Default::default())));
    assert!(ask.as_mut().now_or_never().is_none());
    link.pass_on();
    let Message::Control(Control::Hold(_), reply) = next(&link.at_node) else { panic!("a command") };
    assert!(reply.send(Ok(Reply::Done(vec![]))).is_ok());
    link.pass_on();
    assert!(ask.now_or_never().expect("answered").is_ok());
    // Those have a limit of their own.
    let mut asks: Vec<_> = (0..3000).map(|_| Box::pin(link.to_node.ask(Control::Ping))).collect();
    for ask in &mut asks {
        assert!(ask.as_mut().now_or_never().is_none());
        pass(&link.owner, &link.node).expect("valid");
    }
    let carried = std::iter::from_fn(|| match link.at_node.next().now_or_never().flatten()? {
        Message::Control(_, reply) => Some(reply),
        _ => None,
    });
    assert_eq!(carried.count(), 1024);
}

#[test]
fn what_is_unanswered_fails_when_the_exchange_is_dropped() {
    let Link { owner, node, to_node, at_node, .. } = Link::new();
    let mut ask = Box::pin(to_node.ask(Control::Status));
    assert!(ask.as_mut().now_or_never().is_none());
    pass(&owner, &node).expect("valid");
    assert!(ask.as_mut().now_or_never().is_none(), "it waits for the controller");
    drop(owner);
    assert_eq!(ask.now_or_never().expect("an end").expect_err("no answer"), ControlError::Stopped(1));
    // The other side notices nothing but that nobody waits.
    let Message::Control(_, reply) = next(&at_node) else { panic!("a request") };
    drop(node);
    assert!(reply.is_canceled());
}

#[test]
fn a_mailbox_can_be_taken_again_by_another_exchange() {
    let (link, (to_node, mailbox)) = (Link::unheard(), ControllerHandle::new(1));
    let told = || {
        let ((events, _), (moves, _)) = (event_channel(), move_channel());
        Told::Owner { events, moves, refused: link.refused.0.clone() }
    };
    drop(Exchange::in_one_process(vec![mailbox.clone()], vec![], told()));
    let again = Exchange::in_one_process(vec![mailbox], vec![], told());
    take(&again, &frame(&link.node).expect("a greeting")).expect("valid");
    assert!(to_node.offer(ping()).is_ok());
    pass(&again, &link.node).expect("valid");
    assert!(matches!(next(&link.at_node), Message::Control(Control::Ping, _)));
}

/// An exchange with another process, whose first frame it has heard.
fn with_another_process(mailbox: crate::Mailbox, link: &Link) -> Exchange {
    let ((events, _), (moves, _)) = (event_channel(), move_channel());
    let told = Told::Owner { events, moves, refused: link.refused.0.clone() };
    let exchange = Exchange::new(vec![mailbox], vec![], told);
    take(&exchange, &frame(&link.node).expect("a greeting")).expect("valid");
    exchange
}

#[test]
fn another_process_hears_of_events_and_gets_no_command_from_before_the_connection() {
    let (link, (to_node, mailbox)) = (Link::unheard(), ControllerHandle::new(1));
    let (before, exchange) = (scsi::Arrival::default(), with_another_process(mailbox, &link));
    pass(&exchange, &link.node).expect("valid");
    let execute = |arrival| {
        let ((reply, answer), nexus) = (oneshot::channel(), samples::nexus());
        let request = scsi::Request { arrival, ..samples::request() };
        assert!(to_node.offer(Message::Execute { nexus, lun: None, request, reply }).is_ok());
        answer
    };
    let (mut old, mut new) = (execute(before), execute(scsi::Arrival::now()));
    pass(&exchange, &link.node).expect("valid");
    assert_eq!(waiting(&link.at_node), 1);
    assert!(old.try_recv().is_err(), "its host gets BUSY");
    assert!(matches!(new.try_recv(), Ok(None)), "it is on its way");
    let event = scsi::Arrival::event();
    let told = frame(&exchange).expect("news");
    let (header, _) = crate::remote::frame::decode(&told[4..]).expect("valid");
    assert!(header.events >= event, "{} {event}", header.events);
}

#[test]
fn an_exchange_is_used_by_any_thread() {
    fn is_for_threads<T: Send + Sync>(of: T) -> T {
        of
    }
    fn moves<T: Send>(of: T) -> T {
        of
    }
    let link = Link::new();
    let exchange = is_for_threads(&link.owner);
    assert!(moves(exchange.outgoing()).now_or_never().is_none());
    assert!(moves(exchange.incoming(&[])).now_or_never().expect("it never waits").is_err());
}

#[test]
fn what_controllers_of_a_node_tell_reaches_the_owner() {
    let link = Link::new();
    let sent = super::standing::events();
    sent.iter().for_each(|event| link.events.0.tell(event.clone()));
    let request = MoveRequest { pool: "p".into(), controller: 1 };
    assert!(link.moves.0.ask(request.clone()));
    link.refused.0.try_send(u64::MAX).expect("room");
    link.events.0.lose(7);
    link.pass_on();
    let came: Vec<_> = std::iter::from_fn(|| link.events.1.try_next()).collect();
    assert_eq!((came, link.events.1.take_lost()), (sent, 7));
    assert_eq!(link.moves.1.next().now_or_never(), Some(Some(request)));
    assert_eq!(link.refused.1.try_recv(), Ok(u64::MAX));
}
