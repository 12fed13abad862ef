//! Names of a scenario: one thing each, or all that were named together.

use std::collections::{BTreeMap, BTreeSet};

/// Most drives of an array, and most volumes.
pub(super) const COUNT_MAX: usize = 1000;

/// "vm", of which there are three: "vm1", "vm2", "vm3".
pub(super) fn expanded(name: &str, count: Option<usize>) -> Vec<String> {
    match count {
        None => vec![name.to_owned()],
        Some(count) => (1..=count).map(|n| format!("{name}{n}")).collect(),
    }
}

/// Why a name is refused.
fn twice(what: &str, name: &str) -> String {
    format!("{what} {name:?} is there twice; give each a name of its own")
}

/// Refuses a name that two have, with the number of the second.
pub(super) fn once<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), (usize, String)> {
    let mut before = BTreeSet::new();
    for (number, name) in names.enumerate() {
        if !before.insert(name) {
            return Err((number, twice(what, name)));
        }
    }
    Ok(())
}

/// What names stand for: one thing each, or all that were named together.
#[derive(Default)]
pub(super) struct Names(BTreeMap<String, Vec<usize>>);

impl Names {
    /// Names that each stand for one.
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Names {
        Names(names.enumerate().map(|(n, name)| (name.to_owned(), vec![n])).collect())
    }

    /// Those of several tables, and all of them one by one. A name that two of them have is refused, with the
    /// number of the table.
    pub(super) fn expand(
        what: &str,
        tables: &[(&str, Option<usize>)],
    ) -> Result<(Names, Vec<String>), (usize, String)> {
        let (mut names, mut all) = (Names::default(), Vec::new());
        for (table, (name, count)) in tables.iter().enumerate() {
            // One more than is allowed is as wrong as any number.
            let of = expanded(name, count.map(|count| count.min(COUNT_MAX + 1)));
            let from = all.len();
            let taken = of.iter().map(String::as_str).chain([*name]).find(|one| names.0.contains_key(*one));
            if let Some(taken) = taken {
                return Err((table, twice(what, taken)));
            }
            for (n, one) in of.iter().enumerate() {
                names.0.insert(one.clone(), vec![from + n]);
            }
            names.0.insert((*name).to_owned(), (from..from + of.len()).collect());
            all.extend(of);
        }
        Ok((names, all))
    }

    /// The numbers of these names, or what is wrong with them: none of them twice, neither by its own name
    /// nor by one that it shares.
    pub(super) fn resolve(&self, what: &str, asked: &[String]) -> Result<Vec<usize>, String> {
        let mut out = Vec::new();
        for name in asked {
            let of = self.0.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
                format!("unknown {what} {name:?}: known are {}", known.join(", "))
            })?;
            if of.iter().any(|number| out.contains(number)) {
                return Err(format!("{what} {name:?} is named twice; remove one of the names"));
            }
            out.extend(of);
        }
        Ok(out)
    }

    /// The same, and at least one.
    pub(super) fn some(&self, what: &str, asked: &[String]) -> Result<Vec<usize>, String> {
        match asked.is_empty() {
            true => Err(format!("must name at least one {what}")),
            false => self.resolve(what, asked),
        }
    }

    /// The number of a name that stands for one.
    pub(super) fn one(&self, what: &str, name: &str) -> Result<usize, String> {
        match self.resolve(what, &[name.to_owned()])?[..] {
            [one] => Ok(one),
            _ => Err(format!("{name:?} is several: name one {what}")),
        }
    }
}
