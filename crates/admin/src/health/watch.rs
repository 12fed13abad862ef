//! Looks at the block devices of the array every few minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use array::DriveSpec;
use status::DriveHealth;
use tokio::process::Child;

use super::ask::{AskError, Smartctl};
use super::record::Records;
use crate::events::now_ms;
use crate::served::Served;

/// Temperatures change within minutes; a look takes a drive some milliseconds.
const LOOK_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// A start has other things to do at first.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// Looks until it is dropped. An array without block devices starts no process.
pub(crate) async fn watch_task(served: &Served) {
    let mut watch = Watch::default();
    tokio::time::sleep(FIRST_LOOK).await;
    loop {
        let drives = drives(served);
        if !drives.is_empty() {
            let smartctl = tokio::task::spawn_blocking(Smartctl::find).await.ok().flatten();
            watch.look(&drives, smartctl.as_ref(), &served.health).await;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The drives that are open and block devices: in the place of one that is not open may be another one.
fn drives(served: &Served) -> Vec<(String, PathBuf)> {
    let declared = served.array.known().config.drives.clone();
    let last = served.last();
    let is_open = |name: &str| {
        let known = last.iter().flat_map(|status| &status.drives).find(|drive| drive.name == name);
        known.is_some_and(|drive| drive.size_bytes > 0)
    };
    let device = |drive: config::DriveConfig| match drive.spec {
        DriveSpec::Device { path } if is_open(&drive.name) => Some((drive.name, path)),
        _ => None,
    };
    declared.into_iter().filter_map(device).collect()
}

#[derive(Default)]
struct Watch {
    /// Processes that were killed and still wait for their devices: no second one waits there.
    hung: BTreeMap<String, Box<Child>>,
    is_absence_told: bool,
}

impl Watch {
    async fn look(
        &mut self,
        drives: &[(String, PathBuf)],
        smartctl: Option<&Smartctl>,
        records: &Mutex<Records>,
    ) {
        let records = || records.lock().unwrap_or_else(PoisonError::into_inner);
        let names: BTreeSet<&str> = drives.iter().map(|(name, _)| name.as_str()).collect();
        records().keep(&names);
        // Also of drives that are gone.
        self.hung.retain(|_, process| matches!(process.try_wait(), Ok(None)));
        let Some(smartctl) = smartctl else {
            if !std::mem::replace(&mut self.is_absence_told, true) {
                tracing::info!(
                    "smartctl is not installed: health, temperature and wear of the drives are not known"
                );
            }
            names.iter().for_each(|name| _ = records().put(name, Err("smartctl is not installed".into())));
            return;
        };
        self.is_absence_told = false;
        for (name, path) in drives {
            let read = match self.hung.contains_key(name) {
                true => Err("smartctl still waits for it".to_owned()),
                false => self.read(name, smartctl, path.clone()).await,
            };
            let cause = read.as_ref().err().cloned().unwrap_or_default();
            if records().put(name, read) {
                tracing::info!("drive {name}: its health is not known: {cause}");
            }
        }
    }

    async fn read(&mut self, name: &str, smartctl: &Smartctl, path: PathBuf) -> Result<DriveHealth, String> {
        match smartctl.ask(&path).await {
            Ok(health) => Ok(DriveHealth { read_unix_ms: now_ms(), ..health }),
            Err(error) => {
                let text = error.to_string();
                if let AskError::Silent { running: Some(process), .. } = error {
                    self.hung.insert(name.to_owned(), process);
                }
                Err(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::tests::fake;
    use super::*;

    /// What is said of the drives `d0` and `d1`, which are no block devices.
    async fn said(watch: &mut Watch, smartctl: Option<&Smartctl>, records: &Mutex<Records>) -> [String; 2] {
        let drives = ["d0", "d1"].map(|name| (name.to_owned(), PathBuf::from("/dev/null")));
        watch.look(&drives, smartctl, records).await;
        let mut all =
            ["d0", "d1"].map(|name| status::Drive { name: name.into(), ..status::Drive::default() });
        records.lock().expect("the records").tell(&mut all);
        all.map(|drive| drive.health_unknown.expect("a reason"))
    }

    #[tokio::test]
    async fn a_drive_for_which_a_killed_process_still_waits_is_not_asked_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let smartctl = fake(dir.path(), "exit 1");
        let (mut watch, records) = (Watch::default(), Mutex::default());
        let absent = said(&mut watch, None, &records).await;
        assert_eq!(absent, ["smartctl is not installed"; 2]);
        let process = tokio::process::Command::new("sleep").arg("3600").kill_on_drop(true).spawn();
        watch.hung.insert("d0".into(), Box::new(process.expect("a process")));
        let waits = said(&mut watch, Some(&smartctl), &records).await;
        assert_eq!(waits, ["smartctl still waits for it", "it is not a block device"]);
        watch.hung.get_mut("d0").expect("it hangs").kill().await.expect("killed");
        let ended = said(&mut watch, Some(&smartctl), &records).await;
        assert_eq!(ended, ["it is not a block device"; 2]);
    }
}
