//! Entry points to the pure parts for the fuzz targets of `fuzz/`, each with its invariants. Used by nothing
//! else.
//!
//! They panic when an invariant is violated; no input of a peer may cause that.

use world::Rng;

use crate::chap::{Algorithm, Challenge, ChapError};
use crate::digest::digest;
use crate::frame::{Framing, Layout, digest_of_pieces, set_data_len};
pub use crate::negotiation::Digests;
use crate::negotiation::{Negotiation, Offer, Params};
use crate::pdu::{self, BHS_LEN, Header, LoginRequest, Pdu, opcode};
use crate::target::login::{Authority, Login, LoginError};
use crate::target::{Chap, LoginRefusal, Secret};
use crate::text::{Text, binary, hex, number, pairs};

/// As many bytes of login text as a portal takes by default.
const TEXT_LEN_MAX: usize = 16 << 10;

/// Reads a connection's bytes PDU by PDU. Every complete PDU is written again and read again.
pub fn stream(header_digest: bool, data_digest: bool, data_len_max: usize, bytes: &[u8]) {
    let framing = Framing { header_digest, data_digest, data_len_max };
    let mut rest = bytes;
    while let Ok(Some(layout)) = framing.layout(rest) {
        assert!(layout.data_len <= data_len_max && layout.header_len >= BHS_LEN);
        assert_eq!(layout.header_len + layout.data_len + layout.tail_len(), layout.total_len);
        if layout.total_len > rest.len() {
            break;
        }
        let whole = &rest[..layout.total_len];
        assert_eq!(framing.layout(whole), Ok(Some(layout)), "the bytes that follow a PDU change its layout");
        assert_eq!(framing.layout(&whole[..BHS_LEN - 1]), Ok(None));
        let (pdu, _) = framing.pdu(rest, layout);
        assert_eq!((pdu.ahs.len(), pdu.data.len()), (layout.ahs_len, layout.data_len));
        header(&pdu);
        written_anew(&framing, &pdu, layout);
        rest = &rest[layout.total_len..];
    }
}

/// The header as each of its kinds gives the same 48 bytes, and says what the accessors say.
fn header(pdu: &Pdu) {
    fn same<H: Header>(pdu: &Pdu) {
        assert_eq!(pdu.header::<H>().bytes(), pdu.bhs);
        assert_eq!(H::OPCODE, pdu.opcode());
    }
    match pdu.opcode() {
        opcode::NOP_OUT => same::<pdu::NopOut>(pdu),
        opcode::SCSI_COMMAND => same::<pdu::ScsiCommand>(pdu),
        opcode::TASK_REQUEST => same::<pdu::TaskRequest>(pdu),
        opcode::LOGIN_REQUEST => same::<LoginRequest>(pdu),
        opcode::TEXT_REQUEST => same::<pdu::TextRequest>(pdu),
        opcode::DATA_OUT => same::<pdu::DataOut>(pdu),
        opcode::LOGOUT_REQUEST => same::<pdu::LogoutRequest>(pdu),
        opcode::SNACK => same::<pdu::Snack>(pdu),
        opcode::NOP_IN => same::<pdu::NopIn>(pdu),
        opcode::SCSI_RESPONSE => same::<pdu::ScsiResponse>(pdu),
        opcode::TASK_RESPONSE => same::<pdu::TaskResponse>(pdu),
        opcode::LOGIN_RESPONSE => same::<pdu::LoginResponse>(pdu),
        opcode::TEXT_RESPONSE => same::<pdu::TextResponse>(pdu),
        opcode::DATA_IN => same::<pdu::DataIn>(pdu),
        opcode::LOGOUT_RESPONSE => same::<pdu::LogoutResponse>(pdu),
        opcode::R2T => same::<pdu::R2t>(pdu),
        opcode::ASYNC_MESSAGE => same::<pdu::AsyncMessage>(pdu),
        opcode::REJECT => same::<pdu::Reject>(pdu),
        _ => {}
    }
    let command = pdu.header::<pdu::ScsiCommand>();
    assert_eq!((command.itt.get(), command.cmd_sn.get()), (pdu.itt(), pdu.cmd_sn()));
    assert_eq!(command.data_len.get() as usize, pdu.data.len());
}

