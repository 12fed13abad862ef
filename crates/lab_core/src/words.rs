//! Numbers and names in the words of a report.

use std::fmt::Write as _;

use crate::stats::Estimate;

/// A number with as many digits as it deserves: near 100 the distance to it counts.
pub fn plain(value: f64) -> String {
    let digits = if (99.0..100.0).contains(&value.abs()) || value.abs() < 10.0 {
        2
    } else {
        usize::from(value.abs() < 1000.0)
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// An estimate with half its interval, both with the digits that the interval leaves.
pub fn value(estimate: &Estimate) -> String {
    let half = (estimate.high - estimate.low) / 2.0;
    if !half.is_finite() || half == 0.0 {
        return plain(estimate.mean);
    }
    let digits = match half {
        h if h >= 2.0 => 0,
        h if h >= 0.2 => 1,
        h if h >= 0.02 => 2,
        _ => 3,
    };
    format!("{:.digits$} ± {:.digits$}", estimate.mean, half.max(0.001))
}

/// The command as one would type it: without the folder of the program.
pub fn command(typed: &str) -> String {
    let (program, rest) = typed.split_once(' ').unwrap_or((typed, ""));
    let name = program.rsplit('/').next().unwrap_or(program);
    format!("{name} {rest}").trim_end().into()
}

/// "1 run", "2 runs": so many of a noun that takes an s.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// With a capital letter in front.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// A text of others for a terminal: control characters, which could move its cursor or colour what follows,
/// are written as escapes. Those that may stand in JSON (DEL and C1) as JSON has them, so that it stays JSON.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{7f}'..='\u{9f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// A path for a terminal.
pub fn shown(path: &std::path::Path) -> String {
    visible(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_others_do_nothing_on_a_terminal() {
        assert_eq!(visible("a\u{1b}[31m\nb\u{9b}\u{7f}"), "a\\u{1b}[31m\\nb\\u009b\\u007f");
        assert_eq!(visible("Größe 1 %"), "Größe 1 %");
        assert_eq!(shown(std::path::Path::new("a\rb")), "a\\rb");
    }
}
