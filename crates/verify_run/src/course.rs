//! What one run recorded: every window of every phase, load by load.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lab_core::claim::Outcome;
use world::Instant;

use super::scenario::Quantity;

/// A load that has ended nothing for so many times the longest such time before is not answered any more.
const SILENT_TIMES: usize = 3;

/// Response times of a window, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Response {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// What a load did in a window. What failed has no response time, and is no I/O that was served.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    pub(super) ios: u64,
    pub(super) bytes: u64,
    pub(super) failed: u64,
    /// None: nothing ended in it, and nothing was in flight at its end.
    pub(super) response: Option<Response>,
}

impl Window {
    /// Whether I/Os were in flight and none ended.
    pub(super) fn is_unanswered(&self) -> bool {
        self.ios + self.failed == 0 && self.response.is_some()
    }
}

/// A phase as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Played {
    /// Since the first phase began; before it is the warm-up.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// The first window that counts.
    pub(super) first: usize,
    /// By load; empty where it does not run.
    pub(super) loads: Vec<Vec<Window>>,
    /// All loads together.
    pub(super) all: Vec<Window>,
    /// Of the bytes read, those that the cache had, in percent; not a number where nothing was read or there
    /// is no array to ask.
    pub(super) read_hits: Vec<f64>,
    /// Whether the run was stopped within it.
    pub(super) is_cut: bool,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course {
    /// The array's name.
    pub(super) array: String,
    /// How many volumes the searched load had.
    pub(super) count: Option<usize>,
    pub(super) window_s: f64,
    pub(super) warm_up: Played,
    pub(super) phases: Vec<Played>,
    /// Whether it was stopped before its end.
    pub(super) is_cut: bool,
    /// What ended it: a LU of `--target` that went away.
    pub(super) failure: Option<String>,
    pub(super) unended: Option<Unended>,
    /// From the pulling of drives until all groups were optimal; not a number where that did not come.
    pub(super) rebuild_s: Option<f64>,
}

/// What was in flight at the end of a run and was never answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unended {
    pub(super) loads: Vec<usize>,
    pub(super) why: String,
}

impl Course {
    /// Whether I/Os of a load, or of any, that were sent in this phase were never answered: they neither
    /// ended nor failed in it.
    pub(super) fn is_unended(&self, load: Option<usize>, phase: usize) -> bool {
        let last = |load| self.phases.iter().rposition(|played| !played.windows(Some(load)).is_empty());
        let mut loads = self.unended.iter().flat_map(|unended| &unended.loads);
        loads.any(|one| load.is_none_or(|asked| asked == *one) && last(*one) == Some(phase))
    }
}

impl Window {
    /// The quantity, over a window of so many seconds; none where there is nothing to say.
    pub(super) fn value(&self, quantity: Quantity, window_s: f64) -> Option<f64> {
        match quantity {
            Quantity::Rate => Some(self.ios as f64 / window_s),
            Quantity::Throughput => Some(self.bytes as f64 / window_s / 1e6),
            Quantity::Failed => Some(self.failed as f64),
            Quantity::ResponseMean => self.response.map(|r| r.mean),
            Quantity::ResponseP50 => self.response.map(|r| r.p50),
            Quantity::ResponseP99 => self.response.map(|r| r.p99),
            Quantity::ResponseMax => self.response.map(|r| r.max),
            Quantity::ReadHits | Quantity::RebuildTime | Quantity::LargestCount => None,
        }
    }

    /// Of the response times of all that count in it; sorts them.
    fn of(cell: &Counting, took_ns: &mut [u64]) -> Window {
        took_ns.sort_unstable();
        let ms = |ns: u64| ns as f64 / 1e6;
        // The nearest rank.
        let at = |percent: usize| ms(took_ns[(took_ns.len() * percent).div_ceil(100).max(1) - 1]);
        let response = took_ns.last().map(|max| Response {
            mean: took_ns.iter().map(|ns| ms(*ns)).sum::<f64>() / took_ns.len() as f64,
            p50: at(50),
            p99: at(99),
            max: ms(*max),
        });
        Window { ios: cell.ios, bytes: cell.bytes, failed: cell.failed, response }
    }
}

impl Played {
    /// The windows of a load, or of all.
    pub(super) fn windows(&self, load: Option<usize>) -> &[Window] {
        match load {
            Some(load) => self.loads.get(load).map_or(&[], Vec::as_slice),
            None => &self.all,
        }
    }

    /// What keeps a response time from saying how the load was served: I/Os that failed, or were not answered
    /// to the end.
    pub(super) fn fault(&self, load: Option<usize>) -> Option<Outcome> {
        let counted = &self.windows(load)[self.first.min(self.windows(load).len())..];
        let failed: u64 = counted.iter().map(|window| window.failed).sum();
        if failed > 0 {
            return Some(Outcome::Refuted(format!("{failed} I/Os failed: they have no response time")));
        }
        let is_empty = |window: &&Window| window.ios == 0;
        let silent = counted.iter().rev().take_while(is_empty).count();
        let before = &counted[..counted.len() - silent];
        let longest = before.split(|window| window.ios > 0).map(<[Window]>::len).max().unwrap_or(0);
        // A load with few I/Os has empty windows, too.
        let hangs = !before.is_empty() && silent > SILENT_TIMES * (longest + 1);
        let why = || format!("no I/O ended in the last {silent} windows");
        hangs.then(|| if self.is_cut { Outcome::Never(why()) } else { Outcome::Refuted(why()) })
    }

