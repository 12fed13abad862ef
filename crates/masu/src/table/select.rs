//! Which objects of a list are shown, and in which order: `--filter`, `--sort`, `--limit`. Pure.

use std::cmp::Ordering;

use config::parse_bytes;

use super::column::{Column, Kind, Noun, Value};
use super::moment::since;
use super::natural;

/// How a filter compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Is,
    IsNot,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// One `--filter`.
pub(crate) struct Filter<T: 'static> {
    column: &'static Column<T>,
    test: Test,
    /// As typed.
    text: String,
    /// In the unit of the column, where the column has numbers.
    number: Option<f64>,
}

/// Two characters before one, so that `>=` is not `>` of something that begins with `=`.
const TESTS: [(&str, Test); 6] = [
    ("!=", Test::IsNot),
    (">=", Test::MoreOrEqual),
    ("<=", Test::LessOrEqual),
    ("=", Test::Is),
    (">", Test::More),
    ("<", Test::Less),
];

impl<T> Filter<T> {
    /// `COLUMN=VALUE`, with `!=`, `<`, `<=`, `>`, `>=` as well.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(noun: &Noun<T>, text: &str) -> Result<Filter<T>, String> {
        let wrong =
            || format!("invalid --filter {text:?}: write COLUMN=VALUE, as in {}=web*", noun.columns[0].name);
        let at = text.find(['=', '<', '>', '!']).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(at);
        let (sign, test) = TESTS.iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(wrong)?;
        let column = noun.column(name.trim()).map_err(|why| format!("invalid --filter {text:?}: {why}"))?;
        let value = rest[sign.len()..].trim();
        let is_none = matches!(test, Test::Is | Test::IsNot) && (value.is_empty() || value == "-");
        let number = match column.kind.is_number() && !is_none {
            true => {
                Some(number(column.kind, value).map_err(|why| format!("invalid --filter {text:?}: {why}"))?)
            }
            false => None,
        };
        if !column.kind.is_number() && !matches!(test, Test::Is | Test::IsNot) {
            return Err(format!("invalid --filter {text:?}: {name} has no numbers; use = or !="));
        }
        Ok(Filter { column, test: *test, text: value.into(), number })
    }

    pub(crate) fn admits(&self, object: &T) -> bool {
        let value = (self.column.value)(object);
        match (self.test, value.number()) {
            (Test::Is, _) => self.is(&value),
            (Test::IsNot, _) => !self.is(&value),
            (_, None) => false,
            (test, Some(has)) => self.number.is_some_and(|than| match test {
                Test::Less => has < than,
                Test::LessOrEqual => has <= than,
                Test::More => has > than,
                _ => has >= than,
            }),
        }
    }

    fn is(&self, value: &Value) -> bool {
        let wants_none = self.text.is_empty() || self.text == "-";
        match value {
            Value::None => wants_none,
            Value::Text(text) if text.is_empty() => wants_none,
            Value::Names(names) if names.is_empty() => wants_none,
            Value::Text(text) => glob(&self.text, text),
            Value::Names(names) => names.iter().any(|name| glob(&self.text, name)),
            Value::Whole(_) | Value::Real(_) => self.number == value.number(),
        }
    }
}

/// A number as typed, in the unit of its column.
fn number(kind: Kind, text: &str) -> Result<f64, String> {
    match kind {
        Kind::Bytes => parse_bytes(text).map(|n| n as f64),
        Kind::BytesPerSecond => parse_bytes(text.trim_end_matches("/s")).map(|n| n as f64),
        Kind::Time => since(text).map(|n| n as f64).map_err(|e| e.to_string()),
        Kind::Micros if text.ends_with(|c: char| c.is_ascii_alphabetic()) => {
            units::parse_duration(text).map(|t| t.as_nanos() as f64 / 1e3)
        }
        _ => {
            let number = text.trim_end_matches('%').trim_end().parse::<f64>().ok().filter(|n| n.is_finite());
            number.ok_or_else(|| format!("{text:?} is not a number"))
        }
    }
}

/// Whether a text matches a pattern, in which `*` is any text and `?` any character.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The last star, and where its text ended so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, t) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// A column of `--sort`, and whether it is descending.
pub(crate) struct Key<T: 'static> {
    column: &'static Column<T>,
    is_descending: bool,
}

impl<T> Key<T> {
    /// `COLUMN`, or `-COLUMN` for descending.
    ///
    /// # Errors
    /// There is no such column.
    pub(crate) fn parse(noun: &Noun<T>, text: &str) -> Result<Key<T>, String> {
        let (is_descending, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
        let column = noun.column(name).map_err(|why| format!("invalid --sort {text:?}: {why}"))?;
        Ok(Key { column, is_descending })
    }

    fn order(&self, a: &T, b: &T) -> Ordering {
        let (a, b) = ((self.column.value)(a), (self.column.value)(b));
        match (a == Value::None, b == Value::None) {
            // What has no value is last, whichever way.
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let order = match (a.number(), b.number()) {
                    (Some(a), Some(b)) => a.total_cmp(&b),
                    _ => natural::order(&a.plain(), &b.plain()),
                };
                if self.is_descending { order.reverse() } else { order }
            }
        }
    }
}

