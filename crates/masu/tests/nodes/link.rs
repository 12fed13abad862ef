//! What nodes say to each other, and who may say it: a standby carries connections of hosts by TLS to the
//! owner's node port.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Mutex;

use array::{RelayKey, Relayed};

use super::damage::{files, keys};
use super::*;

/// What went over the network.
type Heard = Arc<Mutex<Vec<u8>>>;

/// The value of a node's record in the registry.
fn record(cluster: &Cluster, prefix: &str, node: usize) -> PathBuf {
    let key = keys(cluster, &format!("{prefix}%{}", cluster.nodes[node].name)).remove(0);
    files(&key, "=").remove(0)
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(&format!("{name} = ")))?;
    line.split('"').nth(1).map(str::to_owned)
}

/// A node's record without the lines that begin so, and with one more. Nothing happens while the node puts
/// its own again, as it does when it says something else of itself.
fn rewrite(cluster: &Cluster, node: usize, without: &[&str], with: &str) {
    let keys = keys(cluster, &format!("nodes%{}", cluster.nodes[node].name));
    let Some(path) = keys.first().and_then(|key| files(key, "=").pop()) else { return };
    let Ok(text) = fs::read_to_string(&path) else { return };
    let kept =
        text.lines().filter(|line| !without.iter().any(|name| line.starts_with(&format!("{name} = "))));
    let text = [with].into_iter().chain(kept).collect::<Vec<_>>().join("\n");
    if path.exists() {
        fs::write(path, text + "\n").expect("written");
    }
}

/// What stays of a node has no certificate. The node is of no older version, and puts its own again every
/// 2 s: what is not there at the moment will be.
fn without_certificate(cluster: &Cluster, node: usize) {
    let keys = keys(cluster, &format!("members%{}", cluster.nodes[node].name));
    let Some(path) = keys.first().and_then(|key| files(key, "=").pop()) else { return };
    let Ok(text) = fs::read_to_string(&path) else { return };
    let (with, without): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("certificate = "));
    if !with.is_empty() && path.exists() {
        fs::write(&path, without.join("\n") + "\n").expect("written");
    }
}

