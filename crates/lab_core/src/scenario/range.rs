//! `[[range]]`: over which values an input is varied in a sweep, and why these are plausible.
//!
//! ```toml
//! [[range]]
//! input = "array.cache"       # table.key; table.0.key of the first of several
//! low = "1GiB"
//! high = "8GiB"
//! scale = "log"               # equal ratios instead of equal steps
//! step = "256MiB"             # values are multiples of it, from `low` on
//! why = "arrays of that class had so much"
//! against = "4 GB of cache"   # what of the published text contradicts every value but the scenario's own
//!
//! [[range]]
//! input = "array.drive"
//! values = ["savvio-10k1", "savvio-10k4"]
//! why = "10,000 rpm of that time"
//! against = { "savvio-10k4" = "about 2005" }
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::de::DeValue;
use toml::{Spanned, Value};
use units::{parse_bytes, parse_duration};

use crate::quantity::Size;
use crate::toml_text::Places;

/// As it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeText {
    input: Spanned<String>,
    low: Option<Spanned<Value>>,
    high: Option<Spanned<Value>>,
    #[serde(default)]
    scale: Scale,
    step: Option<Spanned<Value>>,
    values: Option<Spanned<Vec<Value>>>,
    /// A data sheet, a paper, a measurement.
    #[serde(default)]
    source: String,
    #[serde(default)]
    why: String,
    against: Option<AgainstText>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AgainstText {
    All(String),
    Each(BTreeMap<String, String>),
}

/// How values lie between two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal ratios.
    Log,
}

/// What an input is, which its values stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Float,
    Size,
    Time,
    /// Text, a flag, a list: one of several values.
    Name,
}

/// A value of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// As TOML.
    pub toml: String,
    /// For a person.
    pub shown: String,
    /// Its place on the axis of the input: the number, or which of the values.
    pub at: f64,
    /// What of the published text contradicts it.
    pub against: Option<String>,
}

/// The values of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// Its path in the scenario.
    pub input: String,
    /// What the scenario has.
    pub own: Choice,
    /// Why the values are plausible, and where they come from.
    pub why: String,
    span: Span,
}

#[derive(Clone, Debug, PartialEq)]
enum Span {
    Between { kind: Kind, ends: [f64; 2], step: Option<f64>, scale: Scale, against: Option<String> },
    Values { all: Vec<Choice>, is_ordered: bool },
}

/// What is wrong, and the byte where it stands.
pub(super) type Fault = (usize, String);

impl Kind {
    fn of(value: &DeValue<'_>) -> Kind {
        match value {
            DeValue::Integer(_) => Kind::Integer,
            DeValue::Float(_) => Kind::Float,
            DeValue::String(text) => Kind::of_text(text),
            _ => Kind::Name,
        }
    }

    fn of_text(text: &str) -> Kind {
        match () {
            () if text.parse::<f64>().is_ok() => Kind::Name,
            // `5m` is a time; a size with this unit is written `5M` or `5MiB`.
            () if parse_duration(text).is_ok() => Kind::Time,
            () if parse_bytes(text).is_ok() => Kind::Size,
            () => Kind::Name,
        }
    }

    /// The number of a value of this kind: units, bytes, seconds.
    fn number(self, value: &Value) -> Option<f64> {
        match (self, value) {
            (Kind::Integer | Kind::Float, Value::Integer(n)) => Some(*n as f64),
            (Kind::Float, Value::Float(x)) => x.is_finite().then_some(*x),
            (Kind::Size, Value::String(text)) => parse_bytes(text).ok().map(|bytes| bytes as f64),
            (Kind::Time, Value::String(text)) => parse_duration(text).ok().map(|time| time.as_secs_f64()),
            _ => None,
        }
    }

    /// A value from its number, as TOML and for a person.
    fn choice(self, at: f64) -> Choice {
        let quoted = |text: String| (format!("\"{text}\""), text);
        let (toml, shown) = match self {
            Kind::Integer | Kind::Name => (format!("{at:.0}"), format!("{at:.0}")),
            Kind::Float => (format!("{at:?}"), format!("{at}")),
            Kind::Size => quoted(Size(at as u64).to_string().replace(' ', "")),
            Kind::Time => quoted(time_text(at)),
        };
        Choice { toml, shown, at, against: None }
    }

