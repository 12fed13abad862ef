//! Several schedulers before one array, or one client at several: what they must know of each other.

use crate::expected::{Claim, expected};
use crate::queue::Phase;

/// Service that a client had at other schedulers since its last request at this one: δ and ρ of dmClock in bytes, without the request itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// In both phases.
    pub all_bytes: u64,
    /// For its minimum.
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

/// What one client had where: kept beside the client, which tells each scheduler of the others.
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
    /// For a client of so many schedulers.
    pub fn new(servers: usize) -> Tracker {
        Tracker { all: Elsewhere::default(), servers: vec![Server::default(); servers] }
    }

    /// A scheduler has served a request; `bytes` is what it was charged.
    pub fn completed(&mut self, server: usize, phase: Phase, bytes: u64) {
        self.all.add(phase, bytes);
        self.servers[server].own.add(phase, bytes);
    }

    /// What a scheduler is to be told before the next request.
    pub fn before_request(&mut self, server: usize) -> Elsewhere {
        let server = &mut self.servers[server];
        let others = self.all.since(server.own);
        let news = others.since(server.told);
        server.told = others;
        news
    }
}

/// What each node may take of an array that all of them share, in units per second: water-filling over the claims of all clients, as one
/// scheduler would give it; what nobody asks for is divided evenly, so that who begins to ask finds something.
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
