//! Caches: the SSD behind one, and the journals of pools.

use array::Severity;
use status::{Cache, Journal, Status, Trouble};

use super::drives::{drive_of, named, with_medium};
use super::told::trouble;

/// A second level that its drive has failed.
pub(super) fn of_cache(cache: &Cache, status: &Status, all: &mut Vec<Trouble>) {
    let Some(second) = cache.second.as_ref().filter(|second| second.failed) else { return };
    let object = format!("controller {}", cache.controller);
    let which = second.drive.as_deref().map_or(String::new(), |name| format!(", {}", drive_of(name, status)));
    let text = format!(
        "the SSD behind its cache{which} has refused a read or a write, and is off: reads that it held come from the drives"
    );
    all.push(trouble(Severity::Warning, object, "ssd", text, "exchange the SSD and restart the array"));
}

/// A journal whose drives refuse writes: which ones, and what they are.
pub(super) fn of_journal(journal: &Journal, status: &Status, all: &mut Vec<Trouble>) {
    let Some(cause) = &journal.failure else { return };
    let (pool, group) = (&journal.pool, &journal.group);
    let of_group = status.drives.iter().filter(|drive| drive.group.as_ref() == Some(group));
    let which: Vec<String> = match with_medium(journal.failed_medium.as_ref(), status) {
        Some(drive) => vec![named(drive)],
        None => of_group.map(named).collect(),
    };
    let text =
        format!("writes of hosts fail: its journal on group {group} fails ({cause}); {}", which.join(", "));
    let to_do = format!(
        "look at the drive, its cable and what is below it, and stop the array in order: that writes what only the \
         journal has to the pool; a journal on another drive: journal = GROUP in the table of pool {pool}"
    );
    all.push(trouble(Severity::Error, format!("pool {pool}"), "journal", text, to_do));
}

#[cfg(test)]
mod tests {
    use super::super::testing::group;
    use super::super::{sort, trouble_of};
    use status::Drive;

    #[test]
    fn drives_of_a_journal_or_a_cache_that_refuse_writes_are_trouble() {
        let mut status = group("optimal", None, 0);
        let drive = |name: &str, group: Option<&str>| Drive {
            name: name.into(),
            medium: format!("/dev/{name}"),
            identity: Some("wwid: naa.7".into()),
            group: group.map(Into::into),
            ..Drive::default()
        };
        status.drives = vec![drive("d0", Some("j")), drive("d1", Some("j")), drive("ssd", None)];
        // The path of another drive of the journal begins as that of the one that failed.
        status.drives[0].medium = "/dev/d".into();
        let json = r#"{"controller": 0, "memory_bytes": 0, "used_bytes": 0, "pending_bytes": 0, "pending_percent": 0,
            "waits": 0, "evictions": 0, "volumes": [],
            "second": {"size_bytes": 0, "used_bytes": 0, "hits": 0, "misses": 0, "written_bytes": 0, "failed": true,
                "drive": "ssd"},
            "journals": [{"pool": "p", "group": "j", "failure": "the journal failed: drive /dev/d1: medium error",
                "failed_medium": "/dev/d1",
                "records": 0, "commits": 0, "bytes": 0, "live_bytes": 0, "size_bytes": 0}]}"#;
        status.caches = vec![serde_json::from_str(json).expect("a cache")];
        let mut all = trouble_of(&status);
        sort(&mut all);
        let lines: Vec<String> =
            all.iter().map(|t| format!("{}: {} -> {}", t.object, t.text, t.to_do)).collect();
        for part in [
            "pool p: writes of hosts fail: its journal on group j",
            "drive d1 (/dev/d1, wwid: naa.7)",
            "stop",
        ] {
            assert!(lines[0].contains(part) && !lines[0].contains("drive d0"), "{part}: {lines:?}");
        }
        assert!(lines[1].contains("behind its cache, drive ssd (/dev/ssd, wwid: naa.7)"), "{lines:?}");
    }
}
