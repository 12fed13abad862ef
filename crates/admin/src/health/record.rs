//! What is known of each drive, and what of it is trouble: pure.

use std::collections::{BTreeMap, BTreeSet};

use array::Severity;
use status::{Drive, DriveHealth, Trouble};

use crate::trouble::trouble;

/// A drive that has said that it is failing says so many times that it is not before that is believed: some
/// change their minds with the temperature.
const PASSES_MIN: u32 = 3;
/// From this share of its rated endurance on a drive is to be replaced: time enough to have one.
const WORN_PERCENT: u8 = 90;
/// Below it that is over. A drive does not become younger, but one firmware may count differently.
const WORN_NO_MORE_PERCENT: u8 = 85;

/// What block devices have said, by the names of their drives.
#[derive(Debug, Default)]
pub(crate) struct Records(BTreeMap<String, Record>);

#[derive(Debug, Default)]
struct Record {
    health: Option<DriveHealth>,
    /// Why nothing was read at the last look.
    unknown: Option<String>,
    is_failing: bool,
    /// How often it has passed since.
    passes: u32,
    is_worn: bool,
}

impl Record {
    fn read(&mut self, health: DriveHealth) {
        let serial = |health: &DriveHealth| health.serial.clone();
        if self.health.as_ref().is_some_and(|before| serial(before) != serial(&health)) {
            // Another drive in its place.
            *self = Record::default();
        }
        match health.assessment.as_deref() {
            Some("failing") => (self.is_failing, self.passes) = (true, 0),
            Some(_) => {
                self.passes = self.passes.saturating_add(1);
                self.is_failing &= self.passes < PASSES_MIN;
            }
            None => {}
        }
        if let Some(percent) = health.wear_percent {
            let from = if self.is_worn { WORN_NO_MORE_PERCENT } else { WORN_PERCENT };
            self.is_worn = percent >= from;
        }
        (self.health, self.unknown) = (Some(health), None);
    }

    fn trouble(&self, drive: &Drive, all: &mut Vec<Trouble>) {
        let object = || format!("drive {}", drive.name);
        let to_do = match &drive.group {
            Some(group) => format!("replace it: masu group replace {group} {} NEW", drive.name),
            None => "replace it before a group needs it".to_owned(),
        };
        if self.is_failing {
            let text = "reports that it is failing (SMART): it may lose data or stop at any time";
            all.push(trouble(Severity::Warning, object(), "health", text, to_do.clone()));
        }
        let wear = self.health.as_ref().and_then(|health| health.wear_percent);
        if let Some(percent) = wear.filter(|_| self.is_worn) {
            let text = format!("has used {percent} % of its rated endurance");
            all.push(trouble(Severity::Warning, object(), "wear", text, to_do));
        }
    }
}

impl Records {
    /// Keeps what a look at a drive has given. True: nothing was ever read from it, and the reason is new.
    pub(super) fn put(&mut self, drive: &str, read: Result<DriveHealth, String>) -> bool {
        let record = self.0.entry(drive.to_owned()).or_default();
        match read {
            Ok(health) => {
                record.read(health);
                false
            }
            Err(cause) => {
                let is_new = record.health.is_none() && record.unknown.as_ref() != Some(&cause);
                record.unknown = Some(cause);
                is_new
            }
        }
    }

    /// Forgets all others.
    pub(super) fn keep(&mut self, drives: &BTreeSet<&str>) {
        self.0.retain(|name, _| drives.contains(name.as_str()));
    }

    /// Puts to each drive what is known of it.
    pub(crate) fn tell(&self, drives: &mut [Drive]) {
        for drive in drives {
            let Some(record) = self.0.get(&drive.name) else { continue };
            (drive.health, drive.health_unknown) = (record.health.clone(), record.unknown.clone());
        }
    }

