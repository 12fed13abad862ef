//! Real members of etcd, on free ports, in temporary directories.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "processes of the real world")]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use registry::{RegistryError, Version};
use tempfile::TempDir;
use tonic::transport::Endpoint;

use super::proxy::Proxy;
use crate::credentials::Credentials;
use crate::members::{Members, Repeats};
use crate::messages::{HasHeader, Header};
use crate::{Access, Login};

/// Started, it listens within this: its first start syncs files.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// A request with a number or up to two texts, as most of administration are.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Texts {
    #[prost(string, tag = "1")]
    pub(super) one: String,
    #[prost(string, tag = "2")]
    pub(super) two: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Permission {
    /// 2: to read and write.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GrantPermission {
    #[prost(string, tag = "1")]
    pub(super) role: String,
    #[prost(message, optional, tag = "2")]
    pub(super) permission: Option<Permission>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Compaction {
    #[prost(int64, tag = "1")]
    revision: i64,
    #[prost(bool, tag = "2")]
    physical: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Alarm {
    /// 1: raises it, 2: disarms it.
    #[prost(int32, tag = "1")]
    action: i32,
    #[prost(uint64, tag = "2")]
    member: u64,
    /// 1: no space.
    #[prost(int32, tag = "3")]
    kind: i32,
}

/// An answer of which nothing is needed.
#[derive(Clone, PartialEq, prost::Message)]
struct Done {}

impl HasHeader for Done {
    fn header(&self) -> Option<&Header> {
        None
    }
}

/// Accepts connections and says nothing.
pub(super) struct Silent(TcpListener);

pub(super) fn silent_port() -> Silent {
    Silent(TcpListener::bind("127.0.0.1:0").expect("a port"))
}

impl Silent {
    pub(super) fn address(&self) -> String {
        self.0.local_addr().expect("an address").to_string()
    }
}

/// Whether a program can be run; says that the test is skipped if not.
pub(super) fn has(program: &str, argument: &str, package: &str, test: &str) -> bool {
    let found =
        Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        // Not by `eprintln!`, which a test that passes keeps for itself.
        let text = format!("{test}: SKIPPED: {program} is missing; install {package}\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    found
}

/// The files of TLS.
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// A member: its process and its files.
pub(super) struct Server {
    process: Child,
    dir: TempDir,
    port: u16,
    peer_port: u16,
    /// All members, as `--initial-cluster` names them.
    cluster: String,
    certificates: Option<Certificates>,
}

impl Server {
    /// None: there is no etcd, which it says.
    pub(super) fn start(test: &str) -> Option<Server> {
        Server::start_with(test, |_| None)
    }

    pub(super) fn start_with(
        test: &str,
        certificates: impl FnOnce(&Path) -> Option<Certificates>,
    ) -> Option<Server> {
        if !has("etcd", "--version", "etcd-server", test) {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let certificates = certificates(dir.path());
        let (port, peer_port) = (test_ports::claim(), test_ports::claim());
        let cluster = peer(peer_port);
        let process = run(dir.path(), port, peer_port, &cluster, certificates.as_ref());
        let server = Server { process, dir, port, peer_port, cluster, certificates };
        server.wait();
        Some(server)
    }

    /// Three members; none: there is no etcd, which it says.
    pub(super) fn start_three(test: &str) -> Option<[Server; 3]> {
        if !has("etcd", "--version", "etcd-server", test) {
            return None;
        }
        let peer_ports = [test_ports::claim(), test_ports::claim(), test_ports::claim()];
        let cluster = peer_ports.map(peer).join(",");
        let servers = peer_ports.map(|peer_port| {
            let (dir, port) = (tempfile::tempdir().expect("a directory"), test_ports::claim());
            let process = run(dir.path(), port, peer_port, &cluster, None);
            Server { process, dir, port, peer_port, cluster: cluster.clone(), certificates: None }
        });
        servers.iter().for_each(Server::wait);
        Some(servers)
    }

    /// Three members, and the ways by which each of them is reached by the others.
    pub(super) fn start_three_apart(test: &str) -> Option<([Server; 3], [Proxy; 3])> {
        if !has("etcd", "--version", "etcd-server", test) {
            return None;
        }
        let peer_ports = [test_ports::claim(), test_ports::claim(), test_ports::claim()];
        let ways = peer_ports.map(Proxy::start);
        let named = |at: usize| format!("at{}=http://{}", peer_ports[at], ways[at].address());
        let cluster = [named(0), named(1), named(2)].join(",");
        let servers = [0, 1, 2].map(|at| {
            let (dir, port) = (tempfile::tempdir().expect("a directory"), test_ports::claim());
            let process = run_at(dir.path(), port, (peer_ports[at], &ways[at].address()), &cluster, None);
            let (peer_port, cluster) = (peer_ports[at], cluster.clone());
            Server { process, dir, port, peer_port, cluster, certificates: None }
        });
        servers.iter().for_each(Server::wait);
        Some((servers, ways))
    }

    fn wait(&self) {
        for _ in 0..LISTENS_WITHIN.as_millis() / 20 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        panic!("etcd does not listen: {log}");
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ended");
    }

    /// With the same files and ports.
    pub(super) fn restart(&mut self) {
        self.process =
            run(self.dir.path(), self.port, self.peer_port, &self.cluster, self.certificates.as_ref());
        self.wait();
    }

    /// One call of administration.
    pub(super) fn administer<Q: prost::Message + Clone + 'static>(
        &self,
        name: &'static str,
        message: Q,
        login: Option<Login>,
    ) -> Result<(), RegistryError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address())).expect("an address");
        let members = {
            let access = Access { login, ..Access::default() };
            Members::new(vec![(self.address(), endpoint)], Credentials::new(access, false), b"/".into())
        };
        runtime.block_on(members.ask::<Q, Done>(name, message, Repeats::No)).map(drop)
    }

    /// Raises or disarms the alarm of etcd that has no space.
    pub(super) fn has_no_space(&self, is_so: bool) {
        let alarm = Alarm { action: if is_so { 1 } else { 2 }, member: 0, kind: 1 };
        self.administer("/etcdserverpb.Maintenance/Alarm", alarm, None).expect("carried out");
    }

    /// Forgets all revisions before this one.
    pub(super) fn compact(&self, version: Version) {
        let compaction = Compaction { revision: version.0 as i64, physical: true };
        self.administer("/etcdserverpb.KV/Compact", compaction, None).expect("compacted");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A member, as `--initial-cluster` names it.
fn peer(port: u16) -> String {
    format!("at{port}=http://127.0.0.1:{port}")
}

fn run(dir: &Path, port: u16, peer_port: u16, cluster: &str, certificates: Option<&Certificates>) -> Child {
    run_at(dir, port, (peer_port, &format!("127.0.0.1:{peer_port}")), cluster, certificates)
}

/// `reached_at`: where the other members reach it.
fn run_at(
    dir: &Path,
    port: u16,
    (peer_port, reached_at): (u16, &str),
    cluster: &str,
    certificates: Option<&Certificates>,
) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).expect("a log");
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let (client, peer) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut command = Command::new("etcd");
    command
        .arg("--data-dir")
        .arg(dir.join("data"))
        .args(["--name", &format!("at{peer_port}"), "--initial-cluster", cluster])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &format!("http://{reached_at}")]);
    if let Some(files) = certificates {
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&files.authority);
        command.arg("--cert-file").arg(&files.certificate).arg("--key-file").arg(&files.key);
    }
    command.stdout(Stdio::null()).stderr(log).spawn().expect("etcd runs")
}