    /// Values are multiples of it, where the range says no other.
    fn step(self, ends: [f64; 2]) -> Option<f64> {
        match self {
            Kind::Integer | Kind::Name => Some(1.0),
            Kind::Size => {
                let fits = |step: &f64| ends[0] % step == 0.0 && ends[1] - ends[0] >= *step;
                [1 << 20, 4096, 1].map(f64::from).into_iter().find(fits)
            }
            Kind::Float | Kind::Time => None,
        }
    }

    fn example(self) -> &'static str {
        match self {
            Kind::Integer => "a whole number",
            Kind::Float => "a number",
            Kind::Size => "a size, as \"1MiB\"",
            Kind::Time => "a time, as \"50ms\"",
            Kind::Name => "one of several values",
        }
    }
}

/// Seconds in a unit that scenarios know, to the nanosecond.
fn time_text(seconds: f64) -> String {
    let (times, unit, digits) = match seconds {
        s if s >= 1.0 => (1.0, "s", 3),
        s if s >= 1e-3 => (1e3, "ms", 3),
        _ => (1e6, "us", 3),
    };
    let text = format!("{:.digits$}", seconds * times);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

impl RangeText {
    /// Its input.
    pub(super) fn name(&self) -> &str {
        self.input.get_ref()
    }

    /// The byte where it stands.
    pub(super) fn place(&self) -> usize {
        self.input.span().start
    }

    /// Checked against the scenario.
    pub(super) fn range(self, places: &Places<'_>, is_published: bool) -> Result<Range, Fault> {
        let at = self.input.span().start;
        let input = self.input.into_inner();
        let wrong = |cause: String| (at, cause);
        let Some(value) = places.value(&input) else {
            return Err(wrong(format!("invalid range: the scenario has no input {input:?}")));
        };
        let why = [self.why, self.source].into_iter().filter(|text| !text.is_empty());
        let why = why.collect::<Vec<_>>().join("; ");
        match () {
            () if why.is_empty() => {
                return Err(wrong(format!(
                    "range of {input}: missing why, or source: why these values are plausible"
                )));
            }
            () if is_published && self.against.is_none() => {
                return Err(wrong(format!(
                    "range of {input}: covers a published value: say in against what the other values contradict"
                )));
            }
            () => {}
        }
        let kind = Kind::of(value.get_ref());
        let own_toml = places.written(value).to_owned();
        let own = Choice { shown: own_toml.trim_matches('"').into(), toml: own_toml, at: 0.0, against: None };
        let of = Parts { input: &input, at, kind, own };
        let (own, span) = match (self.low, self.high, self.values) {
            (Some(low), Some(high), None) => of.between([low, high], self.step, self.scale, self.against)?,
            (None, None, Some(values)) => of.values(values.into_inner(), self.against)?,
            _ => return Err(wrong(format!("range of {input}: must have low and high, or values"))),
        };
        Ok(Range { input, own, why, span })
    }
}

/// What a range is made for.
struct Parts<'a> {
    input: &'a str,
    at: usize,
    kind: Kind,
    own: Choice,
}