/// The objects that all filters admit, in order, at most `limit`; and how many the limit left out.
pub(crate) fn select<T>(
    noun: &Noun<T>,
    objects: Vec<T>,
    filters: &[Filter<T>],
    keys: &[Key<T>],
    limit: Option<usize>,
) -> (Vec<T>, usize) {
    let mut objects: Vec<T> =
        objects.into_iter().filter(|object| filters.iter().all(|f| f.admits(object))).collect();
    if noun.is_sorted {
        let by_name = Key { column: &noun.columns[0], is_descending: false };
        objects.sort_by(|a, b| by_name.order(a, b));
    }
    if !keys.is_empty() {
        objects.sort_by(|a, b| {
            keys.iter().map(|key| key.order(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
    }
    let left_out = limit.map_or(0, |limit| objects.len().saturating_sub(limit));
    objects.truncate(objects.len() - left_out);
    (objects, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(&'static str, Option<u64>, Vec<String>);

    static COLUMNS: [Column<Thing>; 4] = [
        Column::shown("name", Kind::Text, |t| t.0.into()),
        Column::shown("size", Kind::Bytes, |t| t.1.into()),
        Column::shown("hosts", Kind::Names, |t| (&t.2).into()),
        Column::new("latency", Kind::Micros, |t| t.1.into()),
    ];
    static NOUN: Noun<Thing> =
        Noun { one: "thing", many: "things", columns: &COLUMNS, hint: "", is_sorted: true };

    fn things() -> Vec<Thing> {
        let hosts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        vec![
            Thing("v10", Some(9 << 20), hosts(&[])),
            Thing("v9", Some(1 << 30), hosts(&["kvm1:0", "kvm2:0"])),
            Thing("w1", None, hosts(&["kvm1:1"])),
        ]
    }

    fn check(filters: &[&str], sort: &[&str], limit: Option<usize>, expected: &[&str]) {
        let filters: Vec<_> = filters.iter().map(|f| Filter::parse(&NOUN, f).expect("good")).collect();
        let keys: Vec<_> = sort.iter().map(|s| Key::parse(&NOUN, s).expect("good")).collect();
        let (left, out) = select(&NOUN, things(), &filters, &keys, limit);
        assert_eq!(left.iter().map(|t| t.0).collect::<Vec<_>>(), expected);
        assert_eq!(out, limit.map_or(0, |n| 3usize.saturating_sub(n)));
    }

    #[test]
    fn sizes_are_sorted_by_value_and_names_in_natural_order() {
        check(&[], &[], None, &["v9", "v10", "w1"]);
        check(&[], &["size"], None, &["v10", "v9", "w1"]);
        check(&[], &["-size"], None, &["v9", "v10", "w1"]);
        check(&[], &["-name"], Some(2), &["w1", "v10"]);
        check(&[], &["SIZE_bytes"], Some(0), &[]);
    }

    #[test]
    fn filters_are_anded() {
        check(&["name=v*"], &[], None, &["v9", "v10"]);
        check(&["name=v*", "size>10MiB"], &[], None, &["v9"]);
        check(&["size<=9 MiB"], &[], None, &["v10"]);
        check(&["size=1GiB"], &[], None, &["v9"]);
        check(&["size="], &[], None, &["w1"]);
        check(&["size!=-"], &[], None, &["v9", "v10"]);
        check(&["hosts=kvm1:?"], &[], None, &["v9", "w1"]);
        check(&["hosts!=kvm2*"], &[], None, &["v10", "w1"]);
        check(&["latency>=1000s"], &[], None, &["v9"]);
    }

    #[test]
    fn a_wrong_filter_or_order_says_what_there_is() {
        let refused = |text: &str, says: &str| {
            let error = Filter::parse(&NOUN, text).err().expect("refused");
            assert!(error.contains(says), "{error}");
        };
        refused("name", "COLUMN=VALUE");
        refused("", "COLUMN=VALUE");
        refused("colour=red", "there are: name, size, hosts, latency");
        refused("size>many", "10GiB");
        refused("name>v1", "has no numbers");
        refused("size>", "invalid");
        refused("name!v", "COLUMN=VALUE");
        assert!(Key::parse(&NOUN, "-").is_err() && Key::parse(&NOUN, "--size").is_err());
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b", "acb ", false),
            ("?", "é", true),
            ("?", "", false),
            ("**a", "aaa", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
        }
    }
}
