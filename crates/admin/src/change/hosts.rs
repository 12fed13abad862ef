//! Hosts, their secrets, and what they see.

use config::{ChapConfig, Config, HostConfig, LUN_MAX, normalised_name};

use crate::request::Change;

/// The part of [`super::next`] that is about hosts and what they see.
pub(crate) fn change(next: &mut Config, change: &Change) -> Result<(), String> {
    match change {
        Change::HostSet { .. } => set(next, change)?,
        Change::HostDelete { name } => {
            host(next, name)?;
            next.hosts.retain(|h| h.name != *name);
        }
        Change::Map { host: name, volume, lun, .. } => {
            let host = host(next, name)?;
            let lun = match lun {
                Some(lun) => *lun,
                None => free_lun(host).ok_or("every LUN is taken")?,
            };
            if let Some(other) = host.luns.insert(lun, volume.clone()) {
                return Err(format!("LUN {lun} of host {name:?} is volume {other:?} already"));
            }
        }
        Change::Unmap { host: name, volume } => {
            let host = host(next, name)?;
            let before = host.luns.len();
            host.luns.retain(|_, v| v != volume);
            if host.luns.len() == before {
                return Err(format!("host {name:?} does not see volume {volume:?}"));
            }
        }
        _ => return Err("not a change of a host".into()),
    }
    Ok(())
}

fn host<'a>(config: &'a mut Config, name: &str) -> Result<&'a mut HostConfig, String> {
    config.hosts.iter_mut().find(|h| h.name == name).ok_or(format!("unknown host {name:?}"))
}

fn free_lun(host: &HostConfig) -> Option<u16> {
    (0..=LUN_MAX).find(|lun| !host.luns.contains_key(lun))
}

/// Changes what is said of a host, and nothing else; makes it when there is none of that name.
fn set(next: &mut Config, change: &Change) -> Result<(), String> {
    let Change::HostSet { name, initiator, chap, mutual_chap, no_chap, no_mutual_chap } = change else {
        return Err("not a change of a host".into());
    };
    if *no_chap && (chap.is_some() || mutual_chap.is_some()) || *no_mutual_chap && mutual_chap.is_some() {
        return Err(format!("host {name:?}: a secret is set and taken away at once: say one of the two"));
    }
    let at = next.hosts.iter().position(|h| h.name == *name);
    let at = match (at, initiator) {
        (Some(at), _) => at,
        (None, Some(initiator)) => {
            next.hosts.push(HostConfig::new(name.clone(), initiator.clone(), [].into()));
            next.hosts.len() - 1
        }
        (None, None) => {
            return Err(format!("unknown host {name:?}: give its iSCSI name, too, to declare it"));
        }
    };
    let host = &mut next.hosts[at];
    if let Some(initiator) = initiator {
        host.initiator = normalised_name(initiator);
    }
    let pair = |c: &(String, String)| ChapConfig { name: c.0.clone(), secret: c.1.clone() };
    if *no_chap {
        host.chap = None;
    }
    if *no_chap || *no_mutual_chap {
        host.mutual_chap = None;
    }
    host.chap = chap.as_ref().map(pair).or(host.chap.take());
    host.mutual_chap = mutual_chap.as_ref().map(pair).or(host.mutual_chap.take());
    Ok(())
}

