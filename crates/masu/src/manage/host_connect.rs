//! `masu host connect`: what to type on a host, so that it finds the array and rides out a take-over.

use admin::Status;
use clap::ValueEnum;

/// The values that `judges/cluster_guest.sh` measures: docs/cluster.md.
const REPLACEMENT_S: u32 = 3;
const NOOP_S: u32 = 3;
const POLL_S: u32 = 1;

/// The operating system of a host.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    Linux,
    Windows,
    Esxi,
}

/// The array as a host connects to it.
struct Target<'a> {
    name: &'a str,
    /// Addresses and ports, as text. A wildcard is [`ADDRESS`].
    portals: Vec<String>,
    initiator: &'a str,
    has_chap: bool,
    has_paths: bool,
    luns: Vec<Lun<'a>>,
}

/// A LU as a host finds it.
struct Lun<'a> {
    number: u16,
    name: &'a str,
    /// NAA identifier, 32 hexadecimal digits.
    naa: &'a str,
}

/// Stands for the address of a portal that listens at all of them.
const ADDRESS: &str = "ADDRESS";

/// Prints what to type on the host; for all systems if none is given. `has_nodes`: other nodes have portals,
/// too.
pub(super) fn print(status: &Status, host: &admin::Host, system: Option<System>, has_nodes: bool) {
    let target = Target {
        name: &status.target,
        portals: status.ports.iter().map(|port| portal(port.listen)).collect(),
        initiator: &host.initiator,
        has_chap: host.authentication != "none",
        has_paths: has_nodes || status.ports.len() > 1,
        luns: host.luns.iter().map(|lun| found(status, lun)).collect(),
    };
    for advice in advice(&target, status) {
        println!("# {advice}");
    }
    for (which, title, text) in [
        (System::Linux, "Linux (open-iscsi)", linux(&target)),
        (System::Windows, "Windows (PowerShell as administrator)", windows(&target)),
        (System::Esxi, "ESXi (software iSCSI adapter)", esxi(&target)),
    ] {
        if system.is_none_or(|system| system == which) {
            println!("# {title}\n{text}");
        }
    }
}

/// How the host finds what is mapped to it.
fn found<'a>(status: &'a Status, lun: &'a admin::HostLun) -> Lun<'a> {
    let name = lun.volume.as_str();
    let volume = status.volumes.iter().find(|volume| volume.name == name).map(|volume| &volume.naa);
    let image = || status.images.iter().find(|image| image.name == name).map(|image| &image.naa);
    Lun { number: lun.lun, name, naa: volume.or_else(image).map_or("", String::as_str) }
}

fn portal(listen: std::net::SocketAddr) -> String {
    if listen.ip().is_unspecified() { format!("{ADDRESS}:{}", listen.port()) } else { listen.to_string() }
}

/// What stands between the host and the array, whatever is typed.
fn advice(target: &Target<'_>, status: &Status) -> Vec<String> {
    let mut advice = Vec::new();
    if target.portals.iter().any(|portal| portal.starts_with(ADDRESS)) {
        advice.push(format!("{ADDRESS} below is an address of this array that the host reaches."));
    }
    if status.ports.iter().all(|port| port.listen.ip().is_loopback()) {
        advice.push("The array listens for this machine only. For other hosts, declare a [[portal]], or pass --listen.".into());
    }
    if target.luns.is_empty() {
        advice.push("Nothing is mapped to this host yet: masu host map HOST VOLUME".into());
    }
    advice
}

/// Commands that a shell of the host executes as they are, as root.
fn linux(target: &Target<'_>) -> String {
    let mut text = String::new();
    if target.initiator != "*" {
        text += &format!("echo InitiatorName={} > /etc/iscsi/initiatorname.iscsi\n", target.initiator);
    }
    text += &linux_settings(target);
    if target.has_paths {
        text += &multipath_settings();
    }
    text += "systemctl restart iscsid\n";
    if target.has_paths {
        text += "systemctl restart multipathd\n";
    }
    for portal in &target.portals {
        text += &format!("iscsiadm -m discovery -t sendtargets -p {portal}\n");
    }
    text += &format!("iscsiadm -m node -T {} --login\n", target.name);
    if target.has_paths {
        text += "multipath -ll\n";
    }
    for lun in &target.luns {
        // udev's name for a designator of type NAA, and the one of multipathd.
        let device = if target.has_paths { "/dev/mapper/3" } else { "/dev/disk/by-id/scsi-3" };
        text += &format!("# LUN {}, {}: {device}{}\n", lun.number, lun.name, lun.naa);
    }
    text
}

/// Settings of open-iscsi, before the discovery. With one path there is none to move to: open-iscsi's own
/// timeouts let I/O wait for two minutes.
fn linux_settings(target: &Target<'_>) -> String {
    let mut text = "cat >> /etc/iscsi/iscsid.conf <<'END'\n\
                    node.startup = automatic\n\
                    node.session.iscsi.DefaultTime2Wait = 0\n"
        .to_owned();
    if target.has_paths {
        text += &format!(
            "node.session.timeo.replacement_timeout = {REPLACEMENT_S}\n\
             node.conn[0].timeo.noop_out_interval = {NOOP_S}\n\
             node.conn[0].timeo.noop_out_timeout = {NOOP_S}\n"
        );
    }
    if target.has_chap {
        text += "node.session.auth.authmethod = CHAP\n\
                 node.session.auth.username = NAME\n\
                 node.session.auth.password = SECRET\n";
    }
    text + "END\n"
}

