//! The initiator's side of login: a pure state machine, from response to request.

use std::net::SocketAddr;

use world::Rng;

use super::options::Options;
use crate::chap::{Algorithm, Challenge, ChapError};
use crate::negotiation::{Negotiation, NegotiationError, Params};
use crate::pdu::{CONTINUE, LoginResponse, TRANSIT};
use crate::target::Secret;
use crate::text::{Text, TextError, pairs};

/// Limit of responses in one login.
const ANSWERS_MAX: u32 = 32;
/// Length limit of one continued response text.
const TEXT_LEN_MAX: usize = 64 << 10;

/// Why a login fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginFailure {
    /// The target refused the login.
    #[error("{}", describe(*class, *detail))]
    Refused {
        /// Status class (RFC 7143 11.13.5).
        class: u8,
        /// Status detail.
        detail: u8,
    },
    /// The target has moved.
    #[error("the target has moved; log in at {0}")]
    Moved(SocketAddr),
    /// The response violates the protocol.
    #[error("the target violates the login protocol: {0}")]
    Protocol(&'static str),
    /// Its text is malformed.
    #[error("malformed login text from the target: {0}")]
    Text(#[from] TextError),
    /// Its keys are invalid.
    #[error("invalid login keys from the target: {0}")]
    Negotiation(#[from] NegotiationError),
    /// The target failed to authenticate.
    #[error("CHAP failed: {0}")]
    Chap(#[from] ChapError),
    /// The target requires authentication, and no secret is set.
    #[error("the target requires authentication; set a CHAP name and secret")]
    NoSecret,
}

fn describe(class: u8, detail: u8) -> String {
    let text = match (class, detail) {
        (2, 0) => "the initiator violated the login protocol",
        (2, 1) => "authentication failed: missing or wrong CHAP name or secret",
        (2, 2) => "this initiator has no access",
        (2, 3) => "target not found",
        (2, 4) => "the target was removed",
        (2, 5) => "no iSCSI version in common",
        (2, 6) => "too many connections",
        (2, 7) => "a key is missing",
        (2, 9) => "unsupported session type",
        (2, 10) => "no such session",
        (3, 1) => "the service is unavailable",
        (3, 2) => "the target is out of resources",
        _ => "the target refused the login",
    };
    format!("{text} (login status {class:02x}{detail:02x}h)")
}

/// The next request, or the end of login.
#[derive(Debug)]
pub(crate) enum Next {
    Request { flags: u8, text: Vec<u8> },
    Complete,
}

#[derive(Clone, PartialEq, Eq)]
enum At {
    /// AuthMethod is offered.
    Method,
    Algorithms,
    /// The response is sent; the target's proof may have to come.
    Response(Option<(Algorithm, Challenge)>),
    /// Keys are offered.
    Operational,
}

const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

pub(crate) struct Login {
    at: At,
    negotiation: Negotiation,
    chap: Option<Secret>,
    target_chap: Option<Secret>,
    rng: Rng,
    answers: u32,
    pending: Vec<u8>,
}

impl Login {
    /// Begins; returns the first request.
    pub(crate) fn begin(options: &Options, rng: Rng) -> (Login, Next) {
        let mut negotiation = Negotiation::new(options.offer);
        let mut text = Text::default();
        text.put("InitiatorName", &options.initiator);
        match &options.target {
            Some(target) => {
                text.put("SessionType", "Normal");
                text.put("TargetName", target);
            }
            None => {
                text.put("SessionType", "Discovery");
                negotiation.set_discovery();
            }
        }
        let (chap, target_chap) = (options.chap.clone(), options.target_chap.clone());
        let at = if chap.is_some() { At::Method } else { At::Operational };
        let mut login = Login { at, negotiation, chap, target_chap, rng, answers: 0, pending: Vec::new() };
        let next = match login.at {
            At::Operational => login.operational(text),
            _ => {
                text.put("AuthMethod", if login.target_chap.is_some() { "CHAP" } else { "CHAP,None" });
                request(SECURITY, Some(OPERATIONAL), text)
            }
        };
        (login, next)
    }

    pub(crate) fn params(&self) -> Params {
        self.negotiation.params()
    }

    fn operational(&mut self, mut text: Text) -> Next {
        self.at = At::Operational;
        self.negotiation.propose(&mut text);
        request(OPERATIONAL, Some(FULL_FEATURE), text)
    }

    /// Processes a response; returns the next request.
    pub(crate) fn step(&mut self, header: &LoginResponse, text: &[u8]) -> Result<Next, LoginFailure> {
        self.answers += 1;
        if self.answers > ANSWERS_MAX || self.pending.len() + text.len() > TEXT_LEN_MAX {
            return Err(LoginFailure::Protocol("a login that does not end"));
        }
        self.pending.extend_from_slice(text);
        let csg = header.flags >> 2 & 3;
        if header.status_class == 0 && header.flags & CONTINUE != 0 {
            return Ok(request(csg, None, Text::default()));
        }
        let text = std::mem::take(&mut self.pending);
        let pairs = pairs(&text)?;
        let value = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        match header.status_class {
            0 => {}
            1 => {
                let address =
                    value("TargetAddress").and_then(|a| a.split(',').next()).and_then(|a| a.parse().ok());
                return Err(address.map_or(
                    LoginFailure::Protocol("a redirection without an address"),
                    LoginFailure::Moved,
                ));
            }
            class => return Err(LoginFailure::Refused { class, detail: header.status_detail }),
        }
        let transits = header.flags & TRANSIT != 0;
        match std::mem::replace(&mut self.at, At::Operational) {
            At::Method => self.after_method(value("AuthMethod"), transits),
            At::Algorithms => self.respond(value),
            At::Response(sent) => self.after_response(sent, value, transits),
            At::Operational => {
                for (key, value) in &pairs {
                    self.negotiation.accept(key, value)?;
                }
                if transits && header.flags & 3 == FULL_FEATURE {
                    return Ok(Next::Complete);
                }
                // The other side has not sent all of its text.
                Ok(request(OPERATIONAL, Some(FULL_FEATURE), Text::default()))
            }
        }
    }

    fn after_method(&mut self, method: Option<&str>, transits: bool) -> Result<Next, LoginFailure> {
        match method {
            Some("CHAP") => {
                let mut text = Text::default();
                text.put("CHAP_A", Algorithm::OFFER);
                self.at = At::Algorithms;
                Ok(request(SECURITY, None, text))
            }
            Some("None") if self.target_chap.is_none() && transits => Ok(self.operational(Text::default())),
            Some("None") if self.target_chap.is_none() => {
                self.at = At::Response(None);
                Ok(request(SECURITY, Some(OPERATIONAL), Text::default()))
            }
            _ => Err(LoginFailure::Protocol("no authentication method was chosen")),
        }
    }

    fn respond<'a>(&mut self, value: impl Fn(&str) -> Option<&'a str>) -> Result<Next, LoginFailure> {
        let need = |key: &'static str| value(key).ok_or(ChapError::Key(key));
        let algorithm = Algorithm::of(need("CHAP_A")?).ok_or(ChapError::Algorithm)?;
        let challenge = Challenge::read(need("CHAP_I")?, need("CHAP_C")?)?;
        let own = self.chap.as_ref().ok_or(LoginFailure::NoSecret)?;
        let mut text = Text::default();
        text.put("CHAP_N", &own.name);
        text.put("CHAP_R", &challenge.response(algorithm, &own.secret));
        let sent = self.target_chap.is_some().then(|| Challenge::new(&mut self.rng));
        if let Some(sent) = &sent {
            text.put("CHAP_I", &sent.id_text());
            text.put("CHAP_C", &sent.text());
        }
        self.at = At::Response(sent.map(|c| (algorithm, c)));
        Ok(request(SECURITY, Some(OPERATIONAL), text))
    }

    fn after_response<'a>(
        &mut self,
        sent: Option<(Algorithm, Challenge)>,
        value: impl Fn(&str) -> Option<&'a str>,
        transits: bool,
    ) -> Result<Next, LoginFailure> {
        if let (Some((algorithm, challenge)), Some(want)) = (sent, &self.target_chap) {
            let need = |key: &'static str| value(key).ok_or(ChapError::Key(key));
            challenge.verify(algorithm, (&want.name, &want.secret), (need("CHAP_N")?, need("CHAP_R")?))?;
        }
        match transits {
            true => Ok(self.operational(Text::default())),
            false => Err(LoginFailure::Protocol("the security stage does not end")),
        }
    }
}

fn request(csg: u8, nsg: Option<u8>, text: Text) -> Next {
    Next::Request { flags: csg << 2 | nsg.map_or(0, |nsg| TRANSIT | nsg), text: text.0 }
}
