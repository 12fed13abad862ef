//! A peer that sends whatever a test likes.

use iscsi::pdu::{BHS_LEN, FINAL, Header, IMMEDIATE, LoginRequest, LoginResponse, ScsiCommand, opcode};
use world::{Batch, Buf, Stream};

use crate::ram::TARGET;
use crate::rig::{HOST, Rig};

/// A connection without manners.
pub(crate) struct Raw {
    pub(crate) stream: Stream,
    held: Vec<u8>,
    pub(crate) cmd_sn: u32,
}

/// A PDU that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) bhs: [u8; BHS_LEN],
    pub(crate) data: Vec<u8>,
}

impl Came {
    pub(crate) fn opcode(&self) -> u8 {
        self.bhs[0]
    }
    pub(crate) fn header<H: Header>(&self) -> &H {
        H::of(&self.bhs)
    }
}

impl Raw {
    pub(crate) async fn connect(rig: &Rig) -> Raw {
        let stream = rig.world.connect(rig.address, Default::default()).await.expect("a connection");
        Raw { stream, held: Vec::new(), cmd_sn: 1 }
    }

    /// Connects and logs in with more keys.
    pub(crate) async fn login(rig: &Rig, port: u8, keys: &str) -> Raw {
        Raw::connect(rig).await.logged_in(port, keys).await
    }

    /// As [`Raw::login`], on a connection that exists.
    pub(crate) async fn logged_in(self, port: u8, keys: &str) -> Raw {
        let mut raw = self;
        raw.send_login(port, keys).await;
        let answer = raw.next().await.expect("an answer to the login");
        let header: &LoginResponse = answer.header();
        assert_eq!((header.opcode, header.status_class), (opcode::LOGIN_RESPONSE, 0), "{answer:?}");
        raw
    }

    /// A login request with more keys.
    pub(crate) async fn send_login(&mut self, port: u8, keys: &str) -> bool {
        let text = format!("InitiatorName={HOST}\0TargetName={TARGET}\0{keys}");
        let header = LoginRequest {
            opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
            flags: 0x87,
            isid: [0x80, 0xff, port, 0, 0, 0],
            cmd_sn: 1.into(),
            ..LoginRequest::default()
        };
        self.send_pdu(header.bytes(), text.as_bytes()).await
    }

    /// Sends bytes; whether the connection still took them.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        let mut batch = Batch::default();
        batch.push_head(bytes);
        self.stream.send(batch).await.result.is_ok()
    }

    /// Sends a header with its data, padded; the length field is set.
    pub(crate) async fn send_pdu(&mut self, bhs: &[u8; BHS_LEN], data: &[u8]) -> bool {
        self.send(&framed(bhs, data)).await
    }

    /// A command without data, in its turn.
    pub(crate) fn command(&mut self, itt: u32, cdb: [u8; 16], flags: u8, expected_len: u32) -> [u8; BHS_LEN] {
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = cmd_sn.wrapping_add(1);
        let header = ScsiCommand {
            opcode: opcode::SCSI_COMMAND,
            flags: FINAL | flags,
            itt: itt.into(),
            expected_len: expected_len.into(),
            cmd_sn: cmd_sn.into(),
            cdb,
            ..ScsiCommand::default()
        };
        *header.bytes()
    }

    /// The next PDU; `None` when the target has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Came> {
        loop {
            if let Some(bhs) = self.held.first_chunk::<BHS_LEN>() {
                let len = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]) as usize;
                let total = BHS_LEN + len.next_multiple_of(4);
                if self.held.len() >= total {
                    let came = Came { bhs: *bhs, data: self.held[BHS_LEN..BHS_LEN + len].to_vec() };
                    self.held.drain(..total);
                    return Some(came);
                }
            }
            let received = self.stream.recv(Buf::new(64 << 10), 0).await;
            match received.result {
                Ok(n) if n > 0 => self.held.extend_from_slice(&received.buf[..n]),
                _ => return None,
            }
        }
    }

    /// Reads until the target closes; the opcodes of what came.
    pub(crate) async fn until_closed(&mut self) -> Vec<u8> {
        let mut opcodes = Vec::new();
        while let Some(came) = self.next().await {
            opcodes.push(came.opcode());
        }
        opcodes
    }
}

/// A header with its data, padded.
pub(crate) fn framed(bhs: &[u8; BHS_LEN], data: &[u8]) -> Vec<u8> {
    let mut bytes = bhs.to_vec();
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(data);
    bytes.resize(BHS_LEN + data.len().next_multiple_of(4), 0);
    bytes
}