/// Hears all that goes to this address and back, for as long as the test runs.
fn between(to: SocketAddr) -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, heard) = (listener.local_addr().expect("its address"), Heard::default());
    let hears = heard.clone();
    spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(to) else { continue };
            let (near_too, far_too) = (near.try_clone().expect("a clone"), far.try_clone().expect("a clone"));
            for (mut from, mut into) in [(near, far), (far_too, near_too)] {
                let heard = hears.clone();
                spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(len @ 1..) = from.read(&mut buffer) {
                        heard.lock().expect("not poisoned").extend_from_slice(&buffer[..len]);
                        if into.write_all(&buffer[..len]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (address, heard)
}

fn has(heard: &Heard, part: &[u8]) -> bool {
    heard.lock().expect("not poisoned").windows(part.len()).any(|found| found == part)
}

/// What a host writes through a portal, and reads.
const PATTERN: &[u8; 8] = b"a secret";

/// Long beside an answer, short beside [`WAIT`]: a connection to an owner that does not know the other node
/// yet stays silent.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Whether a session through this portal writes and reads.
fn carries(port: u16) -> bool {
    let run = world_real::run(world_real::Options::default(), async move |world| {
        let Some(session) = login(&world, ATTEMPT, &[port]).await else { return false };
        let data = Pieces::copy_of(&PATTERN.repeat(SLOT_BYTES / 8));
        let written = command(&world, ATTEMPT, &session, (cdb(WRITE_10, 3), data.clone(), 0)).await.is_some();
        let read =
            command(&world, ATTEMPT, &session, (cdb(READ_10, 3), Pieces::new(), SLOT_BYTES as u32)).await;
        written && read.is_some_and(|read| read.joined()[..] == data.joined()[..])
    });
    run.expect("a world")
}

/// Before, a standby carried connections in the clear, with a key that whoever heard it could use.
#[test]
fn what_a_standby_carries_is_encrypted_and_in_the_clear_only_beside_a_node_of_an_older_version() {
    let cluster = Cluster::start(2);
    let owner = cluster.owner();
    let (from, to) = (&cluster.nodes[1 - owner], &cluster.nodes[owner]);
    from.stands_by();
    let about = record(&cluster, "nodes", owner);
    let text = fs::read_to_string(&about).expect("a record");
    let (link, key) = (field(&text, "link").expect("a node port"), field(&text, "relay_key").expect("a key"));
    let key = RelayKey(u128::from_str_radix(&key, 16).expect("digits").to_be_bytes());
    let clear = [PATTERN, TARGET.as_bytes(), b"\r\n\r\n\0\r\nQUIT\n", &key.0];
    // The standby reads the record at each of its intervals.
    let (address, heard) = between(link.parse().expect("an address"));
    until("a session by TLS", || {
        rewrite(&cluster, owner, &["link"], &format!("link = \"{address}\""));
        carries(from.port) && heard.lock().expect("not poisoned").len() > SLOT_BYTES
    });
    for part in clear {
        assert!(!has(&heard, part), "{:?} was heard", String::from_utf8_lossy(part));
    }
    // An owner of an older version: the standby knows its portal only. This owner is none.
    let (address, heard) = between(SocketAddr::from(([127, 0, 0, 1], to.port)));
    until("the standby takes the owner for one of an older version", || {
        let portals = format!("portals = [\"{address}\"]");
        rewrite(&cluster, owner, &["link", "certificate", "portals"], &portals);
        from.log().contains("the owner is of a version without TLS between nodes")
    });
    assert!(!carries(from.port), "this owner takes nothing in the clear");
    to.says("relayed by a node that does not know this array's key");
    // A standby of an older version.
    let older = || without_certificate(&cluster, 1 - owner);
    until("the owner takes the standby for one of an older version", || {
        older();
        to.log().contains("is of a version without TLS between nodes")
    });
    until("a session in the clear", || {
        older();
        carries(from.port)
    });
    for part in clear {
        // It is noted a moment after it has passed.
        until(&format!("{:?} is heard", String::from_utf8_lossy(part)), || has(&heard, part));
    }
}

/// Whether the peer ends the connection; if not, it waits for more.
fn is_sent_away(mut stream: TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).expect("sent");
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        // An alert of TLS comes before the end.
        Ok(_) => stream.read(&mut [0; 64]).is_ok_and(|len| len == 0),
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn strangers_are_sent_away_from_the_node_port_and_the_portal_knows_no_key_that_others_can_read() {
    let cluster = Cluster::start(2);
    let owner = cluster.owner();
    let (to, standby) = (&cluster.nodes[owner], &cluster.nodes[1 - owner]);
    standby.stands_by();
    until("the owner knows the other node", || carries(standby.port));
    let text = fs::read_to_string(record(&cluster, "nodes", owner)).expect("a record");
    let (link, sha256) = (field(&text, "link").expect("a node port"), field(&text, "certificate"));
    let (link, sha256): (SocketAddr, _) = (link.parse().expect("an address"), sha256.expect("a certificate"));
    // Another certificate than those of the registry.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    let stranger = admin::NodeTls::own(&admin::Store::open(dir.path()).expect("a store")).expect("made");
    let enters = |tls: &admin::NodeTls| {
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(link).await.expect("connected");
            let mut stream = tls.connect(stream, &sha256).await.expect("the owner shows its certificate");
            tokio::io::AsyncReadExt::read_u8(&mut stream).await.is_ok()
        })
    };
    assert!(!enters(&stranger));
    to.says(&format!("no node of the registry has the certificate {}", stranger.fingerprint()));
    // That of the standby is known.
    let known = admin::Store::open(&standby.dir).expect("a store");
    assert!(enters(&admin::NodeTls::own(&known).expect("read")), "so that this test can tell");
    // In the clear, to both ports, with the key of the owner's record.
    let key = field(&text, "relay_key").expect("a key");
    let key = RelayKey(u128::from_str_radix(&key, 16).expect("digits").to_be_bytes());
    let host = SocketAddr::from(([10, 0, 0, 9], 1));
    let portal = SocketAddr::from(([127, 0, 0, 1], standby.port));
    let number = fs::read_to_string(record(&cluster, "members", 1 - owner)).expect("a record");
    let number = number.lines().find_map(|line| line.strip_prefix("number = ")).expect("a number");
    let portal_group = cluster::portal_group(number.parse().expect("digits"), 0);
    let header = Relayed { host, portal, portal_group, key }.encode();
    assert!(is_sent_away(TcpStream::connect(link).expect("connected"), &header), "at the node port");
    let own = SocketAddr::from(([127, 0, 0, 1], to.port));
    assert!(is_sent_away(TcpStream::connect(own).expect("connected"), &header), "at the portal");
    assert!(!is_sent_away(TcpStream::connect(own).expect("connected"), b"\x43"), "a login that begins");
    // What strangers repeat fills no log.
    let refusals = to.log().lines().filter(|line| line.contains("node port: refused")).count();
    assert_eq!(refusals, 1, "{}", to.log());
    assert!(carries(standby.port), "nodes are not kept away");
}
