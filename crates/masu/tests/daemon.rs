//! The daemon as an operator meets it: real processes, real files, QEMU's initiator as the host.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of a process run processes")]

mod running;

use std::os::unix::fs::PermissionsExt;

use running::{Running, TARGET, masu, qemu_io};

const POOL: &str = include_str!("running/pool.toml");

/// Refused with exit status 2 and one line that says all of `expected`.
fn check_refused(running: &std::process::Output, expected: &[&str]) {
    let text = String::from_utf8_lossy(&running.stderr);
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("masu: ")).collect();
    assert_eq!(running.status.code(), Some(2), "{text}");
    assert_eq!(lines.len(), 1, "one line: {text}");
    for part in expected {
        assert!(lines[0].contains(part), "{:?} does not say {part:?}", lines[0]);
    }
}

fn check_serve_refuses(toml: &str, expected: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("array.toml");
    std::fs::write(&config, toml).expect("write the declaration");
    let output = masu(dir.path(), &["serve", "--config", config.to_str().expect("utf-8")]);
    check_refused(&output, expected);
}

#[test]
fn bad_declarations_are_refused_with_cause_and_place() {
    check_serve_refuses(&POOL.replace("level", "levle"), &["array.toml:8", "unknown key `levle`"]);
    check_serve_refuses(&POOL.replace("64MiB", "1MiB"), &["group \"g0\"", "d0.img"]);
    check_serve_refuses(&POOL.replace("d0.img", "missing/dir/d0.img"), &["drive \"d0\"", "missing/dir"]);
    check_serve_refuses(&POOL.replace("[\"g0\"]", "[\"g1\"]"), &["pool \"p0\"", "\"g1\""]);
    check_serve_refuses("controllers = 0", &["controllers"]);
}

#[test]
fn why_a_start_failed_is_json_in_a_json_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("array.toml");
    std::fs::write(&config, "controllers = 0").expect("write the declaration");
    let config = config.to_str().expect("utf-8");
    let output = masu(dir.path(), &["serve", "--log-format", "json", "--config", config]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let last = lines.last().expect("a line");
    assert_eq!(last["level"], "ERROR");
    assert!(last["fields"]["message"].as_str().is_some_and(|text| text.contains("controllers")), "{text}");
}

#[test]
fn a_portal_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address").to_string();
    check_serve_refuses(&format!("{POOL}[[portal]]\nlisten = \"{addr}\"\n"), &[&addr, "in use"]);
}

#[test]
fn a_command_without_an_array_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    check_refused(&masu(dir.path(), &["volume", "list"]), &["no array answers", "masu serve"]);
}

#[test]
fn volumes_and_hosts_are_made_kept_and_survive_kill_9() {
    let mut array = Running::start(POOL);
    array.ok(&["volume", "create", "v0", "--size", "16MiB"]);
    array.ok(&["host", "set", "kvm", "*"]);
    array.ok(&["host", "map", "kvm", "v0"]);
    qemu_io(&array.url(0), &["write -P 0xab 1M 64k", "flush"]).expect("write");
    array.ok(&["snapshot", "create", "v0", "before"]);
    array.ok(&["host", "map", "kvm", "before", "--lun", "7"]);
    qemu_io(&array.url(0), &["write -P 0xcd 1M 64k", "flush"]).expect("write");
    array.kill_and_restart();
    qemu_io(&array.url(0), &["read -P 0xcd 1M 64k", "read -P 0 0 64k"]).expect("what was flushed is there");
    qemu_io(&array.url(7), &["read -P 0xab 1M 64k"]).expect("the snapshot is what it was");
    check_refused(&array.command(&["volume", "delete", "v0"]), &["v0", "--yes"]);
    let refused = array.command(&["volume", "delete", "v0", "--yes"]);
    check_refused(&refused, &["v0", "mapped to host \"kvm\""]);
    check_refused(&array.command(&["host", "unmap", "kvm", "v0"]), &["v0", "kvm", "--yes"]);
    array.ok(&["host", "unmap", "kvm", "v0", "--yes"]);
    check_refused(&array.command(&["snapshot", "delete", "v0", "--yes"]), &["v0", "not a snapshot"]);
    array.ok(&["volume", "delete", "v0", "--yes"]);
    assert!(qemu_io(&array.url(0), &["read 0 4k"]).is_err(), "an unmapped LUN is not seen");
    qemu_io(&array.url(7), &["read -P 0xab 1M 64k"]).expect("the snapshot outlives its volume");
    array.stop();
    array.restart();
    let list = array.ok(&["volume", "list", "--output", "json"]);
    assert!(list.contains("\"name\": \"before\"") && !list.contains("\"name\": \"v0\""), "{list}");
    assert!(list.contains("\"snapshot_of\": \"v0\""), "{list}");
    check_refused(&array.command(&["host", "delete", "kvm"]), &["kvm", "--yes"]);
    array.ok(&["host", "delete", "kvm", "--yes"]);
    check_refused(&array.command(&["snapshot", "delete", "before"]), &["before", "--yes"]);
    array.ok(&["snapshot", "delete", "before", "--yes"]);
}

