//! Which commands take the reservation of a device.

use std::fmt;

/// The kind of reservation that an array holds: write exclusive, registrants only (SPC-5 5.14).
pub(super) const REGISTRANTS_WRITE: u8 = 5;

/// The keys of an array: its number in the upper half, a random one in the lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    array: u32,
}

/// What a device tells: registered keys, one for each path of a host, and who holds the reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) keys: Vec<u64>,
    pub(super) holder: Option<Holder>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) key: u64,
    pub(super) kind: u8,
}

/// A command to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Reserve,
    /// PREEMPT AND ABORT of this key.
    Preempt(u64),
}

impl Keys {
    pub(super) fn of(array: u32) -> Keys {
        Keys { array }
    }

    pub(super) fn key(self, number: u32) -> u64 {
        // A key of 0 is none: it removes a registration (SPC-5 5.14.7).
        u64::from(self.array) << 32 | u64::from(number.max(1))
    }

    fn has(self, key: u64) -> bool {
        key >> 32 == u64::from(self.array)
    }

    /// Refuses a device that something else than a node of this array has registered at or reserved.
    pub(super) fn check(self, facts: &Facts) -> Result<(), String> {
        let foreign = facts.keys.iter().find(|key| !self.has(**key));
        let held = facts.holder.filter(|holder| holder.kind != REGISTRANTS_WRITE || !self.has(holder.key));
        if foreign.is_none() && held.is_none() {
            return Ok(());
        }
        Err(format!(
            "another array or program has reserved it ({facts}); if nothing uses it any more, remove the \
             reservation (sg_persist --out --clear)"
        ))
    }
}

impl Facts {
    /// The keys of others, each once.
    pub(super) fn others(&self, own: u64) -> Vec<u64> {
        let mut others: Vec<u64> = self.keys.iter().copied().filter(|key| *key != own).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    pub(super) fn is_held_by(&self, own: u64) -> bool {
        self.keys.contains(&own) && self.holder == Some(Holder { key: own, kind: REGISTRANTS_WRITE })
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|key| format!("{key:#018x}")).collect();
        match keys.is_empty() {
            true => write!(f, "no key is registered")?,
            false => write!(f, "keys registered: {}", keys.join(" "))?,
        }
        match self.holder {
            Some(holder) => write!(f, ", reserved by {:#018x} (type {})", holder.key, holder.kind),
            None => write!(f, ", not reserved"),
        }
    }
}

/// What the owner of a registered key does, so that the reservation is its own and nobody else is registered.
/// Preempting the holder takes its reservation over in the same moment: nobody can write in between.
pub(super) fn steps(facts: &Facts, own: u64) -> Vec<Step> {
    let holder = facts.holder.map(|holder| holder.key);
    let first = match holder {
        None => Some(Step::Reserve),
        Some(key) if key == own => None,
        Some(key) => Some(Step::Preempt(key)),
    };
    let rest = facts.others(own).into_iter().filter(|key| Some(*key) != holder);
    first.into_iter().chain(rest.map(Step::Preempt)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: Keys = Keys { array: 7 };

    fn facts(keys: &[u32], holder: Option<u32>) -> Facts {
        let key = |number: &u32| ARRAY.key(*number);
        let holder = holder.map(|number| Holder { key: key(&number), kind: REGISTRANTS_WRITE });
        Facts { keys: keys.iter().map(key).collect(), holder }
    }

    #[test]
    fn the_holder_is_preempted_first_and_then_everybody_else() {
        let own = ARRAY.key(9);
        let preempt = |number| Step::Preempt(ARRAY.key(number));
        assert_eq!(steps(&facts(&[9], None), own), [Step::Reserve]);
        assert_eq!(steps(&facts(&[9, 3], None), own), [Step::Reserve, preempt(3)]);
        assert_eq!(steps(&facts(&[3, 9, 5, 3], Some(5)), own), [preempt(5), preempt(3)]);
        assert_eq!(steps(&facts(&[9, 9, 4], Some(9)), own), [preempt(4)], "of an earlier epoch of this node");
        assert_eq!(steps(&facts(&[9], Some(9)), own), []);
    }

    #[test]
    fn what_another_array_or_program_has_reserved_is_refused() {
        assert_eq!(ARRAY.check(&facts(&[1, 2], Some(1))), Ok(()));
        assert_eq!(ARRAY.check(&Facts::default()), Ok(()));
        let other = Keys { array: 8 }.key(1);
        assert!(ARRAY.check(&Facts { keys: vec![ARRAY.key(1), other], holder: None }).is_err());
        let held = |key, kind| Facts { keys: vec![ARRAY.key(1)], holder: Some(Holder { key, kind }) };
        assert!(ARRAY.check(&held(ARRAY.key(1), 1)).is_err(), "another type");
        // All registrants are holders of the types 7 and 8: the key is 0 (SPC-5 5.14.10).
        let refused = ARRAY.check(&held(0, 7)).expect_err("refused");
        assert!(refused.contains("0x0000000700000001") && refused.contains("type 7"), "{refused}");
    }

    #[test]
    fn only_a_registered_holder_of_the_right_type_holds_it() {
        let own = ARRAY.key(9);
        assert!(facts(&[9, 3], Some(9)).is_held_by(own));
        assert!(!facts(&[3], Some(9)).is_held_by(own) && !facts(&[9], None).is_held_by(own));
        assert!(!facts(&[9, 3], Some(3)).is_held_by(own));
    }
}
