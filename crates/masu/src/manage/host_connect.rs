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
    /// Addresses of portals, as text.
    portals: Vec<String>,
    initiator: &'a str,
    has_chap: bool,
}

/// Prints what to type on the host of this name; all systems if none is given.
pub(super) fn print(status: &Status, host: &admin::Host, system: Option<System>) {
    let target = Target {
        name: &status.target,
        portals: status.ports.iter().map(|port| port.listen.to_string()).collect(),
        initiator: &host.initiator,
        has_chap: host.authentication != "none",
    };
    for (which, title, text) in [
        (System::Linux, "Linux (open-iscsi and multipath-tools)", linux(&target)),
        (System::Windows, "Windows (PowerShell as administrator)", windows(&target)),
        (System::Esxi, "ESXi (software iSCSI adapter)", esxi(&target)),
    ] {
        if system.is_none_or(|system| system == which) {
            println!("# {title}\n{text}");
        }
    }
}

fn linux(target: &Target<'_>) -> String {
    let mut text = String::new();
    if target.initiator != "*" {
        text += &format!(
            "# /etc/iscsi/initiatorname.iscsi:\nInitiatorName={}\n# then: systemctl restart iscsid\n",
            target.initiator
        );
    }
    text += &format!(
        "# /etc/iscsi/iscsid.conf, before the discovery:\n\
         node.startup = automatic\n\
         node.session.timeo.replacement_timeout = {REPLACEMENT_S}\n\
         node.conn[0].timeo.noop_out_interval = {NOOP_S}\n\
         node.conn[0].timeo.noop_out_timeout = {NOOP_S}\n\
         node.session.iscsi.DefaultTime2Wait = 0\n"
    );
    if target.has_chap {
        text += "node.session.auth.authmethod = CHAP\n\
                 node.session.auth.username = NAME\n\
                 node.session.auth.password = SECRET\n";
    }
    text += &format!(
        "# /etc/multipath.conf:\n\
         defaults {{\n  polling_interval {POLL_S}\n  max_polling_interval {POLL_S}\n  find_multipaths no\n}}\n\
         devices {{\n  device {{\n    vendor \"MASU\"\n    product \"Virtual Disk\"\n    \
         path_grouping_policy group_by_prio\n    prio alua\n    path_checker tur\n    failback immediate\n    \
         no_path_retry queue\n    fast_io_fail_tmo off\n  }}\n}}\n\
         # then:\nsystemctl enable --now iscsid multipathd\n"
    );
    for portal in &target.portals {
        text += &format!("iscsiadm -m discovery -t sendtargets -p {portal}\n");
    }
    text + &format!("iscsiadm -m node -T {} --login\nmultipath -ll\n", target.name)
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

    #[test]
    fn every_system_is_told_the_target_and_each_portal_and_no_secret() {
        let target = Target {
            name: "iqn.2026-11.net.example:array",
            portals: vec!["10.0.0.1:3260".into(), "[fd00::1]:3260".into()],
            initiator: "iqn.2026-11.net.example:host",
            has_chap: true,
        };
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
}
