//! Policies as an operator meets them: made, attached, changed while a host writes, kept over a sudden end,
//! refused with a reason.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of a process run processes")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod running;

use running::{Running, qemu_io};

const POOL: &str = include_str!("running/pool.toml");

/// Two volumes, of which the first has this policy.
fn array(policy: &str) -> String {
    format!(
        "{POOL}
[[policy]]
name = \"silver\"
minimum = 100
[[volume]]
name = \"v0\"
pool = \"p0\"
size = \"16MiB\"
policy = \"{policy}\"
[[volume]]
name = \"v1\"
pool = \"p0\"
size = \"16MiB\"
[[host]]
name = \"any\"
initiator = \"*\"
luns = {{ 0 = \"v0\", 1 = \"v1\" }}
"
    )
}

/// The line of a table that begins with this name.
fn line<'a>(table: &'a str, name: &str) -> &'a str {
    let found = table.lines().find(|l| l.split_whitespace().next() == Some(name));
    found.unwrap_or_else(|| panic!("no line of {name} in:\n{table}"))
}

#[test]
fn policies_are_made_attached_changed_and_deleted_while_hosts_write() {
    let mut array = Running::start(&array("silver"));
    let write = |array: &Running, lun: u16| {
        let script = ["write -P 0x5a 1M 512k", "write -P 0x5b 2M 64k", "read -P 0x5a 1M 512k", "flush"];
        qemu_io(&array.url(lun), &script).expect("hosts go on");
    };
    write(&array, 0);
    array.ok(&[
        "policy",
        "create",
        "gold",
        "--minimum",
        "5000",
        "--maximum",
        "100000",
        "--bandwidth",
        "1GiB",
    ]);
    array.ok(&["policy", "attach", "gold", "v0", "v1"]);
    write(&array, 0);
    write(&array, 1);
    let list = array.ok(&["policy", "list"]);
    assert!(line(&list, "gold").contains("5000") && line(&list, "gold").ends_with("v0 v1"), "{list}");
    let shown = array.ok(&["policy", "show", "gold"]);
    assert!(
        shown.contains("pool p0: minimums 11280 IOPS in total"),
        "5000 for each and 1280 for the background: {shown}"
    );
    let served = |name: &str| shown.lines().any(|l| l.starts_with(name) && l.contains("  ok  "));
    assert!(served("v0") && served("v1"), "{shown}");
    array.ok(&["policy", "set", "gold", "--minimum", "300", "--maximum", "none", "--weight", "50"]);
    array.ok(&["policy", "set", "gold", "--sharing", "aggregated"]);
    array.ok(&["policy", "detach", "v0"]);
    array.kill_and_restart();
    write(&array, 1);
    let list = array.ok(&["policy", "list"]);
    let gold: Vec<&str> = line(&list, "gold").split_whitespace().collect();
    // v1 keeps what it was given; of v0 array.toml says that it has silver.
    assert_eq!(gold[1..], ["300", "-", "1", "GiB/s", "50", "aggregated", "v1"], "{list}");
    let volumes = array.ok(&["volume", "list"]);
    assert!(line(&volumes, "v1").contains(" gold "), "{volumes}");
    let status = array.ok(&["status", "--output", "json"]);
    assert!(
        status.contains("\"minimum_requests\"") && status.contains("\"scale_permille\": 1000"),
        "{status}"
    );
    for (command, reason) in [
        (&["policy", "delete", "gold"][..], "volume \"v1\" has it: masu policy detach v1"),
        (&["policy", "attach", "iron", "v0"], "unknown policy \"iron\""),
        (&["policy", "set", "gold", "--maximum", "200"], "minimum 300 exceeds maximum 200"),
        (&["policy", "create", "gold"], "is there already"),
    ] {
        let refused = array.command(command);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && text.contains(reason), "{command:?}: {text}");
    }
    array.ok(&["policy", "detach", "v0", "v1"]);
    array.ok(&["policy", "delete", "gold"]);
    write(&array, 1);
    assert!(!array.ok(&["policy", "list"]).contains("gold"));
    array.stop();
}

#[test]
fn a_policy_that_is_not_declared_is_told_and_promises_nothing() {
    let mut array = Running::start(&array("tin"));
    qemu_io(&array.url(0), &["write 0 64k"]).expect("it is served");
    let volumes = array.ok(&["volume", "list"]);
    assert!(line(&volumes, "v0").contains("tin     unknown policy"), "{volumes}");
    array.ok(&["policy", "create", "tin", "--minimum", "10"]);
    let volumes = array.ok(&["volume", "list"]);
    assert!(!line(&volumes, "v0").contains("unknown"), "{volumes}");
    array.stop();
}

/// The minimum of background work was counted, and exceeds what a quiet pool has been seen to give.
#[test]
fn policies_without_a_minimum_warn_of_no_minimums() {
    let mut array = Running::start(&array("lead"));
    array.ok(&["policy", "create", "lead", "--maximum", "100"]);
    for maximum in ["200", "300"] {
        // The load is measured over some seconds.
        qemu_io(&array.url(0), &["write 0 64k", "sleep 2500", "write 0 64k"]).expect("served");
        let said = array.ok(&["policy", "set", "lead", "--maximum", maximum]);
        assert!(!said.contains("minimums"), "{said}");
    }
    // One that is promised is warned of.
    let said = array.ok(&["policy", "set", "lead", "--maximum", "none", "--minimum", "1000000"]);
    assert!(
        said.contains("the minimums add up to 1001280 IOPS") || said.contains("over-committed"),
        "{said}"
    );
    array.stop();
}
