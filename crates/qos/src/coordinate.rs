//! Coordination of several schedulers in front of one array, or of one client at several schedulers.

use crate::expected::{Claim, expected};
use crate::queue::Phase;

/// Service that a client received at other schedulers since its last request at this one: δ and ρ of dmClock
/// in bytes, without the request itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// In both phases.
    pub all_bytes: u64,
    /// In the constraint phase, for its minimum.
    pub minimum_bytes: u64,
}

impl Elsewhere {
    fn add(&mut self, phase: Phase, bytes: u64) {
        self.all_bytes += bytes;
        if phase == Phase::Minimum {
            self.minimum_bytes += bytes;
        }
    }

    fn since(self, earlier: Elsewhere) -> Elsewhere {
        Elsewhere {
            all_bytes: self.all_bytes - earlier.all_bytes,
            minimum_bytes: self.minimum_bytes - earlier.minimum_bytes,
        }
    }
}

/// Service of one client per scheduler; kept with the client, which informs each scheduler about the others.
pub struct Tracker {
    all: Elsewhere,
    servers: Vec<Server>,
}

#[derive(Clone, Copy, Default)]
struct Server {
    own: Elsewhere,
    told: Elsewhere,
}

impl Tracker {
    /// For a client of `count` schedulers.
    pub fn new(servers: usize) -> Tracker {
        Tracker { all: Elsewhere::default(), servers: vec![Server::default(); servers] }
    }

    /// Records that a scheduler served a request; `bytes` is its charge.
    pub fn completed(&mut self, server: usize, phase: Phase, bytes: u64) {
        self.all.add(phase, bytes);
        self.servers[server].own.add(phase, bytes);
    }

    /// What a scheduler must know before the client's next request.
    pub fn before_request(&mut self, server: usize) -> Elsewhere {
        let server = &mut self.servers[server];
        let others = self.all.since(server.own);
        let news = others.since(server.told);
        server.told = others;
        news
    }
}

/// Share of each node of a common array, in units per second: water-filling over the claims of all clients,
/// as one scheduler would do it. Unclaimed capacity is divided evenly, so that a client that begins to send
/// requests finds some.
pub fn shares(capacity: u64, nodes: &[Vec<Claim>]) -> Vec<u64> {
    let claims: Vec<Claim> = nodes.iter().flatten().copied().collect();
    let rates = expected(capacity, &claims).rates;
    let left = capacity.saturating_sub(rates.iter().sum());
    let spare = left / nodes.len().max(1) as u64;
    let mut rates = rates.into_iter();
    nodes.iter().map(|node| spare + rates.by_ref().take(node.len()).sum::<u64>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_hears_once_of_what_others_did() {
        let mut tracker = Tracker::new(3);
        tracker.completed(0, Phase::Minimum, 10);
        tracker.completed(1, Phase::Weight, 5);
        tracker.completed(2, Phase::Minimum, 1);
        assert_eq!(tracker.before_request(0), Elsewhere { all_bytes: 6, minimum_bytes: 1 });
        assert_eq!(tracker.before_request(0), Elsewhere::default());
        tracker.completed(0, Phase::Weight, 7);
        assert_eq!(tracker.before_request(1), Elsewhere { all_bytes: 18, minimum_bytes: 11 });
    }

    #[test]
    fn shares_are_what_one_scheduler_would_give() {
        let claim = |minimum| Claim { minimum, maximum: None, weight: 1, demand: None };
        // Five with a minimum of 2,000 at one node, five without at the other: 17,090 units.
        let nodes = [vec![claim(2000); 5], vec![claim(0); 5]];
        let got = shares(17_090, &nodes);
        assert!(got[0].abs_diff(10_000) <= 5 && got[1].abs_diff(7_090) <= 5, "{got:?}");
        let idle = Claim { demand: Some(100), ..claim(0) };
        assert_eq!(shares(1000, &[vec![idle], vec![]]), [550, 450]);
    }
}
