//! Connecting and logging in, for sessions and loads.

use world::{Batch, NetError, World};

use super::login::{Login, LoginFailure, Next};
use super::options::Options;
use crate::frame::{Framing, set_data_len};
use crate::negotiation::Params;
use crate::pdu::{Header, IMMEDIATE, LoginRequest, LoginResponse, opcode};
use crate::receive::{ReceiveError, Receiver};

/// Why an initiator failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Error {
    /// The connection.
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Login(#[from] LoginFailure),
    /// The target rejected a PDU (RFC 7143 11.17.1).
    #[error("the target rejected a request with reason {0:02x}h")]
    Rejected(u8),
    /// The command ended without a SCSI status (11.4.3).
    #[error("the target failed a command with service response {0:02x}h")]
    TargetFailure(u8),
    /// The target violates the protocol.
    #[error("the target violates the protocol: {0}")]
    Protocol(String),
}

impl From<ReceiveError> for Error {
    fn from(e: ReceiveError) -> Error {
        match e {
            ReceiveError::Closed => NetError::Closed("the target closed the connection".into()).into(),
            ReceiveError::Net(e) => e.into(),
            ReceiveError::Frame(e) => Error::Protocol(e.to_string()),
        }
    }
}

/// A connection in the full feature phase.
pub(crate) struct Connected {
    pub receiver: Receiver,
    pub params: Params,
    pub cmd_sn: u32,
    pub exp_stat_sn: u32,
    pub max_cmd_sn: u32,
}

/// The initiator task tag of login requests.
const LOGIN_TAG: u32 = 0;

/// Connects and logs in.
pub(crate) async fn connect(world: &World, options: &Options) -> Result<Connected, Error> {
    let stream = world.connect(options.address, options.stream).await?;
    let mut receiver = Receiver::new(stream.clone(), Framing::LOGIN);
    let rng =
        world.random(&format!("iscsi initiator {} {:?} {:?}", options.initiator, options.isid, world.now()));
    let (mut login, mut next) = Login::begin(options, rng);
    let mut batch = Batch::default();
    let (cmd_sn, mut exp_stat_sn, mut max_cmd_sn) = (1, 0, 1);
    while let Next::Request { flags, text } = next {
        let header = LoginRequest {
            opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
            flags,
            isid: options.isid,
            itt: LOGIN_TAG.into(),
            cmd_sn: cmd_sn.into(),
            exp_stat_sn: exp_stat_sn.into(),
            ..LoginRequest::default()
        };
        let mut bhs = *header.bytes();
        set_data_len(&mut bhs, text.len());
        batch.push_head(&bhs);
        batch.push_head(&text);
        batch.push_head(&[0; 3][..Framing::padding(text.len())]);
        let sent = stream.send(batch).await;
        sent.result?;
        batch = sent.batch;
        let (answer, text) = next_answer(&mut receiver).await?;
        exp_stat_sn = answer.stat_sn.get().wrapping_add(1);
        max_cmd_sn = answer.max_cmd_sn.get();
        next = login.step(&answer, &text)?;
    }
    let params = login.params();
    receiver.framing = Framing {
        header_digest: params.header_digest,
        data_digest: params.data_digest,
        data_len_max: params.recv_segment_len_max as usize,
    };
    Ok(Connected { receiver, params, cmd_sn, exp_stat_sn, max_cmd_sn })
}

async fn next_answer(receiver: &mut Receiver) -> Result<(LoginResponse, Vec<u8>), Error> {
    loop {
        let layout = receiver.layout().map_err(ReceiveError::from)?;
        if let Some(layout) = layout.filter(|l| receiver.bytes().len() >= l.total_len) {
            let (pdu, _) = receiver.framing.pdu(receiver.bytes(), layout);
            if pdu.opcode() != opcode::LOGIN_RESPONSE {
                return Err(Error::Protocol(format!(
                    "unexpected PDU with opcode {:02x}h during login",
                    pdu.opcode()
                )));
            }
            let answer = (*pdu.header::<LoginResponse>(), pdu.data.to_vec());
            receiver.consume(layout.total_len);
            return Ok(answer);
        }
        receiver.fill(layout.map_or(0, |l| l.total_len), usize::MAX).await?;
    }
}
