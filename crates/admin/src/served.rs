//! What the API serves: the array with its state, and how it stands.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use array::{Control, ControlError, EventSender};
use status::{Failover, Status, Trouble};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::access::{Access, Role};
use crate::answers::Answers;
use crate::api::Keys;
use crate::api::problem::Problem;
use crate::connections::Places;
use crate::events::{EventLog, now_ms};
use crate::health::Records;
use crate::holding::Holding;
use crate::metrics::Named;
use crate::moves::Balance;
use crate::nodes::{self, Nodes};
use crate::room::RoomWatch;
use crate::store::Store;
use crate::tls::{Tls, trouble_of_end};
use crate::traces::TraceMeter;
use crate::trend::Trends;
use crate::trouble::{Tracker, sort, trouble_of, trouble_of_declaration, trouble_of_following};

/// A status takes milliseconds; whoever asks is told when a controller is silent for so long.
const STATUS_TIME_MAX: Duration = Duration::from_secs(15);

/// The array, and what is known of it beside.
pub(crate) struct Served {
    pub(crate) array: Holding,
    pub(crate) store: Store,
    pub(crate) started: Instant,
    pub(crate) log: EventLog,
    pub(crate) events: EventSender,
    pub(crate) access: Access,
    pub(crate) tracker: std::sync::Mutex<Tracker>,
    pub(crate) answers: Answers,
    /// As the array stood when it was looked at last, without volumes.
    pub(crate) last: std::sync::Mutex<Option<Status>>,
    /// TLS of the API on TCP.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) metrics_top: usize,
    /// What became of traces, where there is an exporter.
    pub(crate) traces: Option<TraceMeter>,
    /// What was answered to requests with a key.
    pub(crate) keys: Mutex<Keys>,
    /// Places for streams.
    pub(crate) streams: Arc<Places>,
    /// How pools fill.
    pub(crate) trends: std::sync::Mutex<Trends>,
    /// How busy controllers are, and which pools have moved.
    pub(crate) balance: std::sync::Mutex<Balance>,
    /// What its block devices report about themselves.
    pub(crate) health: std::sync::Mutex<Records>,
    /// Of an array of several.
    pub(crate) nodes: Option<Nodes>,
    /// Why the declaration in the file is not in force.
    pub(crate) declaration_fault: std::sync::Mutex<Option<String>>,
    /// Why what changed by itself, a spare that was taken, is not declared so.
    pub(crate) follow_fault: std::sync::Mutex<Option<String>>,
    /// What the file system of the data directory has left.
    pub(crate) room: RoomWatch,
    /// The objects that have metrics of their own.
    pub(crate) named: std::sync::Mutex<Named>,
}

/// How the array stands, with what is wrong.
///
/// # Errors
/// A controller does not answer in time.
pub(crate) async fn current(served: &Served) -> Result<Status, Problem> {
    let asked = tokio::time::timeout(STATUS_TIME_MAX, async {
        let parts = array::status_of(served.array.controllers()).await.map_err(|e| e.to_string())?;
        let (known, up_s) = (served.array.known(), served.started.elapsed().as_secs());
        let mut status = crate::convert::status_of(&known.config, parts, up_s);
        crate::convert::tell_identities(&mut status, &known.devices);
        status.under_way = known.under_way();
        status.state_fault = known.state_fault;
        status.unfinished = crate::convert::unfinished(known.unfinished);
        Ok::<_, String>(status)
    });
    let silent = |_| {
        let mut why = "a controller does not answer: see masu events".to_owned();
        let slow = served.answers.trouble(tokio::time::Instant::now());
        slow.iter().for_each(|t| why += &format!("\n{}: {}", t.object, t.text));
        Problem::unavailable(why)
    };
    let mut status = asked.await.map_err(silent)?.map_err(Problem::unavailable)?;
    served.trends().tell(&mut status.pools);
    served.health().tell(&mut status.drives);
    status.failover = served.failover();
    status.nodes = nodes::of_owner(served.nodes.as_ref(), &status);
    let mut all = served.trouble_of(&status);
    served.tracker().date(&mut all, now_ms());
    status.trouble = all;
    Ok(status)
}

/// Whether all controllers answer in time; much less work than [`current`].
pub(crate) async fn all_answer(served: &Served) -> bool {
    let asked = async {
        for controller in served.array.controllers() {
            controller.ask(Control::Ping).await?;
        }
        Ok::<_, ControlError>(())
    };
    matches!(tokio::time::timeout(STATUS_TIME_MAX, asked).await, Ok(Ok(())))
}