    /// How many windows that count had I/Os in flight and none that ended, and the first of them.
    pub(super) fn unanswered(&self, load: Option<usize>) -> Option<(usize, usize)> {
        let counted = self.windows(load).iter().enumerate().skip(self.first);
        let mut unanswered = counted.filter(|(_, window)| window.is_unanswered()).map(|(number, _)| number);
        let first = unanswered.next()?;
        Some((1 + unanswered.count(), first))
    }

    /// The quantity in each window that counts, where it has one.
    pub(super) fn each(&self, quantity: Quantity, load: Option<usize>, window_s: f64) -> Vec<Option<f64>> {
        let windows = self.windows(load).iter().skip(self.first);
        windows.map(|window| window.value(quantity, window_s)).collect()
    }

    /// The quantity in each window that counts.
    pub(super) fn samples(&self, quantity: Quantity, load: Option<usize>, window_s: f64) -> Vec<f64> {
        if quantity == Quantity::ReadHits {
            let counted = self.read_hits.iter().skip(self.first);
            return counted.copied().filter(|percent| percent.is_finite()).collect();
        }
        self.each(quantity, load, window_s).into_iter().flatten().collect()
    }
}

/// A window of a load while I/Os end in it.
#[derive(Clone, Debug, Default)]
struct Counting {
    ios: u64,
    bytes: u64,
    failed: u64,
    /// Of what ended; and of what was in flight at its end, the age until then.
    took_ns: Vec<u64>,
}

/// What the clients of a run write to.
pub(super) struct Recorder {
    loads: usize,
    window_ns: u64,
    /// When the phase began.
    from: Cell<Instant>,
    /// By load and window of the phase.
    cells: RefCell<Vec<Vec<Counting>>>,
    /// By load: when what is in flight was due, and how many of each. No more than the outstanding I/Os of
    /// all loads, which are limited.
    in_flight: RefCell<Vec<BTreeMap<Instant, u32>>>,
    pub(super) stopped: Cell<bool>,
    /// Clients that have not ended.
    pub(super) running: Cell<usize>,
    pub(super) failure: RefCell<Option<String>>,
}

impl Recorder {
    pub(super) fn new(loads: usize, window_ns: u64) -> Recorder {
        Recorder {
            loads,
            window_ns,
            from: Cell::new(Instant(0)),
            cells: RefCell::default(),
            in_flight: RefCell::new(vec![BTreeMap::new(); loads]),
            stopped: Cell::new(false),
            running: Cell::new(0),
            failure: RefCell::default(),
        }
    }

    /// A phase of so many windows begins.
    pub(super) fn begin(&self, from: Instant, windows: usize) {
        self.from.set(from);
        *self.cells.borrow_mut() = vec![vec![Counting::default(); windows]; self.loads];
    }

    /// An I/O of a load is sent; it was due then.
    pub(super) fn begun(&self, load: usize, due: Instant) {
        *self.in_flight.borrow_mut()[load].entry(due).or_default() += 1;
    }

    /// The loads with I/Os in flight.
    pub(super) fn waiting(&self) -> Vec<usize> {
        let in_flight = self.in_flight.borrow();
        (0..self.loads).filter(|load| !in_flight[*load].is_empty()).collect()
    }

    /// A window of the phase is over. What is in flight counts in it with its age, where that is more than
    /// the response time of everything that ended in it: a load that gets no answer has response times, too,
    /// and one that is answered quickly is not made quicker by what it has just sent.
    pub(super) fn close(&self, number: usize) {
        let end = self.from.get().0 + (number as u64 + 1) * self.window_ns;
        let (mut cells, in_flight) = (self.cells.borrow_mut(), self.in_flight.borrow());
        for (of, in_flight) in cells.iter_mut().zip(in_flight.iter()) {
            let Some(cell) = of.get_mut(number) else { continue };
            let longest = cell.took_ns.iter().copied().max().unwrap_or(0);
            for (due, count) in in_flight {
                let age_ns = end.saturating_sub(due.0);
                if age_ns <= longest {
                    break;
                }
                cell.took_ns.extend(std::iter::repeat_n(age_ns, *count as usize));
            }
        }
    }

