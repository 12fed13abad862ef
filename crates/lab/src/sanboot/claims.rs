//! The claims of the published experiment, and those of the prediction, against what was measured.
//!
//! Drive model, outstanding I/Os and internal disk are not published, so absolute ratios prove nothing: what is judged is which is more.

use super::results::{Layout, Pattern, Point, Window};
use super::survey::{FITTED_TO, Held, PUBLISHED_SERVERS, Survey, layout_words, pattern_words};
use crate::vaai::Verdict;
use lab_core::report::Claim;
use lab_core::stats::{Estimate, mean};
use lab_core::words::{capital, plain};

/// A claim that was judged.
pub(crate) struct Judged {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) published: Option<&'static str>,
    pub(crate) bound: Bound,
    pub(crate) estimate: Option<Estimate>,
    pub(crate) verdict: Verdict,
    pub(crate) figure: &'static str,
    pub(crate) note: Option<String>,
}

/// Judges a claim by its bound.
pub(crate) fn judged(
    name: &str,
    unit: &'static str,
    published: Option<&'static str>,
    bound: Bound,
    estimate: Option<Estimate>,
    figure: &'static str,
) -> Judged {
    let verdict = bound.judge(estimate.as_ref());
    Judged { name: name.into(), unit, published, bound, estimate, verdict, figure, note: None }
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// More than.
    Above(f64),
    /// Less than.
    Below(f64),
    /// Not more than.
    AtMost(f64),
    /// Not less than.
    AtLeast(f64),
    /// Between.
    Within(f64, f64),
}

impl Bound {
    pub(crate) fn words(self, unit: &str) -> String {
        let value = |v: f64| if unit.is_empty() { plain(v) } else { format!("{} {unit}", plain(v)) };
        match self {
            Bound::Above(v) => format!("> {}", value(v)),
            Bound::Below(v) => format!("< {}", value(v)),
            Bound::AtMost(v) => format!("≤ {}", value(v)),
            Bound::AtLeast(v) => format!("≥ {}", value(v)),
            Bound::Within(low, high) => format!("{} to {}", plain(low), value(high)),
        }
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Bound::Above(v) => value > v,
            Bound::Below(v) => value < v,
            Bound::AtMost(v) => value <= v,
            Bound::AtLeast(v) => value >= v,
            Bound::Within(low, high) => (low..=high).contains(&value),
        }
    }

    /// Held or not when the whole interval says so; one value alone decides by itself.
    pub(crate) fn judge(self, estimate: Option<&Estimate>) -> Verdict {
        let Some(e) = estimate else { return Verdict::NotJudged };
        let ends = if e.low.is_finite() { [e.low, e.high] } else { [e.mean, e.mean] };
        let interval_holds_bound = match self {
            Bound::Within(low, high) => [low, high].iter().any(|v| ends[0] < *v && *v < ends[1]),
            Bound::Above(v) | Bound::Below(v) | Bound::AtMost(v) | Bound::AtLeast(v) => {
                ends[0] < v && v < ends[1]
            }
        };
        match (interval_holds_bound, self.holds(e.mean)) {
            (true, _) => Verdict::Undecided,
            (false, true) => Verdict::Held,
            (false, false) => Verdict::NotHeld,
        }
    }
}

const RAID5: Layout = Layout::Raid5x4;
const RAID1: Layout = Layout::Raid1x8;
/// "Far above" is half as much again at least.
const FAR_ABOVE_PERCENT: f64 = 150.0;
const OWN: (Layout, u32) = (Layout::Internal, 1);

/// Everything, most important first.
pub(crate) fn judge(survey: &Survey<'_>) -> Vec<Judged> {
    let mut out = orderings(survey);
    out.extend(prediction(survey));
    if survey.is_real() {
        out.iter_mut().filter(|claim| NEEDS_MODEL.contains(&claim.figure)).for_each(|claim| {
            claim.verdict = Verdict::NotJudged;
            claim.note = Some("in real time it is this machine's processor that ends it".into());
        });
    }
    out
}

/// Figures of claims on the published controller, port and servers, and of predictions: real ones are other ones.
const NEEDS_MODEL: [&str; 4] = ["controller", "port", "sequential_mix", "predicted_raid1x8"];

/// What the published experiment says.
pub(crate) fn orderings(survey: &Survey<'_>) -> Vec<Judged> {
    let mut out = random(survey);
    out.extend(sequential(survey));
    out.extend(advice(survey));
    out
}

