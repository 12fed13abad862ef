//! What the points say together: rates by pattern, layout and number of servers, and what was predicted of
//! them.

use super::ramp::{FittedOn, predicted};
use super::results::{Layout, Pattern, Point, Resource, ResourceKind, Results};
use lab_core::stats::{Estimate, mean, mean_of_windows, quotient_of};
use lab_tools::predict::{Forecast, Refusal};

/// Predictions are fitted on these numbers of servers and held against all others that were run.
pub(crate) const FITTED_ON: &[u32] = &[1, 2, 4, 5, 6];
/// The most of them.
pub(crate) const FITTED_TO: u32 = FITTED_ON[FITTED_ON.len() - 1];

/// The results with their predictions.
pub(crate) struct Survey<'a> {
    pub(crate) results: &'a Results,
    /// Fitted on [`FITTED_ON`], up to the most that were run.
    pub(crate) tried: Vec<Predicted>,
    /// Fitted on all that was run with up to eight servers: what the answer says.
    pub(crate) whole: Vec<Predicted>,
}

/// A prediction of a pattern on a layout.
pub(crate) struct Predicted {
    pub(crate) pattern: Pattern,
    pub(crate) layout: Layout,
    pub(crate) forecast: Result<Forecast, Refusal>,
}

/// Servers of the published experiment.
pub(crate) const PUBLISHED_SERVERS: u32 = 8;

impl<'a> Survey<'a> {
    /// Predicts what can be predicted.
    pub(crate) fn new(results: &'a Results) -> Survey<'a> {
        let to = results.points.iter().map(|p| p.servers).max().unwrap_or(0);
        let all = |on: FittedOn, to: u32| -> Vec<Predicted> {
            let each = Pattern::ALL.into_iter().chain(Pattern::HELD_OUT);
            let each = each.flat_map(|p| Layout::ALL.map(|l| (p, l)));
            each.filter_map(|(pattern, layout)| {
                let forecast = predicted(results, pattern, layout, on, to)?;
                Some(Predicted { pattern, layout, forecast })
            })
            .collect()
        };
        let tried = all(FittedOn::Only(FITTED_ON), to);
        let whole = all(FittedOn::UpTo(PUBLISHED_SERVERS), to.max(2 * PUBLISHED_SERVERS));
        Survey { results, tried, whole }
    }

    /// Whether it was run in real time.
    pub(crate) fn is_real(&self) -> bool {
        self.results.world == "real"
    }

    /// The points of one place in the figures.
    pub(crate) fn points(&self, pattern: Pattern, layout: Layout, servers: u32) -> Vec<&'a Point> {
        // A disk of its own gives the same however many others there are.
        let servers = if layout == Layout::Internal { 1 } else { servers };
        let is = |p: &&Point| p.pattern == pattern && p.layout == layout && p.servers == servers;
        self.results.points.iter().filter(is).collect()
    }

