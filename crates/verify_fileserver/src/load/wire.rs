//! The protocol between a lead and its agents. An agent receives only numbers: its folders are on its own
//! command line.

use serde::{Deserialize, Serialize};

use super::client::WORKERS_MAX;
use super::outcome::ClientOutcome;

/// Of these messages.
pub(super) const VERSION: u32 = 2;

/// A lead asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Ask {
    /// Who are you? `nonce` is what the agent's proof has to be for.
    Hello { version: u32, nonce: String },
    /// I have the secret.
    Prove { proof: String },
    /// What time is it?
    Clock,
    /// Get ready.
    Prepare(Part),
    /// Begin at this moment of your clock.
    Start { at_ns: u64 },
    /// End, and forget it.
    Stop,
}

/// The part of one client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) client: u32,
    pub(crate) clients: u32,
    pub(crate) workers: u32,
    pub(crate) seed: u64,
    pub(crate) read_share: f64,
    pub(crate) verify: bool,
    /// Of each worker.
    pub(crate) files_max: u64,
    pub(crate) seconds_max: f64,
}

/// Clients of one load.
const CLIENTS_MAX: u32 = 1024;

impl Part {
    /// What is wrong with it, if anything is.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.client >= self.clients || self.clients > CLIENTS_MAX {
            return Some("a client is one of 1 to 1024");
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Some("a client has 1 to 256 workers");
        }
        if !(0.0..=1.0).contains(&self.read_share) {
            return Some("the share of reads is from 0 to 1");
        }
        // A day.
        (!(0.0..=86_400.0).contains(&self.seconds_max))
            .then_some("invalid duration: a load is limited to one day")
    }
}

/// An agent answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// I am; and what your proof has to be for, if I ask for one.
    Hello { version: u32, challenge: Option<String> },
    /// I have the secret, too.
    Proved { proof: String },
    /// By my clock.
    Clock { received_ns: u64, sent_ns: u64 },
    /// Ready; the set has so many targets.
    Prepared { targets: u64, target_bytes: u64 },
    /// At work.
    Started,
    /// This was done.
    Done(ClientOutcome),
    /// It cannot be.
    Failed { cause: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_make_no_sense_are_refused() {
        let part = Part {
            client: 0,
            clients: 2,
            workers: 8,
            seed: 1,
            read_share: 0.8,
            verify: false,
            files_max: 10,
            seconds_max: 60.0,
        };
        assert_eq!(part.fault(), None);
        for wrong in [
            Part { client: 2, ..part.clone() },
            Part { workers: 0, ..part.clone() },
            Part { workers: 5000, ..part.clone() },
            Part { read_share: f64::NAN, ..part.clone() },
            Part { seconds_max: -1.0, ..part },
        ] {
            assert!(wrong.fault().is_some(), "{wrong:?}");
        }
        let text = serde_json::to_string(&Ask::Start { at_ns: 7 }).expect("text");
        assert_eq!(text, r#"{"start":{"at_ns":7}}"#);
    }
}
