//! What an owner and a node that runs controllers for it say to each other, behind the handshake of the node
//! port: frames of a length, a kind and a body.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use array::{Nodes, OtherPortal, Ownership};
use config::Config;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What comes in place of the header of a carried connection.
pub(in crate::daemon::nodes) const MAGIC: &[u8; 16] = b"masu controllers";
/// A declaration is the longest of those that are not messages of controllers.
const BODY_MAX: usize = array::FRAME_MAX + 64;
/// Of what a peer says before it is known to be of the same version.
const HELLO_MAX: usize = 4096;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::daemon::nodes) struct Hello {
    /// Of the messages of controllers.
    pub(super) protocol: u32,
    /// Of its program: both must be of the same, since a declaration is read as the owner wrote it.
    pub(super) version: String,
}

impl Hello {
    /// Of this program.
    pub(super) fn own() -> Hello {
        Hello { protocol: array::PROTOCOL, version: env!("CARGO_PKG_VERSION").into() }
    }
}

impl fmt::Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hello { protocol, version } = self;
        write!(f, "of version {version} (messages of controllers: version {protocol})")
    }
}

/// Controllers that a node is to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) controllers: Vec<usize>,
    /// What is declared: the drives of these controllers are claimed before they begin.
    pub(super) config: Config,
    pub(super) epoch: u64,
    pub(super) owner: u64,
}

impl Assignment {
    pub(super) fn ownership(&self) -> Ownership {
        Ownership { epoch: self.epoch, owner: self.owner }
    }
}

/// A portal of the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Path {
    listen: SocketAddr,
    portal_group: u16,
    is_up: bool,
    controller: Option<usize>,
}

impl Path {
    pub(super) fn of(portal: &OtherPortal) -> Path {
        let OtherPortal { listen, portal_group, is_up, controller } = *portal;
        Path { listen, portal_group, is_up, controller }
    }

    /// All portals of the array, those of the owner first.
    pub(super) fn all(nodes: &Nodes) -> Vec<Path> {
        let own = nodes.portals.iter().flatten().zip(nodes.first_group..);
        let own = own.map(|(portal, portal_group)| Path {
            listen: portal.listen,
            portal_group,
            is_up: true,
            controller: Some(portal.controller),
        });
        own.chain(nodes.others.iter().map(Path::of)).collect()
    }

    pub(super) fn portal(&self) -> OtherPortal {
        let Path { listen, portal_group, is_up, controller } = *self;
        OtherPortal { listen, portal_group, is_up, controller }
    }
}

/// A frame.
#[derive(Debug)]
pub(super) enum Frame {
    /// Of the controllers.
    Message(Vec<u8>),
    /// The node asks for a term; the number is that of the answer.
    AskTerm(u64),
    /// The owner gives one, of so many milliseconds.
    Term { number: u64, granted_ms: u32 },
    /// The owner has the node run controllers.
    Assign(Box<Assignment>),
    /// The portals of the array.
    Paths(Vec<Path>),
    /// The node is to end: it asks the owner to take its controllers back.
    Leaves,
    /// The node has the drives of its controllers to itself, and runs them from now on.
    Begins,
    /// It cannot claim a drive, for this reason: it runs none of them.
    CannotBegin(String),
    /// The node has stopped its controllers in order: nothing of it reaches their drives any more.
    Ended,
}

const MESSAGE: u8 = 0;
const ASK_TERM: u8 = 1;
const TERM: u8 = 2;
const ASSIGN: u8 = 3;
const PATHS: u8 = 4;
const ENDED: u8 = 5;
const LEAVES: u8 = 6;
const BEGINS: u8 = 7;
const CANNOT_BEGIN: u8 = 8;

fn damaged(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

impl Frame {
    pub(super) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let json = |value: serde_json::Result<Vec<u8>>| value.map_err(damaged);
        let owned;
        let (kind, body): (u8, &[u8]) = match self {
            Frame::Message(bytes) => (MESSAGE, bytes),
            Frame::Ended => (ENDED, &[]),
            Frame::Leaves => (LEAVES, &[]),
            Frame::Begins => (BEGINS, &[]),
            Frame::CannotBegin(cause) => (CANNOT_BEGIN, cause.as_bytes()),
            Frame::AskTerm(number) => {
                owned = number.to_be_bytes().to_vec();
                (ASK_TERM, &owned)
            }
            Frame::Term { number, granted_ms } => {
                owned = [&number.to_be_bytes()[..], &granted_ms.to_be_bytes()].concat();
                (TERM, &owned)
            }
            Frame::Assign(assignment) => {
                owned = json(serde_json::to_vec(assignment))?;
                (ASSIGN, &owned)
            }
            Frame::Paths(paths) => {
                owned = json(serde_json::to_vec(paths))?;
                (PATHS, &owned)
            }
        };
        if body.len() > BODY_MAX {
            return Err(damaged(format!("a frame of {} bytes: too long", body.len())));
        }
        let mut head = [kind; 5];
        head[..4].copy_from_slice(&(body.len() as u32).to_be_bytes());
        to.write_all(&head).await?;
        to.write_all(body).await?;
        to.flush().await
    }

    /// # Errors
    /// The connection has ended, or what it carries is no frame.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
        let len = from.read_u32().await? as usize;
        let kind = from.read_u8().await?;
        if len > BODY_MAX {
            return Err(damaged(format!("a frame of {len} bytes: too long")));
        }
        let body = body(from, len).await?;
        let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        Ok(match (kind, body.len()) {
            (MESSAGE, _) => Frame::Message(body),
            (ENDED, 0) => Frame::Ended,
            (LEAVES, 0) => Frame::Leaves,
            (BEGINS, 0) => Frame::Begins,
            (CANNOT_BEGIN, _) => Frame::CannotBegin(String::from_utf8_lossy(&body).into_owned()),
            (ASK_TERM, 8) => Frame::AskTerm(number(&body).unwrap_or_default()),
            (TERM, 12) => {
                let granted_ms = body[8..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                Frame::Term { number: number(&body).unwrap_or_default(), granted_ms }
            }
            (ASSIGN, _) => Frame::Assign(serde_json::from_slice(&body).map_err(damaged)?),
            (PATHS, _) => Frame::Paths(serde_json::from_slice(&body).map_err(damaged)?),
            (kind, len) => return Err(damaged(format!("a frame of kind {kind} with {len} bytes"))),
        })
    }
}