#[test]
fn a_full_pool_refuses_what_needs_a_page_and_nothing_else() {
    let array = Running::start(&format!(
        "{POOL}[[volume]]\nname = \"big\"\npool = \"p0\"\nsize = \"1GiB\"\n\
         [[volume]]\nname = \"other\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"big\", 1 = \"other\" }}\n"
    ));
    qemu_io(&array.url(1), &["write -P 0x11 0 4M", "flush"]).expect("there is room");
    let mut refused = None;
    for mib in 0..64 {
        if let Err(text) = qemu_io(&array.url(0), &[&format!("write -P 0x22 {mib}M 1M")]) {
            refused = Some((mib, text));
            break;
        }
    }
    let (mib, text) = refused.expect("64 MiB do not hold 64 MiB and metadata");
    assert!(mib > 20, "only {mib} MiB of 64 could be used: {text}");
    qemu_io(&array.url(1), &["read -P 0x11 0 4M", "write -P 0x33 0 4M", "read -P 0x33 0 4M"])
        .expect("others go on");
    qemu_io(&array.url(0), &["read -P 0x22 0 1M", "write -P 0x44 0 1M"])
        .expect("pages that are there can be written");
    qemu_io(&array.url(0), &["discard 8M 4M", "flush", &format!("write -P 0x55 {mib}M 1M")])
        .expect("space comes back");
    let events = array.ok(&["status"]);
    assert!(events.contains("pool p0:"), "the threshold was crossed: {events}");
}

#[test]
fn a_wrong_secret_is_refused_and_a_right_one_is_not() {
    let array = Running::start(&format!(
        "{POOL}[[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[host]]\nname = \"kvm\"\ninitiator = \"*\"\nchap = {{ name = \"kvm\", secret = \"right-secret-1\" }}\n\
         luns = {{ 0 = \"v0\" }}\n"
    ));
    let url = |secret: &str| format!("iscsi://kvm%{secret}@127.0.0.1:{}/{TARGET}/0", array.port);
    qemu_io(&url("right-secret-1"), &["read 0 4k"]).expect("the right secret");
    assert!(qemu_io(&url("wrong-secret-1"), &["read 0 4k"]).is_err());
    assert!(qemu_io(&array.url(0), &["read 0 4k"]).is_err(), "no secret at all");
    for told in ["logged in", "was refused: authentication failed", "was refused: no authentication method"] {
        let of_host = |line: &str| line.contains("host kvm") && line.contains(told);
        array.wait_until(&["events"], told, |events| events.lines().any(of_host));
    }
    assert!(qemu_io(&url("wrong-secret-2"), &["read 0 4k"]).is_err());
    let status = array.ok(&["status"]);
    let trouble = ["host kvm", "refused again and again", "compare its CHAP name"];
    assert!(trouble.iter().all(|part| status.contains(part)), "{status}");
}

