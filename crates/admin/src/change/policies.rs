//! The part of a change that is about services that volumes are promised.

use config::{Config, Policy, PolicyConfig, Sharing};

use crate::request::{Change, Limit, Terms};

/// Makes the change in the declaration.
pub(super) fn change(next: &mut Config, change: &Change) -> Result<(), String> {
    match change {
        Change::PolicyCreate { name, terms } => {
            if next.policy(name).is_some() {
                return Err(format!("policy {name:?} is there already: masu policy set changes it"));
            }
            let mut policy = PolicyConfig::new(name.clone(), Policy::none());
            set(&mut policy, terms);
            next.policies.push(policy);
        }
        Change::PolicySet { name, terms } => {
            if *terms == Terms::default() {
                return Err(format!("policy {name:?}: nothing is to be set"));
            }
            let policy = next.policies.iter_mut().find(|p| p.name == *name);
            set(policy.ok_or_else(|| none(name))?, terms);
        }
        Change::PolicyAttach { name, volumes } => {
            next.policy(name).ok_or_else(|| none(name))?;
            attach(next, volumes, Some(name))?;
        }
        Change::PolicyDetach { volumes } => attach(next, volumes, None)?,
        Change::PolicyDelete { name } => {
            next.policy(name).ok_or_else(|| none(name))?;
            if let Some((kind, has, _)) = next.promised().find(|(_, _, policy)| *policy == Some(name)) {
                return Err(format!("policy {name:?}: {kind} {has:?} has it: masu policy detach {has}"));
            }
            next.policies.retain(|p| p.name != *name);
        }
        _ => return Err("not a change of a policy".into()),
    }
    Ok(())
}

fn none(name: &str) -> String {
    format!("unknown policy {name:?}: masu policy create {name}")
}

fn set(policy: &mut PolicyConfig, terms: &Terms) {
    let limit = |now: Option<u64>, wanted: Option<Limit>| wanted.map_or(now, Into::into);
    policy.minimum_iops = terms.minimum_iops.unwrap_or(policy.minimum_iops);
    policy.maximum_iops = limit(policy.maximum_iops, terms.maximum_iops);
    policy.bandwidth_bytes_per_s = limit(policy.bandwidth_bytes_per_s, terms.bandwidth_bytes_per_s);
    policy.weight = terms.weight.unwrap_or(policy.weight);
    policy.burst_units = terms.burst_units.unwrap_or(policy.burst_units);
    match terms.aggregated {
        Some(true) => policy.sharing = Sharing::Aggregated,
        Some(false) => policy.sharing = Sharing::Dedicated,
        None => {}
    }
}

/// To volumes and images: no two of them have one name.
fn attach(next: &mut Config, names: &[String], policy: Option<&String>) -> Result<(), String> {
    for name in names {
        let place = next.promised_mut().find(|(_, owner, _)| *owner == name).map(|(_, _, policy)| policy);
        *place.ok_or_else(|| format!("unknown volume or image {name:?}"))? = policy.cloned();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::change::next;

    fn config() -> Config {
        let text = "[[drive]]\nname = \"d0\"\nmemory = true\nsize = \"1GiB\"\n\
             [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n\
             [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n\
             [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"1GiB\"\n\
             [[image]]\nname = \"i0\"\nfile = \"disk.vhdx\"\n";
        Config::parse(text, "array.toml", Path::new("/data")).expect("good")
    }

    fn changed(before: &Config, change: &Change) -> Result<Config, String> {
        next(before, change, Path::new("/data"))
    }

    #[test]
    fn policies_come_change_and_go() {
        let minimum = |minimum_iops| Terms { minimum_iops: Some(minimum_iops), ..Terms::default() };
        let gold = || "gold".to_owned();
        let set = |terms| Change::PolicySet { name: gold(), terms };
        let check_refused = |before: &Config, change: &Change, expected: &str| {
            let text = changed(before, change).expect_err("it is refused");
            assert!(text.contains(expected), "{text:?} does not say {expected:?}");
        };
        check_refused(&config(), &set(minimum(1)), "unknown policy \"gold\"");
        let create = Change::PolicyCreate { name: gold(), terms: minimum(3000) };
        let with = changed(&config(), &create).expect("created");
        check_refused(&with, &create, "is there already");
        check_refused(&with, &set(Terms::default()), "nothing is to be set");
        let limited = Terms { maximum_iops: Some(Limit::Of(2000)), ..Terms::default() };
        check_refused(&with, &set(limited.clone()), "minimum 3000 exceeds maximum 2000");
        let lower =
            changed(&with, &set(Terms { maximum_iops: Some(Limit::Of(4000)), ..minimum(0) })).expect("set");
        assert_eq!(lower.policies[0].maximum_iops, Some(4000));
        let unlimited = changed(&lower, &set(Terms { maximum_iops: Some(Limit::None), ..minimum(3000) }));
        assert_eq!(unlimited.as_ref().map(|c| &c.policies), Ok(&with.policies));
        let volumes = |name: &str| vec![name.to_owned()];
        let attach = |volume| Change::PolicyAttach { name: gold(), volumes: volumes(volume) };
        check_refused(&with, &attach("v7"), "unknown volume or image \"v7\"");
        let attached = changed(&with, &attach("v0")).expect("attached");
        assert_eq!(attached.volumes[0].policy.as_deref(), Some("gold"));
        let delete = Change::PolicyDelete { name: gold() };
        let image = changed(&with, &attach("i0")).expect("attached");
        assert_eq!(image.images[0].policy.as_deref(), Some("gold"));
        check_refused(&image, &delete, "image \"i0\" has it: masu policy detach i0");
        check_refused(&attached, &delete, "volume \"v0\" has it");
        let detached =
            changed(&attached, &Change::PolicyDetach { volumes: volumes("v0") }).expect("detached");
        assert_eq!(changed(&detached, &delete).expect("deleted"), config());
    }
    /// Zero removed the limit, by whatever way it came.
    #[test]
    fn a_limit_of_zero_is_refused_and_null_removes_one() {
        let set = |terms: &str| {
            let terms = serde_json::from_str(terms).expect("terms");
            changed(&limited(), &Change::PolicySet { name: "gold".into(), terms })
        };
        fn limited() -> Config {
            let policy = PolicyConfig {
                maximum_iops: Some(7),
                bandwidth_bytes_per_s: Some(8192),
                ..PolicyConfig::new("gold".into(), Policy::none())
            };
            Config { policies: vec![policy], ..config() }
        }
        for zero in [r#"{"maximum_iops": 0}"#, r#"{"bandwidth_bytes_per_s": 0}"#] {
            let text = set(zero).expect_err("it is refused");
            assert!(text.contains("null") && text.contains("masu host unmap"), "{zero}: {text}");
        }
        let limits = |config: Config| {
            let policy = &config.policies[0];
            (policy.maximum_iops, policy.bandwidth_bytes_per_s)
        };
        assert_eq!(set(r#"{"maximum_iops": null}"#).map(limits), Ok((None, Some(8192))));
        assert_eq!(set(r#"{"bandwidth_bytes_per_s": null}"#).map(limits), Ok((Some(7), None)));
        assert_eq!(set(r#"{"minimum_iops": 3}"#).map(limits), Ok((Some(7), Some(8192))));
        // As the command line sends it.
        let terms = Terms { maximum_iops: Some(Limit::None), ..Terms::default() };
        let sent = serde_json::to_string(&terms).expect("JSON");
        assert_eq!(set(&sent).map(limits), Ok((None, Some(8192))), "{sent}");
    }
}
