//! Exchanges between nodes.

use array::{Control, ControllerHandle, Exchange, Mailbox, MoveSender, Told, event_channel, move_channel};
use futures::FutureExt;

/// Frames that a side gives out for one input, at most: more than any input makes it answer.
const FRAMES_MAX: usize = 10_000;

/// One side, and what it must not lose meanwhile.
struct Side {
    exchange: Exchange,
    away: ControllerHandle,
    _here: Mailbox,
    _moves: Option<MoveSender>,
}

impl Side {
    fn owner() -> Side {
        let ((events, _), (moves, _)) = (event_channel(), move_channel());
        let (refused, _) = async_channel::bounded(8);
        Side::with((1, 0), Told::Owner { events, moves, refused }, None)
    }

    fn node() -> Side {
        let ((_, events), (sender, moves)) = (event_channel(), move_channel());
        let (_, refused) = async_channel::bounded(8);
        Side::with((0, 1), Told::Node { events, moves, refused }, Some(sender))
    }

    fn with((away, here): (usize, usize), told: Told, _moves: Option<MoveSender>) -> Side {
        let ((away, mailbox), (here, _here)) = (ControllerHandle::new(away), ControllerHandle::new(here));
        let exchange = Exchange::in_one_process(vec![mailbox], vec![here], told);
        Side { exchange, away, _here, _moves }
    }

    fn frame(&self) -> Option<Vec<u8>> {
        self.exchange.outgoing().now_or_never().flatten()
    }
}

/// Frames of any content: errors, never more. The other side has asked three things, with the numbers 1 to 3.
pub fn run_remote_frames(data: &[u8]) {
    for (side, other) in [(Side::owner(), Side::node()), (Side::node(), Side::owner())] {
        let greeting = other.frame().expect("a greeting");
        side.exchange.incoming(&greeting[4..]).now_or_never().expect("no wait").expect("valid");
        let mut asks: Vec<_> = controls().map(|control| Box::pin(side.away.ask(control))).into();
        asks.iter_mut().for_each(|ask| assert!(ask.as_mut().now_or_never().is_none()));
        let drain = || assert!((0..FRAMES_MAX).any(|_| side.frame().is_none()), "it does not end");
        drain();
        let mut rest = data;
        while let Some((len, more)) = rest.split_first_chunk() {
            let (frame, more) = more.split_at((u32::from_le_bytes(*len) as usize).min(more.len()));
            let taken = side.exchange.incoming(frame).now_or_never().expect("no wait");
            drain();
            if taken.is_err() {
                break;
            }
            rest = more;
        }
    }
}

fn controls() -> [Control; 3] {
    [Control::Ping, Control::Status, Control::ReleasePool("p".into())]
}

/// Frames of a side that asks, and answers that no side makes here, as they stand on the wire.
pub fn remote_frames() -> Vec<Vec<u8>> {
    let side = Side::owner();
    let other = Side::node();
    let greeting = other.frame().expect("a greeting");
    side.exchange.incoming(&greeting[4..]).now_or_never().expect("no wait").expect("valid");
    let mut asks: Vec<_> = controls().map(|control| Box::pin(side.away.ask(control))).into();
    asks.iter_mut().for_each(|ask| assert!(ask.as_mut().now_or_never().is_none()));
    let mut made: Vec<_> = std::iter::from_fn(|| side.frame()).skip(1).collect();
    made.extend(HEADERS.map(|header| framed(header, b"")));
    made.push(framed(EXECUTE, &[0xa5; 512]));
    made.push(made.concat());
    made
}

fn framed(header: &str, payload: &[u8]) -> Vec<u8> {
    let len = (4 + header.len() + payload.len()) as u32;
    let parts = [&len.to_le_bytes()[..], &(header.len() as u32).to_le_bytes(), header.as_bytes(), payload];
    parts.concat()
}

const EXECUTE: &str = r#"{"events":1,"message":{"Ask":{"number":1,"to":1,"ask":{"Execute":{"nexus":{"id":1,"initiator":{"name":"iqn.a:h","isid":[1,2,3,4,5,6]},"port":{"target":"iqn.a:t","portal_group":1,"relative_id":1,"group":1}},"lun":0,"request":{"cdb":[138,0,0,0,0,0,0,0,0,0,0,0,0,1,0,0],"attribute":"Simple","data_out_max":512,"data_in_max":0,"tag":1,"arrival":{"after":1,"unit":null,"luns_changed":false}}}}}}}"#;

const HEADERS: [&str; 5] = [
    r#"{"events":1,"message":"Events"}"#,
    r#"{"events":1,"message":{"Answer":{"number":1,"answer":{"Control":{"Ok":{"Done":["a"]}}}}}}"#,
    r#"{"events":1,"message":{"Answer":{"number":2,"answer":{"Control":{"Err":{"Failed":{"place":"p","cause":"c","why":{"reason":"away","drive":null}}}}}}}}"#,
    r#"{"events":1,"message":{"News":{"Event":{"severity":"Info","object":"o","text":"t","who":null}}}}"#,
    r#"{"events":1,"message":{"News":{"Move":{"pool":"p","controller":1}}}}"#,
];
