//! Names of a scenario: one thing each, or all that were named together.

use std::collections::BTreeMap;

/// Most drives of an array, and most volumes.
pub(super) const COUNT_MAX: usize = 1000;

/// "vm", of which there are three: "vm1", "vm2", "vm3".
pub(super) fn expanded(name: &str, count: Option<usize>) -> Vec<String> {
    match count {
        None => vec![name.to_owned()],
        Some(count) => (1..=count).map(|n| format!("{name}{n}")).collect(),
    }
}

/// What names stand for: one thing each, or all that were named together.
#[derive(Default)]
pub(super) struct Names(BTreeMap<String, Vec<usize>>);

impl Names {
    /// Names that each stand for one.
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Names {
        Names(names.enumerate().map(|(n, name)| (name.to_owned(), vec![n])).collect())
    }

    /// Those of several tables, and all of them one by one.
    pub(super) fn expand(tables: &[(&str, Option<usize>)]) -> (Names, Vec<String>) {
        let (mut names, mut all) = (Names::default(), Vec::new());
        for (name, count) in tables {
            // One more than is allowed is as wrong as any number.
            let of = expanded(name, count.map(|count| count.min(COUNT_MAX + 1)));
            let from = all.len();
            for (n, one) in of.iter().enumerate() {
                names.0.insert(one.clone(), vec![from + n]);
            }
            names.0.insert((*name).to_owned(), (from..from + of.len()).collect());
            all.extend(of);
        }
        (names, all)
    }

    /// The numbers of these names, or what is wrong with them.
    pub(super) fn resolve(&self, what: &str, asked: &[String]) -> Result<Vec<usize>, String> {
        let mut out = Vec::new();
        for name in asked {
            let of = self.0.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
                format!("unknown {what} {name:?}: known are {}", known.join(", "))
            })?;
            out.extend(of);
        }
        Ok(out)
    }

    /// The number of a name that stands for one.
    pub(super) fn one(&self, what: &str, name: &str) -> Result<usize, String> {
        match self.resolve(what, &[name.to_owned()])?[..] {
            [one] => Ok(one),
            _ => Err(format!("{name:?} is several: name one {what}")),
        }
    }
}