#[test]
fn commands_cross_to_the_controller_that_owns_the_lu() {
    let port_2 = test_ports::claim();
    let array = Running::start(&format!(
        "controllers = 2\n{POOL}[[portal]]\nlisten = \"127.0.0.1:{port_2}\"\ncontroller = 1\n\
         [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
    ));
    let other = format!("iscsi://127.0.0.1:{port_2}/{TARGET}/0");
    qemu_io(&other, &["write -P 0x77 0 1M", "flush"]).expect("write through the other controller");
    qemu_io(&array.url(0), &["read -P 0x77 0 1M", "write -P 0x78 1M 1M"]).expect("read at the owner");
    qemu_io(&other, &["read -P 0x78 1M 1M"]).expect("read through the other controller");
}

#[test]
fn the_api_is_for_its_owner_and_on_tcp_for_who_has_the_token() {
    let port = test_ports::claim();
    let api = format!("127.0.0.1:{port}");
    let array = Running::start_with(POOL, &["--api", &api, "--api-token", "sixteen-characters"]);
    let socket = std::fs::metadata(array.data().join("api.sock")).expect("the socket");
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    array.ok(&["status", "--api", &api, "--token", "sixteen-characters"]);
    let secured =
        array.command(&["status", "--api", &format!("https://{api}"), "--token", "sixteen-characters"]);
    check_refused(&secured, &["does not speak TLS", &format!("--api {api}")]);
    let refused = array.command(&["status", "--api", &api, "--token", "sixteen-charactera"]);
    check_refused(&refused, &["token"]);
    let told = "the API refused a request from 127.0.0.1: a wrong token";
    array.wait_until(&["events"], told, |events| events.contains(told));
}

#[test]
fn tokens_have_roles_and_hold_after_a_restart() {
    let api = format!("127.0.0.1:{}", test_ports::claim());
    let mut array = Running::start_with(POOL, &["--api", &api]);
    let create = |role: &str| array.ok(&["token", "create", role, "--role", role, "--expires", "1d"]);
    let [viewer, operator, admin] =
        ["viewer", "operator", "admin"].map(|role| create(role).trim().to_owned());
    let on_tcp = |array: &Running, token: &str, args: &[&str]| {
        array.command(&[args, &["--api", &api, "--token", token]].concat())
    };
    let ok = |token: &str, args: &[&str]| {
        let answer = on_tcp(&array, token, args);
        assert!(answer.status.success(), "{args:?}: {}", String::from_utf8_lossy(&answer.stderr));
    };
    let refused = |token: &str, args: &[&str], why: &str| check_refused(&on_tcp(&array, token, args), &[why]);
    ok(&viewer, &["status"]);
    let volume = ["volume", "create", "v0", "--size", "8MiB"];
    refused(&viewer, &volume, "needs the role operator");
    ok(&operator, &volume);
    let host = ["host", "create", "h0", "iqn.2026-11.net.example:h0"];
    for args in [&host[..], &["host", "map", "h0", "v0"], &["config", "export"], &["token", "list"]] {
        refused(&operator, args, "needs the role admin");
    }
    ok(&admin, &host);
    refused("masu_0123456789abcdef", &["status"], "token is missing or wrong");
    let events = array.ok(&["events"]);
    for told in ["by token \"admin\", from 127.0.0.1", "refused POST /v1/change to token \"viewer\""] {
        assert!(events.contains(told), "{told} is not in\n{events}");
    }
    array.stop();
    array.restart();
    assert!(on_tcp(&array, &viewer, &["status"]).status.success());
    array.ok(&["token", "delete", "viewer", "--yes"]);
    check_refused(&on_tcp(&array, &viewer, &["status"]), &["token is missing or wrong"]);
    assert!(!array.ok(&["token", "list", "--output", "name"]).contains("viewer"));
}