fn multipath_settings() -> String {
    format!(
        "cat >> /etc/multipath.conf <<'END'\n\
         defaults {{\n  polling_interval {POLL_S}\n  max_polling_interval {POLL_S}\n  find_multipaths no\n}}\n\
         devices {{\n  device {{\n    vendor \"MASU\"\n    product \"Virtual Disk\"\n    \
         path_grouping_policy group_by_prio\n    prio alua\n    path_checker tur\n    failback immediate\n    \
         no_path_retry queue\n    fast_io_fail_tmo off\n  }}\n}}\nEND\n"
    )
}

fn windows(target: &Target<'_>) -> String {
    let mut text = String::new();
    if target.initiator != "*" {
        text += &format!("iscsicli NodeName {}\n", target.initiator);
    }
    text += "Install-WindowsFeature Multipath-IO   # once, then restart\n\
             New-MSDSMSupportedHW -VendorId \"MASU\" -ProductId \"Virtual Disk\"\n\
             Enable-MSDSMAutomaticClaim -BusType iSCSI\n\
             Set-MPIOSetting -NewPathVerificationState Enabled -NewPDORemovePeriod 60 -NewRetryCount 20 \
             -NewRetryInterval 1 -CustomPathRecovery Enabled -NewPathRecoveryInterval 2\n\
             Set-Service MSiSCSI -StartupType Automatic; Start-Service MSiSCSI\n";
    for portal in &target.portals {
        let (address, port) = portal.rsplit_once(':').unwrap_or((portal, "3260"));
        let address = address.trim_matches(['[', ']']);
        text +=
            &format!("New-IscsiTargetPortal -TargetPortalAddress {address} -TargetPortalPortNumber {port}\n");
    }
    let chap = if target.has_chap {
        " -AuthenticationType ONEWAYCHAP -ChapUsername NAME -ChapSecret SECRET"
    } else {
        ""
    };
    text += "# once for each portal that Get-IscsiTargetPortal names:\n";
    text + &format!(
        "Connect-IscsiTarget -NodeAddress {} -TargetPortalAddress ADDRESS -IsMultipathEnabled $true \
         -IsPersistent $true{chap}\n",
        target.name
    )
}

fn esxi(target: &Target<'_>) -> String {
    let mut text = "esxcli iscsi software set --enabled=true\n\
                    # the name of the adapter, for example vmhba64: esxcli iscsi adapter list\n"
        .to_owned();
    if target.initiator != "*" {
        text += &format!("esxcli iscsi adapter set --adapter=vmhba64 --name={}\n", target.initiator);
    }
    if target.has_chap {
        text += "esxcli iscsi adapter auth chap set --adapter=vmhba64 --direction=uni --level=required \
                 --authname=NAME --secret=SECRET\n";
    }
    for portal in &target.portals {
        text +=
            &format!("esxcli iscsi adapter discovery sendtarget add --adapter=vmhba64 --address={portal}\n");
    }
    text + "esxcli storage nmp satp rule add --satp=VMW_SATP_ALUA --psp=VMW_PSP_RR --vendor=MASU \
            --model=\"Virtual Disk\"\n\
            esxcli storage core adapter rescan --adapter=vmhba64\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "iqn.2026-11.net.example:array";
    const NAA: &str = "600a0b80000000010000000000000001";

    fn target(portals: &[&str]) -> Target<'static> {
        Target {
            name: TARGET,
            portals: portals.iter().map(|portal| (*portal).to_owned()).collect(),
            initiator: "iqn.2026-11.net.example:host",
            has_chap: true,
            has_paths: portals.len() > 1,
            luns: vec![Lun { number: 3, name: "db0", naa: NAA }],
        }
    }

    #[test]
    fn every_system_is_told_the_target_and_each_portal_and_no_secret() {
        let target = target(&["10.0.0.1:3260", "[fd00::1]:3260"]);
        let texts = [linux(&target), windows(&target), esxi(&target)];
        for text in &texts {
            assert!(text.contains("10.0.0.1") && text.contains("fd00::1") && text.contains(target.initiator));
            assert!(text.contains("SECRET"), "{text}");
        }
        assert!(texts[1].contains("-TargetPortalAddress fd00::1 -TargetPortalPortNumber 3260"));
        let any = Target { initiator: "*", has_chap: false, ..target };
        for text in [linux(&any), windows(&any), esxi(&any)] {
            assert!(!text.contains('*') && !text.contains("SECRET"), "{text}");
        }
    }

    #[test]
    fn one_path_has_no_multipath_and_waits_as_long_as_open_iscsi_does() {
        let one = linux(&target(&["10.0.0.1:3260"]));
        assert!(!one.contains("multipath") && !one.contains("replacement_timeout"), "{one}");
        assert!(one.contains(&format!("LUN 3, db0: /dev/disk/by-id/scsi-3{NAA}\n")), "{one}");
        let two = linux(&target(&["10.0.0.1:3260", "10.0.1.1:3260"]));
        assert!(two.contains("restart multipathd") && two.contains("replacement_timeout = 3"), "{two}");
        assert!(two.contains(&format!("LUN 3, db0: /dev/mapper/3{NAA}\n")), "{two}");
    }

    #[test]
    fn a_portal_that_listens_at_all_addresses_is_not_named_by_the_wildcard() {
        for wildcard in ["0.0.0.0:3261", "[::]:3261"] {
            assert_eq!(portal(wildcard.parse().expect("an address")), "ADDRESS:3261");
        }
        assert_eq!(portal("[fd00::1]:3260".parse().expect("an address")), "[fd00::1]:3260");
    }
}
