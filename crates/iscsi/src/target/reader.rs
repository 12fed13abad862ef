//! The reader of a session: one receive returns many PDUs, which are parsed in place; all responses are sent
//! together.

use std::rc::Rc;
use std::time::Duration;

use super::seam::Target;
use super::session::{Broken, Session};
use crate::frame::Layout;
use crate::pdu::{BHS_LEN, DataOut, OPCODE_MASK, Pdu, opcode};
use crate::receive::{ReceiveError, Receiver};

/// From this length on, the rest of a Data-Out is received directly into the command's buffer; below, a copy
/// is cheaper than a separate receive.
const DIRECT_LEN_MIN: usize = 16 << 10;
/// Receive length while solicited data is in transit: a header and little more, so that the data goes
/// directly to its buffer.
const COLLECTING_ROOM_LEN: usize = 16 << 10;

/// PDUs that are processed without giving way to other tasks: as many as the window has commands. Each of
/// them may do what a command does at its first poll, and a buffer of short ones has thousands.
const TURN_PDUS: u32 = 128;
/// The same in time: some commands take long although they wait for nothing.
const TURN_TIME: Duration = Duration::from_millis(1);
/// So many PDUs share one look at the clock.
const PDUS_PER_CLOCK: u32 = 8;

/// Why a session's reader ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error("{0}")]
    Broken(&'static str),
}

impl From<Broken> for ReadError {
    fn from(broken: Broken) -> ReadError {
        ReadError::Broken(broken.0)
    }
}

/// Reads until the connection ends; returns the reason.
pub(crate) async fn read<T: Target>(session: &Rc<Session<T>>, receiver: &mut Receiver) -> ReadError {
    loop {
        if let Err(e) = read_batch(session, receiver).await {
            session.will_flush.set(false);
            session.flush();
            return e;
        }
    }
}

/// Processes all received PDUs, then receives once.
async fn read_batch<T: Target>(session: &Rc<Session<T>>, receiver: &mut Receiver) -> Result<(), ReadError> {
    session.will_flush.set(true);
    let (mut pdus, mut begin) = (0, session.world.now());
    let want_len = loop {
        let Some(layout) = receiver.layout().map_err(ReceiveError::from)? else { break 0 };
        let held = receiver.bytes().len();
        if held >= layout.total_len {
            let is_late = || session.world.now().since(begin) > TURN_TIME;
            if pdus == TURN_PDUS || pdus % PDUS_PER_CLOCK == PDUS_PER_CLOCK - 1 && is_late() {
                give_way(session).await;
                (pdus, begin) = (0, session.world.now());
            }
            pdus += 1;
            let (pdu, is_right) = receiver.framing.pdu(receiver.bytes(), layout);
            session.receive(&pdu, !is_right)?;
            receiver.consume(layout.total_len);
            // The next one has its own time, also where a busy host's buffer is never quite empty.
            session.link.partial_since.set(None);
            continue;
        }
        let is_data_out = receiver.bytes()[0] & OPCODE_MASK == opcode::DATA_OUT;
        if is_data_out
            && layout.total_len - held >= DIRECT_LEN_MIN
            && read_direct(session, receiver, layout).await?
        {
            continue;
        }
        break layout.total_len;
    };
    session.start_queued();
    session.will_flush.set(false);
    session.flush();
    session.wait_for_drain().await;
    let link = &session.link;
    let is_partial = !receiver.bytes().is_empty();
    if !is_partial {
        link.partial_since.set(None);
    } else if link.partial_since.get().is_none() {
        link.partial_since.set(Some(session.world.now()));
    }
    let room = if session.is_collecting() { COLLECTING_ROOM_LEN } else { usize::MAX };
    receiver.fill(want_len, room).await?;
    link.heard_at.set(session.world.now());
    link.pinged_at.set(None);
    Ok(())
}

/// Sends the responses so far, and lets other tasks run.
async fn give_way<T: Target>(session: &Rc<Session<T>>) {
    session.will_flush.set(false);
    session.flush();
    world::yield_now().await;
    session.will_flush.set(true);
}

/// Receives the rest of a Data-Out directly into its command's buffer; `false` if that is not its
/// destination.
async fn read_direct<T: Target>(
    session: &Rc<Session<T>>,
    receiver: &mut Receiver,
    layout: Layout,
) -> Result<bool, ReadError> {
    let bhs: [u8; BHS_LEN] = *receiver.bytes().first_chunk().expect("the layout was taken from these bytes");
    let pdu = Pdu { bhs: &bhs, ahs: &[], data: &[] };
    let Some((slot, buf, from)) = session.lend_buffer(pdu.header::<DataOut>()) else { return Ok(false) };
    receiver.consume(layout.header_len);
    let link = &session.link;
    link.partial_since.set(Some(session.world.now()));
    // Responses so far are sent without waiting for the data.
    session.will_flush.set(false);
    session.flush();
    let (buf, received) = receiver.direct(buf, from).await;
    received?;
    while receiver.bytes().len() < layout.tail_len() {
        receiver.fill(layout.tail_len(), COLLECTING_ROOM_LEN).await?;
    }
    let is_damaged = receiver.framing.data_digest && layout.data_len > 0 && {
        let (padding, sum) = receiver.bytes()[..layout.tail_len()].split_at(layout.tail_len() - 4);
        let mut running = crate::digest::Running::new();
        running.add(&buf[from..]);
        running.add(padding);
        running.finish() != sum
    };
    receiver.consume(layout.tail_len());
    link.partial_since.set(None);
    link.heard_at.set(session.world.now());
    link.pinged_at.set(None);
    session.will_flush.set(true);
    let mut counts = link.counts.borrow_mut();
    counts.pdus_in += 1;
    counts.digest_errors += u64::from(is_damaged);
    drop(counts);
    session.data_received(&pdu, slot, buf, is_damaged);
    Ok(true)
}
