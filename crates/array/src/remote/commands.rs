//! Commands of hosts and their answers.

use block::Pieces;
use scsi::error::TokenFault;
use scsi::sense::Asc;
use scsi::{
    Arrival, CopyAnswer, CopyEnd, CopyRequest, InitiatorPort, NexusId, Request, Response, Status, TargetPort,
    TaskAttribute,
};
use serde::{Deserialize, Serialize};

use super::error::RemoteError;
use super::payload::{Loaded, pieces};
use crate::nexus::RemoteNexus;

/// The longest read for a copy: the longest transfer of a command.
const COPY_BYTES_MAX: u64 = 32 << 20;

/// The longest sense data (SPC-5 4.4.2: ADDITIONAL SENSE LENGTH is at most 244).
const SENSE_LEN_MAX: usize = 252;

/// The longest iSCSI name (RFC 7143 4.2.7.2).
const ISCSI_NAME_LEN_MAX: usize = 223;

#[derive(Serialize, Deserialize)]
pub(super) struct Nexus {
    id: u64,
    initiator: InitiatorPort,
    port: TargetPort,
}

impl From<RemoteNexus> for Nexus {
    fn from(RemoteNexus { id, initiator, port }: RemoteNexus) -> Nexus {
        Nexus { id: id.0, initiator, port }
    }
}

impl TryFrom<Nexus> for RemoteNexus {
    type Error = RemoteError;

    fn try_from(Nexus { id, initiator, port }: Nexus) -> Result<RemoteNexus, RemoteError> {
        if initiator.name.len() > ISCSI_NAME_LEN_MAX || port.target.len() > ISCSI_NAME_LEN_MAX {
            return Err(RemoteError::malformed("an iSCSI name is too long"));
        }
        Ok(RemoteNexus { id: NexusId(id), initiator, port })
    }
}

/// A [`Request`] without its data and its trace.
#[derive(Serialize, Deserialize)]
pub(super) struct Requested {
    cdb: [u8; 16],
    attribute: TaskAttribute,
    data_out_max: u32,
    data_in_max: u32,
    tag: u64,
    arrival: Arrival,
}

impl Requested {
    /// `arrival` is that of the request, in the order of the receiver.
    pub(super) fn of(request: Request, arrival: Arrival) -> Loaded<Requested> {
        let Request { cdb, attribute, data_out, data_out_max, data_in_max, tag, arrival: _, trace: _ } =
            request;
        (Requested { cdb, attribute, data_out_max, data_in_max, tag, arrival }, data_out)
    }

    pub(super) fn with(self, payload: &[u8]) -> Request {
        let Requested { cdb, attribute, data_out_max, data_in_max, tag, arrival } = self;
        let data_out = pieces(payload);
        Request { cdb, attribute, data_out, data_out_max, data_in_max, tag, arrival, trace: None }
    }
}

/// A [`Response`] without its data and its trace.
#[derive(Serialize, Deserialize)]
pub(super) struct Responded {
    status: Status,
    sense: Vec<u8>,
    data_in_wanted: u64,
    data_out_wanted: u64,
    aborted: bool,
}

impl Responded {
    pub(super) fn of(response: Response) -> Loaded<Responded> {
        let Response { status, sense, data_in, data_in_wanted, data_out_wanted, aborted, trace: _ } =
            response;
        (Responded { status, sense, data_in_wanted, data_out_wanted, aborted }, data_in)
    }

    pub(super) fn with(self, payload: &[u8]) -> Result<Response, RemoteError> {
        let Responded { status, sense, data_in_wanted, data_out_wanted, aborted } = self;
        if sense.len() > SENSE_LEN_MAX {
            return Err(RemoteError::malformed("its sense data are too long"));
        }
        let data_in = pieces(payload);
        Ok(Response { status, sense, data_in, data_in_wanted, data_out_wanted, aborted, trace: None })
    }
}

