//! A ramp: what was measured with 1, 2, … servers, and who uses what.

use super::Refusal;

/// Numbers of servers that a ramp needs: two for a line, and one that can contradict it.
const SERVERS_LEAST: usize = 3;

/// What was measured with 1, 2, … servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    /// I/Os that each server keeps outstanding.
    pub outstanding: u32,
    /// Everything that serves, and was measured.
    pub resources: Vec<Resource>,
    /// Groups to which the servers go in turn; 0 where all is shared.
    pub groups: u32,
    /// How the throughput of a drive grows with its queue, as an exponent of the queue, where that is known: 0 is first come, first served.
    pub sorting: Option<f64>,
    /// One per window and repeat.
    pub samples: Vec<Sample>,
}

/// Something that serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// How many serve in it: cores, or the drives of a group.
    pub units: u32,
    /// Whose it is.
    pub place: Place,
}

/// Whose a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Every server's.
    Shared,
    /// One of each group: those of all groups are alike and one entry. Its utilisation is that of the groups in use, on average.
    Group,
    /// One of each server. Its utilisation is that of the servers, on average.
    Server,
}

/// One window.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// With so many servers.
    pub servers: u32,
    /// In which repeat.
    pub repeat: u32,
    /// I/Os per second of all.
    pub iops: f64,
    /// In the order of the resources.
    pub utilisation: Vec<f64>,
    /// Requests at a drive of a group in use, on average; 0 where nobody knows.
    pub queue: f64,
}

impl Ramp {
    /// Whether it can be worked with.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let servers = self.servers().len();
        if servers < SERVERS_LEAST {
            return Err(Refusal::TooFew { servers, least: SERVERS_LEAST });
        }
        for sample in &self.samples {
            let fail = |what: String| Err(Refusal::NoValue { servers: sample.servers, what });
            if !(sample.iops.is_finite() && sample.iops > 0.0) {
                return fail(format!("{} I/Os per second", sample.iops));
            }
            if sample.servers == 0 || self.outstanding == 0 {
                return fail("no server or nothing outstanding".into());
            }
            if sample.utilisation.len() != self.resources.len() {
                return fail("another number of resources".into());
            }
            if let Some(u) = sample.utilisation.iter().find(|u| !(0.0..=1.05).contains(*u)) {
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
        let samples = self.samples.iter().filter(|sample| sample.servers <= servers).cloned().collect();
        Ramp { samples, ..self.clone() }
    }

    /// How many groups have how many of so many servers: the fuller ones first.
    pub(super) fn shares(&self, servers: u32) -> Vec<(u32, u32)> {
        if self.groups == 0 {
            return vec![(1, servers)];
        }
        let (each, more) = (servers / self.groups, servers % self.groups);
        let all = [(more, each + 1), (self.groups - more, each)];
        all.into_iter().filter(|(groups, each)| *groups > 0 && *each > 0).collect()
    }

    /// Servers on the fullest group.
    pub(super) fn fullest(&self, servers: u32) -> u32 {
        self.shares(servers).iter().map(|(_, each)| *each).max().unwrap_or(0)
    }

    /// Of each number of servers what was measured on average.
    pub(super) fn means(&self, samples: &[&Sample]) -> Vec<Sample> {
        let mean = |servers: u32| {
            let of: Vec<&&Sample> = samples.iter().filter(|sample| sample.servers == servers).collect();
            let count = of.len() as f64;
            let over =
                |value: &dyn Fn(&Sample) -> f64| of.iter().map(|sample| value(sample)).sum::<f64>() / count;
            Sample {
                servers,
                repeat: 0,
                iops: over(&|sample| sample.iops),
                utilisation: (0..self.resources.len())
                    .map(|k| over(&|sample| sample.utilisation[k]))
                    .collect(),
                queue: over(&|sample| sample.queue),
            }
        };
        self.servers().into_iter().map(mean).collect()
    }
}