fn random(survey: &Survey<'_>) -> Vec<Judged> {
    use Pattern::{RandomRead, RandomWrite};
    let percent = |e: Estimate| e.scaled(100.0);
    let over = |pattern, layout, n| survey.over(pattern, (layout, n), OWN).map(percent);
    let eight = PUBLISHED_SERVERS;
    let mut crossing = judged(
        "Random reads: RAID5 below the internal disk from",
        "servers",
        Some("6"),
        Bound::Within(2.0, 8.0),
        first_below(survey, RandomRead, RAID5),
        "random_read",
    );
    crossing.note = Some("where it crosses depends on drive and outstanding I/Os, which are not published; that it does, does not".into());
    let write_fall = survey.over(RandomWrite, (RAID5, eight), (RAID5, 5)).map(percent);
    let mut least = judged(
        "Random writes: RAID5 against the internal disk, at its least",
        "%",
        Some("never below"),
        Bound::Above(100.0),
        least_over_own(survey, RandomWrite, RAID5).map(percent),
        "random_write",
    );
    least.note = Some("over all numbers of servers up to 8".into());
    vec![
        judged(
            "Random reads, 8 servers: RAID5 against the internal disk",
            "%",
            Some("about 80 %"),
            Bound::Below(100.0),
            over(RandomRead, RAID5, eight),
            "random_read",
        ),
        crossing,
        judged(
            "Random reads, 8 servers: RAID1 against the internal disk",
            "%",
            Some("no such fall"),
            Bound::Above(100.0),
            over(RandomRead, RAID1, eight),
            "random_read",
        ),
        judged(
            "Random writes: RAID5 with 8 servers against 5",
            "%",
            Some("falls"),
            Bound::Below(100.0),
            write_fall,
            "random_write",
        ),
        least,
    ]
}

fn sequential(survey: &Survey<'_>) -> Vec<Judged> {
    use Pattern::{SequentialMix, SequentialRead, SequentialWrite};
    let eight = PUBLISHED_SERVERS;
    let mut out = Vec::new();
    for (pattern, figure) in [(SequentialRead, "sequential_read"), (SequentialWrite, "sequential_write")] {
        let least = [RAID5, RAID1].into_iter().filter_map(|layout| least_over_own(survey, pattern, layout));
        let least = least.min_by(|a, b| a.mean.total_cmp(&b.mean)).map(|e| e.scaled(100.0));
        let name = format!("{}: against the internal disk, at their least", capital(pattern_words(pattern)));
        let mut claim = judged(&name, "%", Some("far above"), Bound::Above(FAR_ABOVE_PERCENT), least, figure);
        claim.note = Some("both layouts, all numbers of servers up to 8".into());
        out.push(claim);
    }
    let busy = survey.controller_busy(SequentialMix, RAID1, eight);
    let busy = (!busy.is_empty()).then(|| mean(&busy).scaled(100.0));
    let mut limit = judged(
        "Sequential 75/25, RAID1, 8 servers: controller",
        "%",
        Some("at its limit"),
        Bound::AtLeast(90.0),
        busy,
        "controller",
    );
    limit.note = Some("what a command costs the controller is calibrated to this".into());
    let own = survey.over(SequentialMix, (RAID1, eight), OWN).map(|e| e.scaled(100.0));
    let ninth = survey.over(SequentialMix, (RAID1, eight + 1), (RAID1, eight)).map(|e| e.scaled(100.0));
    let port = survey.port_mb_per_s(SequentialRead, RAID1, eight);
    let mut port = judged(
        "Sequential reads, RAID1, 8 servers: port",
        "MB/s",
        Some("120 MB/s"),
        Bound::Within(108.0, 132.0),
        (!port.is_empty()).then(|| mean(&port)),
        "port",
    );
    port.note =
        Some("what a server needs for an I/O is calibrated to this; the port itself carries 200 MB/s".into());
    out.extend([
        limit,
        judged(
            "Sequential 75/25, 8 servers: RAID1 against the internal disk",
            "%",
            Some("still fine"),
            Bound::Above(100.0),
            own,
            "sequential_mix",
        ),
        judged(
            "Sequential 75/25, RAID1: a server of nine against one of eight",
            "%",
            Some("would fall"),
            Bound::Below(100.0),
            ninth,
            "sequential_mix",
        ),
        port,
    ]);
    out
}

fn advice(survey: &Survey<'_>) -> Vec<Judged> {
    let spread = |layout| {
        let of = |_: &Point, w: &Window| {
            let most = w.server_iops.iter().copied().fold(0.0, f64::max);
            w.server_iops.iter().copied().fold(f64::INFINITY, f64::min) / most
        };
        let values = survey.batches((Pattern::RandomRead, layout, 5), of);
        (!values.is_empty()).then(|| mean(&values).scaled(100.0))
    };
    let name = |layout| {
        format!("Random reads, 5 servers on {}: the worst against the best served", layout_words(layout))
    };
    let both = survey.over(Pattern::RandomRead, (RAID1, PUBLISHED_SERVERS), (RAID5, PUBLISHED_SERVERS));
    let one = Some("one system disk per RAID group");
    vec![
        judged(
            "Random reads, 8 servers: RAID1 × 8 against RAID5 × 4",
            "×",
            one,
            Bound::Above(1.0),
            both,
            "random_read",
        ),
        judged(&name(RAID5), "%", one, Bound::Below(90.0), spread(RAID5), "spread"),
        judged(&name(RAID1), "%", one, Bound::AtLeast(90.0), spread(RAID1), "spread"),
    ]
}