impl Parts<'_> {
    fn wrong<T>(&self, at: usize, cause: &str) -> Result<T, Fault> {
        Err((at, format!("range of {}: {cause}", self.input)))
    }

    fn own_number(&self) -> Option<f64> {
        let value: Value = toml::from_str(&format!("v = {}", self.own.toml)).ok()?;
        self.kind.number(value.get("v")?)
    }

    fn between(
        self,
        ends: [Spanned<Value>; 2],
        step: Option<Spanned<Value>>,
        scale: Scale,
        against: Option<AgainstText>,
    ) -> Result<(Choice, Span), Fault> {
        let Some(own) = self.own_number() else {
            return self.wrong(self.at, "the input has no low and high: list its values");
        };
        let number = |value: &Spanned<Value>| match self.kind.number(value.get_ref()) {
            Some(number) => Ok(number),
            None => {
                let cause = format!("invalid {}: must be {}", value.get_ref(), self.kind.example());
                self.wrong(value.span().start, &cause)
            }
        };
        let [low, high] = [number(&ends[0])?, number(&ends[1])?];
        let step = match &step {
            None => self.kind.step([low, high]),
            Some(step) => Some(number(step)?),
        };
        let against = match against {
            Some(AgainstText::Each(_)) => {
                return self.wrong(self.at, "against of single values needs values");
            }
            Some(AgainstText::All(text)) => Some(text),
            None => None,
        };
        match () {
            () if low >= high => self.wrong(ends[0].span().start, "low must be less than high"),
            () if scale == Scale::Log && low <= 0.0 => {
                self.wrong(ends[0].span().start, "low must be more than 0 on a logarithmic scale")
            }
            () if step.is_some_and(|step| step <= 0.0 || step > high - low) => {
                self.wrong(self.at, "step must be more than 0 and at most high - low")
            }
            () if !(low..=high).contains(&own) => {
                self.wrong(self.at, &format!("does not contain the scenario's own {}", self.own.shown))
            }
            () => {
                let own = Choice { at: own, ..self.own };
                Ok((own, Span::Between { kind: self.kind, ends: [low, high], step, scale, against }))
            }
        }
    }

    fn values(self, values: Vec<Value>, against: Option<AgainstText>) -> Result<(Choice, Span), Fault> {
        let own: Value = match toml::from_str::<Value>(&format!("v = {}", self.own.toml)) {
            Ok(table) => table["v"].clone(),
            Err(_) => return self.wrong(self.at, "its value cannot be read"),
        };
        let is_ordered = self.kind != Kind::Name;
        let fits = |v: &Value| if is_ordered { self.kind.number(v).is_some() } else { v.same_type(&own) };
        if let Some(value) = values.iter().find(|v| !fits(v)) {
            return self.wrong(self.at, &format!("invalid {value}: must be {}", self.kind.example()));
        }
        let of = |(place, value): (usize, &Value)| {
            let toml = value.to_string();
            let shown = value.as_str().map_or_else(|| toml.clone(), str::to_owned);
            let at = self.kind.number(value).unwrap_or(place as f64);
            // A point of a sweep, and a scenario of one's own, may have a value that the text contradicts.
            let against = match &against {
                _ if *value == own => None,
                None => None,
                Some(AgainstText::All(text)) => Some(text.clone()),
                Some(AgainstText::Each(each)) => each.get(&shown).cloned(),
            };
            Choice { toml, shown, at, against }
        };
        let all: Vec<Choice> = values.iter().enumerate().map(of).collect();
        let named = match &against {
            Some(AgainstText::Each(each)) => each.keys().find(|key| !all.iter().any(|c| c.shown == **key)),
            _ => None,
        };
        let Some(place) = values.iter().position(|value| *value == own) else {
            return self.wrong(self.at, &format!("does not contain the scenario's own {}", self.own.shown));
        };
        match named {
            Some(name) => {
                self.wrong(self.at, &format!("against names {name:?}, which is none of its values"))
            }
            None if all.len() < 2 => self.wrong(self.at, "must have two values or more"),
            None => Ok((all[place].clone(), Span::Values { all, is_ordered })),
        }
    }
}

impl Range {
    /// Whether larger and smaller mean something.
    pub fn is_ordered(&self) -> bool {
        matches!(self.span, Span::Between { .. } | Span::Values { is_ordered: true, .. })
    }

    /// Whether the published text contradicts any of its values.
    pub fn is_contradicted(&self) -> bool {
        self.alone().iter().any(|choice| choice.against.is_some())
    }

    /// The value at a place in [0, 1): of all values, or of those that the published text leaves open.
    pub fn at(&self, place: f64, open_only: bool) -> Choice {
        match &self.span {
            Span::Between { against: Some(_), .. } if open_only => self.own.clone(),
            Span::Between { kind, ends, step, scale, against } => {
                let at = between(*ends, *step, *scale, place);
                Choice { against: against.clone().filter(|_| at != self.own.at), ..kind.choice(at) }
            }
            Span::Values { all, .. } => {
                let open: Vec<&Choice> =
                    all.iter().filter(|choice| !open_only || choice.against.is_none()).collect();
                let index = (place * open.len() as f64) as usize;
                open.get(index).map_or_else(|| self.own.clone(), |choice| (*choice).clone())
            }
        }
    }

