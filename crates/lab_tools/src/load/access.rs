//! What a load does, in the terms of Iometer's access specification, and where it goes next.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use world::Rng;

use lab_core::quantity::Time;

/// One access specification: so large, read to this share, random to this share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Of a hundred I/Os of a mix, so many are of this kind.
    pub share_percent: u32,
    /// Bytes of one I/O.
    pub size: u64,
    /// So many of a hundred read, the others write.
    pub read_percent: u32,
    /// So many of a hundred jump, the others go on where the last one ended.
    pub random_percent: u32,
    /// Addresses are multiples of this.
    pub align: u64,
    /// So many I/Os, then a pause; none: no pauses.
    pub burst: Option<Burst>,
}

/// I/Os in a row, and the pause after they have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// I/Os.
    pub length: u32,
    /// From the end of the last one to the next burst.
    pub delay: Duration,
}

/// Specifications mixed by their shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<Access>);

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Byte.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it reads.
    pub reads: bool,
    /// What follows it if it is the last of a burst.
    pub pause: Option<Duration>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.reads { "READ" } else { "WRITE" };
        write!(f, "{name} of {} bytes at byte {}", self.len, self.at)
    }
}

/// Addresses are at least such multiples.
pub const ALIGN_MIN: u64 = 512;
/// More kinds of I/O than any file of Iometer has in one mix.
const KINDS_MAX: usize = 100;
/// The longest pause between bursts.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// Why the parameters of a load are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum AccessError {
    /// Nothing is done.
    #[error("a load has 1 to {KINDS_MAX} access specifications")]
    Count,
    /// They are shares of a whole.
    #[error("the shares of the access specifications make {0} %, not 100 %")]
    Shares(u32),
    /// A part of a hundred.
    #[error("invalid {0} {1} %: must be at most 100 %")]
    Percent(&'static str, u32),
    /// The size of an I/O.
    #[error("invalid size {0}: must be a multiple of 512 bytes, at most 8 MiB")]
    Size(u64),
    /// The alignment.
    #[error("invalid align {0}: must be a multiple of 512 bytes, at most 1 GiB")]
    Align(u64),
    #[error("invalid burst: must have 1 to 1000000 I/Os and a delay of at most an hour")]
    Burst,
    /// The words of a specification.
    #[error("{0:?}: is size=, read=, random=, align=, burst=, delay= or share= with a value")]
    Word(String),
    /// Which of the two is meant nobody knows.
    #[error("{0:?}: has {1} twice; remove one of them")]
    Twice(String, String),
    /// It would be as without.
    #[error("{0:?}: burst requires delay: add how long each pause is")]
    BurstAlone(String),
}

impl Access {
    /// All of one kind, aligned to its size.
    pub fn new(size: u64, read_percent: u32, random_percent: u32) -> Access {
        Access { share_percent: 100, size, read_percent, random_percent, align: size, burst: None }
    }

    fn check(&self) -> Result<(), AccessError> {
        for (name, percent) in [("read", self.read_percent), ("random", self.random_percent)] {
            if percent > 100 {
                return Err(AccessError::Percent(name, percent));
            }
        }
        if !self.size.is_multiple_of(ALIGN_MIN) || !(1..=world::BUF_LEN_MAX as u64).contains(&self.size) {
            return Err(AccessError::Size(self.size));
        }
        if !self.align.is_multiple_of(ALIGN_MIN) || !(1..=1 << 30).contains(&self.align) {
            return Err(AccessError::Align(self.align));
        }
        match self.burst {
            Some(b) if !(1..=1_000_000).contains(&b.length) || b.delay > DELAY_MAX => Err(AccessError::Burst),
            Some(_) | None => Ok(()),
        }
    }

    /// "64 KiB, 67 % read, 100 % random".
    pub fn words(&self) -> String {
        let size = match self.size {
            s if s.is_multiple_of(1 << 20) => format!("{} MiB", s >> 20),
            s if s.is_multiple_of(1 << 10) => format!("{} KiB", s >> 10),
            s => format!("{s} B"),
        };
        let burst = self.burst.map_or(String::new(), |b| {
            format!(", bursts of {} and {} ms of pause", b.length, b.delay.as_secs_f64() * 1e3)
        });
        format!("{size}, {} % read, {} % random{burst}", self.read_percent, self.random_percent)
    }
}