#[test]
fn beyond_loopback_the_api_speaks_tls_and_the_client_knows_its_server() {
    let port = test_ports::claim();
    let mut array = Running::start_with(POOL, &["--api", &format!("0.0.0.0:{port}")]);
    let token = array.ok(&["token", "create", "t", "--role", "viewer"]);
    let status = |array: &Running, api: &str, more: &[&str]| {
        array.command(&[&["status", "--api", api, "--token", token.trim()], more].concat())
    };
    let url = format!("https://127.0.0.1:{port}");
    check_refused(
        &status(&array, &format!("127.0.0.1:{port}"), &[]),
        &[&format!("--api https://127.0.0.1:{port}")],
    );
    let other = status(&array, &url, &["--api-fingerprint", &"ab".repeat(32)]);
    check_refused(&other, &["another certificate"]);
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    let fingerprint = said.split("SHA-256 ").nth(1).map(|rest| rest.chars().take(64).collect::<String>());
    let fingerprint = fingerprint.expect("it is said");
    let good = |array: &Running, api: &str, more: &[&str]| {
        let answer = status(array, api, more);
        assert!(answer.status.success(), "{more:?}: {}", String::from_utf8_lossy(&answer.stderr));
    };
    good(&array, &url, &["--api-fingerprint", &fingerprint]);
    let certificate = array.data().join("api.cert.pem");
    let certificate = certificate.to_str().expect("UTF-8");
    good(&array, &url, &["--api-ca", certificate]);
    good(&array, &format!("https://localhost:{port}"), &["--api-ca", certificate]);
    // A root that has not signed it.
    check_refused(&status(&array, &url, &[]), &["certificate", "--api-fingerprint"]);
    array.stop();
    array.restart();
    good(&array, &url, &["--api-fingerprint", &fingerprint]);
}

#[test]
fn a_declaration_is_applied_again_without_a_change() {
    let declared = format!("{POOL}[[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n");
    let mut array = Running::start(&declared);
    array.ok(&["volume", "create", "by-hand", "--size", "8MiB"]);
    array.stop();
    array.restart();
    let list = array.ok(&["volume", "list"]);
    assert!(list.contains("v0") && list.contains("by-hand"), "{list}");
}

#[test]
fn a_cache_and_its_journal_are_shown_counted_and_survive_kill_9() {
    let journal = "[[drive]]\nname = \"d1\"\nfile = \"d1.img\"\nsize = \"64MiB\"\n\
        [[group]]\nname = \"j0\"\nlevel = \"raid0\"\ndrives = [\"d1\"]\n";
    let pool = POOL.replace("groups = [\"g0\"]", "groups = [\"g0\"]\njournal = \"j0\"");
    let mut array = Running::start(&format!(
        "[cache]\nmemory = \"16MiB\"\n{journal}{pool}\
         [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"16MiB\"\n\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
    ));
    // The first write of a page goes below, so that it has its place: the second is a hit.
    let commands = ["write -P 0xaa 1M 64k", "write -P 0xab 1M 64k", "read -P 0xab 1M 64k", "flush"];
    qemu_io(&array.url(0), &commands).expect("write and read");
    let shown = array.ok(&["cache"]);
    for part in ["controller 0: 16 MiB of memory", "write pending", "v0", "JOURNAL OF", "p0"] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&array.ok(&["cache", "--output", "json"])).expect("JSON");
    let cache = &json["caches"][0];
    assert!(cache["volumes"][0]["write_hit_bytes"].as_u64() >= Some(64 << 10), "{cache}");
    assert!(cache["volumes"][0]["read_hit_bytes"].as_u64() >= Some(64 << 10), "{cache}");
    assert!(cache["journals"][0]["bytes"].as_u64() >= Some(64 << 10), "{cache}");
    qemu_io(&array.url(0), &["write -P 0xcd 1M 64k"]).expect("acknowledged is durable");
    array.kill_and_restart();
    qemu_io(&array.url(0), &["read -P 0xcd 1M 64k"]).expect("what was acknowledged is there");
    array.stop();
}

