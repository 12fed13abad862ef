//! The inputs that the published experiment does not state, with other values: those that its text leaves
//! open, and some beyond them, which it contradicts.

use super::scenario::Sanboot;
use lab_core::quantity::{Size, Time};

/// What an input changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touches {
    /// Everything.
    All,
    /// Both layouts of the array.
    Array,
    /// RAID5 alone.
    Raid5,
    /// The disk in a server.
    Internal,
}

/// One input with another value.
pub(super) struct Variation {
    pub(super) input: &'static str,
    pub(super) touches: Touches,
    pub(super) change: Box<dyn Fn(&mut Sanboot)>,
    /// What it is then, in words.
    pub(super) value: Box<dyn Fn(&Sanboot) -> String>,
    /// What of the published text speaks against this value; none: it is left open.
    pub(super) against: Option<&'static str>,
}

impl Variation {
    /// The published text speaks against it, if it does.
    fn against(self, text: Option<&'static str>) -> Variation {
        Variation { against: text, ..self }
    }

    /// Progress for an observer.
    pub(super) fn words(&self) -> String {
        format!("sweep: {}", self.input)
    }
}

fn one(
    input: &'static str,
    touches: Touches,
    change: impl Fn(&mut Sanboot) + 'static,
    value: impl Fn(&Sanboot) -> String + 'static,
) -> Variation {
    Variation { input, touches, change: Box::new(change), value: Box::new(value), against: None }
}

const CACHE: Option<&str> = Some("4 GB of cache");
const RPM: Option<&str> = Some("10k/15k drives");
const YEAR: Option<&str> = Some("about 2005");

/// Drives that came after the experiment.
fn too_late(drive: &str) -> Option<&'static str> {
    YEAR.filter(|_| ["savvio-10k4", "cheetah-15k6"].contains(&drive))
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The default first, then every other value.
pub(super) fn variations() -> Vec<Variation> {
    let mut all = vec![one("as the scenario has it", Touches::All, |_| {}, |_| String::new())];
    all.extend(of_servers());
    all.extend(of_drives());
    all.extend(of_the_array());
    all.extend(of_costs());
    all
}

fn of_servers() -> Vec<Variation> {
    let mut all = Vec::new();
    for outstanding in [2, 8, 16] {
        let change = move |s: &mut Sanboot| {
            s.run.outstanding = outstanding;
            s.run.streams = s.run.streams.min(outstanding);
        };
        all.push(one("outstanding I/Os", Touches::All, change, |s| s.run.outstanding.to_string()));
    }
    for streams in [1, 4] {
        let change = move |s: &mut Sanboot| s.run.streams = streams;
        all.push(one("sequential streams", Touches::All, change, |s| s.run.streams.to_string()));
    }
    for percent in [0, 100] {
        let change = move |s: &mut Sanboot| s.host.spread_percent = percent;
        all.push(one("spread of a server's time", Touches::All, change, |s| {
            format!("{} %", s.host.spread_percent)
        }));
    }
    all
}

fn of_drives() -> Vec<Variation> {
    let mut all = Vec::new();
    for name in ["savvio-10k4", "cheetah-15k5", "cheetah-15k6"] {
        let change = move |s: &mut Sanboot| s.array.drive = name.into();
        let drives = one("drives of the array", Touches::Array, change, |s| s.array.drive.clone());
        all.push(drives.against(too_late(name)));
    }
    for name in ["savvio-10k4", "cheetah-15k5", "constellation-2"] {
        let change = move |s: &mut Sanboot| s.internal.drive = name.into();
        let disk = one("disk in a server", Touches::Internal, change, |s| s.internal.drive.clone());
        let is_slow = RPM.filter(|_| name == "constellation-2");
        all.push(disk.against(too_late(name).or(is_slow)));
    }
    for name in ["savvio-10k4", "cheetah-15k5", "cheetah-15k6"] {
        let change = move |s: &mut Sanboot| {
            s.array.drive = name.into();
            s.internal.drive = name.into();
        };
        all.push(one("both", Touches::All, change, |s| s.array.drive.clone()).against(too_late(name)));
    }
    let middle = |s: &mut Sanboot| s.internal.from = Size(36 * GIB);
    all.push(one("place of its file", Touches::Internal, middle, |_| "36 GiB from its start".into()));
    all
}

fn of_the_array() -> Vec<Variation> {
    let gib = |size: Size| format!("{} GiB", size.0 / GIB);
    let mut all = Vec::new();
    for lu_gib in [8, 16] {
        let change = move |s: &mut Sanboot| s.array.lu = Size(lu_gib * GIB);
        all.push(one("a system disk", Touches::Array, change, move |s| gib(s.array.lu)));
    }
    let together = |s: &mut Sanboot| s.array.lus_apart = false;
    all.push(one("LUs of a group", Touches::Raid5, together, |_| "one behind the other".into()));
    for unit_kib in [16, 128, 256] {
        let change = move |s: &mut Sanboot| s.array.stripe_unit = Size(unit_kib * KIB);
        all.push(one("stripe unit", Touches::Raid5, change, |s| {
            format!("{} KiB", s.array.stripe_unit.0 / KIB)
        }));
    }
    for cache_gib in [1, 2, 8] {
        let change = move |s: &mut Sanboot| s.array.cache = Size(cache_gib * GIB);
        let cache = one("cache for users' data", Touches::Array, change, move |s| gib(s.array.cache));
        all.push(cache.against(CACHE));
    }
    let page = |s: &mut Sanboot| s.array.page = Size(MIB);
    all.push(one("page of the pools", Touches::Array, page, |s| format!("{} MiB", s.array.page.0 / MIB)));
    all
}

fn times(time: Time, percent: u32) -> Time {
    Time(time.0 * percent / 100)
}

fn of_costs() -> Vec<Variation> {
    let mut all = Vec::new();
    for percent in [75, 125] {
        let change = move |s: &mut Sanboot| {
            let c = &mut s.controller;
            for cost in [&mut c.command, &mut c.per_kib, &mut c.write, &mut c.miss] {
                *cost = times(*cost, percent);
            }
        };
        all.push(one("costs of a controller", Touches::Array, change, move |_| format!("{percent} %")));
        let change = move |s: &mut Sanboot| s.host.io = times(s.host.io, percent);
        all.push(one("a server's time for an I/O", Touches::All, change, move |_| format!("{percent} %")));
    }
    all
}
