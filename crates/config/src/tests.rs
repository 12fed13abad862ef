//! Declarations as written, refused and kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use world::DriveSpec;

use super::*;

const GOOD: &str = r#"
    [[drive]]
    name = "d0"
    memory = true
    size = "1GiB"
    [[group]]
    name = "g0"
    level = "raid0"
    drives = ["d0"]
    [[pool]]
    name = "p0"
    groups = ["g0"]
    [[volume]]
    name = "v0"
    pool = "p0"
    size = "10GiB"
    [[host]]
    name = "h"
    initiator = "iqn.2004-10.com.example:h"
    luns = { 0 = "v0" }
"#;

fn check(text: &str, expected: &str) {
    let error =
        Config::parse(text, "array.toml", Path::new("/data")).expect_err("must be refused").to_string();
    assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    assert!(!error.contains('\n'), "one line: {error:?}");
}

fn check_kept(config: &Config) {
    let kept = config.to_text();
    // Declarations are compared and merged as tables.
    let table: toml::Table = kept.parse().expect("kept");
    assert_eq!(toml::Value::try_from(config).expect("a table"), toml::Value::Table(table));
    assert_eq!(Config::parse(&kept, "kept", Path::new("/data")).as_ref().expect("kept"), config);
}

#[test]
fn a_declaration_survives_being_kept() {
    let config = Config::parse(GOOD, "array.toml", Path::new("/data")).expect("good");
    check_kept(&config);
}

/// A store that replicates goes over to other machines meanwhile. After 10 s hosts had errors for commands
/// that it carried out later.
#[test]
fn rbd_images_may_be_silent_for_longer_unless_a_time_is_declared() {
    let drives = "[[drive]]\nname = \"d\"\nfile = \"d.img\"\nsize = \"1GiB\"\n[[drive]]\nname = \"r\"\nrbd = \"vms/r\"\nrbd_user = \"masu\"\n";
    let drops = |text: &str| {
        let config = Config::parse(text, "array.toml", Path::new("/data")).expect("good");
        config.drives.iter().map(|d| config.patience_of(&d.spec.name()).drop.as_secs()).collect::<Vec<_>>()
    };
    assert_eq!(drops(drives), [10, 60]);
    assert_eq!(drops(&format!("drive_drop_ms = 10000\n{drives}")), [10, 10]);
    check(
        "drive_slow_ms = 8000",
        "drive_drop_ms: 10000 is not between twice drive_slow_ms, 16000, and 600000",
    );
}

#[test]
fn portals_that_would_listen_at_one_address_are_refused() {
    let two = |first: &str, second: &str| {
        format!(
            "target = \"iqn.2026-11.net.example:x\"\n[[portal]]\nlisten = \"{first}\"\n[[portal]]\nlisten = \"{second}\"\n"
        )
    };
    check(&two("10.0.0.1:3260", "10.0.0.1:3260"), "portal 10.0.0.1:3260: declared twice");
    let cause = "portal 10.0.0.1:3260: portal 0.0.0.0:3260 listens there, too: choose another port";
    check(&two("0.0.0.0:3260", "10.0.0.1:3260"), cause);
    check(&two("[fd00::1]:3260", "[::]:3260"), "portal [::]:3260: portal [fd00::1]:3260 listens there, too");
    for (first, second) in
        [("0.0.0.0:3260", "10.0.0.1:3261"), ("10.0.0.1:3260", "10.0.0.2:3260"), ("0.0.0.0:0", "10.0.0.1:0")]
    {
        Config::parse(&two(first, second), "array.toml", Path::new("/data")).expect("good");
    }
}

const CACHE: &str = "
    [cache]
    memory = \"16MiB\"
    [[cache.partition]]
    name = \"gold\"
    minimum = \"8MiB\"
";

