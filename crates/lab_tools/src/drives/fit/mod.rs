//! A drive from a trace: parameters whose replay has the smallest demerit.
//!
//! The search changes one parameter after the other, by less and less, and keeps what is better. The distance
//! that it makes smaller is the demerit by classes (reads and writes, near the request before and far from
//! it), so that a wrong seek does not hide behind a wrong cache. What a trace cannot tell is said with the
//! result.

mod zones;

use world_model::drives::{
    BLOCK_BYTES, DriveParameters, HardDiskParameters, HeadOrder, Kind, Overheads, ReadAhead, Scheduling,
    Seek, SegmentParameters, Spares,
};

use super::closed_loop::{Load, measure};
use super::replay::{Replay, ReplayError, demerit, replay};
use super::trace::Trace;

use zones::{Layout, layout, sectors_of_rate};

/// A trace with fewer requests tells too little of a distribution.
const REQUESTS_MIN: usize = 500;
/// Requests that a search replays again and again.
const SEARCHED_MAX: usize = 4000;
/// The share of the trace that is searched with; the rest is held out.
const SEARCHED_PERCENT: usize = 60;
/// Factors by which a parameter is changed, the largest first.
const STEPS: [f64; 4] = [1.6, 1.25, 1.1, 1.03];
/// Requests of a stream that is held against a known rate.
const STREAMED: u64 = 100;
/// Rounds with each factor.
const ROUNDS: usize = 3;
/// A drive with a larger demerit, in percent of the mean, is no model of what was measured: one that answers
/// at once has 100 % or more.
const DEMERIT_MAX_PERCENT: f64 = 50.0;
/// A request nearer than this share of the drive to the one before is near.
const NEAR_SHARE: u64 = 50;

/// A fitted drive.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The drive.
    pub parameters: DriveParameters,
    /// The whole trace on it.
    pub replay: Replay,
    /// The demerit on the requests that the fit did not see, in percent of their mean.
    pub held_out_percent: f64,
    /// What the trace could not tell.
    pub unknown: Vec<String>,
}

/// Errors of a fit.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum FitError {
    #[error("a trace of {0} requests: at least 500 are needed")]
    Short(usize),
    #[error("block {end_block} is the end of the last request: no drive is so large")]
    Large {
        /// One past the last block.
        end_block: u64,
    },
    #[error(
        "no drive with platters is like this trace: the demerit of the nearest is {percent:.0} % of the measured mean \
         ({mean_ms:.3} ms)"
    )]
    Unlike {
        /// Of the nearest one.
        percent: f64,
        /// Of the trace.
        mean_ms: f64,
    },
    #[error("{0}")]
    Replay(#[from] ReplayError),
}

/// What is searched for: times in ns, and the sectors of a track.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Guess([f64; 10]);

const REVOLUTION: usize = 0;
const SINGLE: usize = 1;
const AVERAGE: usize = 2;
const FULL: usize = 3;
const READ_HIT: usize = 4;
const READ_MISS: usize = 5;
const WRITE: usize = 6;
const BUS: usize = 7;
const SECTORS: usize = 8;
const SETTLE: usize = 9;

/// Choices that have no size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Choice {
    segments: usize,
    read_ahead: ReadAhead,
    keeps_whole_track: bool,
    writes_back: bool,
}

const FIRST: Guess = Guess([
    6_000_000.0,
    1_000_000.0,
    5_000_000.0,
    10_000_000.0,
    200_000.0,
    200_000.0,
    300_000.0,
    50_000.0,
    250.0,
    300_000.0,
]);

/// What is known of the drive beside its trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The name of its model.
    pub name: String,
    /// Its capacity; `None`: the end of the last request.
    pub len_blocks: Option<u64>,
    /// The rates of sequential reads in as many equal parts of the drive, from its first block on, in bytes
    /// per second; none: not measured, and one zone.
    pub rates: Vec<f64>,
}

/// Fits a drive to a trace.
///
/// # Errors
///
/// If the trace is too short, has a request beyond the drive or any drive, or no drive is like it.
pub fn fit(trace: &Trace, known: &Known) -> Result<Fitted, FitError> {
    let count = trace.requests.len();
    if count < REQUESTS_MIN {
        return Err(FitError::Short(count));
    }
    let seen = (count * SEARCHED_PERCENT / 100).min(SEARCHED_MAX);
    let part =
        |range: std::ops::Range<usize>| Trace { requests: trace.requests[range].to_vec(), left_out: 0 };
    let len_blocks = known.len_blocks.unwrap_or(trace.end_block());
    if len_blocks > zones::LEN_BLOCKS_MAX {
        return Err(FitError::Large { end_block: len_blocks });
    }
    let search = Search { trace: part(0..seen), len_blocks, known };
    let mut best = search.scored(FIRST, Choice::of(&search.trace));
    for step in STEPS {
        best = search.descend(best, step);
    }
    for choice in best.choice.others() {
        let other =
            STEPS[2..].iter().fold(search.scored(best.guess, choice), |at, step| search.descend(at, *step));
        if other.loss < best.loss {
            best = other;
        }
    }
    let parameters = search.drive(best.guess, best.choice);
    let held_out = replay(&parameters, &part(seen..count))?;
    let replay = replay(&parameters, trace)?;
    let percent = replay.demerit_percent();
    if percent > DEMERIT_MAX_PERCENT {
        return Err(FitError::Unlike { percent, mean_ms: replay.measured_mean_ns / 1e6 });
    }
    let heads = search.layout(best.guess).heads;
    Ok(Fitted {
        replay,
        parameters,
        held_out_percent: held_out.demerit_percent(),
        unknown: unknown(trace, known, best.choice, heads),
    })
}