/// "size=4KiB,read=67,random=100,align=4KiB,burst=8,delay=10ms,share=30".
impl FromStr for Access {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Access, AccessError> {
        let mut access = Access { align: 0, ..Access::new(4096, 100, 100) };
        let mut burst = Burst { length: 1, delay: Duration::ZERO };
        let mut keys = BTreeSet::new();
        for word in text.split(',') {
            let wrong = || AccessError::Word(word.to_owned());
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            if !keys.insert(key.trim()) {
                return Err(AccessError::Twice(text.to_owned(), key.trim().to_owned()));
            }
            let number = || value.trim_end_matches('%').parse::<u32>().map_err(|_| wrong());
            let size = || units::parse_bytes(value).map_err(|_| wrong());
            match key.trim() {
                "size" => access.size = size()?,
                "read" => access.read_percent = number()?,
                "random" => access.random_percent = number()?,
                "align" => access.align = size()?,
                "share" => access.share_percent = number()?,
                "burst" => burst.length = number()?,
                "delay" => burst.delay = Time::try_from(value.to_owned()).map_err(|_| wrong())?.0,
                _ => return Err(wrong()),
            }
        }
        if keys.contains("burst") && !keys.contains("delay") {
            return Err(AccessError::BurstAlone(text.to_owned()));
        }
        access.burst = (burst.delay > Duration::ZERO).then_some(burst);
        if access.align == 0 {
            access.align = access.size;
        }
        access.check()?;
        Ok(access)
    }
}

impl Mix {
    /// These, if their shares make a whole.
    pub fn new(kinds: Vec<Access>) -> Result<Mix, AccessError> {
        if kinds.is_empty() || kinds.len() > KINDS_MAX {
            return Err(AccessError::Count);
        }
        kinds.iter().try_for_each(Access::check)?;
        let shares = kinds.iter().fold(0u32, |sum, k| sum.saturating_add(k.share_percent));
        if shares != 100 { Err(AccessError::Shares(shares)) } else { Ok(Mix(kinds)) }
    }

    /// Its kinds.
    pub fn kinds(&self) -> &[Access] {
        &self.0
    }

    /// Whether any of it writes.
    pub fn writes(&self) -> bool {
        self.0.iter().any(|kind| kind.read_percent < 100 && kind.share_percent > 0)
    }

    /// The largest I/O.
    pub fn size_max(&self) -> u64 {
        self.0.iter().map(|kind| kind.size).max().unwrap_or(0)
    }

    /// "30 % of 4 KiB, 100 % read, 100 % random; 70 % of 64 KiB, 0 % read, 0 % random".
    pub fn words(&self) -> String {
        match &self.0[..] {
            [one] => one.words(),
            many => {
                let parts = many.iter().map(|k| format!("{} % of {}", k.share_percent, k.words()));
                parts.collect::<Vec<_>>().join("; ")
            }
        }
    }
}

/// The I/Os of one worker, one after the other.
pub struct Walk {
    mix: Mix,
    /// First byte and length of where it goes.
    from: u64,
    len: u64,
    /// Where the last one ended, from `from` on.
    next: u64,
    in_burst: u32,
    rng: Rng,
}

impl Walk {
    /// Over `len` bytes from `from` on, which the largest I/O has room in; of several workers each begins at
    /// its own part.
    pub fn new(mix: Mix, from: u64, len: u64, (index, workers): (usize, usize), rng: Rng) -> Walk {
        let next = (u128::from(len) * index as u128 / workers.max(1) as u128) as u64;
        Walk { mix, from, len, next, in_burst: 0, rng }
    }

    /// The next one.
    pub fn step(&mut self) -> Op {
        let kind = self.kind();
        let last = self.len.saturating_sub(kind.size) / kind.align;
        let slot = if self.draws(kind.random_percent) {
            self.rng.u64(..=last)
        } else {
            let slot = self.next.div_ceil(kind.align);
            if slot > last { 0 } else { slot }
        };
        let at = slot * kind.align;
        self.next = at + kind.size;
        Op {
            at: self.from + at,
            len: kind.size,
            reads: self.draws(kind.read_percent),
            pause: self.pause(kind.burst),
        }
    }

    fn kind(&mut self) -> Access {
        if let [one] = self.mix.0[..] {
            return one;
        }
        let mut draw = self.rng.u32(..100);
        for kind in &self.mix.0 {
            if draw < kind.share_percent {
                return *kind;
            }
            draw -= kind.share_percent;
        }
        self.mix.0[0]
    }