    /// The values that it is given alone: its ends, or each of its values but the scenario's own.
    pub fn alone(&self) -> Vec<Choice> {
        match &self.span {
            Span::Between { kind, ends, against, .. } => {
                let ends = ends.iter().filter(|end| **end != self.own.at);
                ends.map(|end| Choice { against: against.clone(), ..kind.choice(*end) }).collect()
            }
            Span::Values { all, .. } => all.iter().filter(|c| c.toml != self.own.toml).cloned().collect(),
        }
    }

    /// "1GiB to 8GiB", "a, b or c".
    pub fn words(&self) -> String {
        match &self.span {
            Span::Between { kind, ends: [low, high], .. } => {
                format!("{} to {}", kind.choice(*low).shown, kind.choice(*high).shown)
            }
            Span::Values { all, .. } => all.iter().map(|c| c.shown.as_str()).collect::<Vec<_>>().join(", "),
        }
    }

    /// What the published text says against its values.
    pub fn against_words(&self) -> Option<String> {
        match &self.span {
            Span::Between { against, .. } => against.clone(),
            Span::Values { all, .. } => {
                let each = all.iter().filter_map(|c| Some(format!("{}: {}", c.shown, c.against.as_ref()?)));
                let each: Vec<String> = each.collect();
                (!each.is_empty()).then(|| each.join("; "))
            }
        }
    }
}