#[test]
fn partitions_of_the_cache_are_declared_and_wrong_ones_named_with_their_place() {
    let good = format!("{GOOD}{CACHE}").replace("\"10GiB\"", "\"10GiB\"\npartition = \"gold\"");
    let config = Config::parse(&good, "array.toml", Path::new("/data")).expect("good");
    assert_eq!(config.cache.as_ref().map(|c| c.partitions[0].minimum_bytes), Some(8 << 20));
    assert_eq!(config.volumes[0].partition.as_deref(), Some("gold"));
    check_kept(&config);
    check(
        &good.replace("8MiB", "13MiB"),
        "array.toml:26:5: partition \"gold\": with it the minimums are 13631488",
    );
    check(&good.replace("minimum", "share"), "array.toml:27:5: unknown key `share`");
    check(
        &good.replace("partition = \"gold\"", "partition = \"silver\""),
        "array.toml:14:5: volume \"v0\": no cache partition \"silver\" is declared",
    );
    check(
        &good.replace(CACHE, ""),
        "array.toml:14:5: volume \"v0\": no cache partition \"gold\" is declared",
    );
    let twice = "[[cache.partition]]\nname = \"gold\"\nminimum = 0\n";
    check(&format!("{good}{twice}"), "array.toml:26:5: partition \"gold\": declared twice");
    check(
        &good.replace("16MiB", "16MiB\"\nssds = [\"d0\"]\n#\""),
        "array.toml:24:5: cache: ssds: drive \"d0\" is in group",
    );
    let direct = |size: &str| good.replace("16MiB", &format!("16MiB\"\ndirect = \"{size}"));
    let config = Config::parse(&direct("1MiB"), "array.toml", Path::new("/data")).expect("good");
    assert_eq!(config.cache.as_ref().map(|c| c.direct_bytes), Some(1 << 20));
    check_kept(&config);
    check(&direct("2MiB"), "direct is 2097152 bytes, and must be 4096 at least and 1572864 at most");
    check(&direct("2KiB"), "direct is 2048 bytes");
}

#[test]
fn policies_are_declared_and_wrong_ones_named_with_their_place() {
    let policy = "[[policy]]\nname = \"gold\"\nminimum = 3000\nmaximum = 5000\nbandwidth = \"40MiB\"\n\
                  weight = 200\nsharing = \"aggregated\"\n[qos]\nunit = \"4KiB\"\n";
    let good = format!("{GOOD}{policy}").replace("\"10GiB\"", "\"10GiB\"\npolicy = \"gold\"");
    let config = Config::parse(&good, "array.toml", Path::new("/data")).expect("good");
    let gold = config.policy("gold").expect("declared");
    assert_eq!((gold.minimum_iops, gold.bandwidth_bytes_per_s), (3000, Some(40 << 20)));
    assert_eq!((config.volumes[0].policy.as_deref(), config.qos.unit_bytes), (Some("gold"), 4096));
    check_kept(&config);
    check(
        &good.replace("3000", "6000"),
        "array.toml:23:1: policy \"gold\": minimum 6000 exceeds maximum 5000",
    );
    check(
        &good.replace("weight = 200", "weight = 0"),
        "policy \"gold\": invalid weight 0: must be 1 to 10000",
    );
    check(&good.replace("minimum = 3000", "minimun = 3000"), "unknown key `minimun`");
    check(&good.replace("\"4KiB\"", "1"), "qos: unit: between 512 and 1048576 bytes");
    let floor =
        |percent: &str| good.replace("unit = \"4KiB\"", &format!("unit = \"4KiB\"\nfloor = {percent}"));
    let config = Config::parse(&floor("5"), "array.toml", Path::new("/data")).expect("good");
    assert_eq!(config.qos.floor_percent, 5);
    check_kept(&config);
    check(&floor("51"), "qos: floor: between 0 and 50 percent");
}

#[test]
fn images_are_declared_and_wrong_ones_named_with_their_place() {
    let images = "[[image]]\nname = \"i0\"\nfile = \"disk.vhdx\"\npolicy = \"gold\"\n\
                  [[image]]\nname = \"i1\"\nfile = \"/srv/other.vhd\"\nread_only = true\n";
    let good = format!("{GOOD}{images}").replace("0 = \"v0\"", "0 = \"v0\", 1 = \"i0\"");
    let config = Config::parse(&good, "array.toml", Path::new("/data")).expect("good");
    let files: Vec<_> = config.images.iter().map(|i| (i.file(), i.read_only)).collect();
    assert_eq!(files, [(PathBuf::from("/data/disk.vhdx"), false), (PathBuf::from("/srv/other.vhd"), true)]);
    assert_eq!(config.images.iter().map(|i| i.policy.as_deref()).collect::<Vec<_>>(), [Some("gold"), None]);
    check_kept(&config);
    check(&good.replace("i1", "i0"), "array.toml:22:1: image \"i0\": declared twice");
    check(&good.replace("i1", "v0"), "array.toml:26:1: image \"v0\": declared twice");
    let other = "file = \"disk.vhdx\"\nread_only = false\ncontroller = 3";
    check(
        &good.replacen("file = \"disk.vhdx\"", other, 1),
        "array.toml:22:1: image \"i0\": unknown controller 3",
    );
    check(&good.replace("/srv/other.vhd", "/data/disk.vhdx"), "array.toml:26:1: image \"i1\": its file is");
    check(&good.replace("read_only", "readonly"), "unknown key `readonly`");
}