/// Header, digests and padding as a sender makes them are read as the same PDU, and its digest is right.
fn written_anew(framing: &Framing, pdu: &Pdu, layout: Layout) {
    let mut bhs = *pdu.bhs;
    set_data_len(&mut bhs, pdu.data.len());
    assert_eq!(&bhs, pdu.bhs);
    let mut out = [&bhs[..], pdu.ahs].concat();
    if framing.header_digest {
        out.extend(digest(&out));
    }
    out.extend(pdu.data);
    out.extend(&[0; 3][..Framing::padding(pdu.data.len())]);
    if framing.data_digest && !pdu.data.is_empty() {
        let (front, back) = pdu.data.split_at(pdu.data.len() / 3);
        out.extend(digest_of_pieces([front, back].into_iter()));
    }
    assert_eq!(framing.layout(&out), Ok(Some(layout)));
    let (again, right) = framing.pdu(&out, layout);
    assert!(right, "the digest of a PDU written here is wrong");
    assert_eq!((again.bhs, again.ahs, again.data), (pdu.bhs, pdu.ahs, pdu.data));
}

/// Splits a text, and reads every value as a number and as binary; valid values are written and read again.
pub fn text(bytes: &[u8]) {
    let Ok(found) = pairs(bytes) else { return };
    let mut out = Text::default();
    for (key, value) in &found {
        out.put(key, value);
        if let Some(n) = number(value) {
            assert_eq!(number(&n.to_string()), Some(n));
        }
        if let Some(bytes) = binary(value, 1024) {
            assert!((1..=1024).contains(&bytes.len()));
            assert_eq!(binary(&hex(&bytes), 1024), Some(bytes));
        }
    }
    assert_eq!(pairs(&out.0), Ok(found));
}

/// Two honest sides always come to the same agreement; and a peer's own text, in either role, never to an
/// impossible one.
pub fn negotiate(initiator: Offer, target: Offer, is_discovery: bool, text: &[u8]) {
    let (mut asking, mut answering) = (Negotiation::new(initiator), Negotiation::new(target));
    if is_discovery {
        asking.set_discovery();
        answering.set_discovery();
    }
    let (mut said, mut answered) = (Text::default(), Text::default());
    asking.propose(&mut said);
    for (key, value) in pairs(&said.0).expect("an initiator's own text") {
        answering.answer(key, value, &mut answered).expect("an honest offer is never refused");
    }
    answering.declare(&mut answered);
    let mut is_rejected = false;
    for (key, value) in pairs(&answered.0).expect("a target's own text") {
        is_rejected |= value == "Reject" && key.ends_with("Digest");
        let accepted = asking.accept(key, value);
        assert!(accepted.is_ok() || value == "Reject", "{key}={value} is refused by who asked for it");
    }
    if !is_rejected {
        assert_eq!(asking.params(), seen_from_the_other_side(answering.params()));
    }
    if !is_discovery {
        within(&initiator, &asking.params());
        within(&target, &answering.params());
    }
    peer_text(initiator, target, text);
}

/// What two sides have negotiated is never more than either offered (RFC 7143 13.10 to 13.17).
fn within(offer: &Offer, p: &Params) {
    assert!(
        p.max_burst_len <= offer.max_burst_len && p.first_burst_len <= offer.first_burst_len,
        "{offer:?} {p:?}"
    );
    assert!(p.max_outstanding_r2t <= offer.max_outstanding_r2t && p.time2retain_s <= offer.time2retain_s);
    assert!(p.time2wait_s >= offer.time2wait_s, "the longer wait wins");
    assert!((p.initial_r2t || !offer.initial_r2t) && (!p.immediate_data || offer.immediate_data));
}

/// A peer's text, in either role, key by key in sequence and each key alone.
fn peer_text(initiator: Offer, target: Offer, text: &[u8]) {
    let Ok(found) = pairs(text) else { return };
    let mut whole = Negotiation::new(target);
    let mut out = Text::default();
    let _ = found.iter().try_for_each(|(key, value)| whole.answer(key, value, &mut out));
    sane(&whole.params());
    for (key, value) in found {
        let (mut asking, mut answering) = (Negotiation::new(initiator), Negotiation::new(target));
        let mut out = Text::default();
        let _ = answering.answer(key, value, &mut out);
        assert!(pairs(&out.0).expect("a target's own text").len() <= 1);
        sane(&answering.params());
        let _ = asking.accept(key, value);
        sane(&asking.params());
    }
}

fn seen_from_the_other_side(p: Params) -> Params {
    Params { recv_segment_len_max: p.send_segment_len_max, send_segment_len_max: p.recv_segment_len_max, ..p }
}

