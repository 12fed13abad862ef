//! Text exchanges of the full feature phase (RFC 7143 11.10): SendTargets and the keys that may change, in as
//! many PDUs as either side needs.

use std::rc::Rc;

use super::login::is_security;
use super::seam::Target;
use super::session::{Broken, Session, State};
use crate::pdu::{CONTINUE, FINAL, Header, Pdu, TAG_NONE, TextRequest, TextResponse, reject};
use crate::text::{Text, pairs};

/// Limit of PDUs of one exchange: 16 KiB of response in segments of 512 bytes take 32; a discovery of many
/// targets takes more.
const PDUS_MAX: u32 = 4096;

/// The exchange in progress, of which there is at most one.
#[derive(Default)]
pub(crate) struct Exchange {
    itt: u32,
    /// The tag with which the initiator continues; none if there is no exchange.
    ttt: Option<u32>,
    request: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
    pdus: u32,
}

impl<T: Target> Session<T> {
    /// Processes a text request whose CmdSN is next.
    pub(crate) fn text_request(self: &Rc<Self>, pdu: &Pdu<'_>) -> Result<(), Broken> {
        let header: &TextRequest = pdu.header();
        let (is_final, continues) = (header.flags & FINAL != 0, header.flags & CONTINUE != 0);
        let mut state = self.state.borrow_mut();
        state.pass(pdu);
        let exchange = &mut state.exchange;
        let goes_on = exchange.ttt == Some(header.ttt.get()) && exchange.itt == header.itt.get();
        if header.ttt.get() == TAG_NONE {
            *exchange = Exchange { itt: header.itt.get(), ..Exchange::default() };
        } else if !goes_on {
            drop(state);
            self.reject(pdu, reject::INVALID_FIELD);
            return Ok(());
        }
        exchange.pdus += 1;
        if exchange.pdus > PDUS_MAX
            || exchange.request.len() + pdu.data.len() > self.limits.text_bytes
            || (is_final && continues)
        {
            *exchange = Exchange::default();
            drop(state);
            self.reject(pdu, reject::PROTOCOL);
            return Err(Broken("text exchange does not end"));
        }
        if exchange.sent < exchange.answer.len() && !pdu.data.is_empty() {
            // 6.2: while the response continues, requests are empty. Otherwise each of them would add to a
            // response that is sent in smaller parts.
            *exchange = Exchange::default();
            drop(state);
            self.reject(pdu, reject::PROTOCOL);
            return Ok(());
        }
        exchange.request.extend_from_slice(pdu.data);
        if !continues && !exchange.request.is_empty() {
            let request = std::mem::take(&mut exchange.request);
            drop(state);
            let Some(answer) = self.answer_text(&request) else {
                self.state.borrow_mut().exchange = Exchange::default();
                self.reject(pdu, reject::PROTOCOL);
                return Ok(());
            };
            state = self.state.borrow_mut();
            let exchange = &mut state.exchange;
            (exchange.answer, exchange.sent) = (answer, 0);
        }
        self.push_text(&mut state, header, is_final, continues);
        drop(state);
        self.answers_wait();
        Ok(())
    }

    /// The next part of the response; nothing while the initiator's own text continues.
    fn push_text(&self, state: &mut State, request: &TextRequest, is_final: bool, continues: bool) {
        let segment = self.params.get().send_segment_len_max as usize;
        let exchange = &mut state.exchange;
        let from = exchange.sent;
        let to = if continues { from } else { exchange.answer.len().min(from + segment) };
        let has_more = !continues && to < exchange.answer.len();
        let ends = is_final && !continues && !has_more;
        state.ttt_count = state.ttt_count.wrapping_add(1);
        let ttt = if ends { TAG_NONE } else { state.ttt_count & 0x7fff_ffff };
        exchange.sent = to;
        exchange.ttt = (!ends).then_some(ttt);
        let header = TextResponse {
            opcode: TextResponse::OPCODE,
            flags: if ends { FINAL } else { 0 } | if has_more { CONTINUE } else { 0 },
            lun: request.lun,
            itt: request.itt,
            ttt: ttt.into(),
            stat_sn: state.out.next_stat_sn().into(),
            exp_cmd_sn: state.window.exp_cmd_sn.into(),
            max_cmd_sn: state.window.max_cmd_sn.into(),
            ..TextResponse::default()
        };
        state.out.push_small(header.bytes(), &state.exchange.answer[from..to]);
        if ends {
            state.exchange = Exchange::default();
        }
    }

    /// The response to a complete text; `None` if it violates the rules.
    fn answer_text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let pairs = pairs(text).ok()?;
        let mut out = Text::default();
        let mut state = self.state.borrow_mut();
        state.negotiation.begin_exchange();
        for (i, (key, value)) in pairs.iter().copied().enumerate() {
            if key == "SendTargets" {
                // 6.2: a key may occur once in a negotiation.
                if pairs[..i].iter().any(|(k, _)| *k == key) {
                    return None;
                }
                self.send_targets(value, &mut out);
            } else if is_security(key) {
                return None;
            } else {
                state.negotiation.answer(key, value, &mut out).ok()?;
            }
        }
        let agreed = state.negotiation.params();
        let mut params = self.params.get();
        params.send_segment_len_max = agreed.send_segment_len_max;
        self.params.set(params);
        Some(out.0)
    }

    /// Appendix C: all targets in a discovery session, a named one, or (empty) the session's own.
    fn send_targets(&self, value: &str, out: &mut Text) {
        let wanted = match (value, &self.target_name) {
            ("All", None) => None,
            ("All", Some(_)) => return out.put("SendTargets", "Reject"),
            ("", Some(own)) => Some(own.as_str()),
            ("", None) => return out.put("SendTargets", "Reject"),
            (name, None) => Some(name),
            // In a normal session only its own target can be queried.
            (name, Some(own)) if name == own => Some(name),
            _ => return,
        };
        for (name, addresses) in self.target.discover(&self.initiator, self.link.stream.local()) {
            if wanted.is_some_and(|w| w != name) {
                continue;
            }
            out.put("TargetName", &name);
            for (address, group) in addresses {
                // SocketAddr writes IPv6 addresses in brackets, as 13.8 requires.
                out.put("TargetAddress", &format!("{address},{group}"));
            }
        }
    }
}