#[test]
fn what_nobody_chose_suits_the_rest() {
    let parse = |text: &str| Config::parse(text, "array.toml", Path::new("/data")).expect("good");
    let config = parse(&GOOD.replace("name = \"p0\"", "name = \"p0\"\nsoft_threshold_percent = 97"));
    assert_eq!(
        (config.pools[0].soft_threshold_percent, config.pools[0].critical_threshold_percent),
        (97, 97)
    );
    let group = &parse(GOOD).groups[0];
    assert_eq!((group.stripe_unit_bytes, group.foreground_share_percent), (64 << 10, 70));
    assert!(!group.start_degraded);
}

#[test]
fn a_raid_level_is_a_name_or_a_number() {
    let level = |text: &str| {
        let good = GOOD.replace("\"raid0\"", text);
        Config::parse(&good, "array.toml", Path::new("/data")).map(|config| config.groups[0].level)
    };
    for text in ["\"raid0\"", "\"RAID0\"", "\"0\"", "0"] {
        assert_eq!(level(text).expect("known"), Level::Raid0, "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    check(&GOOD.replace("size = \"10GiB\"", "syze = \"10GiB\""), "array.toml:16:5: unknown key `syze`");
    check(&GOOD.replace("\"10GiB\"", "\"10 parsecs\""), "array.toml:16:12: ");
    check(
        &GOOD.replace("\"10GiB\"", "-1"),
        "array.toml:16:12: not a size: write a number of bytes from 0 on",
    );
    check(
        &format!("{GOOD}\n[[drive]]\nname = \"m0\"\nmemory = true\nsize = \"1PiB\"\n"),
        "drive \"m0\": size: 1125899906842624 bytes in memory: must be whole blocks of 512 bytes, and 64 TiB at most",
    );
    check(
        &GOOD.replace("name = \"p0\"", "name = \"p0\"\npage = \"3KiB\""),
        "pool \"p0\": page: 3072 bytes is not a power of two",
    );
    check(
        &GOOD.replace("level = \"raid0\"", "level = \"raid0\"\nstripe_unit = \"7KiB\""),
        "group \"g0\": stripe_unit: 7168 bytes is not a power of two",
    );
    check(
        &GOOD.replace("groups = [\"g0\"]", "groups = [\"g9\"]"),
        "array.toml:11:5: pool \"p0\": no group \"g9\" is declared",
    );
    check(&GOOD.replace("0 = \"v0\"", "0 = \"v7\""), "host \"h\": LUN 0: no volume or image \"v7\"");
    check(&GOOD.replace("0 = \"v0\"", "zero = \"v0\""), "invalid LUN");
    check(&GOOD.replace("\"raid0\"", "4"), "array.toml:8:13: unknown RAID level \"4\": must be raid0");
    check(&GOOD.replace("\"raid0\"", "[]"), "array.toml:8:13: a RAID level: must be raid0");
    check(&GOOD.replace("raid0", "raid4"), "array.toml:8:13: unknown RAID level \"raid4\"");
    check(
        &GOOD.replace("raid0", "raid5"),
        "array.toml:7:5: group \"g0\": drives: RAID5 needs at least 3 drives",
    );
    check(
        &GOOD.replace("drives = [\"d0\"]", "drives = [\"d0\"]\nforeground_share = 100"),
        "between 1 and 99",
    );
    check(&format!("controllers = 1\nspares = [\"s0\"]\n{GOOD}"), "array.toml:2:1: spare \"s0\": no drive");
    let low = "name = \"p0\"\nsoft_threshold_percent = 90\ncritical_threshold_percent = 85";
    check(&GOOD.replace("name = \"p0\"", low), "critical_threshold_percent");
    check(&format!("{GOOD}chap = {{ name = \"n\", secret = \"short\" }}"), "12 to 255 bytes");
}

#[test]
fn a_drive_may_be_an_image_of_a_ceph_cluster() {
    let with = |keys: &str| GOOD.replacen("memory = true", keys, 1);
    let text = with("rbd = \"vms/d0\"\nrbd_user = \"masu\"\nrbd_conf = \"b.conf\"");
    let config = Config::parse(&text, "array.toml", Path::new("/data")).expect("good");
    assert_eq!(config.drives[0].spec.name(), "rbd:vms/d0:id=masu:conf=/data/b.conf");
    check_kept(&config);
    check(
        &with("rbd = \"vms\""),
        "array.toml:3:5: drive \"d0\": invalid RBD image \"vms\": must be POOL/IMAGE",
    );
    check(&with("memory = true\nrbd_user = \"masu\""), "rbd_user and rbd_conf need rbd = \"POOL/IMAGE\"");
}

