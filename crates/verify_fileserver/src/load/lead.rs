//! The lead of several agents: compares clocks, has all begin at one moment, merges what they did.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::clock::{self, Exchange, Offset};
use super::line::Lines;
use super::outcome::{Outcome, Placed, merge};
use super::secret::{Nonces, Role, Secret, is_nonce, nonce};
use super::wire::{Answer, Ask, Part, VERSION};

/// Comparisons of clocks before and after: the shortest of them counts.
const EXCHANGES: usize = 16;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Local copies of a hundred gigabytes take a while.
const PREPARED_WITHIN: Duration = Duration::from_secs(3600);
/// From the last agent that is ready to the start: every agent has its order long before.
const START_AFTER: Duration = Duration::from_millis(500);
/// What ends by itself after its time has this long to say so.
const GRACE: Duration = Duration::from_secs(120);

/// An agent that is connected.
struct Peer {
    name: String,
    lines: Lines,
    before: Offset,
}

impl Peer {
    fn connect(name: &str, secret: Option<&Secret>, epoch: Instant) -> Result<Peer> {
        let address = name.to_socket_addrs().with_context(|| name.to_owned())?.next();
        let address = address.with_context(|| format!("{name}: no such machine"))?;
        let stream =
            TcpStream::connect_timeout(&address, ANSWER_WITHIN).with_context(|| format!("agent {name}"))?;
        let before = Offset { at_ns: 0, ahead_ns: 0, error_ns: 0 };
        let mut peer = Peer { name: name.into(), lines: Lines::new(stream)?, before };
        peer.greet(secret)?;
        peer.before = peer.compare(epoch)?;
        Ok(peer)
    }

    /// Says hello, and proves and hears proved who both are.
    fn greet(&mut self, secret: Option<&Secret>) -> Result<()> {
        let (name, lead) = (self.name.clone(), nonce()?);
        let challenge =
            match self.ask(&Ask::Hello { version: VERSION, nonce: lead.clone() }, ANSWER_WITHIN)? {
                Answer::Hello { version: VERSION, challenge } => challenge,
                other => bail!("agent {name}: another version: {other:?}"),
            };
        let (secret, agent) = match (secret, challenge) {
            (None, None) => return Ok(()),
            (None, Some(_)) => bail!("agent {name}: asks for a secret: --secret-file"),
            (Some(_), None) => bail!(
                "agent {name}: no secret, so its identity is unknown; start it with \
                --secret-file"
            ),
            (Some(secret), Some(agent)) => (secret, agent),
        };
        ensure!(is_nonce(&agent), "agent {name}: its challenge is none");
        let nonces = Nonces { lead: &lead, agent: &agent };
        match self.ask(&Ask::Prove { proof: secret.prove(Role::Lead, nonces) }, ANSWER_WITHIN)? {
            Answer::Proved { proof } if secret.is_proof(Role::Agent, nonces, &proof) => Ok(()),
            _ => bail!("agent {name}: wrong secret"),
        }
    }

    fn ask(&mut self, ask: &Ask, within: Duration) -> Result<Answer> {
        let name = self.name.clone();
        self.lines.send(ask).with_context(|| format!("agent {name}"))?;
        self.hear(within)
    }

    fn hear(&mut self, within: Duration) -> Result<Answer> {
        match self.lines.receive(within).with_context(|| format!("agent {}", self.name))? {
            Answer::Failed { cause } => bail!("agent {}: {cause}", self.name),
            answer => Ok(answer),
        }
    }

    fn compare(&mut self, epoch: Instant) -> Result<Offset> {
        let now = || epoch.elapsed().as_nanos() as u64;
        let mut exchanges = Vec::with_capacity(EXCHANGES);
        for _ in 0..EXCHANGES {
            let asked = now();
            let Answer::Clock { received_ns, sent_ns } = self.ask(&Ask::Clock, ANSWER_WITHIN)? else {
                bail!("agent {}: no time", self.name)
            };
            exchanges.push(Exchange { asked, received: received_ns, answered: sent_ns, heard: now() });
        }
        clock::offset(&exchanges).with_context(|| format!("agent {}: its clock goes back", self.name))
    }
}

/// Runs a load on these agents, who have the same secret; `part` says what each does.
pub(super) fn run(agents: &[String], secret: Option<&Secret>, part: &Part) -> Result<Outcome> {
    let epoch = Instant::now();
    let mut peers =
        agents.iter().map(|name| Peer::connect(name, secret, epoch)).collect::<Result<Vec<Peer>>>()?;
    // All get ready at once, for that takes long.
    for (client, peer) in (0..).zip(&mut peers) {
        peer.lines.send(&Ask::Prepare(Part { client, clients: agents.len() as u32, ..part.clone() }))?;
    }
    let mut sets = Vec::new();
    for peer in &mut peers {
        match peer.hear(PREPARED_WITHIN)? {
            Answer::Prepared { targets, target_bytes } => sets.push((targets, target_bytes)),
            other => bail!("agent {}: {other:?}", peer.name),
        }
    }
    ensure!(sets.windows(2).all(|pair| pair[0] == pair[1]), "the agents see different file sets");
    for peer in &mut peers {
        peer.before = peer.compare(epoch)?;
    }
    let start_ns = (epoch.elapsed() + START_AFTER).as_nanos() as u64;
    for peer in &mut peers {
        let at_ns = clock::there(start_ns, &peer.before);
        match peer.ask(&Ask::Start { at_ns }, ANSWER_WITHIN)? {
            Answer::Started => {}
            other => bail!("agent {}: {other:?}", peer.name),
        }
    }
    let within = Duration::from_secs_f64(part.seconds_max) + GRACE;
    let mut placed = Vec::new();
    for peer in &mut peers {
        let Answer::Done(outcome) = peer.hear(within)? else { bail!("agent {}: no outcome", peer.name) };
        outcome.check().with_context(|| format!("agent {}", peer.name))?;
        placed.push(outcome);
    }
    let placed = peers.iter_mut().zip(placed).map(|(peer, outcome)| {
        let after = peer.compare(epoch)?;
        let here = |at_ns| clock::here(at_ns, &peer.before, &after);
        let (began_ns, ended_ns) = (here(outcome.began_ns), here(outcome.ended_ns));
        let clock_error_ns = peer.before.error_ns.max(after.error_ns);
        peer.lines.send(&Ask::Stop)?;
        Ok(Placed { outcome, began_ns, ended_ns, clock_error_ns })
    });
    Ok(merge(&placed.collect::<Result<Vec<_>>>()?, part.workers))
}
