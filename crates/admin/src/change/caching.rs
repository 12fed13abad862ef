//! The part of a change that is about how volumes are cached.

use config::{CacheSettings, Config, PARTITION_NONE, PartitionConfig};

use crate::request::Change;

const NO_CACHE: &str = "no cache: array.toml declares one with [cache] memory = \"256MiB\"";

/// Makes the change in the declaration.
pub(super) fn change(next: &mut Config, change: &Change) -> Result<(), String> {
    let cache = next.cache.as_mut().ok_or(NO_CACHE)?;
    match change {
        Change::CachePartitionSet { name, minimum_bytes } => {
            set_partition(cache, name, *minimum_bytes);
            Ok(())
        }
        Change::CachePartitionRemove { name } => {
            let known = cache.partitions.len();
            cache.partitions.retain(|p| p.name != *name);
            if cache.partitions.len() == known {
                return Err(format!("unknown cache partition {name:?}"));
            }
            match next.volumes.iter().find(|v| v.partition.as_ref() == Some(name)) {
                None => Ok(()),
                Some(volume) => {
                    let volume = &volume.name;
                    Err(format!(
                        "cache partition {name:?}: volume {volume:?} is in it: masu volume set {volume} --partition none"
                    ))
                }
            }
        }
        Change::VolumeSet { name, cache, partition } => {
            if cache.is_none() && partition.is_none() {
                return Err(format!(
                    "volume {name:?}: nothing is to be set: give --cache, --partition or both"
                ));
            }
            let volume = next.volumes.iter_mut().find(|v| v.name == *name);
            let volume = volume.ok_or(format!("unknown volume {name:?}"))?;
            if let Some(cache) = cache {
                volume.cache = *cache;
            }
            if let Some(partition) = partition {
                volume.partition = Some(partition.clone()).filter(|p| p != PARTITION_NONE);
            }
            Ok(())
        }
        _ => Err("not a change of how volumes are cached".into()),
    }
}

fn set_partition(cache: &mut CacheSettings, name: &str, minimum_bytes: u64) {
    match cache.partitions.iter_mut().find(|p| p.name == name) {
        Some(known) => known.minimum_bytes = minimum_bytes,
        None => cache.partitions.push(PartitionConfig { name: name.into(), minimum_bytes }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::CachePolicy;

    use super::*;
    use crate::change::next;

    fn config(cache: &str) -> Config {
        let text = format!(
            "{cache}[[drive]]\nname = \"d0\"\nmemory = true\nsize = \"1GiB\"\n\
             [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n\
             [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n\
             [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"1GiB\"\n"
        );
        Config::parse(&text, "array.toml", Path::new("/data")).expect("good")
    }

    const CACHE: &str = "[cache]\nmemory = \"16MiB\"\n";

    fn changed(before: &Config, change: &Change) -> Result<Config, String> {
        next(before, change, Path::new("/data"))
    }

    fn set(name: &str, minimum_bytes: u64) -> Change {
        Change::CachePartitionSet { name: name.into(), minimum_bytes }
    }

    fn volume(cache: Option<CachePolicy>, partition: Option<&str>) -> Change {
        Change::VolumeSet { name: "v0".into(), cache, partition: partition.map(Into::into) }
    }

    fn check_refused(before: &Config, change: &Change, expected: &str) {
        let text = changed(before, change).expect_err("it is refused");
        assert!(text.contains(expected), "{text:?} does not say {expected:?}");
    }

    #[test]
    fn partitions_come_change_and_go() {
        let with = changed(&config(CACHE), &set("gold", 8 << 20)).expect("a partition");
        let more = changed(&with, &set("gold", 12 << 20)).expect("a larger one");
        assert_eq!(more.cache.as_ref().map(|c| c.partitions[0].minimum_bytes), Some(12 << 20));
        check_refused(&with, &set("silver", 5 << 20), "13631488 bytes together; the cache has 12582");
        check_refused(&with, &set("none", 0), "it is always there");
        check_refused(&with, &set("two words", 0), "invalid name");
        let used = changed(&more, &volume(None, Some("gold"))).expect("a volume in it");
        assert_eq!(used.volumes[0].partition.as_deref(), Some("gold"));
        let remove = Change::CachePartitionRemove { name: "gold".into() };
        check_refused(&used, &remove, "volume \"v0\" is in it");
        let unused = changed(&used, &volume(None, Some("none"))).expect("out of it");
        assert_eq!(unused, more);
        assert_eq!(changed(&unused, &remove).expect("removed"), config(CACHE));
        check_refused(&config(CACHE), &remove, "unknown cache partition \"gold\"");
    }

    #[test]
    fn a_volume_is_set_as_far_as_it_is_said() {
        let before = config(CACHE);
        let through = changed(&before, &volume(Some(CachePolicy::WriteThrough), None)).expect("a policy");
        assert_eq!(
            (through.volumes[0].cache, &through.volumes[0].partition),
            (CachePolicy::WriteThrough, &None)
        );
        check_refused(&before, &volume(None, Some("gold")), "no cache partition \"gold\" is declared");
        check_refused(&before, &volume(None, None), "nothing is to be set");
        check_refused(&config(""), &volume(Some(CachePolicy::Off), None), "no cache");
    }
}