impl Choice {
    /// Writes that are faster than most reads are taken by a cache.
    fn of(trace: &Trace) -> Choice {
        let median = |kind| {
            let mut times: Vec<u64> =
                trace.requests.iter().filter(|r| r.kind == kind).map(|r| r.response_ns).collect();
            times.sort_unstable();
            times.get(times.len() / 2).copied()
        };
        let writes_back =
            matches!((median(Kind::Write), median(Kind::Read)), (Some(w), Some(r)) if w * 2 < r);
        Choice { segments: 4, read_ahead: ReadAhead::Track, keeps_whole_track: false, writes_back }
    }

    fn others(self) -> [Choice; 5] {
        [
            Choice { keeps_whole_track: true, ..self },
            Choice { keeps_whole_track: true, segments: 12, ..self },
            Choice { read_ahead: ReadAhead::None, ..self },
            Choice { read_ahead: ReadAhead::Segment, ..self },
            Choice { writes_back: !self.writes_back, ..self },
        ]
    }
}

/// A guess and how far it is off.
#[derive(Clone, Copy, Debug)]
struct Scored {
    guess: Guess,
    choice: Choice,
    loss: f64,
}

struct Search<'a> {
    trace: Trace,
    len_blocks: u64,
    known: &'a Known,
}

impl Search<'_> {
    fn scored(&self, guess: Guess, choice: Choice) -> Scored {
        Scored { guess, choice, loss: self.loss(guess, choice) }
    }

    /// Changes each parameter by this factor as long as that is better.
    fn descend(&self, mut best: Scored, step: f64) -> Scored {
        for _ in 0..ROUNDS {
            let before = best.loss;
            // Known rates give the sectors of a track.
            let searched = |parameter: &usize| *parameter != SECTORS || self.known.rates.is_empty();
            for parameter in (0..best.guess.0.len()).filter(searched) {
                for factor in [step, 1.0 / step] {
                    let mut guess = best.guess;
                    guess.0[parameter] *= factor;
                    let tried = self.scored(guess, best.choice);
                    if tried.loss < best.loss {
                        best = tried;
                    }
                }
            }
            if best.loss >= before {
                break;
            }
        }
        best
    }

    /// The root mean square distance of equal ranks within each class, and that of the known rates.
    fn loss(&self, guess: Guess, choice: Choice) -> f64 {
        let drive = self.drive(guess, choice);
        let Ok(replay) = replay(&drive, &self.trace) else { return f64::INFINITY };
        let near = self.len_blocks / NEAR_SHARE;
        let mut classes: [(Vec<u64>, Vec<u64>); 4] = Default::default();
        let mut before = 0;
        for (i, request) in self.trace.requests.iter().enumerate() {
            let class = usize::from(request.kind == Kind::Write) * 2
                + usize::from(request.block.abs_diff(before) > near);
            classes[class].0.push(replay.measured_ns[i]);
            classes[class].1.push(replay.response_ns[i]);
            before = request.block + request.blocks;
        }
        let squares = classes.iter().map(|(a, b)| demerit(a, b).powi(2) * a.len() as f64);
        let of_trace = squares.sum::<f64>() / self.trace.requests.len() as f64;
        (of_trace + (self.off_rates(&drive) * replay.measured_mean_ns).powi(2)).sqrt()
    }

    /// How far streams are from the known rates, as a share of them: of the first, the middle and the last
    /// part, the root mean square.
    fn off_rates(&self, drive: &DriveParameters) -> f64 {
        let rates = &self.known.rates;
        let parts = [0, rates.len() / 2, rates.len().saturating_sub(1)];
        let off = |part: &usize| {
            let measured = rates.get(*part)?;
            let from_share = *part as f64 / rates.len() as f64;
            let load = Load { requests: STREAMED, ..Load::stream(Kind::Read, from_share) };
            let modelled = measure(drive, &load).ok()?.mb_per_s * 1e6;
            Some((modelled / measured - 1.0).powi(2))
        };
        (parts.iter().filter_map(off).sum::<f64>() / parts.len() as f64).sqrt()
    }

    /// Zones by the rates; without any, one zone, because short requests do not tell rates.
    fn layout(&self, guess: Guess) -> Layout {
        let Guess(times) = guess;
        // While it streams, a track takes a revolution and the switch to the next one.
        let track_ns = times[REVOLUTION] + times[SINGLE];
        let mut sectors: Vec<f64> =
            self.known.rates.iter().map(|rate| sectors_of_rate(*rate, track_ns)).collect();
        if sectors.is_empty() {
            sectors.push(times[SECTORS]);
        }
        layout(self.len_blocks, &sectors, times[SINGLE] / times[REVOLUTION])
    }

    fn drive(&self, guess: Guess, choice: Choice) -> DriveParameters {
        let time = |i: usize| guess.0[i].clamp(0.0, 1e9) as u32;
        let Layout { heads, zones } = self.layout(guess);
        let fastest = self.known.rates.iter().copied().fold(1.0, f64::max);
        let bus_max_ns = (BLOCK_BYTES as f64 * 1e9 / fastest) as u32;
        let (single, average) = (time(SINGLE).max(1), time(AVERAGE).max(time(SINGLE)));
        let segment_blocks = 2 * u64::from(zones[0].sectors_per_track);
        let overhead = |read_hit, read_miss, write| Overheads {
            read_hit: world_model::drives::AfterReadOrWrite::same(read_hit),
            read_miss: world_model::drives::AfterReadOrWrite::same(read_miss),
            write_hit: world_model::drives::AfterReadOrWrite::same(write),
            write_miss: world_model::drives::AfterReadOrWrite::same(write),
            ..Overheads::same(0)
        };
        DriveParameters::HardDisk(HardDiskParameters {
            name: self.known.name.clone().into(),
            revolution_ns: time(REVOLUTION).clamp(1_000_000, 60_000_000),
            heads,
            zones: zones.into(),
            spares: Spares::Zone,
            slips_use_spares: true,
            defects: vec![].into(),
            head_order: HeadOrder::Ascending,
            len_blocks: self.known.len_blocks,
            head_switch_ns: time(SINGLE),
            write_settle_ns: time(SETTLE),
            write_seek_min_ns: 0,
            seek_read: Seek::Datasheet {
                single_ns: single,
                average_ns: average,
                full_ns: time(FULL).max(average),
            },
            seek_write: None,
            overheads: overhead(time(READ_HIT), time(READ_MISS), time(WRITE)),
            bus_ns_per_block: time(BUS).min(bus_max_ns),
            segments: SegmentParameters {
                read_ahead: choice.read_ahead,
                keeps_whole_track: choice.keeps_whole_track,
                write_segments: usize::from(choice.writes_back),
                ..SegmentParameters::plain(choice.segments, segment_blocks)
            },
            scheduling: Scheduling::Look,
            queue_depth: 64,
        })
    }
}

