//! Samples over time: as CSV, as a figure, and their means over a window.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lab_core::report::{self, Axis, Figure, Panel, Span, WriteError};

/// What a column of a series is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Column {
    /// "cpu", "disk sda", "lu v1".
    pub resource: String,
    /// "await".
    pub metric: &'static str,
    /// "ms".
    pub unit: &'static str,
}

impl Column {
    /// A column.
    pub fn new(resource: &str, metric: &'static str, unit: &'static str) -> Column {
        Column { resource: resource.into(), metric, unit }
    }

    /// Its name in files, the unit last: "disk.sda.await_ms".
    pub fn key(&self) -> String {
        let unit = match self.unit {
            "1/s" => "per_s".to_owned(),
            unit => unit.to_lowercase().replace("/s", "_per_s").replace('%', "percent").replace(' ', "_"),
        };
        format!("{}.{}_{unit}", self.resource.replace(' ', "."), self.metric.replace(' ', "_"))
    }
}

/// What was counted between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Seconds on the clock of the run.
    pub from_s: f64,
    /// The same at its end.
    pub to_s: f64,
    /// What is not here has a gap.
    pub values: BTreeMap<Column, f64>,
}

/// The samples of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The source: "host", "array".
    pub name: String,
    /// In order.
    pub samples: Vec<Sample>,
    /// Readings that failed, and why the last one did.
    pub failed: Option<(u64, String)>,
}

/// The stretch of the clock that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its beginning, seconds.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
}

/// Samples that end a little late are in the window, too: a thread wakes up when it can.
const LATE_S: f64 = 0.1;

impl Window {
    fn holds(&self, sample: &Sample) -> bool {
        sample.from_s >= self.from_s - LATE_S && sample.to_s <= self.to_s + LATE_S
    }
}

impl Series {
    /// The columns that have values, in order.
    pub fn columns(&self) -> BTreeSet<&Column> {
        self.samples.iter().flat_map(|sample| sample.values.keys()).collect()
    }

    /// Mean and largest value of a column over the samples that lie in the window, weighted by their length.
    pub fn mean_and_max(&self, column: &Column, window: &Window) -> Option<(f64, f64)> {
        let own = self.samples.iter().filter(|sample| window.holds(sample));
        let values = own.filter_map(|s| Some((*s.values.get(column)?, s.to_s - s.from_s)));
        let (mut sum, mut seconds, mut max) = (0.0, 0.0, f64::NEG_INFINITY);
        for (value, length) in values {
            (sum, seconds, max) = (sum + value * length, seconds + length, max.max(value));
        }
        (seconds > 0.0).then(|| (sum / seconds, max))
    }

    /// A line for each sample, a column for each counter, the time at the sample's end; gaps are empty.
    pub fn write_csv(&self, path: &Path) -> Result<usize, WriteError> {
        let columns = self.columns();
        let keys: Vec<String> = columns.iter().map(|column| column.key()).collect();
        let header: Vec<&str> =
            ["time_s", "seconds"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let rows = self.samples.iter().map(|sample| {
            let value =
                |column: &&Column| sample.values.get(column).map_or(String::new(), |v| format!("{v:.6}"));
            let mut row = vec![format!("{:.3}", sample.to_s), format!("{:.3}", sample.to_s - sample.from_s)];
            row.extend(columns.iter().map(value));
            row
        });
        report::write_csv(path, &header, rows)
    }

    /// One metric over time, a line for each resource that has it and is wanted, each in a panel of its own
    /// where there are several; what is outside of the window is grey. Nothing where nothing was sampled.
    pub fn figure(
        &self,
        (id, title): (&str, &str),
        metric: &str,
        wanted: impl Fn(&str) -> bool,
        window: Option<&Window>,
    ) -> Option<Figure> {
        const COLORS: [&str; 5] = ["blue", "orange", "green", "purple", "sky"];
        let columns: Vec<&Column> =
            self.columns().into_iter().filter(|c| c.metric == metric && wanted(&c.resource)).collect();
        let first = columns.first()?;
        let many = columns.len() > COLORS.len();
        let series = columns.iter().enumerate().map(|(i, column)| report::Series {
            name: column.resource.clone(),
            color: COLORS[i % COLORS.len()],
            points: self.points(column),
            panel: many.then(|| format!("p{i}")),
        });
        let panel = |(i, column): (usize, &&Column)| Panel {
            id: format!("p{i}"),
            title: column.resource.clone(),
            y: None,
        };
        let warm_up = window.filter(|w| w.from_s > 0.0).map(|w| Span {
            name: format!("the first {:.0} s do not count", w.from_s),
            from: 0.0,
            to: w.from_s,
        });
        Some(Figure {
            id: id.into(),
            title: title.into(),
            subtitle: Some(format!("{metric} of the {}, {}", self.name, self.interval_words())),
            kind: "timeline",
            x: Axis { label: "time".into(), unit: "s".into(), log: false },
            y: Axis { label: metric.into(), unit: first.unit.into(), log: false },
            series: series.collect(),
            panels: if many { columns.iter().enumerate().map(panel).collect() } else { vec![] },
            warm_up,
            ..Figure::default()
        })
    }

    /// A point at the middle of each sample; a gap is one.
    fn points(&self, column: &Column) -> Vec<Vec<f64>> {
        let value = |s: &Sample| s.values.get(column).copied().unwrap_or(f64::NAN);
        self.samples.iter().map(|s| vec![(s.from_s + s.to_s) / 2.0, value(s)]).collect()
    }

    fn interval_words(&self) -> String {
        let seconds = self.samples.first().map_or(0.0, |s| s.to_s - s.from_s);
        format!("one point every {seconds:.0} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Series {
        let column = Column::new("disk sda", "await", "ms");
        let other = Column::new("disk sdb", "await", "ms");
        let sample = |i: usize| {
            let mut values = BTreeMap::from([(column.clone(), i as f64)]);
            if i == 2 {
                values.insert(other.clone(), 7.0);
            }
            Sample { from_s: 10.0 * i as f64, to_s: 10.0 * (i + 1) as f64, values }
        };
        Series { name: "host".into(), samples: (0..5).map(sample).collect(), failed: None }
    }

    #[test]
    fn only_samples_in_the_window_count() {
        let column = Column::new("disk sda", "await", "ms");
        let mean = |from_s, to_s| series().mean_and_max(&column, &Window { from_s, to_s });
        assert_eq!(mean(10.0, 30.0), Some((1.5, 2.0)));
        assert_eq!(mean(5.0, 30.05), Some((1.5, 2.0)));
        assert_eq!(mean(100.0, 200.0), None);
    }

    #[test]
    fn a_file_has_a_column_for_each_counter_and_gaps_are_empty() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("host.csv");
        assert_eq!(series().write_csv(&path).expect("writes"), 5);
        let text = std::fs::read_to_string(path).expect("reads");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "time_s,seconds,disk.sda.await_ms,disk.sdb.await_ms");
        assert_eq!(lines[1], "10.000,10.000,0.000000,");
        assert_eq!(lines[3], "30.000,10.000,2.000000,7.000000");
    }

    #[test]
    fn a_figure_greys_what_does_not_count() {
        let window = Window { from_s: 10.0, to_s: 40.0 };
        let figure =
            series().figure(("f", "t"), "await", |r| r.starts_with("disk"), Some(&window)).expect("data");
        assert_eq!(figure.series.len(), 2);
        assert_eq!(figure.warm_up.map(|w| w.to), Some(10.0));
        assert!(figure.series[1].points[0][1].is_nan(), "a gap");
        assert!(series().figure(("f", "t"), "queue", |_| true, None).is_none());
    }
}
