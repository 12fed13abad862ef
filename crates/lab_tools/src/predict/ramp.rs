//! A ramp: what was measured with 1, 2, … servers, and who uses what.

use std::collections::BTreeMap;

use super::Refusal;

/// Numbers of servers that a ramp needs: two for a line, and one that can contradict it.
const SERVERS_LEAST: usize = 3;
/// Groups are taken to be alike. One of RAID5 (2D+1P) that has lost a drive reads at random 74 to 77 % of
/// what the others do.
const ALIKE: f64 = 0.80;

/// What was measured with 1, 2, … servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    /// I/Os that each server keeps outstanding.
    pub outstanding: u32,
    /// What the servers share, and what each has for itself: everything that serves beside the groups, and
    /// was measured.
    pub resources: Vec<Resource>,
    /// Groups to which the servers go in turn; 0 where all is shared.
    pub groups: u32,
    /// The share of the cache that writes may hold before others wait for the drives, where there is such a
    /// limit.
    pub write_limit: Option<f64>,
    /// The groups that were least alike; none: nothing is known of single groups.
    pub uneven: Option<Uneven>,
    /// One per window and repeat.
    pub samples: Vec<Sample>,
    /// The same with servers that do not go to the groups in turn: as many on some as more servers would
    /// bring there.
    pub packed: Vec<Sample>,
}

/// Two groups that as many servers share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uneven {
    /// Servers in all.
    pub servers: u32,
    /// What the one gives, of what the other does.
    pub share: f64,
}

/// Something that serves.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Resource {
    pub name: String,
    /// How many serve in it: cores.
    pub units: u32,
    /// Whose it is.
    pub place: Place,
}

/// Whose a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Every server's.
    Shared,
    /// One of each server. Its utilisation is that of the servers, on average.
    Server,
}

/// One window.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Sample {
    /// With so many servers.
    pub servers: u32,
    pub repeat: u32,
    /// I/Os per second of all.
    pub iops: f64,
    /// In the order of the resources.
    pub utilisation: Vec<f64>,
    /// The groups in use, the fuller ones first.
    pub groups: Vec<Shared>,
    /// The share of the cache that writes hold; 0 where nobody knows.
    pub pending: f64,
    /// The share of the reads that the cache had; 0 where nobody knows or nothing is read.
    pub hit_share: f64,
    /// Each server has the share of the cache that it has among so many: as many as there are, but where
    /// files were made longer, or the cache smaller.
    pub share_of: u32,
}

/// Groups that as many servers share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Servers on each.
    pub each: u32,
    /// How many such groups.
    pub count: u32,
    /// I/Os per second of one, on average.
    pub iops: f64,
    /// The utilisation of their drives, on average.
    pub utilisation: f64,
}

/// How many servers, how many groups have how many of them, and among how many they share the cache.
pub(super) type State = (u32, Vec<(u32, u32)>, u32);

impl Sample {
    pub(super) fn state(&self) -> State {
        (self.servers, self.shares(), self.share_of)
    }

    /// How many groups have how many servers.
    pub(super) fn shares(&self) -> Vec<(u32, u32)> {
        match self.groups.is_empty() {
            true => vec![(1, self.servers)],
            false => self.groups.iter().map(|shared| (shared.count, shared.each)).collect(),
        }
    }
}

impl Ramp {
    /// Whether it can be worked with.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let servers = self.servers().len();
        if servers < SERVERS_LEAST {
            return Err(Refusal::TooFew { servers, least: SERVERS_LEAST });
        }
        if let Some(Uneven { servers, share }) = self.uneven.filter(|uneven| uneven.share < ALIKE) {
            return Err(Refusal::Uneven { servers, percent: 100.0 * share });
        }
        for sample in self.samples.iter().chain(&self.packed) {
            let fail = |what: String| Err(Refusal::NoValue { servers: sample.servers, what });
            let rates = || sample.groups.iter().map(|shared| shared.iops).chain([sample.iops]);
            if let Some(rate) = rates().find(|rate| !(rate.is_finite() && *rate > 0.0)) {
                return fail(format!("{rate} I/Os per second"));
            }
            if sample.servers == 0 || self.outstanding == 0 {
                return fail("no server or nothing outstanding".into());
            }
            if sample.utilisation.len() != self.resources.len() {
                return fail("another number of resources".into());
            }
            let on_groups: u32 = sample.groups.iter().map(|shared| shared.count * shared.each).sum();
            if self.groups > 0 && on_groups != sample.servers {
                return fail(format!("{on_groups} servers on its groups"));
            }
            let utilisations = sample.groups.iter().map(|shared| shared.utilisation);
            let mut all = sample.utilisation.iter().copied().chain(utilisations);
            if let Some(u) = all.find(|u| !(0.0..=1.05).contains(u)) {
                return fail(format!("a utilisation of {u}"));
            }
        }
        Ok(())
    }

    /// The numbers of servers that were measured, in order.
    pub fn servers(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.samples.iter().map(|sample| sample.servers).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The same without what was measured with more servers.
    pub fn upto(&self, servers: u32) -> Ramp {
        let of = |samples: &[Sample]| samples.iter().filter(|s| s.servers <= servers).cloned().collect();
        Ramp { samples: of(&self.samples), packed: of(&self.packed), ..self.clone() }
    }

    /// How many groups have how many of so many servers that go to them in turn: the fuller ones first.
    pub(super) fn shares(&self, servers: u32) -> Vec<(u32, u32)> {
        if self.groups == 0 {
            return vec![(1, servers)];
        }
        let (each, more) = (servers / self.groups, servers % self.groups);
        let all = [(more, each + 1), (self.groups - more, each)];
        all.into_iter().filter(|(groups, each)| *groups > 0 && *each > 0).collect()
    }
}

/// What was measured of each number of servers and placement on average, in order.
pub(super) fn means<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<Sample> {
    let mut by: BTreeMap<State, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        by.entry(sample.state()).or_default().push(sample);
    }
    by.into_values().map(|of| mean(&of)).collect()
}

fn mean(of: &[&Sample]) -> Sample {
    let over = |value: &dyn Fn(&Sample) -> f64| of.iter().map(|s| value(s)).sum::<f64>() / of.len() as f64;
    let first = of[0];
    let shared = |(at, shared): (usize, &Shared)| Shared {
        iops: over(&|sample| sample.groups[at].iops),
        utilisation: over(&|sample| sample.groups[at].utilisation),
        ..*shared
    };
    Sample {
        servers: first.servers,
        repeat: 0,
        iops: over(&|sample| sample.iops),
        utilisation: (0..first.utilisation.len()).map(|k| over(&|sample| sample.utilisation[k])).collect(),
        groups: first.groups.iter().enumerate().map(shared).collect(),
        pending: over(&|sample| sample.pending),
        hit_share: over(&|sample| sample.hit_share),
        share_of: first.share_of,
    }
}
