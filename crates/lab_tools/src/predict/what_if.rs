//! What if: a ramp as it would have been with other hardware, as far as its measured demands say.
//!
//! The demand of what is exchanged is scaled; everything else stays as it was measured. Nothing is assumed of
//! what nobody measured: another cache, other patterns, a controller that works differently.

use super::Ramp;

/// Hardware is at most so many times as fast, or slow, as what was measured.
const TIMES_MAX: f64 = 100.0;

/// What is exchanged.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Drives that many times as fast.
    Drives(f64),
    /// So many groups more, alike.
    Groups(u32),
    /// A resource whose name begins so, that many times as fast.
    Resource(String, f64),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum WhatIf {
    /// A change by a factor or a number.
    Change(Change),
    /// Drives of this name in place of those that were measured.
    Drive(String),
}

/// A change that cannot be understood.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{0}: is groups=+1, drives=x1.3, drives=NAME or a resource like port=x2, with a factor from 0.01 to 100"
)]
pub struct BadChange(String);

impl std::str::FromStr for Change {
    type Err = BadChange;

    fn from_str(text: &str) -> Result<Change, BadChange> {
        let bad = || BadChange(text.to_owned());
        let (what, how) = text.split_once('=').ok_or_else(bad)?;
        if what == "groups" {
            let more = how.strip_prefix('+').and_then(|n| n.parse().ok()).filter(|n| (1..=64).contains(n));
            return more.map(Change::Groups).ok_or_else(bad);
        }
        let times: f64 = how.strip_prefix('x').and_then(|n| n.parse().ok()).ok_or_else(bad)?;
        if !(1.0 / TIMES_MAX..=TIMES_MAX).contains(&times) || what.is_empty() {
            return Err(bad());
        }
        Ok(if what == "drives" { Change::Drives(times) } else { Change::Resource(what.to_owned(), times) })
    }
}

impl std::str::FromStr for WhatIf {
    type Err = BadChange;

    fn from_str(text: &str) -> Result<WhatIf, BadChange> {
        // A factor begins with x and a digit or a point; no drive of the catalogue does, and a file that does
        // has a folder before it.
        let is_factor =
            |how: &str| how.strip_prefix('x').is_some_and(|n| n.starts_with(|c: char| !c.is_alphabetic()));
        match text.strip_prefix("drives=") {
            Some(name) if !name.is_empty() && !is_factor(name) => Ok(WhatIf::Drive(name.to_owned())),
            _ => text.parse().map(WhatIf::Change),
        }
    }
}

/// How many times as fast each resource is, and a group; and how many groups there are more.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Changed {
    pub(super) resources: Vec<f64>,
    pub(super) group: f64,
    pub(super) more: u32,
}

impl Changed {
    pub(super) fn of(ramp: &Ramp, changes: &[Change]) -> Changed {
        let mut all = Changed { resources: vec![1.0; ramp.resources.len()], group: 1.0, more: 0 };
        for change in changes {
            match change {
                Change::Drives(times) => all.group *= times,
                Change::Groups(more) => all.more += more,
                Change::Resource(name, times) => {
                    let named = ramp.resources.iter().zip(&mut all.resources);
                    named.filter(|(r, _)| r.name.starts_with(name.as_str())).for_each(|(_, t)| *t *= times);
                }
            }
        }
        all
    }
}

/// What of the changes names nothing that the ramp has.
pub fn unknown(ramp: &Ramp, changes: &[Change]) -> Option<String> {
    changes.iter().find_map(|change| match change {
        Change::Resource(name, _) if !ramp.resources.iter().any(|r| r.name.starts_with(name.as_str())) => {
            Some(name.clone())
        }
        Change::Drives(_) | Change::Groups(_) if ramp.groups == 0 => Some("groups".to_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_and_others_refused() {
        assert_eq!("groups=+1".parse(), Ok(Change::Groups(1)));
        assert_eq!("drives=x1.5".parse(), Ok(Change::Drives(1.5)));
        assert_eq!("port=x2".parse(), Ok(Change::Resource("port".into(), 2.0)));
        assert_eq!("drives=cheetah-15k5".parse(), Ok(WhatIf::Drive("cheetah-15k5".into())));
        assert_eq!("drives=x1.5".parse(), Ok(WhatIf::Change(Change::Drives(1.5))));
        assert!("drives=".parse::<WhatIf>().is_err() && "drives=x0".parse::<WhatIf>().is_err());
        for bad in ["groups=1", "groups=+0", "port=2", "port", "=x2", "drives=x0", "drives=xNaN"] {
            assert!(bad.parse::<Change>().is_err(), "{bad}");
        }
    }
}