/// Bounds that the transfer of data relies on (RFC 7143 13.12 to 13.17).
fn sane(p: &Params) {
    let lens = 512..1 << 24;
    assert!(lens.contains(&p.max_burst_len) && lens.contains(&p.first_burst_len), "{p:?}");
    assert!(lens.contains(&p.recv_segment_len_max) && lens.contains(&p.send_segment_len_max), "{p:?}");
    assert!(p.first_burst_len <= p.max_burst_len && p.max_outstanding_r2t >= 1, "{p:?}");
}

/// Reads a challenge and its answer from text; the right answer is taken, another never.
pub fn chap(algorithms: &str, id: &str, challenge: &str, name: &str, response: &str) {
    let Ok(algorithm) = Algorithm::choose(algorithms) else { return };
    assert_eq!(Algorithm::of(algorithm.number()), Some(algorithm));
    let Ok(read) = Challenge::read(id, challenge) else { return };
    assert!(Challenge::read(&read.id_text(), &read.text()).is_ok_and(|again| again == read));
    let right = read.response(algorithm, "the host's secret");
    let verify = |said: (&str, &str)| read.verify(algorithm, ("host", "the host's secret"), said);
    assert_eq!(verify(("host", &right)), Ok(()));
    assert!(name == "host" || verify((name, &right)) == Err(ChapError::Wrong));
    let is_right = binary(response, 1024) == binary(&right, 1024);
    assert_eq!(
        verify(("host", response)).is_ok(),
        is_right,
        "a wrong response was taken, or the right one was not"
    );
}

/// One request of a login.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Step {
    pub header: LoginRequest,
    pub text: Vec<u8>,
    /// Appends CHAP_N and the right CHAP_R for the challenge that was sent last.
    pub prove: bool,
}

/// What the host must prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Proof {
    None,
    Chap,
    /// CHAP, and the target proves itself when it is asked to.
    Mutual,
}

impl Authority for Proof {
    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal> {
        let secret = |name: &str, secret: &str| Secret { name: name.into(), secret: secret.into() };
        let target_secret = (*self == Proof::Mutual).then(|| secret("array", "the target's secret"));
        match (initiator, target) {
            (name, _) if name.ends_with("stranger") => Err(LoginRefusal::NotAllowed),
            (_, Some(name)) if name.ends_with("elsewhere") => Err(LoginRefusal::NotFound),
            _ if *self == Proof::None => Ok(None),
            _ => Ok(Some(Chap { host: secret("host", "the host's secret"), target: target_secret })),
        }
    }

    fn portal_group(&self) -> u16 {
        1
    }
}

/// A login, request by request, until it is refused or complete. Without the proof it is never complete.
pub fn login(offer: Offer, proof: Proof, steps: &[Step]) {
    let mut login = Login::new(offer, TEXT_LEN_MAX, Rng::with_seed(7143));
    let (mut challenge, mut has_proved): (Option<Challenge>, bool) = (None, false);
    for step in steps {
        let mut said = Text(step.text.clone());
        if let (true, Some(sent)) = (step.prove, challenge.take()) {
            said.put("CHAP_N", "host");
            said.put("CHAP_R", &sent.response(Algorithm::Md5, "the host's secret"));
            has_proved = true;
        }
        let reply = match login.step(&step.header, &said.0, &proof) {
            Ok(reply) => reply,
            Err(error) => return refused(&error),
        };
        let answered = pairs(&reply.text).expect("a target's own text");
        let value = |key: &str| answered.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        if let (Some("5"), Some(id), Some(bytes)) = (value("CHAP_A"), value("CHAP_I"), value("CHAP_C")) {
            challenge = Some(Challenge::read(id, bytes).expect("a target's own challenge"));
        }
        if reply.is_complete {
            assert!(proof == Proof::None || has_proved, "in without the proof");
            assert!(!login.initiator.is_empty() && (login.is_discovery || login.target.is_some()));
            sane(&login.params());
            return;
        }
    }
}

/// Every refusal has a status that initiators know (11.13.5), and one line of text.
fn refused(error: &LoginError) {
    let (class, detail) = error.status();
    assert!(matches!((class, detail), (2, 0..=0x0b) | (3, 0..=2)), "{class:02x}{detail:02x}");
    assert!(!error.to_string().contains('\n'));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_pass_on_what_is_usual() {
        let mut bytes = vec![0; 48];
        bytes[7] = 5;
        bytes.extend(b"hello\0\0\0");
        stream(false, false, 8192, &bytes);
        text(b"A=1\0CHAP_C=0x0102\0");
        let right = Challenge { id: 1, bytes: vec![2; 16] }.response(Algorithm::Md5, "the host's secret");
        chap("5", "1", &hex(&[2; 16]), "host", &right);
    }
}