#[test]
fn caches_that_cannot_be_are_refused_with_cause_and_place() {
    let with = |cache: &str, journal: &str| {
        format!("{cache}{}", POOL.replace("groups = [\"g0\"]", &format!("groups = [\"g0\"]\n{journal}")))
    };
    check_serve_refuses(
        &with("[cache]\nmemory = \"1MiB\"\n", ""),
        &["array.toml:2", "cache", "8388608 bytes"],
    );
    check_serve_refuses(&with("", "journal = \"g0\""), &["pool \"p0\": journal", "pool \"p0\"'s already"]);
    check_serve_refuses(&with("", "journal = \"j9\""), &["pool \"p0\": journal", "no group \"j9\""]);
    let partitions =
        "[cache]\nmemory = \"16MiB\"\n[[cache.partition]]\nname = \"gold\"\nminimum = \"1GiB\"\n";
    check_serve_refuses(&with(partitions, ""), &["array.toml:4", "partition \"gold\"", "1073741824 bytes"]);
}

/// The one cache, of `masu cache --output json`.
fn cache_of(array: &Running) -> serde_json::Value {
    let json: serde_json::Value =
        serde_json::from_str(&array.ok(&["cache", "--output", "json"])).expect("JSON");
    json["caches"][0].clone()
}

#[test]
fn partitions_and_policies_change_online_and_are_kept() {
    let mut array = Running::start(&format!(
        "[cache]\nmemory = \"16MiB\"\n[[cache.partition]]\nname = \"gold\"\nminimum = \"2MiB\"\n{POOL}\
         [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"16MiB\"\npartition = \"gold\"\n\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\", 1 = \"v1\" }}\n\
         [[volume]]\nname = \"v1\"\npool = \"p0\"\nsize = \"16MiB\"\n"
    ));
    let done = array.ok(&["cache", "partition", "set", "silver", "--minimum", "4MiB"]);
    assert!(done.contains("cache partition silver: minimum 4194304 bytes"), "{done}");
    array.ok(&["volume", "create", "v2", "--size", "8MiB"]);
    let done = array.ok(&["volume", "set", "v2", "--cache", "write-through", "--partition", "silver"]);
    assert!(done.contains("cache write-through") && done.contains("cache partition silver"), "{done}");
    array.ok(&["host", "map", "any", "v2", "--lun", "2"]);
    for lun in 0..3 {
        qemu_io(&array.url(lun), &["write -P 0xab 1M 64k", "read -P 0xab 1M 64k"]).expect("write and read");
    }
    let shown = array.ok(&["cache"]);
    for part in ["PARTITION", "default", "gold", "silver", "4 MiB", "write-through", "write-back"] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    let refused = array.command(&["cache", "partition", "remove", "silver"]);
    check_refused(&refused, &["partition \"silver\"", "volume \"v2\" is in it"]);
    let refused = array.command(&["cache", "partition", "set", "silver", "--minimum", "11MiB"]);
    check_refused(&refused, &["partition \"silver\"", "the cache has 12582"]);
    check_refused(&array.command(&["volume", "set", "v2", "--partition", "bronze"]), &["v2", "\"bronze\""]);
    check_refused(&array.command(&["volume", "set", "v2"]), &["v2", "nothing is to be set"]);
    array.ok(&["volume", "set", "v2", "--cache", "write-through"]);
    array.kill_and_restart();
    let cache = cache_of(&array);
    let partition =
        |i: usize| (&cache["partitions"][i]["name"], cache["partitions"][i]["minimum_bytes"].as_u64());
    assert_eq!(partition(0).0, "default");
    assert_eq!((partition(1).0.as_str(), partition(1).1), (Some("gold"), Some(2 << 20)));
    assert_eq!((partition(2).0.as_str(), partition(2).1), (Some("silver"), Some(4 << 20)));
    let volume = |i: usize| [&cache["volumes"][i]["policy"], &cache["volumes"][i]["partition"]];
    assert_eq!(volume(0), ["write-back", "gold"]);
    assert_eq!(volume(1), ["write-back", "default"]);
    assert_eq!(volume(2), ["write-through", "silver"]);
    // The host is declared without it.
    array.ok(&["host", "map", "any", "v2", "--lun", "2"]);
    qemu_io(&array.url(2), &["write -P 0xcd 1M 64k", "read -P 0xcd 1M 64k"]).expect("it serves");
    assert!(cache_of(&array)["partitions"][2]["read_hit_bytes"].as_u64() >= Some(64 << 10));
    array.ok(&["volume", "set", "v2", "--partition", "none"]);
    array.ok(&["cache", "partition", "remove", "silver"]);
    assert!(!array.ok(&["cache"]).contains("silver"));
    array.stop();
}

