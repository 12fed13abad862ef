//! The target's side of login (RFC 7143 clause 6): a pure state machine, from request to response.
//!
//! ```text
//!   first request ──> Security (CSG 0) ──CHAP or None──> Operational (CSG 1) ──keys──> full feature phase
//!                └──────────── when nothing needs to be proved ────^
//! ```

use world::Rng;

use super::seam::{Chap, LoginRefusal};
use crate::chap::{Algorithm, Challenge, ChapError};
use crate::name;
use crate::negotiation::{Negotiation, NegotiationError, Offer, Params};
use crate::pdu::{CONTINUE, LoginRequest, TRANSIT};
use crate::text::{Text, TextError, pairs};

/// Limit of requests of one login, continued text included: CHAP with mutual authentication and all keys
/// takes four.
const REQUESTS_MAX: u32 = 32;

/// Why a login ended without a session; class and detail of the response are those of 11.13.5.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The request violates the protocol.
    #[error("{0}")]
    Protocol(&'static str),
    /// The text is malformed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The keys are invalid.
    #[error(transparent)]
    Negotiation(#[from] NegotiationError),
    /// Authentication failed.
    #[error("authentication failed: {0}")]
    Authentication(#[from] ChapError),
    /// No authentication method in common, or the initiator offers only None where authentication is
    /// required.
    #[error("no authentication method in common")]
    NoMethod,
    /// An unsupported version.
    #[error("unsupported iSCSI version {0}")]
    Version(u8),
    /// A required key.
    #[error("missing {0}")]
    Missing(&'static str),
    /// An unknown session type.
    #[error("unsupported session type")]
    SessionType,
    /// A second connection for a session.
    #[error("too many connections: a session has one")]
    TooManyConnections,
    /// A session identifying handle that is not in use.
    #[error("no such session")]
    NoSuchSession,
    /// The array refuses the login.
    #[error("{0}")]
    Refused(LoginRefusal),
}

impl LoginError {
    /// Class and detail of the login response.
    pub fn status(&self) -> (u8, u8) {
        match self {
            LoginError::Protocol(_) | LoginError::Text(_) | LoginError::Negotiation(_) => (2, 0x00),
            LoginError::Authentication(_) | LoginError::NoMethod => (2, 0x01),
            LoginError::Refused(LoginRefusal::NotAllowed) => (2, 0x02),
            LoginError::Refused(LoginRefusal::NotFound) => (2, 0x03),
            LoginError::Version(_) => (2, 0x05),
            LoginError::TooManyConnections => (2, 0x06),
            LoginError::Missing(_) => (2, 0x07),
            LoginError::SessionType => (2, 0x09),
            LoginError::NoSuchSession => (2, 0x0a),
            LoginError::Refused(LoginRefusal::ServiceUnavailable) => (3, 0x01),
            LoginError::Refused(LoginRefusal::OutOfResources) => (3, 0x02),
        }
    }
}

/// The interface of a login to the array.
pub(crate) trait Authority {
    /// What this initiator must prove for this target (`None`: discovery).
    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal>;
    /// The tag of this portal's group.
    fn portal_group(&self) -> u16;
}

/// One response.
#[derive(Debug)]
pub(crate) struct Reply {
    /// T, CSG and NSG.
    pub flags: u8,
    pub text: Vec<u8>,
    /// Whether the login is complete after this response.
    pub is_complete: bool,
}

/// Stages, as CSG and NSG number them (11.12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Security = 0,
    Operational = 1,
    FullFeature = 3,
}

impl Stage {
    fn of(bits: u8) -> Result<Stage, LoginError> {
        match bits & 3 {
            0 => Ok(Stage::Security),
            1 => Ok(Stage::Operational),
            3 => Ok(Stage::FullFeature),
            _ => Err(LoginError::Protocol("reserved login stage")),
        }
    }
}

/// State of the authentication.
enum Proof {
    /// Before the AuthMethod key; the required CHAP.
    Open(Option<Chap>),
    /// CHAP was negotiated; the algorithm is next.
    Chosen(Chap),
    /// The challenge was sent.
    Challenged(Chap, Algorithm, Challenge),
    /// Authenticated, or not required.
    Done,
}

/// Fields that must not change between the requests of a login.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    isid: [u8; 6],
    tsih: u16,
    cid: u16,
    itt: u32,
    cmd_sn: u32,
}

/// A login in progress.
pub(crate) struct Login {
    stage: Stage,
    proof: Proof,
    negotiation: Negotiation,
    identity: Option<Identity>,
    requests: u32,
    /// Text of a continued request, and its length so far.
    pending: Vec<u8>,
    text_len_max: usize,
    rng: Rng,
    /// The names, once received.
    pub initiator: String,
    pub target: Option<String>,
    pub is_discovery: bool,
    /// Whether the initiator authenticated by CHAP.
    pub is_proven: bool,
}

impl Login {
    pub(crate) fn new(offer: Offer, text_len_max: usize, rng: Rng) -> Login {
        Login {
            stage: Stage::Security,
            proof: Proof::Open(None),
            negotiation: Negotiation::new(offer),
            identity: None,
            requests: 0,
            pending: Vec::new(),
            text_len_max,
            rng,
            initiator: String::new(),
            target: None,
            is_discovery: false,
            is_proven: false,
        }
    }

    pub(crate) fn params(&self) -> Params {
        self.negotiation.params()
    }

    /// Processes one request with its text.
    pub(crate) fn step(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
        authority: &dyn Authority,
    ) -> Result<Reply, LoginError> {
        let is_first = self.check_header(request)?;
        let (transit, continues) = (request.flags & TRANSIT != 0, request.flags & CONTINUE != 0);
        if self.pending.len() + text.len() > self.text_len_max {
            return Err(TextError::TooMuch.into());
        }
        self.pending.extend_from_slice(text);
        let csg = Stage::of(request.flags >> 2)?;
        if continues {
            if transit {
                return Err(LoginError::Protocol("transit bit with continued text"));
            }
            return Ok(Reply { flags: (csg as u8) << 2, text: Vec::new(), is_complete: false });
        }
        let text = std::mem::take(&mut self.pending);
        let pairs = pairs(&text)?;
        let mut out = Text::default();
        if self.initiator.is_empty() {
            self.begin(csg, &pairs, authority, &mut out)?;
        } else if is_first {
            return Err(LoginError::Protocol("first request repeated"));
        } else if pairs.iter().any(|(key, _)| ["InitiatorName", "TargetName", "SessionType"].contains(key)) {
            // 6.3: the names and the session type come first, and determine what must be proved.
            return Err(LoginError::Protocol("name or session type after the first request"));
        }
        if csg != self.stage {
            return Err(LoginError::Protocol("not the current stage"));
        }
        let next = if transit { Some(Stage::of(request.flags)?) } else { None };
        if next.is_some_and(|next| next <= csg) {
            return Err(LoginError::Protocol("next stage must be after the current stage"));
        }
        let ready = match self.stage {
            Stage::Security => self.security(&pairs, &mut out)?,
            _ => self.operational(&pairs, &mut out)?,
        };
        if !out.is_bounded() {
            return Err(TextError::TooMuch.into());
        }
        Ok(self.reply(csg, next.filter(|_| ready), out))
    }

    fn reply(&mut self, csg: Stage, next: Option<Stage>, out: Text) -> Reply {
        let mut flags = (csg as u8) << 2;
        if let Some(next) = next {
            self.stage = next;
            flags |= TRANSIT | next as u8;
        }
        Reply { flags, text: out.0, is_complete: next == Some(Stage::FullFeature) }
    }

    /// Checks the version and the fields that must not change. Returns whether this is the first request.
    fn check_header(&mut self, request: &LoginRequest) -> Result<bool, LoginError> {
        self.requests += 1;
        if self.requests > REQUESTS_MAX {
            return Err(LoginError::Protocol("too many login requests"));
        }
        if request.version_min > 0 {
            return Err(LoginError::Version(request.version_min));
        }
        let identity = Identity {
            isid: request.isid,
            tsih: request.tsih.get(),
            cid: request.cid.get(),
            itt: request.itt.get(),
            cmd_sn: request.cmd_sn.get(),
        };
        match self.identity {
            None => {
                self.identity = Some(identity);
                Ok(true)
            }
            Some(known) if known == identity => Ok(false),
            Some(_) => Err(LoginError::Protocol("changed ISID, TSIH, CID, task tag or CmdSN")),
        }
    }

    /// The first complete text: names and session type (6.3).
    fn begin(
        &mut self,
        csg: Stage,
        pairs: &[(&str, &str)],
        authority: &dyn Authority,
        out: &mut Text,
    ) -> Result<(), LoginError> {
        let value = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let initiator = value("InitiatorName").ok_or(LoginError::Missing("InitiatorName"))?;
        let initiator = name_of(initiator)?;
        match value("SessionType") {
            None | Some("Normal") => {
                let target = value("TargetName").ok_or(LoginError::Missing("TargetName"))?;
                // The array's own name is compared as declared.
                name_of(target)?;
                self.target = Some(target.into());
                // 13.9: in the first response to a login that names a target.
                out.put("TargetPortalGroupTag", &authority.portal_group().to_string());
            }
            Some("Discovery") => {
                self.is_discovery = true;
                self.negotiation.set_discovery();
            }
            Some(_) => return Err(LoginError::SessionType),
        }
        self.initiator = initiator;
        let wanted =
            authority.authentication(&self.initiator, self.target.as_deref()).map_err(LoginError::Refused)?;
        self.stage = csg;
        match csg {
            Stage::Security => self.proof = Proof::Open(wanted),
            Stage::Operational if wanted.is_none() => self.proof = Proof::Done,
            Stage::Operational => return Err(LoginError::NoMethod),
            Stage::FullFeature => return Err(LoginError::Protocol("login begins in the full feature phase")),
        }
        Ok(())
    }

    /// The operational stage can end whenever the initiator requests it.
    fn operational(&mut self, pairs: &[(&str, &str)], out: &mut Text) -> Result<bool, LoginError> {
        if pairs.iter().any(|(key, _)| is_security(key)) {
            return Err(LoginError::Protocol("security key in the operational stage"));
        }
        self.negotiation.answer_all(pairs.iter().copied(), out)?;
        self.negotiation.declare(out);
        Ok(true)
    }

    /// One step of the authentication; returns whether it is complete.
    fn security(&mut self, pairs: &[(&str, &str)], out: &mut Text) -> Result<bool, LoginError> {
        let mut security = Vec::new();
        for (key, value) in pairs.iter().filter(|(key, _)| is_security(key)) {
            if security.iter().any(|(k, _)| k == key) {
                return Err(NegotiationError::Twice((*key).into()).into());
            }
            security.push((*key, *value));
        }
        self.negotiation.answer_all(pairs.iter().copied().filter(|(key, _)| !is_security(key)), out)?;
        let value = |key: &str| security.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let need = |key: &'static str| value(key).ok_or(LoginError::Authentication(ChapError::Key(key)));
        self.proof = match std::mem::replace(&mut self.proof, Proof::Done) {
            Proof::Open(wanted) => match value("AuthMethod") {
                Some(offered) => choose_method(wanted, offered, out)?,
                // Without AuthMethod the default is None (12.1).
                None if wanted.is_none() => Proof::Done,
                None => return Err(LoginError::NoMethod),
            },
            Proof::Chosen(chap) => {
                let algorithm = Algorithm::choose(need("CHAP_A")?)?;
                let challenge = Challenge::new(&mut self.rng);
                out.put("CHAP_A", algorithm.number());
                out.put("CHAP_I", &challenge.id_text());
                out.put("CHAP_C", &challenge.text());
                Proof::Challenged(chap, algorithm, challenge)
            }
            Proof::Challenged(chap, algorithm, challenge) => {
                let said = (need("CHAP_N")?, need("CHAP_R")?);
                challenge.verify(algorithm, (&chap.host.name, &chap.host.secret), said)?;
                if let (Some(id), Some(bytes)) = (value("CHAP_I"), value("CHAP_C")) {
                    prove(&chap, algorithm, &challenge, Challenge::read(id, bytes)?, out)?;
                }
                self.is_proven = true;
                Proof::Done
            }
            Proof::Done => Proof::Done,
        };
        Ok(matches!(self.proof, Proof::Done))
    }
}

/// Keys of clause 12, which belong to the security stage.
pub(crate) fn is_security(key: &str) -> bool {
    key == "AuthMethod" || key.starts_with("CHAP_")
}

/// 12.1: the first acceptable method of the initiator's list.
fn choose_method(wanted: Option<Chap>, offered: &str, out: &mut Text) -> Result<Proof, LoginError> {
    let offers = |method: &str| offered.split(',').any(|m| m == method);
    match wanted {
        Some(chap) if offers("CHAP") => {
            out.put("AuthMethod", "CHAP");
            Ok(Proof::Chosen(chap))
        }
        None if offers("None") => {
            out.put("AuthMethod", "None");
            Ok(Proof::Done)
        }
        _ => Err(LoginError::NoMethod),
    }
}

/// The target's own response (12.1.3), never to its own challenge.
fn prove(
    chap: &Chap,
    algorithm: Algorithm,
    sent: &Challenge,
    got: Challenge,
    out: &mut Text,
) -> Result<(), ChapError> {
    if got.bytes == sent.bytes {
        return Err(ChapError::Reflected);
    }
    let own = chap.target.as_ref().ok_or(ChapError::NotMutual)?;
    out.put("CHAP_N", &own.name);
    out.put("CHAP_R", &got.response(algorithm, &own.secret));
    Ok(())
}

/// 4.2.7: a name in the form in which names are compared.
fn name_of(text: &str) -> Result<String, LoginError> {
    match name::is_acceptable(text) {
        true => Ok(name::normalised(text)),
        false => Err(LoginError::Protocol("malformed iSCSI name")),
    }
}

#[cfg(test)]
mod tests;