#[test]
fn what_the_reader_itself_refuses_has_the_place_of_its_object() {
    check(&GOOD.replace("size = \"1GiB\"", ""), "array.toml:3:5: drive \"d0\": a memory drive needs a size");
    let both = "name = \"d0\"\nfile = \"d0.img\"";
    check(
        &GOOD.replace("name = \"d0\"", both),
        "array.toml:3:5: drive \"d0\": needs exactly one of file, device, rbd and memory = true",
    );
    check(&GOOD.replace("0 = \"v0\"", "zero = \"v0\""), "array.toml:20:12: luns: invalid LUN \"zero\"");
    check(&format!("id = \"12\"\n{GOOD}"), "array.toml:1:1: id: 32 hexadecimal digits are needed");
    let number = "array.toml:1:15: invalid type: string \"two\": must be a whole number";
    check("controllers = \"two\"", number);
    // At the begin of a line, too.
    check("controllers = 1\n[[drive]]\nmemory = true\n", "array.toml:2:1: missing key `name`");
    check(&format!("{GOOD}[made]\npools = []\n"), "array.toml:22:1: made: masu keeps this table by itself");
}

#[test]
fn a_state_is_kept_and_read_with_what_was_made_and_its_lines() {
    let config = Config::parse(GOOD, "array.toml", Path::new("/data")).expect("good");
    let config = Config { id: ArrayId([0xa5; 16]), ..config };
    let group = MadeGroup { id: Some(GroupId([0x5a; 16])), ready: true };
    let path = "/data/d1.img".into();
    let drive = DriveConfig { name: "d1".into(), spec: DriveSpec::File { path, create_len_bytes: None } };
    let drives: BTreeMap<String, DriveConfig> = [("d1".to_owned(), drive)].into();
    let deleted = DeletedGroup { id: Some(GroupId([0x1a; 16])), drives: drives.clone() };
    let made = Made {
        groups: [("g0".to_owned(), group)].into(),
        volumes: ["v0".to_owned()].into(),
        discarded: [("v1".to_owned(), "p0".to_owned())].into(),
        deleted_pools: ["p1".to_owned()].into(),
        deleted_groups: [("g 1".to_owned(), deleted)].into(),
        exported_pools: ["p2".to_owned()].into(),
        importing: [("/data/d1.img".to_owned(), ImportedDrives { drives })].into(),
        ..Made::default()
    };
    let text = config.to_state_text(&made, Path::new("/elsewhere"));
    let read = |text: &str| Config::parse_state(text, "state", Path::new("/data"));
    assert_eq!(read(&text).expect("kept"), (config.clone(), Some(made.clone())));
    assert!(text.contains(&"5a".repeat(16)) && text.contains(&"a5".repeat(16)), "{text}");
    // Older versions wrote which journals were made.
    let older = text.replace("[made]\n", "[made]\njournals = [\"j\"]\n");
    assert_eq!(read(&older).expect("kept"), (config.clone(), Some(made)));
    assert_eq!(read(&config.to_text()).expect("kept"), (config.clone(), None));
    // A data directory that was moved has its own files.
    let below = config.to_state_text(&Made::default(), Path::new("/data"));
    let (moved, _) = Config::parse_state(&below, "state", Path::new("/moved")).expect("kept");
    assert_eq!(
        moved,
        Config { id: moved.id, ..Config::parse(GOOD, "a", Path::new("/moved")).expect("good") }
    );
    let line = text.lines().position(|line| line.starts_with("provisioning")).expect("a volume") + 1;
    let error =
        read(&text.replace("provisioning = \"thin\"", "provisioning = \"thinn\"")).expect_err("refused");
    assert!(error.to_string().starts_with(&format!("state:{line}:16: unknown value `thinn`")), "{error}");
}

fn read_traces(text: &str) -> Result<Config, String> {
    Config::parse(text, "array.toml", Path::new("/data")).map_err(|e| e.to_string())
}

