//! The facts that `masu doctor` looks at: files of /proc and /sys, limits, and what lies below the drives.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use config::Config;
use rustix::fs::{major, minor, statfs, statvfs};
use world::DriveSpec;

use super::judge::{Below, DriveFacts};

/// tmpfs and ramfs (statfs(2)).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

pub(super) fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Whether the kernel gives this process a ring as the array uses it.
pub(super) fn ring() -> Result<(), String> {
    world_real::run(world_real::Options::default(), async |_| ()).map_err(|e| e.to_string())
}

pub(super) fn drives(config: &Config) -> Vec<DriveFacts> {
    config.drives.iter().map(|drive| DriveFacts { name: drive.name.clone(), ..facts(&drive.spec) }).collect()
}

fn facts(spec: &DriveSpec) -> DriveFacts {
    let failed = |path: &Path, error: std::io::Error| DriveFacts {
        error: Some(format!("{}: {error}", path.display())),
        ..DriveFacts::default()
    };
    match spec {
        DriveSpec::File { path, create_len_bytes } => match file(path, create_len_bytes.unwrap_or(0)) {
            Ok(facts) => facts,
            Err(error) => failed(path, error),
        },
        DriveSpec::Device { path } => match fs::metadata(path) {
            Ok(found) if found.file_type().is_block_device() => {
                DriveFacts { write_cache: write_cache(found.st_rdev()), ..DriveFacts::default() }
            }
            Ok(_) => failed(path, std::io::Error::other("not a block device")),
            Err(error) => failed(path, error),
        },
        DriveSpec::Rbd(_) => DriveFacts { write_cache: Some("Ceph's".into()), ..DriveFacts::default() },
        _ => DriveFacts { is_in_memory: true, ..DriveFacts::default() },
    }
}

/// A file that may not be there yet: then its directory tells.
fn file(path: &Path, len_bytes: u64) -> std::io::Result<DriveFacts> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && len_bytes > 0 => None,
        found => Some(found?),
    };
    let place = match &found {
        Some(_) => path,
        None => path.ancestors().skip(1).find(|dir| dir.is_dir()).unwrap_or(Path::new(".")),
    };
    let (len, used) = found.map_or((len_bytes, 0), |f| (f.st_size(), f.st_blocks().saturating_mul(512)));
    let device = fs::metadata(place)?.st_dev();
    let (system, kind) = (statvfs(place)?, statfs(place)?);
    let below = Below {
        device,
        free_bytes: system.f_bavail.saturating_mul(system.f_frsize),
        growth_bytes: len.saturating_sub(used),
    };
    Ok(DriveFacts {
        write_cache: write_cache(device),
        is_in_memory: IN_MEMORY.contains(&(kind.f_type as u64)),
        below: Some(below),
        ..DriveFacts::default()
    })
}

/// What the kernel knows of the write cache of a device; of a partition, that of its disk.
fn write_cache(device: u64) -> Option<String> {
    let place = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    text(&format!("{place}/queue/write_cache")).or_else(|| text(&format!("{place}/../queue/write_cache")))
}

/// The interfaces on which an address is reached, with their MTU: all that are up for a wildcard.
pub(super) fn interfaces(listen: SocketAddr) -> Vec<(String, u32)> {
    let all = || -> Vec<String> {
        let Ok(entries) = fs::read_dir("/sys/class/net") else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let is_up = |name: &String| {
        text(&format!("/sys/class/net/{name}/operstate")).is_some_and(|state| state.trim() == "up")
    };
    let names: Vec<String> = match listen.ip() {
        ip if ip.is_loopback() => vec!["lo".into()],
        ip if ip.is_unspecified() => all().into_iter().filter(is_up).collect(),
        IpAddr::V4(ip) => {
            text("/proc/net/route").and_then(|routes| of_route(&routes, ip)).into_iter().collect()
        }
        IpAddr::V6(ip) => {
            let hex: String = ip.octets().iter().map(|byte| format!("{byte:02x}")).collect();
            let line = |text: String| text.lines().find(|l| l.starts_with(&hex)).map(ToOwned::to_owned);
            let name = |line: String| line.split_whitespace().last().map(ToOwned::to_owned);
            text("/proc/net/if_inet6").and_then(line).and_then(name).into_iter().collect()
        }
    };
    let mtu = |name: String| {
        let mtu = text(&format!("/sys/class/net/{name}/mtu"))?.trim().parse().ok()?;
        Some((name, mtu))
    };
    names.into_iter().filter_map(mtu).collect()
}

/// The interface whose directly connected network has the address: the longest mask of /proc/net/route.
fn of_route(routes: &str, ip: Ipv4Addr) -> Option<String> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let matching = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, network, gateway, _, _, _, _, mask, ..] = fields[..] else { return None };
        let (network, mask) = (number(network)?, number(mask)?);
        let is_near = number(gateway)? == 0 && mask != 0;
        (is_near && u32::from(ip) & mask == network).then(|| (mask, name.to_owned()))
    };
    routes.lines().skip(1).filter_map(matching).max_by_key(|(mask, _)| *mask).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_an_address_is_found_by_its_network() {
        let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
            eth0 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0\n\
            eth0 0000A8C0 00000000 0001 0 0 0 0000FFFF 0 0 0\n\
            eth1 0002A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";
        assert_eq!(of_route(routes, [192, 168, 2, 7].into()).as_deref(), Some("eth1"));
        assert_eq!(of_route(routes, [192, 168, 9, 7].into()).as_deref(), Some("eth0"));
        assert_eq!(of_route(routes, [10, 0, 0, 1].into()), None);
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_judged_by_its_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("no/d0.img");
        let facts = file(&path, 1 << 30).expect("facts");
        assert_eq!(facts.below.expect("a file system").growth_bytes, 1 << 30);
        assert!(file(&path, 0).is_err(), "it must be there");
    }
}
