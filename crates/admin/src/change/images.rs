//! The part of a change that is about virtual disks in files.

use std::path::Path;

use config::{Config, ImageConfig};

use crate::request::Change;

/// Makes the change in the declaration.
pub(super) fn change(next: &mut Config, change: &Change, data_dir: &Path) -> Result<(), String> {
    match change {
        Change::ImageAdd { name, file, read_only, controller, format, parents_in } => {
            next.images.push(ImageConfig {
                controller: *controller,
                format: *format,
                parents_in: parents_in.iter().map(|directory| data_dir.join(directory)).collect(),
                ..ImageConfig::of_file(name.clone(), data_dir.join(file), *read_only)
            });
        }
        Change::ImageRemove { name } => {
            if next.image(name).is_none() {
                return Err(format!("unknown image {name:?}"));
            }
            if let Some(host) = next.hosts.iter().find(|h| h.luns.values().any(|seen| seen == name)) {
                return Err(format!("image {name:?}: host {:?} sees it: unmap it first", host.name));
            }
            next.images.retain(|i| i.name != *name);
        }
        _ => return Err("not a change of an image".into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(changes: &[Change]) -> Result<Config, String> {
        let mut config = Config::parse("", "array.toml", Path::new("/data")).expect("good");
        for change in changes {
            config = super::super::next(&config, change, Path::new("/data"))?;
        }
        Ok(config)
    }

    #[test]
    fn an_image_comes_and_goes_and_stays_while_a_host_sees_it() {
        let add = |name: &str, controller| Change::ImageAdd {
            name: name.into(),
            file: "disk.vhdx".into(),
            read_only: false,
            controller,
            format: None,
            parents_in: vec![],
        };
        let remove = Change::ImageRemove { name: "i".into() };
        let host = Change::HostSet {
            name: "h".into(),
            initiator: Some("iqn.2026-11.test:h".into()),
            chap: None,
            mutual_chap: None,
            no_chap: false,
            no_mutual_chap: false,
        };
        let map = Change::Map { host: "h".into(), volume: "i".into(), lun: None, again: false };
        let with = after(&[add("i", 0)]).expect("added");
        let spec = ImageConfig::of_file("i".into(), "/data/disk.vhdx".into(), false).spec;
        assert_eq!(with.images.iter().map(|i| &i.spec).collect::<Vec<_>>(), [&spec]);
        assert_eq!(after(&[add("i", 0), remove.clone()]).expect("removed").images, []);
        let check = |changes: &[Change], part: &str| {
            let text = after(changes).expect_err("is refused");
            assert!(text.contains(part), "{text:?} does not say {part:?}");
        };
        check(std::slice::from_ref(&remove), "unknown image");
        check(&[add("i", 7)], "unknown controller 7");
        check(&[add("i", 0), add("j", 0)], "another image's already");
        check(&[add("i", 0), host, map, remove], "unmap it first");
    }
}
