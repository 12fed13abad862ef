//! Numbers of scenarios that nobody should have written.

use std::path::Path;

use lab::verify::VERIFICATIONS;
use lab_core::scenario::frame::Frame;
use lab_core::toml_text::Places;

/// Tables of a scenario that are no inputs of a run.
const NO_INPUTS: [&str; 5] = ["claim", "range", "sweep", "published_figure", "source"];

/// What no scenario means, written as this value is: more than a machine has, longer than anybody waits, and
/// no number at all.
fn absurd(written: &str) -> &'static [&'static str] {
    let text = written.trim_matches('"');
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_quantity = text.starts_with(|c: char| c.is_ascii_digit());
    match (written.starts_with('"'), unit) {
        (true, "KiB" | "MiB" | "GiB" | "TiB") if is_quantity => &["\"9000PiB\""],
        (true, "ns" | "us" | "ms" | "s" | "m" | "h" | "d") if is_quantity => &["\"100000d\""],
        (false, "") if text.contains('.') => &["nan", "inf", "-1e300", "1e300"],
        (false, "") if is_quantity => &["4000000000", "9223372036854775807"],
        _ => &[],
    }
}

/// The scenario of that name.
fn scenario(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    std::fs::read_to_string(root.join(format!("{name}.toml"))).expect("a scenario")
}

/// Half of the points of a sweep had pools of pages of 32 MiB, which masu does not make: none of them ran.
#[test]
fn every_value_of_a_range_is_one_that_the_scenario_can_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scenario.toml");
    let (mut tried, mut refused) = (0, Vec::new());
    for row in &VERIFICATIONS {
        let text = scenario(row.name);
        let (all, plain) = (Places::of(&text).ok().expect("TOML"), without_ranges(&text));
        // A sweep has other values at every point.
        let set = Frame::read(&text, row.name).expect("its frame").set;
        let set: Vec<(&str, &str)> = set.iter().map(|(at, value)| (at.as_str(), value.as_str())).collect();
        let plain = Places::of(&plain).ok().expect("still TOML").with(&set);
        let places = Places::of(&plain).ok().expect("still TOML");
        let mut values = Vec::new();
        all.each(&mut |at, value| {
            let parts: Vec<&str> = at.split('.').collect();
            if let ["range", number, "low" | "high"] | ["range", number, "values", _] = parts[..] {
                let input = all.value(&format!("range.{number}.input")).and_then(|v| v.get_ref().as_str());
                values.push((input.expect("of an input").to_owned(), all.written(value)));
            }
        });
        for (input, value) in values {
            tried += 1;
            std::fs::write(&path, places.with(&[(input.as_str(), value)])).expect("written");
            if let Err(error) = (row.claims)(Some(&path)) {
                refused.push(format!("{}: {input} = {value}: {error:#}", row.name));
            }
        }
    }
    assert!(tried > 100, "{tried} values were tried");
    assert_eq!(refused, Vec::<String>::new());
}

/// A range refuses each value that is not in it, and a scenario of one's own need not have any.
fn without_ranges(text: &str) -> String {
    Places::of(text).ok().expect("TOML").without(&["range", "sweep"])
}

/// `array.cache = "100TiB"` of qos ended the process for lack of memory;
/// `published.fixed_mb_per_s = nan` of fileserver was taken.
#[test]
fn every_number_of_a_scenario_has_a_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut tried, mut taken) = (0, Vec::new());
    for row in &VERIFICATIONS {
        let text = without_ranges(&scenario(row.name));
        let places = Places::of(&text).ok().expect("still TOML");
        let mut values = Vec::new();
        places.each(&mut |path, value| values.push((path.to_owned(), places.written(value))));
        let path = folder.path().join("scenario.toml");
        let is_taken = |text: &str| {
            std::fs::write(&path, text).expect("written");
            (row.claims)(Some(&path)).is_ok()
        };
        assert!(is_taken(&text), "{}: without its ranges", row.name);
        for (at, written) in values {
            if NO_INPUTS.contains(&at.split('.').next().unwrap_or_default()) {
                continue;
            }
            for value in absurd(written) {
                tried += 1;
                if is_taken(&places.with(&[(at.as_str(), *value)])) {
                    taken.push(format!("{}: {at} = {value}", row.name));
                }
            }
        }
    }
    assert!(tried > 500, "{tried} values were tried");
    assert_eq!(taken, Vec::<String>::new());
}