    /// The numbers of servers that were run on a layout.
    pub(crate) fn servers(&self, pattern: Pattern, layout: Layout) -> Vec<u32> {
        let of = self.results.points.iter().filter(|p| p.pattern == pattern && p.layout == layout);
        let mut all: Vec<u32> = of.map(|p| p.servers).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Values of something: one per repeat, which are independent; of a single repeat its windows, which
    /// follow one another.
    pub(crate) fn batches(
        &self,
        (pattern, layout, servers): (Pattern, Layout, u32),
        of: impl Fn(&Point, &super::results::Window) -> f64,
    ) -> Batches {
        let points = self.points(pattern, layout, servers);
        let windows = |p: &Point| -> Vec<f64> { p.windows.iter().map(|w| of(p, w)).collect() };
        match points.as_slice() {
            [one] => Batches::Windows(windows(one)),
            all => {
                let all = all.iter().filter_map(|p| Some(windows(p)).filter(|w| !w.is_empty()));
                Batches::Repeats(all.map(|w| mean(&w).mean).collect())
            }
        }
    }

    /// I/Os per second that each server gets on average.
    pub(crate) fn each(&self, pattern: Pattern, layout: Layout, servers: u32) -> Batches {
        self.batches((pattern, layout, servers), |p, w| w.iops / f64::from(p.servers))
    }

    /// The mean of that with its interval.
    pub(crate) fn estimate(&self, pattern: Pattern, layout: Layout, servers: u32) -> Option<Estimate> {
        self.each(pattern, layout, servers).mean()
    }

    /// A server on one layout with so many, over one on another: what each gets on average, with windows of
    /// nothing, and windows that are alike counted as less than repeats.
    pub(crate) fn over(&self, pattern: Pattern, a: (Layout, u32), b: (Layout, u32)) -> Option<Estimate> {
        quotient_of(self.each(pattern, a.0, a.1).mean()?, self.each(pattern, b.0, b.1).mean()?)
    }

    /// Of the working one.
    pub(crate) fn controller_busy(&self, pattern: Pattern, layout: Layout, servers: u32) -> Batches {
        self.batches((pattern, layout, servers), |_, w| w.controller_busy.iter().copied().fold(0.0, f64::max))
    }

    /// Through all ports.
    pub(crate) fn port_mb_per_s(&self, pattern: Pattern, layout: Layout, servers: u32) -> Batches {
        self.batches((pattern, layout, servers), |_, w| w.port_mb_per_s)
    }

    /// The resource of the array that works most at a point.
    pub(crate) fn busiest(&self, pattern: Pattern, layout: Layout, servers: u32) -> Option<&'a Resource> {
        let point = self.points(pattern, layout, servers).into_iter().next()?;
        let shared = point.resources.iter().filter(|r| r.kind != ResourceKind::Host);
        shared.max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))
    }

    /// Up to how many servers nobody gets less than from a disk of its own, in any pattern; and where that
    /// ends.
    pub(crate) fn carried(&self, layout: Layout) -> Carried {
        let mut first: Option<(u32, Pattern)> = None;
        let mut most = 0;
        for pattern in Pattern::ALL {
            for servers in self.servers(pattern, layout) {
                most = most.max(servers);
                let over = self.over(pattern, (layout, servers), (Layout::Internal, 1));
                let is_less = over.is_some_and(|over| over.mean < 1.0);
                if is_less && first.is_none_or(|(least, _)| servers < least) {
                    first = Some((servers, pattern));
                }
            }
        }
        Carried { most, first }
    }

    /// How much less each server gets with the next one, in percent, with the most servers that are carried.
    pub(crate) fn next_costs(&self, pattern: Pattern, layout: Layout, servers: u32) -> Option<f64> {
        let next = self.servers(pattern, layout).into_iter().find(|n| *n > servers)?;
        let over = self.over(pattern, (layout, next), (layout, servers))?;
        Some(100.0 * (1.0 - over.mean) / f64::from(next - servers))
    }
}

/// Values of something at a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Batches {
    /// The mean of each repeat.
    Repeats(Vec<f64>),
    /// Of one repeat, which has no other to compare with.
    Windows(Vec<f64>),
}

impl Batches {
    pub(crate) fn values(&self) -> &[f64] {
        let (Batches::Repeats(values) | Batches::Windows(values)) = self;
        values
    }

    /// With its interval: windows that are like their neighbours say less than as many repeats.
    pub(crate) fn mean(&self) -> Option<Estimate> {
        match self {
            _ if self.values().is_empty() => None,
            Batches::Repeats(values) => Some(mean(values)),
            Batches::Windows(values) => Some(mean_of_windows(values)),
        }
    }
}

/// How many servers a layout carries.
pub(crate) struct Carried {
    /// The most that were run.
    pub(crate) most: u32,
    /// The first number of servers that is too many, and for what.
    pub(crate) first: Option<(u32, Pattern)>,
}

/// "1, 2 and 4".
pub(crate) fn numbers_words(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// A pattern as a reader calls it.
pub(crate) fn pattern_words(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::RandomRead => "random reads",
        Pattern::RandomWrite => "random writes",
        Pattern::RandomMix => "random 75/25",
        Pattern::SequentialRead => "sequential reads",
        Pattern::SequentialWrite => "sequential writes",
        Pattern::SequentialMix => "sequential 75/25",
        Pattern::Fileserver => "a file server",
        Pattern::Boots => "boots of many images",
    }
}

/// A layout as a reader calls it.
pub(crate) fn layout_words(layout: Layout) -> &'static str {
    match layout {
        Layout::Raid5x4 => "RAID5 × 4",
        Layout::Raid1x8 => "RAID1 × 8",
        Layout::Internal => "internal disk",
        Layout::Given => "the LUs given",
    }
}

/// Its colour in the whole report.
pub(crate) fn layout_color(layout: Layout) -> &'static str {
    match layout {
        Layout::Raid5x4 => "orange",
        Layout::Raid1x8 => "blue",
        Layout::Internal => "grey",
        Layout::Given => "green",
    }
}

/// Drives that a layout needs, as far as is known.
pub(crate) fn drives(layout: Layout, servers: u32) -> Option<u32> {
    match layout {
        Layout::Raid5x4 => Some(4 * 3),
        Layout::Raid1x8 => Some(8 * 2),
        Layout::Internal => Some(servers),
        Layout::Given => None,
    }
}