    /// An I/O of a load ended; it was due then.
    pub(super) fn completed(&self, load: usize, (due, now): (Instant, Instant), bytes: u64, good: bool) {
        if let Entry::Occupied(mut in_flight) = self.in_flight.borrow_mut()[load].entry(due) {
            *in_flight.get_mut() -= 1;
            if *in_flight.get() == 0 {
                in_flight.remove();
            }
        }
        let index = now.since(self.from.get()).as_nanos() as u64 / self.window_ns;
        let mut cells = self.cells.borrow_mut();
        let Some(cell) = cells.get_mut(load).and_then(|of| of.get_mut(index as usize)) else { return };
        if !good {
            cell.failed += 1;
            return;
        }
        cell.ios += 1;
        cell.bytes += bytes;
        cell.took_ns.push(now.since(due).as_nanos() as u64);
    }

    /// What the loads that ran did since [`Recorder::begin`]: each, and all together.
    pub(super) fn end(&self, ran: &[usize]) -> (Vec<Vec<Window>>, Vec<Window>) {
        let cells = std::mem::take(&mut *self.cells.borrow_mut());
        let windows = cells.first().map_or(0, Vec::len);
        let together = |index: usize| {
            let mut sum = Counting::default();
            for cell in ran.iter().map(|load| &cells[*load][index]) {
                sum.ios += cell.ios;
                sum.bytes += cell.bytes;
                sum.failed += cell.failed;
                sum.took_ns.extend(&cell.took_ns);
            }
            let mut took_ns = std::mem::take(&mut sum.took_ns);
            Window::of(&sum, &mut took_ns)
        };
        let all = (0..windows).map(together).collect();
        let each = cells.into_iter().enumerate().map(|(load, of)| {
            let one = |mut cell: Counting| {
                let mut took_ns = std::mem::take(&mut cell.took_ns);
                Window::of(&cell, &mut took_ns)
            };
            if ran.contains(&load) { of.into_iter().map(one).collect() } else { vec![] }
        });
        (each.collect(), all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ios_count_in_the_window_in_which_they_end() {
        let recorder = Recorder::new(2, 1_000_000_000);
        recorder.begin(Instant(5_000_000_000), 2);
        for (ms, took_ms, good) in
            [(5_100, 10, true), (5_900, 30, true), (6_000, 20, false), (7_000, 5, true)]
        {
            let now = Instant(ms * 1_000_000);
            let due = Instant((ms - took_ms) * 1_000_000);
            recorder.completed(1, (due, now), 4096, good);
        }
        let (each, all) = recorder.end(&[1]);
        assert!(each[0].is_empty(), "it did not run");
        assert_eq!(each[1], all);
        let first = all[0].response.expect("two ended");
        assert_eq!((all[0].ios, first.mean, first.p50, first.max), (2, 20.0, 10.0, 30.0));
        assert_eq!((all[1].ios, all[1].failed, all[1].bytes), (0, 1, 0), "what ends later is not counted");
        assert_eq!(all[1].response, None, "what failed has no response time");
    }

    /// "p99 below 20 ms" was held by a run in which nothing was served for half of the time: a window without
    /// an answer had no sample.
    #[test]
    fn what_is_in_flight_at_the_end_of_a_window_counts_with_its_age() {
        let ms = |ms: u64| Instant(ms * 1_000_000);
        let recorder = Recorder::new(2, 1_000_000_000);
        recorder.begin(ms(0), 4);
        recorder.begun(0, ms(100));
        recorder.completed(0, (ms(100), ms(105)), 4096, true);
        // Sent just now: it makes the window no better.
        recorder.begun(0, ms(997));
        recorder.close(0);
        // Nothing ends until the third window; another one waits beside what is served.
        recorder.close(1);
        recorder.completed(0, (ms(997), ms(2_500)), 4096, true);
        recorder.begun(0, ms(2_500));
        recorder.begun(0, ms(2_500));
        recorder.completed(0, (ms(2_500), ms(2_510)), 4096, true);
        recorder.close(2);
        recorder.close(3);
        let (each, all) = recorder.end(&[0, 1]);
        let max = |window: &Window| window.response.map(|response| response.max);
        let expected = [Some(5.0), Some(1_003.0), Some(1_503.0), Some(1_500.0)];
        assert_eq!(each[0].iter().map(max).collect::<Vec<_>>(), expected);
        assert_eq!(each[0].iter().map(|window| window.ios).collect::<Vec<_>>(), [1, 0, 2, 0]);
        let unanswered: Vec<bool> = each[0].iter().map(Window::is_unanswered).collect();
        assert_eq!(unanswered, [false, true, false, true]);
        assert_eq!(all, each[0]);
        assert!(each[1].iter().all(|window| window.response.is_none()), "it sent nothing");
        let played = Played { loads: each, first: 1, ..Played::default() };
        assert_eq!((played.unanswered(Some(0)), played.unanswered(Some(1))), (Some((2, 1)), None));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let cell = Counting { ios: 200, ..Counting::default() };
        let mut took: Vec<u64> = (1..=200).rev().map(|ms| ms * 1_000_000).collect();
        let response = Window::of(&cell, &mut took).response.expect("some");
        assert_eq!((response.p50, response.p99, response.max), (100.0, 198.0, 200.0));
    }
}
