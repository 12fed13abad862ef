//! `[takeover]` of `sanboot.toml`: two controllers, and one that is lost.

use std::time::Duration;

use lab_core::checks::Checks;
use lab_core::quantity::{Size, Time};
use serde::Deserialize;

use crate::pattern::Pattern;

/// How the loss of a controller is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Takeover {
    /// Numbers of servers; the published one is run in every way, the others in one.
    pub servers: Vec<u32>,
    /// The same in the quick form.
    pub quick_servers: Vec<u32>,
    /// What servers do with both of their disks.
    pub patterns: Vec<Pattern>,
    /// They run so long before each measured stretch.
    pub warm_up: Time,
    /// Measured before the loss, and after the take-over.
    pub time: Time,
    /// The journal of a pool: memory with a battery that both controllers reach.
    pub journal: Size,
    /// A write to it.
    pub memory: Time,
    /// From one controller to the other.
    pub latency: Time,
    /// From the loss of a controller until the other one begins to take over.
    pub noticed: Time,
    /// A host notices so long after the last answer that a controller without power is silent.
    pub silent: Time,
    /// So long after that it uses the other path.
    pub given_up: Time,
    /// A host sends a command again so long after BUSY.
    pub retry: Time,
}

impl Takeover {
    /// The quick form.
    pub(crate) fn quick(self) -> Takeover {
        Takeover { servers: self.quick_servers.clone(), ..self }
    }

    /// The array has LUs for so many servers.
    pub(crate) fn check(&self, c: &mut Checks, servers_max: u32) {
        for (key, servers) in
            [("takeover.servers", &self.servers), ("takeover.quick_servers", &self.quick_servers)]
        {
            c.must(key, servers.is_sorted_by(|a, b| a < b), "grow from one to the next");
            servers.iter().for_each(|n| c.range(key, *n, 1..=servers_max));
        }
        c.must("takeover.patterns", !self.patterns.is_empty(), "name one pattern or more");
        let mut known: Vec<Pattern> = self.patterns.clone();
        known.sort_unstable();
        known.dedup();
        c.must("takeover.patterns", known.len() == self.patterns.len(), "name each pattern once");
        c.multiple("takeover.journal", self.journal, Size(1 << 20), 16 << 20..=16 << 30);
        let s = |seconds: u64| Time(Duration::from_secs(seconds));
        for (key, time) in [("takeover.warm_up", self.warm_up), ("takeover.time", self.time)] {
            c.range(key, time, s(1)..=s(600));
        }
        c.range("takeover.retry", self.retry, Time(Duration::from_millis(1))..=s(10));
        for (key, time, most) in [
            ("takeover.memory", self.memory, s(1)),
            ("takeover.latency", self.latency, s(1)),
            ("takeover.noticed", self.noticed, s(60)),
            ("takeover.silent", self.silent, s(60)),
            ("takeover.given_up", self.given_up, s(60)),
        ] {
            c.range(key, time, Time(Duration::ZERO)..=most);
        }
    }
}
