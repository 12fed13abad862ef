//! Messages and answers that leave for the other side.

use block::Pieces;
use scsi::{Arrival, CopyRequest};

use super::commands::{CopyAsked, Requested};
use super::controls::Controlled;
use super::exchange::State;
use super::failures::Failed;
use super::frame;
use super::here::Answered;
use super::messages::{Answer, Ask, Header, Message as Said};
use super::moved;
use super::payload::Loaded;
use super::pending::Waiting;
use super::replies::Replied;
use crate::control::{Control, ControlError, MovedLu, Reply};
use crate::mailbox::Message;

impl State {
    pub(super) fn frame(&mut self, message: Said, payload: &Pieces) -> Result<Vec<u8>, String> {
        let events = self.order.tell(Arrival::latest());
        frame::encode(&Header { events, message }, payload)
    }

    /// The frame of an answer. One that does not fit is an error for who asked.
    pub(super) fn answer(&mut self, number: u64, answered: Answered) -> Vec<u8> {
        let is_control = matches!(answered, Answered::Control(_));
        let (answer, payload) = match answered {
            Answered::Control(answer) => (self.replied(answer), Pieces::new()),
            Answered::Other(answer) => answer,
        };
        let frame = self.frame(Said::Answer { number, answer }, &payload);
        frame.unwrap_or_else(|cause| {
            let failed = |cause| Answer::Control(Box::new(Err(Failed(unsent(cause)))));
            let answer = if is_control { failed(cause) } else { Answer::Stopped };
            let frame = self.frame(Said::Answer { number, answer }, &Pieces::new());
            frame.expect("an answer without data and lists fits a frame")
        })
    }

    fn replied(&mut self, mut answer: Result<Reply, ControlError>) -> Answer {
        if let Ok(Reply::Released(lus, _)) = &mut answer {
            self.renumber(lus);
        }
        Answer::Control(Box::new(answer.map(Replied::from).map_err(Failed)))
    }

    fn renumber(&mut self, lus: &mut [MovedLu]) {
        let order = std::cell::RefCell::new(&mut self.order);
        moved::renumber(lus, |event| order.borrow_mut().sent(event));
    }

    /// The frame of a message to a controller of the other side. None: it was answered here.
    pub(super) fn ask(&mut self, to: usize, message: Message) -> Option<Vec<u8>> {
        let ((ask, payload), waiting) = self.asked(message)?;
        let number = self.pending.next_number();
        match self.frame(Said::Ask { number, to, ask }, &payload) {
            Ok(frame) => {
                self.pending.add(waiting);
                Some(frame)
            }
            Err(cause) => {
                if let Waiting::Control(reply) = waiting {
                    let _ = reply.send(Err(unsent(cause)));
                }
                None
            }
        }
    }

    fn asked(&mut self, message: Message) -> Option<(Loaded<Ask>, Waiting)> {
        Some(match message {
            Message::Control(mut control, reply) => {
                if let Control::Prepare { arrival: Some(arrival), .. } = &mut control {
                    self.renumber(&mut arrival.lus);
                }
                let Some(controlled) = Controlled::of(control) else {
                    let _ = reply.send(Ok(Reply::Done(vec![])));
                    return None;
                };
                ((Ask::Control(Box::new(controlled)), Pieces::new()), Waiting::Control(reply))
            }
            Message::Execute { nexus, lun, request, reply } => {
                let arrival = self.order.arrival(request.arrival)?;
                let (request, data) = Requested::of(request, arrival);
                let ask = Ask::Execute { nexus: nexus.into(), lun, request: Box::new(request) };
                ((ask, data), Waiting::Execute(reply))
            }
            Message::Manage { nexus, function, reply } => {
                ((Ask::Manage { nexus: nexus.into(), function }, Pieces::new()), Waiting::Manage(reply))
            }
            Message::Copy { nexus, request, reply } => {
                let arrival = match &request {
                    CopyRequest::Write { arrival, .. } => self.order.arrival(*arrival)?,
                    _ => Arrival::default(),
                };
                let (request, data) = CopyAsked::of(request, arrival);
                ((Ask::Copy { nexus: nexus.into(), request }, data), Waiting::Copy(reply))
            }
            Message::Open { nexus } => ((Ask::Open { nexus: nexus.into() }, Pieces::new()), Waiting::Note),
            Message::Close { nexus } => ((Ask::Close { nexus: nexus.into() }, Pieces::new()), Waiting::Note),
        })
    }
}

fn unsent(cause: String) -> ControlError {
    ControlError::failed("message between nodes", cause)
}
