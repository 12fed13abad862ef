//! Requests to the API that come at another node than the owner: a standby carries those of its socket to the
//! owner's node port, by TLS, and the owner leads them to its own socket. So each command says the same at
//! every node.
//!
//! ```text
//!  masu status ── socket of n2 (standby) ══ TLS ══ node port of n1 (owner) ── socket of n1
//! ```
//!
//! Who asks there may do everything. A node of the registry may, too, since it could take the array over;
//! with a key of the state (`--state-key`) only one that holds it could, so both ends prove that they do.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use admin::{NodeTls, OwnersApi};
use cluster::{Standing, State, Waits};
use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::sync::watch;
use tokio::time::timeout;

use super::asked::{MAGIC, OF_NODE, OF_OWNER, ends, receive, send};
use super::carry::Bytes;
use super::link::{self, Peer};
use super::owner::way_to;
use super::relay::Way;
use crate::state_key::StateKeys;

/// Until the owner has answered for itself: a handshake, and perhaps a look at the registry.
const REACH_TIME: Duration = Duration::from_secs(5);
const BUFFER_BYTES: usize = 64 << 10;

/// A connection to the API of this owner.
async fn reach(tls: &NodeTls, keys: &StateKeys, owner: &Peer) -> io::Result<Box<dyn Bytes>> {
    let mut stream = link::connect(tls, owner).await?;
    let ends = ends(tls.fingerprint(), &owner.sha256);
    send(&mut stream, MAGIC, &keys.seal(OF_NODE, &ends).map_err(io::Error::other)?).await?;
    let answer = receive(&[], &mut stream).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => io::Error::other(
            "it takes no request of this node: it is of an older version, has another --state-key, or carries as many as \
             it may; its log says which",
        ),
        _ => error,
    })?;
    match keys.prove(OF_OWNER, &ends, &answer) {
        true => Ok(stream),
        false => Err(io::Error::other("it has another --state-key than this node")),
    }
}

/// The owner, if requests can be carried to it.
fn owner_in(state: &State) -> Option<(Peer, u64)> {
    let Standing::Standby(Waits::Owner { epoch, .. }) = &state.standing else { return None };
    match way_to(state.owner.as_ref()?) {
        Way::Tls(peer) => Some((peer, *epoch)),
        Way::Plain(_) | Way::Nowhere => None,
    }
}

/// The way of this standby to the API of the owner.
pub(super) fn owners_api(
    name: &str,
    tls: Arc<NodeTls>,
    keys: Arc<StateKeys>,
    state: watch::Receiver<State>,
) -> OwnersApi {
    OwnersApi::new(name, move || {
        let (owner, epoch) = owner_in(&state.borrow())?;
        let (tls, keys, state) = (tls.clone(), keys.clone(), state.clone());
        Some(Box::pin(async move {
            let failed =
                |cause: &dyn Display| io::Error::other(format!("node port {}: {cause}", owner.address));
            let reached = timeout(REACH_TIME, reach(&tls, &keys, &owner)).await;
            let reached = reached.map_err(|_| failed(&"no answer"))?.map_err(|error| failed(&error))?;
            let (near, far) = duplex(BUFFER_BYTES);
            tokio::spawn(carry(reached, far, (state, epoch)));
            Ok(near)
        }))
    })
}

/// Until one of both ends it, or another node owns the array: one that stands still ends nothing.
async fn carry(
    mut owner: Box<dyn Bytes>,
    mut request: DuplexStream,
    (mut state, epoch): (watch::Receiver<State>, u64),
) {
    let is_other = |state: &State| match &state.standing {
        Standing::Standby(Waits::Owner { epoch: now, .. }) => *now != epoch,
        Standing::Owner { .. } => true,
        // The registry does not answer, or the owner is about to be another one.
        _ => false,
    };
    tokio::select! {
        _ = copy_bidirectional(&mut owner, &mut request) => {}
        _ = state.wait_for(is_other) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use array::RelayKey;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;
    use tokio::sync::mpsc;

    use super::super::link::tests::tls;
    use super::super::link::{Api, Link, Served};
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    /// Requests to the API reach the owner's socket from a node that holds its key of the state, and from no
    /// other one; a node whose own key is another one takes no answer, either.
    #[tokio::test]
    async fn a_node_that_holds_the_key_of_the_state_asks_the_api_and_no_other_one_does() {
        let keys = |text: &str| Arc::new(StateKeys::of_text(text));
        let (right, other) = ("11".repeat(32), "22".repeat(32));
        for (own, nodes, may) in [
            (&*right, &*right, true),
            ("", "", true),
            (&format!("{right}\n{other}"), &format!("{other}\n{right}"), true),
            (&right, &format!("{other}\n{right}"), false),
            (&format!("{other}\n{right}"), &right, false),
            (&right, &other, false),
            (&right, "", false),
            ("", &right, false),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let socket = dir.path().join("api.sock");
            let api = UnixListener::bind(&socket).expect("a socket");
            let (owner, node) = (tls(), tls());
            let link = Link::listen(SocketAddr::from(([127, 0, 0, 1], 0)), owner.clone()).expect("a port");
            let peer = Peer { address: link.address(), sha256: owner.fingerprint().into() };
            let known = node.fingerprint().to_owned();
            link.leads_to(Some(Served {
                portals: vec![],
                key: RelayKey([7; 16]),
                knows: Box::new(move |sha256| if sha256 == known { vec![3] } else { vec![] }),
                offer: mpsc::channel(1).0,
                api: Api { socket, keys: keys(own) },
            }));
            let asked = timeout(WAIT, reach(&node, &keys(nodes), &peer)).await;
            match asked.expect("in time") {
                Ok(mut stream) => {
                    assert!(may, "{own:?} {nodes:?}");
                    stream.write_all(b"GET").await.expect("sent");
                    stream.flush().await.expect("sent");
                    let (mut socket, _) = api.accept().await.expect("led to it");
                    let mut text = [0; 3];
                    timeout(WAIT, socket.read_exact(&mut text)).await.expect("in time").expect("received");
                    assert_eq!(&text, b"GET");
                }
                Err(error) => {
                    assert!(!may && error.to_string().contains("--state-key"), "{own:?} {nodes:?}: {error}")
                }
            }
            assert!(reach(&tls(), &keys(nodes), &peer).await.is_err(), "a stranger");
        }
    }
}