/// What `config diff` printed, which found differences: exit status 1, as of `diff`.
fn differs(array: &Running, args: &[&str]) -> String {
    let output = array.command(args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_commands_changed_outlives_an_old_declaration_and_is_shown_as_drift() {
    let mut array = Running::start(&format!(
        "{POOL}[[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
    ));
    let none = array.ok(&["config", "diff"]);
    assert!(none.contains("no differences from the declaration"), "{none}");
    array.ok(&["volume", "grow", "v0", "--size", "16MiB"]);
    qemu_io(&array.url(0), &["write -P 0x5a 12M 64k", "flush"]).expect("write");
    // The file still says 8 MiB.
    array.kill_and_restart();
    qemu_io(&array.url(0), &["read -P 0x5a 12M 64k"]).expect("what was written is there");
    let drift = differs(&array, &["config", "diff"]);
    assert!(drift.contains("volume v0: size: 8MiB in the declaration, 16MiB now"), "{drift}");
    let export = array.ok(&["config", "export"]);
    assert!(export.contains("16777216"), "{export}");
}

#[test]
fn a_damaged_record_of_the_declaration_ends_no_service_and_says_how_to_go_on() {
    let mut array = Running::start(&format!(
        "{POOL}[[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
    ));
    qemu_io(&array.url(0), &["write -P 0x5a 0 64k", "flush"]).expect("write");
    array.ok(&["volume", "create", "by-command", "--size", "8MiB"]);
    array.stop();
    let record = array.data().join("array.declared.toml");
    std::fs::write(&record, "[[drive\n").expect("damaged");
    let file = array.data().with_file_name("array.toml");
    let text = std::fs::read_to_string(&file).expect("the declaration");
    let more = "[[volume]]\nname = \"later\"\npool = \"p0\"\nsize = \"8MiB\"\n";
    std::fs::write(&file, text + more).expect("another volume is declared");
    array.restart();
    qemu_io(&array.url(0), &["read -P 0x5a 0 64k"]).expect("it is served as it was");
    array.wait_until(&["status"], "what to do", |text| {
        ["array.declared.toml", "damaged", "move this file away"].iter().all(|part| text.contains(part))
    });
    assert_eq!(std::fs::read_to_string(&record).expect("the record"), "[[drive\n", "it is left as it was");
    let listed = array.ok(&["volume", "list"]);
    assert!(listed.contains("by-command") && !listed.contains("later"), "{listed}");
    // As the message says.
    std::fs::rename(&record, array.data().join("away")).expect("moved away");
    let pid = array.id().to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().expect("kill").success());
    array.wait_until(&["volume", "list"], "the new volume", |text| text.contains("later"));
    assert!(array.ok(&["volume", "list"]).contains("by-command"));
    array.wait_until(&["status"], "that all is well", |text| !text.contains("array.declared.toml"));
    assert!(record.exists(), "it is kept anew");
}

#[test]
fn masu_never_writes_to_the_declaration_so_comments_stay() {
    let mut array = Running::start(&format!("# Why it is so.\n{POOL}# The end.\n"));
    let file = array.data().with_file_name("array.toml");
    let shown = file.to_str().expect("utf-8").to_owned();
    let before = std::fs::read(&file).expect("the declaration");
    array.ok(&["volume", "create", "v0", "--size", "8MiB"]);
    array.ok(&["config", "import", &shown, "--yes"]);
    let diff = differs(&array, &["config", "diff", &shown]);
    assert!(diff.contains("volume v0: created by command"), "{diff}");
    assert!(array.ok(&["config", "show"]).contains("name = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n"));
    assert!(array.ok(&["config", "check", &shown]).contains("valid: 1 portal, 1 drive"));
    array.kill_and_restart();
    assert!(array.ok(&["wait"]).contains(&format!("serves at 127.0.0.1:{}", array.port)));
    array.ok(&["volume", "grow", "v0", "--size", "16MiB"]);
    array.stop();
    assert_eq!(std::fs::read(&file).expect("the declaration"), before);
}

#[test]
fn a_checked_declaration_is_refused_with_file_line_and_column() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("array.toml");
    std::fs::write(&file, POOL.replace("level", "levle")).expect("write the declaration");
    let output = masu(dir.path(), &["config", "check", file.to_str().expect("utf-8")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("array.toml:8:1: unknown key `levle`"), "{text}");
}

#[test]
fn a_drive_file_that_is_missing_is_never_made_again() {
    let mut array = Running::start(&format!(
        "{POOL}[[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
    ));
    qemu_io(&array.url(0), &["write -P 0x5a 0 64k", "flush"]).expect("write");
    array.stop();
    let (file, away) = (array.data().join("d0.img"), array.data().join("away.img"));
    std::fs::rename(&file, &away).expect("moved away");
    array.restart();
    assert!(!file.exists(), "nothing was made in its place");
    let status = array.ok(&["status"]);
    assert!(
        status.contains("g0") && status.contains("no such file") && !status.contains("No problems"),
        "{status}"
    );
    assert!(qemu_io(&array.url(0), &["read 0 64k"]).is_err(), "it is not served");
    array.stop();
    std::fs::rename(&away, &file).expect("brought back");
    array.restart();
    qemu_io(&array.url(0), &["read -P 0x5a 0 64k"]).expect("what was written is there");
}

/// A raw image that had become shorter, or was another file, was served as if it were whole: nothing in
/// such a file says what it is.
#[test]
fn the_file_of_a_raw_image_is_served_only_as_it_was() {
    let mut array = Running::start("[[host]]\nname = \"h\"\ninitiator = \"*\"\n");
    let file = array.data().join("raw.img");
    let make = |mib: u64| {
        let made = std::fs::File::create(&file).expect("a file");
        made.set_len(mib << 20).expect("sized");
    };
    let resize = |mib: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(&file).expect("a file");
        file.set_len(mib << 20).expect("sized");
    };
    make(8);
    array.ok(&["image", "create", "i0", "raw.img", "--format", "raw"]);
    array.ok(&["host", "map", "h", "i0"]);
    qemu_io(&array.url(0), &["write -P 1 0 64k", "flush"]).expect("served");
    let mut after = |change: &dyn Fn()| {
        array.stop();
        change();
        array.restart();
        (array.ok(&["status"]), qemu_io(&array.url(0), &["write -P 1 0 64k"]))
    };
    let (status, written) = after(&|| resize(4));
    assert!(
        status.contains("4194304 bytes, and had 8388608") && status.contains("delete the image"),
        "{status}"
    );
    written.expect_err("a host would take it for whole");
    let (status, written) = after(&|| resize(8));
    assert!(!status.contains("is not served"), "{status}");
    written.expect("as long as it was");
    let (status, written) = after(&|| resize(16));
    assert!(!status.contains("is not served"), "{status}");
    written.expect("it may grow");
    let (status, _) = after(&|| resize(8));
    assert!(status.contains("8388608 bytes, and had 16777216"), "{status}");
    let (status, written) = after(&|| {
        std::fs::rename(&file, file.with_extension("old")).expect("moved");
        make(16);
    });
    assert!(status.contains("not the one that was served"), "{status}");
    written.expect_err("another file");
    array.ok(&["host", "unmap", "h", "i0", "--yes"]);
    array.ok(&["image", "delete", "i0"]);
    array.ok(&["image", "create", "i0", "raw.img", "--format", "raw"]);
    array.ok(&["host", "map", "h", "i0"]);
    qemu_io(&array.url(0), &["write -P 1 0 64k"]).expect("said to be meant");
}