#[test]
fn an_endpoint_is_a_host_with_or_without_port_and_path() {
    for (endpoint, address) in [
        ("http://127.0.0.1:4318", (false, "127.0.0.1:4318", "/v1/traces")),
        ("http://collector/", (false, "collector:80", "/v1/traces")),
        ("http://[::1]:4318/otlp/", (false, "[::1]:4318", "/otlp/v1/traces")),
        ("http://[::1]", (false, "[::1]:80", "/v1/traces")),
    ] {
        let config = read_traces(&format!("[traces]\nendpoint = \"{endpoint}\"\n")).expect(endpoint);
        let found = config.traces.expect("declared").address().expect(endpoint);
        assert_eq!((found.0, found.1.as_str(), found.2.as_str()), address);
    }
    for endpoint in ["127.0.0.1:4318", "ftp://a", "http://", "http://a:b", "http://a b", "http://a/?x"] {
        let error = read_traces(&format!("[traces]\nendpoint = \"{endpoint}\"\n")).expect_err(endpoint);
        assert!(error.starts_with("array.toml:2:1: traces: invalid endpoint"), "{error}");
    }
}

#[test]
fn a_share_is_read_and_written_as_a_fraction() {
    let text = "[traces]\nendpoint = \"http://a\"\nshare = 0.25\nheaders_file = \"h\"\n";
    let config = read_traces(text).expect("good");
    let traces = config.traces.as_ref().expect("declared");
    assert_eq!((traces.share_millionths, traces.per_second), (250_000, 100));
    assert_eq!(traces.headers_file.as_deref(), Some(Path::new("/data/h")));
    assert_eq!(read_traces(&config.to_text()), Ok(config));
    for share in ["0", "0.0", "1.5", "-1", "nan", "1e-9"] {
        let text = format!("[traces]\nendpoint = \"http://a\"\nshare = {share}\n");
        assert!(read_traces(&text).is_err(), "{share}");
    }
    assert!(read_traces("[traces]\nendpoint = \"https://a\"\n").expect_err("no ca").contains("needs ca"));
    assert!(read_traces("[traces]\nendpoint = \"http://a\"\nper_second = 0\n").is_err());
}

/// Unlike objects, it is off again when the file does not name it any more.
#[test]
fn a_table_that_is_gone_is_off() {
    let with = read_traces("[traces]\nendpoint = \"http://a\"\n").expect("good");
    assert_eq!(with.overlaid_with(read_traces("").expect("good")).traces, None);
}

/// Reading a pipe that nobody writes to had no end.
#[test]
fn a_pipe_is_no_declaration() {
    let pipe = std::env::temp_dir().join(format!("masu-declaration-{}", std::process::id()));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let refused = Config::read(&pipe, Path::new("/data")).expect_err("a pipe").to_string();
    std::fs::remove_file(&pipe).expect("removed");
    assert!(refused.ends_with("it is a pipe: name a file"), "{refused}");
}

/// `volume create` of a name that there is said "declared twice", as if somebody had written a file.
#[test]
fn a_name_that_a_command_gives_again_exists_already() {
    let text = "[[drive]]\nname = \"d\"\nfile = \"d.img\"\nsize = \"1GiB\"\n\
        [[group]]\nname = \"g\"\nlevel = \"raid0\"\ndrives = [\"d\"]\n\
        [[pool]]\nname = \"p\"\ngroups = [\"g\"]\n\
        [[volume]]\nname = \"v\"\npool = \"p\"\nsize = \"8MiB\"\n\
        [[host]]\nname = \"h\"\ninitiator = \"*\"\n";
    let config = Config::parse(text, "array.toml", Path::new("/data")).expect("good");
    let refused = |change: fn(&mut Config)| {
        let mut next = config.clone();
        change(&mut next);
        config.check_next(&next).map_err(|error| error.to_string())
    };
    let again = |kind: &str, name: &str| Err(format!("{kind} {name:?}: exists already; choose another name"));
    assert_eq!(refused(|c| c.volumes.push(c.volumes[0].clone())), again("volume", "v"));
    assert_eq!(refused(|c| c.hosts.push(c.hosts[0].clone())), again("host", "h"));
    assert_eq!(refused(|c| c.groups.push(c.groups[0].clone())), again("group", "g"));
    assert_eq!(refused(|c| c.pools.push(c.pools[0].clone())), again("pool", "p"));
    assert_eq!(refused(|c| c.drives.push(c.drives[0].clone())), again("drive", "d"));
    assert_eq!(refused(|_| {}), Ok(()));
    let named = |name: &str| {
        let mut next = config.clone();
        next.volumes.push(VolumeConfig { name: name.into(), ..next.volumes[0].clone() });
        next.volumes.push(next.volumes[1].clone());
        config.check_next(&next).expect_err("twice").to_string()
    };
    assert_eq!(named("new"), "volume \"new\": declared twice", "what the change itself has twice");
}
