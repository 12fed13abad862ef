//! A load on folders of this machine: one client, two that are led, and leads that say nonsense.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::agent::{Agent, orders};
use super::client::{Client, plan_of};
use super::lead;
use super::secret::Secret;
use super::share::Address;
use super::wire::Part;
use lab_core::interrupt::Stop;
use lab_tools::files::{Plan, SetSpec, check, create};

/// Six trees of eight files, five of them targets.
fn set(dir: &Path) -> Plan {
    let spec = SetSpec {
        trees: 6,
        dummy_trees: 0,
        files: 8,
        targets: 5,
        target_bytes: 3_000_000,
        levels: 4,
        folders: 6,
        ..SetSpec::published(3)
    };
    let plan = Plan::new(spec).expect("a plan");
    create(dir, &plan, 1, &Stop::default(), |_| {}).expect("a set");
    plan
}

fn part() -> Part {
    Part {
        client: 0,
        clients: 1,
        workers: 2,
        seed: 1,
        read_share: 0.6,
        verify: true,
        files_max: u64::MAX,
        seconds_max: 60.0,
    }
}

fn folder(path: &Path) -> Address {
    Address::Folder(path.to_owned())
}

#[test]
fn every_target_is_copied_once_and_the_set_knows_what_was_written() {
    let (server, local) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let plan = set(server.path());
    let address = folder(server.path());
    for copies in [None, Some(local.path().to_owned())] {
        let orders = orders(plan_of(&address).expect("a set"), &part(), copies);
        let stop = Stop::default();
        let client = Client::prepare(address.clone(), orders, (0, 1), 2, &stop).expect("ready");
        let epoch = Instant::now();
        let did = client.run(epoch, epoch, &stop).expect("it runs");
        did.check().expect("sums");
        assert_eq!(did.reads.files + did.writes.files, 30);
        assert_eq!(did.reads.bytes + did.writes.bytes, 3_000_000);
        // The second time the same are read: those that nobody wrote.
        assert_eq!(did.mismatches, 0);
        assert!(did.folders >= 30);
        let found = check(server.path(), &plan, 1, &stop, |_| {}).expect("checked");
        assert!(found.is_whole(), "{found:?}");
        assert_eq!(found.written, did.writes.files);
    }
    let read = std::fs::read(server.path().join(plan.tree(0).path(0))).expect("there");
    let copied = std::fs::read(local.path().join(plan.tree(0).path(0))).expect("copied");
    assert_eq!(read, copied);
}

#[test]
fn a_file_that_changed_is_told() {
    let server = tempfile::tempdir().expect("a folder");
    let plan = set(server.path());
    let path = server.path().join(plan.tree(1).path(2));
    let mut bytes = std::fs::read(&path).expect("there");
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let address = folder(server.path());
    let all_reads = Part { read_share: 1.0, ..part() };
    let client =
        Client::prepare(address.clone(), orders(plan, &all_reads, None), (0, 1), 2, &Stop::default())
            .expect("ready");
    let epoch = Instant::now();
    assert_eq!(client.run(epoch, epoch, &Stop::default()).expect("runs").mismatches, 1);
}

/// An agent on a free port, whose clock is so much ahead.
fn agent(share: &Path, ahead: Duration, secret: Option<Secret>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let epoch = Instant::now().checked_sub(ahead).expect("a moment");
    let agent = Agent { address: folder(share), local: None, secret, epoch };
    // It waits for leads until the process of the tests ends.
    std::thread::spawn(move || agent.serve(&listener));
    at
}