/// Not allocated before it has come.
async fn body(from: &mut (impl AsyncRead + Unpin), len: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    from.take(len as u64).read_to_end(&mut body).await?;
    match body.len() == len {
        true => Ok(body),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl Hello {
    pub(super) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(damaged)?;
        to.write_all(MAGIC).await?;
        to.write_u16(text.len() as u16).await?;
        to.write_all(&text).await?;
        to.flush().await
    }

    /// What comes behind [`MAGIC`]; some of it may have been read.
    pub(in crate::daemon::nodes) async fn read(
        read: &[u8],
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Hello> {
        let mut from = read.chain(from);
        let len = usize::from(from.read_u16().await?);
        if len > HELLO_MAX {
            return Err(damaged(format!("{len} bytes about a node: too long")));
        }
        serde_json::from_slice(&body(&mut from, len).await?).map_err(damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn carried(frame: &Frame) -> String {
        let mut bytes = Vec::new();
        frame.write(&mut bytes).await.expect("written");
        let read = Frame::read(&mut &bytes[..]).await.expect("read");
        for cut in 0..bytes.len() {
            assert!(Frame::read(&mut &bytes[..cut]).await.is_err(), "{frame:?} cut at {cut}");
        }
        format!("{read:?}")
    }

    #[tokio::test]
    async fn frames_arrive_as_they_were_sent() {
        let portal = OtherPortal {
            listen: SocketAddr::from(([10, 0, 0, 1], 3260)),
            portal_group: 65,
            is_up: true,
            controller: Some(1),
        };
        assert_eq!(Path::of(&portal).portal(), portal);
        let config = Config::empty("iqn.2026-11.test:a");
        let assignment = Assignment { controllers: vec![1, 2], config, epoch: 3, owner: u64::MAX };
        let all = [
            Frame::Message(vec![0, 1, 2]),
            Frame::Message(vec![]),
            Frame::AskTerm(u64::MAX - 1),
            Frame::Term { number: 7, granted_ms: 4000 },
            Frame::Assign(Box::new(assignment)),
            Frame::Paths(vec![Path::of(&portal)]),
            Frame::Ended,
            Frame::Leaves,
            Frame::Begins,
            Frame::CannotBegin("drive \"d1\": in use".into()),
        ];
        for frame in all {
            assert_eq!(carried(&frame).await, format!("{frame:?}"));
        }
    }

    #[tokio::test]
    async fn what_is_no_frame_is_an_error() {
        let framed = |len: u32, kind: u8, body: &[u8]| [&len.to_be_bytes()[..], &[kind], body].concat();
        for bytes in [
            framed(u32::MAX, MESSAGE, &[]),
            framed(BODY_MAX as u32 + 1, MESSAGE, &[]),
            framed(1, ENDED, &[0]),
            framed(1, BEGINS, &[0]),
            framed(7, ASK_TERM, &[0; 7]),
            framed(3, ASSIGN, b"{}}"),
            framed(2, PATHS, b"{}"),
            framed(0, 99, &[]),
        ] {
            assert!(Frame::read(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_hello_is_read_wherever_it_was_cut() {
        let mut bytes = Vec::new();
        Hello::own().write(&mut bytes).await.expect("written");
        let rest = bytes.strip_prefix(&MAGIC[..]).expect("it begins with that");
        for cut in 0..=rest.len() {
            let (read, mut coming) = rest.split_at(cut);
            assert_eq!(Hello::read(read, &mut coming).await.expect("read"), Hello::own());
        }
        assert!(Hello::read(&[0xff, 0xff], &mut &[0_u8; 70_000][..]).await.is_err());
        assert!(Hello::read(&[0, 2], &mut &b"[]"[..]).await.is_err());
    }
}