fn prediction(survey: &Survey<'_>) -> Vec<Judged> {
    let held = survey.held();
    let worst = |near: bool| {
        let of = held.iter().filter(|h| (h.servers <= PUBLISHED_SERVERS) == near);
        of.max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()))
    };
    let at = |h: &Held| {
        let (pattern, layout) = (pattern_words(h.pattern), layout_words(h.layout));
        format!("the worst: {pattern}, {layout}, {} servers: {:+.1} %", h.servers, 100.0 * h.error)
    };
    let claim = |name: &str, bound: f64, near: bool| {
        let worst = worst(near);
        let estimate = worst.map(|h| Estimate::exact(100.0 * h.error.abs()));
        let mut claim = judged(name, "%", None, Bound::AtMost(bound), estimate, "predicted_raid1x8");
        claim.note = worst.map(at);
        claim
    };
    let within = held.iter().filter(|h| h.is_within).count() as f64 / held.len().max(1) as f64;
    let coverage = (!held.is_empty()).then(|| Estimate::exact(100.0 * within));
    let failed: Vec<String> = survey.tried.iter().filter_map(refused).collect();
    let ramps = survey.tried.len();
    let mut predicted = judged(
        "Ramps that are predicted to the end",
        "",
        None,
        Bound::AtLeast(ramps as f64),
        (ramps > 0).then(|| Estimate::exact((ramps - failed.len()) as f64)),
        "predicted_raid1x8",
    );
    predicted.note = (!failed.is_empty()).then(|| format!("refused: {}", failed.join("; ")));
    let mut band =
        judged("The band holds", "% of them", None, Bound::AtLeast(90.0), coverage, "predicted_raid1x8");
    band.note = Some(format!("{} points beyond {FITTED_TO} servers", held.len()));
    let mut all = vec![
        claim("Prediction from 1–6 servers for 7 and 8: off by at most", 5.0, true),
        claim("Prediction from 1–6 servers for 9 to 16: off by at most", 10.0, false),
        band,
        predicted,
    ];
    if survey.results.quick {
        // It has fewer than six points to fit on, each once.
        all.iter_mut().for_each(|claim| claim.verdict = Verdict::NotJudged);
    }
    all
}

/// Why, stands where predictions are told.
fn refused(predicted: &super::survey::Predicted) -> Option<String> {
    let place = format!("{}, {}", pattern_words(predicted.pattern), layout_words(predicted.layout));
    match &predicted.forecast {
        Err(_) => Some(place),
        Ok(forecast) => forecast.refused.as_ref().map(|(from, _)| format!("{place}, from {from} on")),
    }
}

/// From how many servers on each gets less than from a disk of its own.
fn first_below(survey: &Survey<'_>, pattern: Pattern, layout: Layout) -> Option<Estimate> {
    let servers = survey.servers(pattern, layout);
    let below = |n: &u32| survey.over(pattern, (layout, *n), OWN).is_some_and(|over| over.mean < 1.0);
    servers.into_iter().find(below).map(|n| Estimate::exact(f64::from(n)))
}

/// The least of all numbers of servers up to the published eight.
fn least_over_own(survey: &Survey<'_>, pattern: Pattern, layout: Layout) -> Option<Estimate> {
    let servers = survey.servers(pattern, layout).into_iter().filter(|n| *n <= PUBLISHED_SERVERS);
    let all = servers.filter_map(|n| survey.over(pattern, (layout, n), OWN));
    all.min_by(|a, b| a.mean.total_cmp(&b.mean))
}

/// For the report.
pub(crate) fn claims(judged: &[Judged]) -> Vec<Claim> {
    judged.iter().map(claim).collect()
}

fn claim(judged: &Judged) -> Claim {
    let interval = judged.estimate.filter(|e| e.low.is_finite() && e.high.is_finite());
    Claim {
        name: judged.name.clone(),
        unit: judged.unit.into(),
        published: judged.published.map(Into::into),
        expected: Some(judged.bound.words(judged.unit)),
        measured: judged.estimate.map(|e| e.mean),
        low: interval.map(|e| e.low),
        high: interval.map(|e| e.high),
        verdict: judged.verdict.words(),
        figure: Some(judged.figure.into()),
        note: judged.note.clone(),
    }
}
