//! The Prometheus text format, version 0.0.4: families, labels and histograms.

use std::fmt::Write;

use status::Latency;

/// One sample of a family: its labels and its value.
pub(super) type Sample = (String, f64);

/// The text of a scrape.
#[derive(Default)]
pub(super) struct Text(String);

/// Labels in the order given. Quotes, backslashes and line ends of values are escaped.
pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
    }
    out
}

/// Seconds of a time in nanoseconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Text {
    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A family of gauges.
    pub(super) fn gauge(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
        self.family(name, help, "gauge", samples);
    }

    /// A family of counters.
    pub(super) fn counter(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
        self.family(name, help, "counter", samples);
    }

    fn family(&mut self, name: &str, help: &str, kind: &str, samples: impl IntoIterator<Item = Sample>) {
        self.head(name, help, kind);
        for (labels, value) in samples {
            let _ = match labels.is_empty() {
                true => writeln!(self.0, "{name} {value}"),
                false => writeln!(self.0, "{name}{{{labels}}} {value}"),
            };
        }
    }

    /// A family of latency histograms, in seconds.
    pub(super) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        all: impl IntoIterator<Item = (String, &'a Latency)>,
    ) {
        self.head(name, help, "histogram");
        for (labels, latency) in all {
            let comma = if labels.is_empty() { "" } else { "," };
            let mut below = 0;
            for (index, count) in latency.counts.iter().enumerate() {
                below += count;
                let _ = match array::LatencyCounts::bucket_top_ns(index) {
                    Some(ns) => {
                        writeln!(self.0, "{name}_bucket{{{labels}{comma}le=\"{}\"}} {below}", seconds(ns))
                    }
                    None => writeln!(self.0, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {below}"),
                };
            }
            let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
            let _ = writeln!(self.0, "{name}_sum{open}{labels}{close} {}", seconds(latency.sum_ns));
            let _ = writeln!(self.0, "{name}_count{open}{labels}{close} {below}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_label_is_escaped() {
        assert_eq!(labels(&[("a", "x\"y\\z\n"), ("b", "é")]), "a=\"x\\\"y\\\\z\\n\",b=\"é\"");
    }

    #[test]
    fn buckets_of_a_histogram_are_cumulative_and_end_with_all() {
        let mut latency = Latency { sum_ns: 1_500_000_000, ..Latency::default() };
        (latency.counts[0], latency.counts[2], latency.counts[21]) = (1, 2, 4);
        let mut text = Text::default();
        text.histograms("t_seconds", "T", [(labels(&[("op", "read")]), &latency)]);
        let text = text.into_string();
        let line = |wanted: &str| assert!(text.lines().any(|line| line == wanted), "{wanted} in {text}");
        line("t_seconds_bucket{op=\"read\",le=\"0.000016384\"} 1");
        line("t_seconds_bucket{op=\"read\",le=\"0.000065536\"} 3");
        line("t_seconds_bucket{op=\"read\",le=\"17.179869184\"} 3");
        line("t_seconds_bucket{op=\"read\",le=\"+Inf\"} 7");
        line("t_seconds_sum{op=\"read\"} 1.5");
        line("t_seconds_count{op=\"read\"} 7");
    }
}