/// The value at a place in [0, 1). Where it goes in steps, each step of a linear range has an equal share.
fn between([low, high]: [f64; 2], step: Option<f64>, scale: Scale, place: f64) -> f64 {
    match (step, scale) {
        (Some(step), Scale::Linear) => {
            let steps = ((high - low) / step + 1e-9).floor();
            low + step * (place * (steps + 1.0)).floor().min(steps)
        }
        (None, Scale::Linear) => low + place * (high - low),
        (step, Scale::Log) => {
            let at = low * (high / low).powf(place);
            step.map_or(at, |step| (low + step * ((at - low) / step).round()).min(high))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str =
        "[array]\ncache = \"4GiB\"\ncost = \"18us\"\nservers = 4\nshare = 0.5\ndrive = \"a\"\nflag = true\n";

    fn range(text: &str, is_published: bool) -> Result<Range, String> {
        let places = Places::of(SCENARIO).ok().expect("TOML");
        let written: RangeText = toml::from_str(text).map_err(|e| units::in_words_of_toml(e.message()))?;
        written.range(&places, is_published).map_err(|(_, cause)| cause)
    }

    /// The one table: a range, and the values at a tenth, the middle and nine tenths.
    #[test]
    fn values_keep_the_type_of_their_input() {
        for (text, expected) in [
            (
                "input = \"array.cache\"\nlow = \"1GiB\"\nhigh = \"9GiB\"",
                ["\"1843MiB\"", "\"5GiB\"", "\"8397MiB\""],
            ),
            (
                "input = \"array.cache\"\nlow = \"1GiB\"\nhigh = \"16GiB\"\nscale = \"log\"\nstep = \"1GiB\"",
                ["\"1GiB\"", "\"4GiB\"", "\"12GiB\""],
            ),
            ("input = \"array.cost\"\nlow = \"10us\"\nhigh = \"30us\"", ["\"12us\"", "\"20us\"", "\"28us\""]),
            (
                "input = \"array.cost\"\nlow = \"10us\"\nhigh = \"4ms\"\nscale = \"log\"",
                ["\"18.206us\"", "\"200us\"", "\"2.197ms\""],
            ),
            ("input = \"array.servers\"\nlow = 1\nhigh = 4", ["1", "3", "4"]),
            ("input = \"array.share\"\nlow = 0\nhigh = 1", ["0.1", "0.5", "0.9"]),
            ("input = \"array.drive\"\nvalues = [\"a\", \"b\"]", ["\"a\"", "\"b\"", "\"b\""]),
            ("input = \"array.flag\"\nvalues = [true, false]", ["true", "false", "false"]),
        ] {
            let range = range(&format!("{text}\nwhy = \"x\""), false).expect(text);
            assert_eq!([0.1, 0.5, 0.9].map(|place| range.at(place, true).toml), expected, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_the_scenario_is_refused() {
        for (text, expected) in [
            ("input = \"array.size\"\nlow = 1\nhigh = 2", "no input \"array.size\""),
            ("input = \"array.cache\"\nlow = \"1\"\nhigh = \"fast\"", "must be a size"),
            ("input = \"array.cache\"\nlow = 1\nhigh = \"5GiB\"", "must be a size"),
            ("input = \"array.servers\"\nlow = 1.5\nhigh = 5", "must be a whole number"),
            ("input = \"array.cache\"\nlow = \"5GiB\"\nhigh = \"5GiB\"", "low must be less"),
            ("input = \"array.cache\"\nlow = \"5GiB\"\nhigh = \"6GiB\"", "own 4GiB"),
            ("input = \"array.share\"\nlow = 0\nhigh = 1\nscale = \"log\"", "more than 0"),
            ("input = \"array.drive\"\nlow = \"a\"\nhigh = \"b\"", "list its values"),
            ("input = \"array.drive\"\nvalues = [\"b\", \"c\"]", "own a"),
            ("input = \"array.drive\"\nvalues = [\"a\", 2]", "invalid 2"),
            ("input = \"array.drive\"\nvalues = [\"a\", \"b\"]\nagainst = { c = \"x\" }", "names \"c\""),
            ("input = \"array.drive\"", "low and high, or values"),
            ("input = \"array.servers\"\nlow = 1\nhigh = 5\nstep = 9", "step"),
        ] {
            let error = range(&format!("{text}\nwhy = \"x\""), false).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let text = "input = \"array.servers\"\nlow = 1\nhigh = 5\n";
        assert!(range(text, false).is_err_and(|e| e.contains("missing why")));
        let published = range(&format!("{text}source = \"y\""), true);
        assert!(published.is_err_and(|e| e.contains("covers a published value")));
    }

    #[test]
    fn values_that_the_published_text_contradicts_are_apart() {
        let all =
            range("input = \"array.servers\"\nlow = 1\nhigh = 9\nwhy = \"x\"\nagainst = \"4 servers\"", true);
        let all = all.expect("against is said");
        assert_eq!(
            (all.at(0.9, true), all.at(0.9, false).against),
            (all.own.clone(), Some("4 servers".into()))
        );
        assert_eq!(all.alone().iter().map(|c| c.shown.as_str()).collect::<Vec<_>>(), ["1", "9"]);
        let some = "input = \"array.drive\"\nvalues = [\"b\", \"a\", \"c\"]\nwhy = \"x\"\nagainst = { b = \"2005\" }";
        let some = range(some, false).expect("fits");
        assert!(some.is_contradicted() && !some.is_ordered());
        assert_eq!([0.0, 0.4, 0.9].map(|place| some.at(place, true).shown), ["a", "a", "c"]);
        assert_eq!([0.0, 0.4, 0.9].map(|place| some.at(place, false).shown), ["b", "a", "c"]);
        assert_eq!(some.alone().iter().map(|c| c.against.is_some()).collect::<Vec<_>>(), [true, false]);
        assert_eq!(some.against_words().as_deref(), Some("b: 2005"));
    }

    /// Each point of a sweep with a value that the text contradicts was refused, and so was such a scenario.
    #[test]
    fn a_scenario_may_have_a_value_that_the_published_text_contradicts() {
        let text =
            "input = \"array.drive\"\nvalues = [\"a\", \"b\"]\nwhy = \"x\"\nagainst = { a = \"2005\" }";
        let with_own = range(text, false).expect("its own value is a");
        assert_eq!((with_own.own.against.clone(), with_own.is_contradicted()), (None, false));
    }
}
