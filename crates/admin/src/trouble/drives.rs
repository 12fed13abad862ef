//! Drives outside of groups: those in a group are told with it.

use array::Severity;
use status::{Drive, Status, Trouble};

use super::told::trouble;

/// Drives in a group are told with the group.
pub(super) fn of_drive(drive: &Drive, all: &mut Vec<Trouble>) {
    let (kind, text, to_do) = match (drive.state.as_str(), &drive.fault) {
        ("spare", Some(fault)) => (
            "spare",
            format!("{fault}: it is a spare that no group can take"),
            "bring the spare of this array back, or take it out: masu drive forget NAME",
        ),
        ("replaced", _) => (
            "replaced",
            "was replaced, and has no place any more".to_owned(),
            "wait until its group has let it go, then take it out: masu drive forget NAME",
        ),
        _ => return,
    };
    all.push(trouble(Severity::Warning, format!("drive {}", drive.name), kind, text, to_do));
}

/// A drive as somebody looks for it.
pub(super) fn drive_of(name: &str, status: &Status) -> String {
    let drive = status.drives.iter().find(|drive| drive.name == name);
    drive.map_or_else(|| format!("drive {name}"), named)
}

/// The same of one that is there.
pub(super) fn named(drive: &Drive) -> String {
    let identity = drive.identity.as_ref().map_or(String::new(), |of| format!(", {of}"));
    format!("drive {} ({}{identity})", drive.name, drive.medium)
}

/// The drive with this medium.
pub(super) fn with_medium<'a>(medium: Option<&String>, status: &'a Status) -> Option<&'a Drive> {
    medium.and_then(|medium| status.drives.iter().find(|drive| drive.medium == *medium))
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn a_spare_that_no_group_can_take_is_trouble() {
        let mut config = array::Config::empty("iqn.2026-11.net.example:x");
        let spec = array::DriveSpec::Device { path: "/dev/sdx".into() };
        config.drives = vec![config::DriveConfig { name: "s0".into(), spec }];
        let mut status = crate::convert::status_of(&config, vec![], 0);
        status.drives[0].state = "spare".into();
        check(&status, "", &[]);
        status.drives[0].fault = Some("cannot be opened (no such device)".into());
        let told =
            ["drive s0: cannot be opened (no such device): it is a spare that no group can take", "forget"];
        check(&status, "warning", &told);
    }
}
