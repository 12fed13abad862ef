//! A scenario with each of its numbers at the edge of what a number can be, and beyond: for the tests of
//! those that read scenarios. Whatever a person writes there is refused, or run.

use toml::Spanned;
use toml::de::DeValue;

use crate::quantity::Time;
use crate::toml_text::Places;

/// Instead of a whole number.
const WHOLE: [&str; 6] = ["0", "1", "-1", "9223372036854775807", "nan", "\"\""];
/// Instead of another one.
const REAL: [&str; 8] = ["0.0", "-1.0", "1e-300", "1e300", "nan", "inf", "-inf", "\"\""];
/// Instead of a size.
const SIZE: [&str; 6] = ["\"0\"", "\"1\"", "\"-1KiB\"", "\"15EiB\"", "nan", "\"\""];
/// Instead of a time.
const TIME: [&str; 6] = ["\"0s\"", "\"1ns\"", "\"-1s\"", "\"18446744073709551615s\"", "nan", "\"\""];

/// A scenario of which one value is another.
#[derive(Clone, Debug)]
pub struct Extreme {
    /// Where it was, and what it is: for messages.
    pub what: String,
    /// The scenario, whole.
    pub text: String,
}

/// A scenario once for each number, size and time in it and each extreme of it, and once for each list
/// without anything; none of a text that is no TOML.
pub fn extremes(text: &str) -> Vec<Extreme> {
    let Ok(places) = Places::of(text) else { return vec![] };
    let mut spans = Vec::new();
    places.each(&mut |path, value| spans.extend(instead(path, value)));
    let with = |(path, span, new): (String, std::ops::Range<usize>, &str)| {
        let mut changed = text.to_owned();
        changed.replace_range(span, new);
        Extreme { what: format!("{path} = {new}"), text: changed }
    };
    spans.into_iter().map(with).collect()
}

/// What `play` does with each extreme of a scenario: parses it, and runs what reads. Gives how many were
/// refused and how many were run. For tests.
///
/// # Panics
///
/// With the names of the extremes with which `play` panicked.
pub fn play_all(text: &str, play: impl Fn(&str) -> bool) -> (usize, usize) {
    let (mut refused, mut ran, mut panicked) = (0, 0, Vec::new());
    for extreme in extremes(text) {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(&extreme.text)));
        match played {
            Ok(true) => ran += 1,
            Ok(false) => refused += 1,
            Err(_) => panicked.push(extreme.what),
        }
    }
    assert!(panicked.is_empty(), "panics with: {}", panicked.join("; "));
    (refused, ran)
}

type Instead = (String, std::ops::Range<usize>, &'static str);

fn instead(path: &str, value: &Spanned<DeValue<'_>>) -> Vec<Instead> {
    let all: &[&str] = match value.get_ref() {
        DeValue::Integer(_) => &WHOLE,
        DeValue::Float(_) => &REAL,
        DeValue::String(text) if Time::try_from(text.to_string()).is_ok() => &TIME,
        DeValue::String(text) if units::parse_bytes(text).is_ok() => &SIZE,
        DeValue::Array(list) if list.iter().all(|item| !item.get_ref().is_table()) => &["[]"],
        _ => &[],
    };
    all.iter().map(|new| (path.to_owned(), value.span(), *new)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_extremes_and_each_list_is_once_empty() {
        let all = extremes("a = 1\nb = [2.5]\nc = \"4KiB\"\n[[d]]\ne = \"1s\"\nf = \"word\"\n");
        let count = |begin: &str| all.iter().filter(|one| one.what.starts_with(begin)).count();
        assert_eq!([count("a = "), count("b = "), count("b.0 = ")], [WHOLE.len(), 1, REAL.len()]);
        assert_eq!([count("c = "), count("d.0.e = "), count("d.0.f")], [SIZE.len(), TIME.len(), 0]);
        assert_eq!(all[0].text, "a = 0\nb = [2.5]\nc = \"4KiB\"\n[[d]]\ne = \"1s\"\nf = \"word\"\n");
        assert!(extremes("[").is_empty());
    }
}