#[test]
fn two_clients_begin_at_one_moment_whatever_their_clocks_say() {
    let server = tempfile::tempdir().expect("a folder");
    set(server.path());
    let agents = [Duration::ZERO, Duration::from_millis(700)]
        .map(|ahead| agent(server.path(), ahead, None).to_string());
    let outcome = lead::run(&agents, None, &part()).expect("it runs");
    assert_eq!((outcome.clients, outcome.reads.files + outcome.writes.files), (2, 30));
    assert_eq!(outcome.reads.bytes + outcome.writes.bytes, 3_000_000);
    assert_eq!(outcome.bytes_per_second.iter().sum::<u64>(), 3_000_000);
    // Uncorrected it would be 700 ms.
    assert!(outcome.start_spread_ms < 350.0, "{outcome}");
    assert_eq!(outcome.mismatches, 0);
}

#[test]
fn agents_outlive_leads_that_say_nonsense() {
    let server = tempfile::tempdir().expect("a folder");
    set(server.path());
    let at = agent(server.path(), Duration::ZERO, None);
    let say = |words: &[u8]| -> String {
        let mut stream = TcpStream::connect(at).expect("connected");
        stream.write_all(words).expect("said");
        stream.shutdown(std::net::Shutdown::Write).expect("ended");
        let mut heard = Vec::new();
        // A connection that is reset was heard as far as it went.
        let _ = stream.read_to_end(&mut heard);
        String::from_utf8_lossy(&heard).into_owned()
    };
    for words in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\n",
        b"{\"start\":{\"at_ns\":-1}}\n",
        b"\xff\xfe\x00\n",
        b"\"fly\"\n",
    ] {
        assert!(say(words).contains("not understood"), "{words:?}");
    }
    assert!(say(b"{\"start\":{\"at_ns\":1}}\n").contains("no load was prepared"));
    let wrong =
        serde_json::to_string(&super::wire::Ask::Prepare(Part { workers: 0, ..part() })).expect("text");
    assert!(say((wrong + "\n").as_bytes()).contains("1 to 256 workers"));
    say(&vec![b'x'; 5 << 20]);
    let outcome = lead::run(&[at.to_string()], None, &part()).expect("it still works");
    assert_eq!(outcome.reads.files + outcome.writes.files, 30);
}

#[test]
fn who_does_not_have_the_secret_neither_leads_nor_is_led() {
    let server = tempfile::tempdir().expect("a folder");
    set(server.path());
    let secret = |text: &str| Secret::of(text.as_bytes()).expect("long enough");
    let (ours, theirs) = (secret("the secret of this laboratory"), secret("the secret of another one"));
    let at = [agent(server.path(), Duration::ZERO, Some(ours.clone())).to_string()];
    let open = [agent(server.path(), Duration::ZERO, None).to_string()];
    let refused = |agents: &[String], secret: Option<&Secret>, part_of_text: &str| {
        let text = format!("{:#}", lead::run(agents, secret, &part()).expect_err("is refused"));
        assert!(text.contains(part_of_text), "{text:?} does not say {part_of_text:?}");
    };
    refused(&at, None, "asks for a secret");
    refused(&at, Some(&theirs), "the secret is another one");
    refused(&open, Some(&ours), "no secret, so its identity is unknown");
    // Without a proof nothing is prepared, whatever was said before.
    let prepare = serde_json::to_string(&super::wire::Ask::Prepare(part())).expect("text");
    let hello = format!("{{\"hello\":{{\"version\":2,\"nonce\":\"{}\"}}}}", "0".repeat(64));
    for (words, answer) in [
        (prepare.clone(), "missing hello"),
        (format!("{hello}\n{prepare}"), "prove that you have the secret first"),
        (format!("{hello}\n{{\"prove\":{{\"proof\":\"{}\"}}}}\n{prepare}", "0".repeat(64)), "is another one"),
    ] {
        let mut stream = TcpStream::connect(&at[0]).expect("connected");
        stream.write_all((words + "\n").as_bytes()).expect("said");
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.contains(answer) && !heard.contains("prepared"), "{heard}");
    }
    let outcome = lead::run(&at, Some(&ours), &part()).expect("it runs");
    assert_eq!(outcome.reads.files + outcome.writes.files, 30);
}