    /// What is wrong with these drives.
    pub(crate) fn trouble(&self, drives: &[Drive]) -> Vec<Trouble> {
        let mut all = Vec::new();
        for drive in drives {
            self.0.get(&drive.name).into_iter().for_each(|record| record.trouble(drive, &mut all));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use crate::trouble::Tracker;

    use super::*;

    fn health(assessment: &str, wear_percent: u8) -> DriveHealth {
        DriveHealth {
            assessment: Some(assessment.into()),
            wear_percent: Some(wear_percent),
            serial: Some("S1".into()),
            ..DriveHealth::default()
        }
    }

    fn drive() -> Drive {
        Drive { name: "d0".into(), group: Some("g0".into()), ..Drive::default() }
    }

    /// The events of a number of looks at one drive, as they are told.
    fn events(looks: impl IntoIterator<Item = Result<DriveHealth, String>>) -> Vec<String> {
        let (mut records, mut tracker, mut events) = (Records::default(), Tracker::default(), vec![]);
        for (now_ms, look) in (0..).zip(looks) {
            records.put("d0", look);
            let mut all = records.trouble(&[drive()]);
            events.extend(tracker.track(&mut all, now_ms).iter().map(|event| format!("{now_ms} {event}")));
        }
        events
    }

    #[test]
    fn a_failing_drive_is_told_once_until_it_has_passed_three_times() {
        let looks = ["passed", "failing", "failing", "passed", "failing", "passed", "passed", "passed"];
        let told = events(looks.map(|assessment| Ok(health(assessment, 0))));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("1 drive d0: trouble: reports that it is failing"), "{told:?}");
        assert!(told[1].starts_with("7 drive d0: trouble is over"), "{told:?}");
    }

    #[test]
    fn a_worn_drive_is_told_once_at_ninety_percent() {
        let told = events([89, 90, 89, 91, 85, 84, 90].map(|percent| Ok(health("passed", percent))));
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("1 drive d0: trouble: has used 90 % of its rated endurance"), "{told:?}");
        assert!(told[1].starts_with("5 drive d0: trouble is over"), "{told:?}");
        assert!(told[2].starts_with("6 drive d0: trouble:"), "{told:?}");
    }

    #[test]
    fn a_look_that_reads_nothing_changes_nothing_and_another_drive_everything() {
        let asleep = || Err("Device is in STANDBY mode".to_owned());
        let told = events([Ok(health("failing", 95)), asleep(), asleep(), asleep(), asleep()]);
        assert_eq!(told.len(), 2, "{told:?}");
        let other = DriveHealth { serial: Some("S2".into()), ..health("passed", 1) };
        let told = events([Ok(health("failing", 95)), Ok(other)]);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[2].starts_with("1 ") && told[3].contains("is over"), "{told:?}");
    }

    #[test]
    fn drives_are_told_what_is_known_of_them_and_why_not_more() {
        let mut records = Records::default();
        let none = || Err("Permission denied".to_owned());
        assert_eq!([records.put("d0", none()), records.put("d0", none())], [true, false], "said once");
        let mut drives = [drive(), Drive { name: "d1".into(), ..Drive::default() }];
        records.tell(&mut drives);
        assert_eq!(
            (drives[0].health_unknown.as_deref(), &drives[0].health),
            (Some("Permission denied"), &None)
        );
        assert_eq!((&drives[1].health_unknown, &drives[1].health), (&None, &None));
        assert!(!records.put("d0", Ok(health("passed", 3))));
        assert!(!records.put("d0", Err("Device is in STANDBY mode".into())), "that is usual");
        records.tell(&mut drives);
        assert_eq!(drives[0].health, Some(health("passed", 3)), "the last that it said");
        assert!(drives[0].health_unknown.is_some());
        records.keep(&BTreeSet::from(["d1"]));
        let mut drives = [drive()];
        records.tell(&mut drives);
        assert_eq!(drives[0].health, None);
    }

    #[test]
    fn what_is_to_be_done_names_the_group() {
        let mut records = Records::default();
        records.put("d0", Ok(health("failing", 100)));
        let to_do = |drive| records.trouble(&[drive]).into_iter().map(|t| t.to_do).collect::<Vec<_>>();
        assert_eq!(to_do(drive()), ["replace it: masu group replace g0 d0 NEW"; 2]);
        assert_eq!(to_do(Drive { group: None, ..drive() }), ["replace it before a group needs it"; 2]);
        assert!(to_do(Drive { name: "d1".into(), ..drive() }).is_empty());
    }
}