/// What is behind a lock, also after a panic of another holder.
fn locked<T>(of: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Served {
    pub(crate) fn tracker(&self) -> std::sync::MutexGuard<'_, Tracker> {
        locked(&self.tracker)
    }

    pub(crate) fn trends(&self) -> std::sync::MutexGuard<'_, Trends> {
        locked(&self.trends)
    }

    pub(crate) fn balance(&self) -> std::sync::MutexGuard<'_, Balance> {
        locked(&self.balance)
    }

    pub(crate) fn health(&self) -> std::sync::MutexGuard<'_, Records> {
        locked(&self.health)
    }

    pub(crate) fn last(&self) -> std::sync::MutexGuard<'_, Option<Status>> {
        locked(&self.last)
    }

    pub(crate) fn declaration_fault(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        locked(&self.declaration_fault)
    }

    pub(crate) fn follow_fault(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        locked(&self.follow_fault)
    }

    pub(crate) fn failover(&self) -> Option<Failover> {
        self.nodes.as_ref()?.failover()
    }

    /// When the certificate of the API ends, in seconds since 1970.
    pub(crate) fn certificate_end_s(&self) -> Option<u64> {
        self.tls.as_ref()?.end_s()
    }

    /// Everything that is wrong, the worst first.
    pub(crate) fn trouble_of(&self, status: &Status) -> Vec<Trouble> {
        let mut all = self.answers.trouble(tokio::time::Instant::now());
        all.extend(trouble_of(status));
        all.extend(nodes::trouble_of_nodes(&status.nodes));
        all.extend(nodes::trouble_of_assigned(&self.array.known().config.controller_nodes, &status.nodes));
        all.extend(self.health().trouble(&status.drives));
        all.extend(self.certificate_end_s().and_then(|end_s| trouble_of_end(end_s, now_ms() / 1000)));
        all.extend(self.room.trouble(self.store.dir()));
        all.extend(self.declaration_fault().as_deref().map(trouble_of_declaration));
        all.extend(self.follow_fault().as_deref().map(trouble_of_following));
        sort(&mut all);
        all
    }
}

/// Who asks, once that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// As events name it.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Whose it is: a token, wherever it is used from.
    pub(crate) key: Key,
}

/// What lets somebody in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// To be the user of the process, or root.
    Owner,
    /// The token that the daemon was given.
    Given,
    /// A named one, and when it was made: another one of its name is another one.
    Named { name: String, created_ms: u64 },
}

impl Key {
    /// What its streams are counted by.
    pub(crate) fn source(&self) -> String {
        match self {
            Key::Owner => "the owner".into(),
            Key::Given => "the token of --api-token".into(),
            Key::Named { name, .. } => format!("token {name:?}"),
        }
    }
}

/// Who has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// On the socket, as the user of this process or as root.
    Owner { uid: u32 },
    /// On the socket, as anybody else.
    User { uid: Option<u32> },
    /// On TCP.
    Address(IpAddr),
}

/// Of an IPv6 address, what a provider gives to one customer (RFC 6177): whoever has one has all below it.
const PREFIX_BITS: u32 = 64;

impl Peer {
    /// Who has opened the unix socket.
    pub(crate) fn of_unix(stream: &UnixStream) -> Peer {
        let own = rustix::process::geteuid().as_raw();
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == own || peer.uid() == 0 => Peer::Owner { uid: peer.uid() },
            Ok(peer) => Peer::User { uid: Some(peer.uid()) },
            Err(_) => Peer::User { uid: None },
        }
    }

    /// What is counted as one source.
    pub(crate) fn source(&self) -> String {
        match self {
            Peer::Address(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none() => {
                let prefix = address.to_bits() >> (128 - PREFIX_BITS) << (128 - PREFIX_BITS);
                format!("{}/{PREFIX_BITS}", Ipv6Addr::from_bits(prefix))
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Owner { uid } | Peer::User { uid: Some(uid) } => write!(f, "user {uid} of this machine"),
            Peer::User { uid: None } => write!(f, "a user of this machine"),
            Peer::Address(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_customer_are_one_source() {
        let of = |text: &str| Peer::Address(text.parse().expect("an address")).source();
        assert_eq!(of("2001:db8:1:2::5"), of("2001:db8:1:2:ffff::1"));
        assert_ne!(of("2001:db8:1:2::5"), of("2001:db8:1:3::5"));
        assert_ne!(of("::ffff:10.0.0.1"), of("::ffff:10.0.0.2"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
