//! Nodes that share storage: real processes of `masu vdisk serve --registry`, with a registry in a directory
//! or in a real etcd; one is killed, one is stopped.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "clients and processes of the real world"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

const TRANSFER: usize = 256 << 10;
const DISK: u64 = 16 << 20;

/// A node, and the disk that it serves.
struct NodeProcess {
    process: Child,
    written: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
}

impl NodeProcess {
    /// Serves a fixed VHDX, and writes to it all the time, one request after the other.
    fn start(dir: &Path, registry: &str, name: &str, policy: &str) -> NodeProcess {
        let image = dir.join(format!("{name}.vhdx"));
        let masu = env!("CARGO_BIN_EXE_masu");
        let size = DISK.to_string();
        let create = ["vdisk", "create", "--fixed", "--size", &size];
        let made = Command::new(masu).args(create).arg(&image).output().expect("masu runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut process = Command::new(masu)
            .args([
                "vdisk",
                "serve",
                "--nbd",
                "127.0.0.1:0",
                "--node",
                name,
                "--policy",
                policy,
                "--registry",
            ])
            .arg(registry)
            .arg(&image)
            .stdout(Stdio::piped())
            .spawn()
            .expect("masu runs");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        let address = line.rsplit("nbd://").next().expect("an address").to_owned();
        spawn(move || lines.for_each(drop));
        let (written, stops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, ends) = (written.clone(), stops.clone());
        spawn(move || {
            // The process ends in the middle of it.
            let _ = write_all_the_time(&address, &counted, &ends);
        });
        NodeProcess { process, written, stops }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write_all_the_time(address: &str, written: &AtomicU64, ends: &AtomicBool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut hello = [0; 18];
    stream.read_exact(&mut hello)?;
    let export = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &0_u32.to_be_bytes()];
    stream.write_all(&export.concat())?;
    let mut facts = [0; 10];
    stream.read_exact(&mut facts)?;
    let data = vec![7; TRANSFER];
    let mut at = 0;
    while !ends.load(Ordering::Relaxed) {
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0], &1_u16.to_be_bytes(), &1_u64.to_be_bytes()];
        let range = [&u64::to_be_bytes(at)[..], &(TRANSFER as u32).to_be_bytes()];
        stream.write_all(&[head.concat(), range.concat(), data.clone()].concat())?;
        let mut reply = [0; 16];
        stream.read_exact(&mut reply)?;
        assert_eq!(reply[4..8], [0; 4], "a write failed");
        written.fetch_add(TRANSFER as u64, Ordering::Relaxed);
        at = (at + TRANSFER as u64) % DISK;
    }
    Ok(())
}

/// The shares in the registry, by disk.
fn shares(dir: &Path) -> toml::Table {
    let key = dir.join("registry/keys/qos%shares");
    for _ in 0..100 {
        let names = std::fs::read_dir(&key).into_iter().flatten().flatten();
        let values = names.filter(|name| name.file_name().to_string_lossy().starts_with('='));
        let newest = values.max_by_key(|name| name.metadata().and_then(|about| about.modified()).ok());
        let text = newest.and_then(|value| std::fs::read_to_string(value.path()).ok());
        if let Some(Ok(table)) = text.map(|text| text.parse::<toml::Table>()) {
            return table.get("disks").and_then(|disks| disks.as_table()).cloned().unwrap_or_default();
        }
        sleep(Duration::from_millis(20));
    }
    toml::Table::new()
}

fn both(shares: &toml::Table) -> bool {
    shares.contains_key("one.vhdx") && shares.contains_key("two.vhdx")
}

/// A real etcd of one member.
struct Etcd {
    process: Child,
    port: u16,
}

impl Etcd {
    /// None: it is not installed.
    fn start(dir: &Path) -> Option<Etcd> {
        let (port, peer) = (test_ports::claim(), format!("http://127.0.0.1:{}", test_ports::claim()));
        let client = format!("http://127.0.0.1:{port}");
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir.join("etcd"))
            .args(["--name", "one", "--initial-cluster", &format!("one={peer}")])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let etcd = Etcd { process, port };
        wait_until("etcd listens", 30, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(etcd)
    }

    fn registry(&self) -> String {
        format!("etcd://127.0.0.1:{}/masu/shares", self.port)
    }

    /// The shares in the registry, by disk.
    fn shares(&self) -> toml::Table {
        let location = self.registry().parse().expect("a location");
        let run = world_real::run(world_real::Options::default(), async move |world| {
            let registry = registry_etcd::open(&world, &location, &registry_etcd::Access::default());
            let key = registry::Key::new("qos/shares").expect("a key");
            registry.expect("a registry").get(&key).await.ok().flatten().map(|entry| entry.value)
        });
        let value = run.expect("a world").unwrap_or_default();
        let table: toml::Table = String::from_utf8_lossy(&value).parse().expect("TOML");
        table.get("disks").and_then(|disks| disks.as_table()).cloned().unwrap_or_default()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_until(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    for _ in 0..seconds * 20 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("not within {seconds} s: {what}");
}

/// Two nodes with weights 100 and 300 divide what this machine's storage serves; the second one's share comes
/// back when it is stopped or killed, within its lease of 3 s and two intervals.
#[test]
fn processes_share_storage_and_a_stopped_or_killed_one_gives_its_share_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let registry = dir.path().join("registry").display().to_string();
    let one = NodeProcess::start(dir.path(), &registry, "one", "weight=100,bandwidth=40000000");
    let mut two = NodeProcess::start(dir.path(), &registry, "two", "weight=300,bandwidth=40000000");
    wait_until("both have shares", 20, || both(&shares(dir.path())));
    // A maximum is kept by each process.
    let (before, other) = (one.written.load(Ordering::Relaxed), two.written.load(Ordering::Relaxed));
    sleep(Duration::from_secs(3));
    for written in [one.written.load(Ordering::Relaxed) - before, two.written.load(Ordering::Relaxed) - other]
    {
        assert!(written <= 3 * 40_000_000 * 11 / 10, "{written} bytes in 3 s");
        assert!(written > 0, "nobody stands still");
    }
    two.signal("-STOP");
    wait_until("the stopped one has none", 6, || !shares(dir.path()).contains_key("two.vhdx"));
    two.signal("-CONT");
    wait_until("it is back", 6, || both(&shares(dir.path())));
    two.signal("-KILL");
    let _ = two.process.wait();
    wait_until("the killed one has none", 6, || !shares(dir.path()).contains_key("two.vhdx"));
    let before = one.written.load(Ordering::Relaxed);
    wait_until("the other goes on", 6, || one.written.load(Ordering::Relaxed) > before);
}

#[test]
fn processes_share_storage_through_etcd_and_a_killed_one_gives_its_share_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(etcd) = Etcd::start(dir.path()) else {
        // Not by `eprintln!`, which a test that passes keeps for itself.
        let text = b"nodes that share storage through etcd: SKIPPED: etcd is missing; install etcd-server\n";
        let _ = std::io::stderr().write_all(text);
        return;
    };
    let one = NodeProcess::start(dir.path(), &etcd.registry(), "one", "weight=100,bandwidth=40000000");
    let mut two = NodeProcess::start(dir.path(), &etcd.registry(), "two", "weight=300,bandwidth=40000000");
    wait_until("both have shares", 20, || both(&etcd.shares()));
    two.signal("-KILL");
    let _ = two.process.wait();
    wait_until("the killed one has none", 10, || !etcd.shares().contains_key("two.vhdx"));
    let before = one.written.load(Ordering::Relaxed);
    wait_until("the other goes on", 6, || one.written.load(Ordering::Relaxed) > before);
}