    /// Nothing is drawn where nothing is open: one kind of load stays as it is when another changes.
    fn draws(&mut self, percent: u32) -> bool {
        match percent {
            0 => false,
            100 => true,
            percent => self.rng.u32(..100) < percent,
        }
    }

    fn pause(&mut self, burst: Option<Burst>) -> Option<Duration> {
        let burst = burst?;
        self.in_burst += 1;
        if self.in_burst < burst.length {
            return None;
        }
        self.in_burst = 0;
        Some(burst.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(text: &[&str], len: u64, place: (usize, usize)) -> Walk {
        let kinds = text.iter().map(|t| t.parse().expect("reads")).collect();
        Walk::new(Mix::new(kinds).expect("a whole"), 0, len, place, Rng::with_seed(1))
    }

    /// An error of an I/O printed Rust's form of it: "Op { at: 8192, len: 4096, reads: true, pause: None }".
    #[test]
    fn an_io_is_named_by_its_command_and_place() {
        let op = Op { at: 8192, len: 4096, reads: true, pause: None };
        assert_eq!(op.to_string(), "READ of 4096 bytes at byte 8192");
        assert_eq!(Op { reads: false, ..op }.to_string(), "WRITE of 4096 bytes at byte 8192");
    }

    #[test]
    fn sequences_wrap_and_workers_begin_apart() {
        let mut walk = walk(&["size=1KiB,random=0"], 4 << 10, (1, 2));
        assert_eq!([walk.step().at, walk.step().at, walk.step().at], [2048, 3072, 0]);
    }

    #[test]
    fn random_places_are_aligned_and_within() {
        let mut walk = walk(&["size=64KiB,align=4KiB"], 1 << 20, (0, 1));
        let ops: Vec<Op> = (0..2000).map(|_| walk.step()).collect();
        assert!(ops.iter().all(|op| op.at.is_multiple_of(4096) && op.at + op.len <= 1 << 20));
        assert!(ops.iter().any(|op| op.at % 65536 != 0), "not only multiples of its size");
        assert!(ops.iter().any(|op| op.at == (1 << 20) - (64 << 10)), "up to the last place");
    }

    #[test]
    fn a_mix_has_its_shares_and_a_specification_its_reads() {
        let mut walk = walk(&["size=4KiB,read=50,share=30", "size=8KiB,read=0,share=70"], 1 << 30, (0, 1));
        let ops: Vec<Op> = (0..20_000).map(|_| walk.step()).collect();
        let small = ops.iter().filter(|op| op.len == 4096).count();
        let reads = ops.iter().filter(|op| op.reads).count();
        assert!((5700..6300).contains(&small) && (2700..3300).contains(&reads), "{small} {reads}");
        assert!(ops.iter().all(|op| op.len == 4096 || !op.reads));
    }

    #[test]
    fn half_random_is_half_sequential() {
        let mut walk = walk(&["size=4KiB,random=50"], 1 << 40, (0, 1));
        let ops: Vec<Op> = (0..10_000).map(|_| walk.step()).collect();
        let on = ops.windows(2).filter(|w| w[1].at == w[0].at + w[0].len).count();
        assert!((4800..5200).contains(&on), "{on}");
    }

    #[test]
    fn a_burst_ends_with_its_pause() {
        let mut walk = walk(&["burst=3,delay=5ms"], 1 << 20, (0, 1));
        let pauses: Vec<bool> = (0..6).map(|_| walk.step().pause.is_some()).collect();
        assert_eq!(pauses, [false, false, true, false, false, true]);
    }

    #[test]
    fn what_is_no_load_is_refused() {
        for text in [
            "size=0",
            "size=1000",
            "size=9MiB",
            "read=101",
            "align=100",
            "share",
            "speed=3",
            "burst=0,delay=1s",
            "burst=3",
            "read=1,read=2",
        ] {
            assert!(text.parse::<Access>().is_err(), "{text}");
        }
        let half: Access = "share=50".parse().expect("reads");
        assert_eq!(Mix::new(vec![half]), Err(AccessError::Shares(50)));
        assert_eq!(Mix::new(vec![]), Err(AccessError::Count));
        let over = Access { share_percent: u32::MAX, ..half };
        assert!(Mix::new(vec![over, over]).is_err());
    }
}