/// What requests that hardly move the arm cannot tell.
fn unmoved(trace: &Trace, len_blocks: u64) -> Option<String> {
    let starts = || trace.requests.iter().map(|request| request.block);
    let (first, last) = (starts().min()?, starts().max()?);
    if first == last {
        return Some(format!("rotation and seeks: all requests are for block {first}"));
    }
    let ends = trace.requests.iter().map(|request| request.block + request.blocks);
    let longest = starts().skip(1).zip(ends).map(|(start, end)| start.abs_diff(end)).max().unwrap_or(0);
    (longest <= len_blocks / NEAR_SHARE)
        .then(|| format!("longer seeks: no request is farther than {longest} blocks from the one before"))
}

/// What the fitted file says without knowing it.
fn unknown(trace: &Trace, known: &Known, choice: Choice, heads: u32) -> Vec<String> {
    let zones = match known.rates.len() {
        0 => "zones (one)".into(),
        count => format!("where zones begin ({count} equal parts)"),
    };
    let mut out = vec![format!("heads (chosen: {heads}), {zones}, skews, spare and defective sectors")];
    if known.len_blocks.is_none() {
        let end = trace.end_block();
        out.push(format!("the capacity: at least {end} blocks, the end of the last request"));
    }
    out.extend(unmoved(trace, known.len_blocks.unwrap_or(trace.end_block())));
    let longest = trace.requests.iter().map(|request| request.blocks).max().unwrap_or(0);
    if longest < 256 && known.rates.is_empty() {
        out.push(format!("the rate of the medium: no request is longer than {longest} blocks"));
    }
    let writes = trace.requests.iter().filter(|request| request.kind == Kind::Write).count();
    if writes == 0 {
        out.push("writes: there are none".into());
    } else if choice.writes_back {
        out.push("seeks before writes: the cache takes the writes".into());
    }
    let together = trace.requests.iter().any(|r| matches!(r.arrival, super::trace::Arrival::At(_)));
    if !together {
        out.push("the order in which the drive serves a queue: one request at a time".into());
    }
    out
}
