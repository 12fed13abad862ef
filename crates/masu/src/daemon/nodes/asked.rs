//! What a node that asks the API of the owner, and the owner, say to each other before the first request:
//! that both hold a key of the state, or both have none ([`super::asking`] says why).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::state_key::StateKeys;

/// What comes in place of the header of a carried connection.
pub(super) const MAGIC: &[u8; 16] = b"masu api request";
/// Of what both ends prove: two digests, encrypted.
const PROOF_MAX: usize = 1024;
/// Name of the proof of a node: it is none of the owner.
pub(super) const OF_NODE: &str = "a node that asks the API";
/// Name of that of the owner.
pub(super) const OF_OWNER: &str = "the owner whose API is asked";

/// The ends of a connection, by their certificates: a proof is of no use on another one.
pub(super) fn ends(node: &str, owner: &str) -> String {
    format!("{node} {owner}")
}

pub(super) async fn send(to: &mut (impl AsyncWrite + Unpin), first: &[u8], proof: &str) -> io::Result<()> {
    let len = u16::try_from(proof.len()).map_err(io::Error::other)?;
    to.write_all(&[first, &len.to_be_bytes(), proof.as_bytes()].concat()).await?;
    to.flush().await
}

/// What comes of a proof after so much of it.
pub(super) async fn receive(rest: &[u8], from: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut from = rest.chain(from);
    let len = usize::from(from.read_u16().await?);
    if len > PROOF_MAX {
        return Err(io::Error::other(format!("a proof of {len} bytes")));
    }
    let mut proof = vec![0; len];
    from.read_exact(&mut proof).await?;
    String::from_utf8(proof).map_err(io::Error::other)
}

/// The owner's side: returns when the node with this certificate has proved what it must, and was told so.
///
/// # Errors
/// It has not, or broke off.
pub(super) async fn admit(
    (node, sha256): (&mut (impl AsyncRead + AsyncWrite + Unpin), &str),
    rest: &[u8],
    (own, keys): (&str, &StateKeys),
) -> io::Result<()> {
    let ends = ends(sha256, own);
    let proof = receive(rest, node).await?;
    if !keys.prove(OF_NODE, &ends, &proof) {
        return Err(io::Error::other(
            "its requests to the API are refused: it has another --state-key than this node",
        ));
    }
    send(node, &[], &keys.seal(OF_OWNER, &ends).map_err(io::Error::other)?).await
}
