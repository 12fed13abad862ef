//! `masu agent`: a client machine that does its part of a load when a lead asks. One lead at a time.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::client::{Client, plan_of};
use super::line::{LineError, Lines};
use super::outcome::ClientOutcome;
use super::secret::{Nonces, Role, Secret, is_nonce, nonce};
use super::share::{Address, ShareError};
use super::wire::{Answer, Ask, Part, VERSION};
use super::worker::Orders;
use lab_core::console;
use lab_core::interrupt::Stop;

/// A lead that asks nothing for so long is gone.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// Who has not proved who they are keeps others waiting for no longer.
const PROOF_WITHIN: Duration = Duration::from_secs(10);
/// While a load runs: how often its lead is listened to.
const LISTEN_EVERY: Duration = Duration::from_millis(100);
/// A start that is further away is a mistake.
const AHEAD_MAX: Duration = Duration::from_secs(600);

/// A client machine.
pub(super) struct Agent {
    pub(super) address: Address,
    pub(super) local: Option<PathBuf>,
    /// What leads must prove; none: they need not.
    pub(super) secret: Option<Secret>,
    /// All times count from here.
    pub(super) epoch: Instant,
}

impl Agent {
    /// Serves one lead after another, until the process is ended.
    pub(super) fn serve(&self, listener: &TcpListener) -> Result<()> {
        loop {
            let (stream, peer) = listener.accept().context("cannot accept")?;
            console::note(&format!("{peer}: connected"));
            match self.follow(stream) {
                Ok(()) | Err(LineError::Closed) => console::note(&format!("{peer}: left")),
                Err(error) => console::note(&format!("{peer}: {error}")),
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// What a lead asks, until it leaves.
    pub(super) fn follow(&self, stream: TcpStream) -> Result<(), LineError> {
        let mut lines = Lines::new(stream)?;
        if let Some(secret) = &self.secret
            && !admit(secret, &mut lines)?
        {
            return Ok(());
        }
        let mut ready: Option<(Client, Stop)> = None;
        loop {
            let asked: Ask = match lines.receive(IDLE_MAX) {
                Ok(asked) => asked,
                Err(LineError::Message(e)) => {
                    lines.send(&failed(&format!("not understood: {e}")))?;
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let received_ns = self.now_ns();
            match asked {
                Ask::Hello { .. } => lines.send(&Answer::Hello { version: VERSION, challenge: None })?,
                Ask::Prove { .. } => lines.send(&failed("unexpected proof: the agent has no secret"))?,
                Ask::Clock => lines.send(&Answer::Clock { received_ns, sent_ns: self.now_ns() })?,
                Ask::Prepare(part) => match self.prepare(&part) {
                    Ok((client, answer)) => {
                        ready = Some((client, Stop::default()));
                        lines.send(&answer)?;
                    }
                    Err(error) => lines.send(&failed(&error.to_string()))?,
                },
                Ask::Start { at_ns } => match ready.take() {
                    Some((client, stop)) => self.run(&mut lines, &client, &stop, at_ns)?,
                    None => lines.send(&failed("no load was prepared"))?,
                },
                Ask::Stop => return Ok(()),
            }
        }
    }

    fn prepare(&self, part: &Part) -> Result<(Client, Answer), ShareError> {
        if let Some(fault) = part.fault() {
            return Err(ShareError::Address(fault.into()));
        }
        let plan = plan_of(&self.address)?;
        let spec = plan.spec();
        let answer = Answer::Prepared {
            targets: u64::from(spec.trees) * u64::from(spec.targets),
            target_bytes: spec.target_bytes,
        };
        let client = Client::prepare(
            self.address.clone(),
            orders(plan, part, self.local.clone()),
            (part.client, part.clients),
            part.workers,
            &Stop::default(),
        )?;
        Ok((client, answer))
    }

    /// Runs a load and listens to its lead meanwhile: one that leaves ends it.
    fn run(&self, lines: &mut Lines, client: &Client, stop: &Stop, at_ns: u64) -> Result<(), LineError> {
        let ahead = Duration::from_nanos(at_ns.saturating_sub(self.now_ns()));
        if ahead > AHEAD_MAX {
            return lines.send(&failed("the start time is too far in the future"));
        }
        lines.send(&Answer::Started)?;
        let at = self.epoch + Duration::from_nanos(at_ns);
        let outcome = std::thread::scope(|scope| {
            let load = scope.spawn(|| client.run(self.epoch, at, stop));
            let mut heard = Ok(());
            while !load.is_finished() {
                match lines.receive::<Ask>(LISTEN_EVERY) {
                    Err(LineError::Late(_)) => {}
                    Ok(Ask::Stop) => stop.ask(),
                    Ok(_) => {}
                    Err(error) => {
                        stop.ask();
                        heard = Err(error);
                        break;
                    }
                }
            }
            let outcome = load.join().unwrap_or_else(|_| Err(ShareError::Address("did not end".into())));
            heard.map(|()| outcome)
        })?;
        lines.send(&done(outcome))
    }
}

/// Whether a lead has the secret. Nothing else is answered before that.
fn admit(secret: &Secret, lines: &mut Lines) -> Result<bool, LineError> {
    let lead = match lines.receive(PROOF_WITHIN) {
        Ok(Ask::Hello { nonce, .. }) if is_nonce(&nonce) => nonce,
        Ok(_) => return refuse(lines, "missing hello"),
        Err(LineError::Message(e)) => return refuse(lines, &format!("not understood: {e}")),
        Err(error) => return Err(error),
    };
    let Ok(agent) = nonce() else { return refuse(lines, "no random bytes") };
    lines.send(&Answer::Hello { version: VERSION, challenge: Some(agent.clone()) })?;
    let nonces = Nonces { lead: &lead, agent: &agent };
    match lines.receive(PROOF_WITHIN) {
        Ok(Ask::Prove { proof }) if secret.is_proof(Role::Lead, nonces, &proof) => {
            lines.send(&Answer::Proved { proof: secret.prove(Role::Agent, nonces) })?;
            Ok(true)
        }
        Ok(Ask::Prove { .. }) => refuse(lines, "the secret is another one"),
        Ok(_) | Err(LineError::Message(_)) => {
            refuse(lines, "prove that you have the secret first: --secret-file")
        }
        Err(error) => Err(error),
    }
}

fn refuse(lines: &mut Lines, cause: &str) -> Result<bool, LineError> {
    lines.send(&failed(cause)).map(|()| false)
}

/// Of a part, for a set.
pub(super) fn orders(plan: lab_tools::files::Plan, part: &Part, local: Option<PathBuf>) -> Orders {
    Orders {
        plan,
        seed: part.seed,
        read_share: part.read_share,
        local,
        verify: part.verify,
        files_max: part.files_max,
        seconds_max: part.seconds_max,
    }
}

fn failed(cause: &str) -> Answer {
    Answer::Failed { cause: cause.into() }
}

fn done(outcome: Result<ClientOutcome, ShareError>) -> Answer {
    match outcome {
        Ok(outcome) => Answer::Done(outcome),
        Err(error) => failed(&error.to_string()),
    }
}