/// What to say when a mapping is asked for that is there already, and nobody asked for a second one.
pub(crate) fn mapped_already(config: &Config, change: &Change) -> Option<String> {
    let Change::Map { host: name, volume, lun: wanted, again } = change else { return None };
    let host = config.hosts.iter().find(|h| h.name == *name)?;
    let mut mapped = host.luns.iter().filter(|(_, v)| *v == volume).map(|(lun, _)| *lun);
    let lun = match wanted {
        Some(wanted) => mapped.find(|lun| lun == wanted),
        None if *again => None,
        None => mapped.next(),
    }?;
    Some(format!("host {name}: sees {volume} as LUN {lun} already: nothing to do"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KVM: &str = "iqn.2004-10.com.example:kvm1";

    fn secret(name: &str) -> Option<(String, String)> {
        Some((name.into(), format!("a secret of {name}")))
    }

    /// `host set h` with nothing else said.
    fn nothing() -> Change {
        let (initiator, chap, mutual_chap) = (None, None, None);
        Change::HostSet {
            name: "h".into(),
            initiator,
            chap,
            mutual_chap,
            no_chap: false,
            no_mutual_chap: false,
        }
    }

    fn with(edit: impl FnOnce(&mut Option<String>, &mut Option<(String, String)>, &mut bool)) -> Change {
        let mut change = nothing();
        if let Change::HostSet { initiator, chap, no_chap, .. } = &mut change {
            edit(initiator, chap, no_chap);
        }
        change
    }

    fn protected() -> Config {
        let mut config = Config::empty("iqn.2026-11.test:array");
        let Change::HostSet { name, .. } = nothing() else { unreachable!("it is one") };
        let first = Change::HostSet {
            name,
            initiator: Some(KVM.to_uppercase()),
            chap: secret("h"),
            mutual_chap: secret("array"),
            no_chap: false,
            no_mutual_chap: false,
        };
        change(&mut config, &first).expect("a new host");
        assert_eq!(config.hosts[0].initiator, KVM, "names are kept as they are compared");
        config
    }

    #[test]
    fn a_host_is_changed_in_what_is_said_and_nothing_else() {
        let before = protected();
        let mut same = before.clone();
        change(&mut same, &nothing()).expect("nothing to do");
        assert_eq!(same, before);
        // Another initiator: the secrets stay.
        let mut renamed = before.clone();
        change(&mut renamed, &with(|i, _, _| *i = Some(format!("{KVM}b")))).expect("another initiator");
        let (old, new) = (&before.hosts[0], &renamed.hosts[0]);
        assert_eq!((&new.chap, &new.mutual_chap), (&old.chap, &old.mutual_chap));
        assert_eq!(new.initiator, format!("{KVM}b"));
        // Another secret: the rest stays.
        let mut other = before.clone();
        change(&mut other, &with(|_, chap, _| *chap = secret("other"))).expect("another secret");
        assert_eq!(other.hosts[0].chap.as_ref().map(|c| &*c.name), Some("other"));
        assert_eq!(other.hosts[0].mutual_chap, old.mutual_chap);
        // Only the word for it takes the secrets away.
        let mut open = before.clone();
        change(&mut open, &with(|_, _, no_chap| *no_chap = true)).expect("no secrets");
        assert_eq!((&open.hosts[0].chap, &open.hosts[0].mutual_chap), (&None, &None));
        let both = with(|_, chap, no_chap| (*chap, *no_chap) = (secret("h"), true));
        assert!(change(&mut before.clone(), &both).is_err());
    }

    #[test]
    fn a_new_host_needs_a_name_that_is_one() {
        let mut config = Config::empty("iqn.2026-11.test:array");
        assert!(change(&mut config, &nothing()).is_err());
        for bad in ["kvm1", "iqn.kvm1", "eui.12"] {
            let mut next = config.clone();
            change(&mut next, &with(|i, _, _| *i = Some(bad.into()))).expect("it is checked with the rest");
            let error = next.check().expect_err(bad).to_string();
            assert!(error.contains("iSCSI name"), "{error}");
        }
    }

    #[test]
    fn a_volume_is_mapped_once_unless_it_is_asked_for_again() {
        let mut config = protected();
        let map = |lun, again| Change::Map { host: "h".into(), volume: "v".into(), lun, again };
        assert_eq!(mapped_already(&config, &map(None, false)), None);
        change(&mut config, &map(None, false)).expect("mapped");
        let said = mapped_already(&config, &map(None, false)).expect("mapped already");
        assert!(said.contains("LUN 0 already"), "{said}");
        assert!(mapped_already(&config, &map(Some(0), false)).is_some());
        for again in [map(None, true), map(Some(16_383), false)] {
            assert_eq!(mapped_already(&config, &again), None);
            change(&mut config, &again).expect("mapped again");
        }
        let luns: Vec<u16> = config.hosts[0].luns.keys().copied().collect();
        assert_eq!(luns, [0, 1, 16_383]);
    }
}
