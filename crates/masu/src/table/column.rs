//! The columns of a noun: one description, which lists, `show`, sorting, filters and every output format use.

use config::format_bytes;
use lab_core::words::visible;

use super::moment::time;

/// What a value of a column is: it decides alignment, unit, order and the text on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text; sorted in natural order (`v2` before `v10`).
    Text,
    /// Text of one of a few words, coloured by its meaning.
    State,
    /// Names of other objects.
    Names,
    /// A number without a unit.
    Number,
    /// A size, in bytes.
    Bytes,
    /// A bandwidth, in bytes per second.
    BytesPerSecond,
    /// A share, in percent.
    Percent,
    /// A time span, in microseconds.
    Micros,
    /// A temperature.
    Celsius,
    /// A point in time, in milliseconds since 1970.
    Time,
}

impl Kind {
    /// What follows a column's name in JSON and CSV: the base unit.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Kind::Text | Kind::State | Kind::Names | Kind::Number => "",
            Kind::Bytes => "_bytes",
            Kind::BytesPerSecond => "_bytes_per_s",
            Kind::Percent => "_percent",
            Kind::Micros => "_us",
            Kind::Celsius => "_celsius",
            Kind::Time => "_unix_ms",
        }
    }

    /// Whether the values are numbers: aligned on the right, and compared by value.
    pub(crate) const fn is_number(self) -> bool {
        !matches!(self, Kind::Text | Kind::State | Kind::Names)
    }
}

/// A value in the unit of its column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Not known, or not there.
    None,
    Text(String),
    Names(Vec<String>),
    Whole(u64),
    Real(f64),
}

impl Value {
    /// The value for people, in a table.
    pub(crate) fn shown(&self, kind: Kind) -> String {
        match (self, kind) {
            (Value::None, _) => "-".into(),
            (Value::Text(text), _) if text.is_empty() => "-".into(),
            (Value::Text(text), _) => visible(text),
            (Value::Names(names), _) if names.is_empty() => "-".into(),
            (Value::Names(names), _) => visible(&names.join(" ")),
            (Value::Whole(n), Kind::Bytes) => format_bytes(*n),
            (Value::Whole(n), Kind::BytesPerSecond) => format!("{}/s", format_bytes(*n)),
            (Value::Whole(n), Kind::Time) => time(*n),
            (Value::Whole(n), Kind::Percent) => format!("{n} %"),
            (Value::Whole(n), Kind::Micros) => format!("{:.2} ms", *n as f64 / 1e3),
            (Value::Whole(n), _) => n.to_string(),
            (Value::Real(x), Kind::Percent) => format!("{x:.1} %"),
            (Value::Real(x), Kind::Micros) => format!("{:.2} ms", x / 1e3),
            (Value::Real(x), Kind::Celsius) => format!("{x:.0} °C"),
            (Value::Real(x), _) => format!("{x:.1}"),
        }
    }

    /// The first name and how many more there are, where a list of names does not fit.
    pub(crate) fn brief(&self) -> Option<String> {
        match self {
            Value::Names(names) if names.len() > 1 => Some(format!("{} +{}", names[0], names.len() - 1)),
            _ => None,
        }
    }

    /// The value for programs, in the base unit: as CSV has it.
    pub(crate) fn plain(&self) -> String {
        match self {
            Value::None => String::new(),
            Value::Text(text) => text.clone(),
            Value::Names(names) => names.join(" "),
            Value::Whole(n) => n.to_string(),
            Value::Real(x) => x.to_string(),
        }
    }

    /// The number, where there is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Whole(n) => Some(*n as f64),
            Value::Real(x) => Some(*x),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Whole(n)
    }
}

impl From<u32> for Value {
    fn from(n: u32) -> Value {
        Value::Whole(n.into())
    }
}

impl From<u16> for Value {
    fn from(n: u16) -> Value {
        Value::Whole(n.into())
    }
}

impl From<u8> for Value {
    fn from(n: u8) -> Value {
        Value::Whole(n.into())
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        Value::Whole(n as u64)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        if x.is_finite() { Value::Real(x) } else { Value::None }
    }
}

impl From<&Vec<String>> for Value {
    fn from(names: &Vec<String>) -> Value {
        Value::Names(names.clone())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::None, Into::into)
    }
}

/// A share in percent; nothing of nothing is no share.
pub(crate) fn share(part: u64, of: u64) -> Value {
    if of == 0 { Value::None } else { Value::Real(100.0 * part as f64 / of as f64) }
}

/// A column of the objects `T`.
pub(crate) struct Column<T> {
    /// As `--columns` names it; in capitals, the header.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Whether a list has it without `--columns`.
    pub(crate) is_shown: bool,
    pub(crate) value: fn(&T) -> Value,
}

impl<T> Column<T> {
    /// A column that a list has only on request.
    pub(crate) const fn new(name: &'static str, kind: Kind, value: fn(&T) -> Value) -> Column<T> {
        Column { name, kind, is_shown: false, value }
    }

    /// A column that a list has unless others are asked for.
    pub(crate) const fn shown(name: &'static str, kind: Kind, value: fn(&T) -> Value) -> Column<T> {
        Column { name, kind, is_shown: true, value }
    }

    /// Its name in JSON and CSV, with the base unit.
    pub(crate) fn field(&self) -> String {
        self.name.replace('-', "_") + self.kind.unit()
    }

    /// Whether `--columns` means it by this name: that of the table, or that of JSON and CSV.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || self.field().eq_ignore_ascii_case(name)
    }
}

/// A noun of the command line: its objects have these columns, the first of which is the name.
pub(crate) struct Noun<T: 'static> {
    /// As messages name one of them.
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    pub(crate) columns: &'static [Column<T>],
    /// How to get the first one.
    pub(crate) hint: &'static str,
    /// Whether a list is in the natural order of the first column unless `--sort` says otherwise.
    pub(crate) is_sorted: bool,
}

impl<T> Noun<T> {
    pub(crate) fn name(&self, object: &T) -> String {
        (self.columns[0].value)(object).plain()
    }

    /// A column by its name.
    ///
    /// # Errors
    /// There is none; says which there are.
    pub(crate) fn column(&self, name: &str) -> Result<&'static Column<T>, String> {
        self.columns.iter().find(|c| c.is_named(name)).ok_or_else(|| {
            let known: Vec<&str> = self.columns.iter().map(|c| c.name).collect();
            format!("unknown column {name:?} of {}; there are: {}", self.many, known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_for_people_and_plain_for_programs() {
        let check = |value: Value, kind, shown: &str, plain: &str| {
            assert_eq!((value.shown(kind).as_str(), value.plain().as_str()), (shown, plain));
        };
        check(Value::None, Kind::Bytes, "-", "");
        check(Value::Whole(10 << 30), Kind::Bytes, "10 GiB", "10737418240");
        check(Value::Whole(1 << 20), Kind::BytesPerSecond, "1 MiB/s", "1048576");
        check(Value::Real(12.34), Kind::Percent, "12.3 %", "12.34");
        check(Value::Whole(1500), Kind::Micros, "1.50 ms", "1500");
        check(Value::Whole(1_763_856_000_123), Kind::Time, "2025-11-23T00:00:00Z", "1763856000123");
        check(Value::Names(vec!["a".into(), "b".into()]), Kind::Names, "a b", "a b");
        check(
            Value::Text("two\nlines\u{1b}[31m".into()),
            Kind::Text,
            "two\\nlines\\u{1b}[31m",
            "two\nlines\u{1b}[31m",
        );
        assert_eq!(Value::from(f64::NAN), Value::None);
        assert_eq!(share(1, 0), Value::None);
    }
}