/// Writes went on for ever into a file that had no name any more.
#[test]
fn an_image_whose_file_is_taken_away_below_takes_no_writes_and_says_so() {
    let array = Running::start("[[host]]\nname = \"h\"\ninitiator = \"*\"\n");
    let file = array.data().join("raw.img");
    std::fs::File::create(&file).and_then(|file| file.set_len(8 << 20)).expect("a file");
    array.ok(&["image", "create", "i0", "raw.img", "--format", "raw"]);
    array.ok(&["host", "map", "h", "i0"]);
    let away = file.with_extension("away");
    std::fs::rename(&file, &away).expect("moved");
    array.wait_until(&["status"], "that it is gone", |text| text.contains("is gone: removed"));
    qemu_io(&array.url(0), &["write -P 1 0 64k"]).expect_err("it would be lost");
    std::fs::rename(&away, &file).expect("moved");
    array.wait_until(&["status"], "that it is back", |text| text.contains("No problems."));
    qemu_io(&array.url(0), &["write -P 1 0 64k"]).expect("it is back");
    std::fs::OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(4 << 20)).expect("cut");
    array.wait_until(&["events"], "that it was cut", |text| text.contains("truncated to 4194304 bytes"));
}

/// The state of a start that was refused was left behind: the next one was no first start any more.
#[test]
fn a_first_start_that_is_refused_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("array.toml");
    let port = test_ports::claim();
    let portal = format!("[[portal]]\nlisten = \"127.0.0.1:{port}\"\n");
    std::fs::write(&config, POOL.replace("64MiB", "1MiB") + &portal).expect("write the declaration");
    let data = dir.path().join("data");
    let output = masu(&data, &["serve", "--config", config.to_str().expect("utf-8")]);
    check_refused(&output, &["too small"]);
    let left =
        std::fs::read_dir(&data).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = left.filter(|name| name != "events").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A raw image of a first declaration could be the drive of another array, and a host erased its label.