/// A [`CopyRequest`]. The payload is the data of a write, or the token.
#[derive(Serialize, Deserialize)]
pub(super) enum CopyAsked {
    Find([u8; 16]),
    Read { end: CopyEnd, at: u64, len: u64 },
    FindToken,
    ReadToken { at: u64, len: u64 },
    DeleteToken,
    Write { end: CopyEnd, at: u64, arrival: Arrival },
}

impl CopyAsked {
    /// `arrival` is that of a write, in the order of the receiver.
    pub(super) fn of(request: CopyRequest, arrival: Arrival) -> Loaded<CopyAsked> {
        let token = |token: Box<[u8; 512]>| Pieces::copy_of(&token[..]);
        match request {
            CopyRequest::Find(naa) => (CopyAsked::Find(naa), Pieces::new()),
            CopyRequest::Read { end, at, len } => (CopyAsked::Read { end, at, len }, Pieces::new()),
            CopyRequest::FindToken(bytes) => (CopyAsked::FindToken, token(bytes)),
            CopyRequest::ReadToken { token: bytes, at, len } => {
                (CopyAsked::ReadToken { at, len }, token(bytes))
            }
            CopyRequest::DeleteToken(bytes) => (CopyAsked::DeleteToken, token(bytes)),
            CopyRequest::Write { end, at, data, arrival: _ } => (CopyAsked::Write { end, at, arrival }, data),
        }
    }

    pub(super) fn with(self, payload: &[u8]) -> Result<CopyRequest, RemoteError> {
        let token = || -> Result<Box<[u8; 512]>, RemoteError> {
            let token = payload.try_into().map(|bytes: &[u8; 512]| Box::new(*bytes));
            token.map_err(|_| RemoteError::malformed("a token has 512 bytes"))
        };
        let range = |at: u64, len: u64| match at.checked_add(len) {
            Some(_) if len <= COPY_BYTES_MAX => Ok(()),
            _ => Err(RemoteError::malformed("the range of a copy is too long")),
        };
        Ok(match self {
            CopyAsked::Find(naa) => CopyRequest::Find(naa),
            CopyAsked::Read { end, at, len } => {
                range(at, len)?;
                CopyRequest::Read { end, at, len }
            }
            CopyAsked::FindToken => CopyRequest::FindToken(token()?),
            CopyAsked::ReadToken { at, len } => {
                range(at, len)?;
                CopyRequest::ReadToken { token: token()?, at, len }
            }
            CopyAsked::DeleteToken => CopyRequest::DeleteToken(token()?),
            CopyAsked::Write { end, at, arrival } => {
                range(at, payload.len() as u64)?;
                CopyRequest::Write { end, at, data: pieces(payload), arrival }
            }
        })
    }
}

/// A [`CopyAnswer`]. The payload is what was read.
#[derive(Serialize, Deserialize)]
pub(super) enum CopyAnswered {
    End(Option<CopyEnd>),
    Token(Result<u64, TokenFault>),
    Done,
    Refused(Asc),
}

impl CopyAnswered {
    pub(super) fn of(answer: CopyAnswer) -> Loaded<CopyAnswered> {
        match answer {
            CopyAnswer::End(end) => (CopyAnswered::End(end), Pieces::new()),
            CopyAnswer::Token(found) => (CopyAnswered::Token(found), Pieces::new()),
            CopyAnswer::Done(data) => (CopyAnswered::Done, data),
            CopyAnswer::Refused(asc) => (CopyAnswered::Refused(asc), Pieces::new()),
        }
    }

    pub(super) fn with(self, payload: &[u8]) -> CopyAnswer {
        match self {
            CopyAnswered::End(end) => CopyAnswer::End(end),
            CopyAnswered::Token(found) => CopyAnswer::Token(found),
            CopyAnswered::Done => CopyAnswer::Done(pieces(payload)),
            CopyAnswered::Refused(asc) => CopyAnswer::Refused(asc),
        }
    }
}