#[test]
fn a_first_start_takes_no_drive_of_an_array_for_a_raw_image() {
    let array = Running::start(POOL);
    let drive = array.data().join("d0.img");
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::copy(&drive, dir.path().join("copy.img")).expect("copied");
    let image = |more: &str| {
        let (file, port) = (dir.path().join("copy.img"), test_ports::claim());
        format!(
            "[[portal]]\nlisten = \"127.0.0.1:{port}\"\n[[image]]\nname = \"i0\"\nfile = {file:?}\nformat = \
             \"raw\"\n{more}"
        )
    };
    check_serve_refuses(&image(""), &["image \"i0\"", "would destroy the label", "g0"]);
    let read = Running::start(&image("read_only = true\n"));
    assert!(read.ok(&["image", "list"]).contains("raw"));
}

/// The signal of a limit of file sizes ended the process: nothing was said, and what was begun stayed.
#[test]
fn a_drive_above_the_limit_of_file_sizes_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("array.toml"), POOL).expect("write the declaration");
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 16384; exec \"$0\" serve --data data --config array.toml"]);
    let output = limited.arg(env!("CARGO_BIN_EXE_masu")).current_dir(dir.path()).output().expect("sh runs");
    check_refused(&output, &["drive \"d0\"", "cannot allocate"]);
    assert!(!dir.path().join("data/d0.img").exists());
}
