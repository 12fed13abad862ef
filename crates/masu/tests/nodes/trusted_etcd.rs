//! Nodes over RBD images with an etcd as operators run it, both real: three members with TLS on both sides,
//! users with passwords, and tokens that expire. Members and their leader are killed, the quorum is lost, the
//! password and the certificates are exchanged. judges/cluster.sh starts Ceph, and runs this; etcdctl and
//! openssl do what an administrator does.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;

use super::rbd_and_etcd::{ETCD_AWAY, PLANNED, UNPLANNED, new_image, tell};
use super::*;

const MEMBERS: usize = 3;
const FIRST_PASSWORD: &str = "first-geheim";
const NEXT_PASSWORD: &str = "next-geheim";
/// A host may try its other path meanwhile; the owner serves on.
const ELECTION: Duration = Duration::from_secs(1);

fn openssl(dir: &Path, arguments: &str) {
    let done = Command::new("openssl").current_dir(dir).args(arguments.split(' ')).output();
    let done = done.expect("openssl runs");
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// NAME.pem and NAME.key, by the authority of this directory.
fn certify(dir: &Path, name: &str) {
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if !dir.join("ca.pem").exists() {
        openssl(dir, &format!("req -x509 -days 2 {new_key} -subj /CN=ca -keyout ca.key -out ca.pem"));
    }
    // Members are clients of each other, too.
    let extensions = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
    fs::write(dir.join("extensions"), extensions).expect("written");
    openssl(dir, &format!("req {new_key} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
    let by = "-CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions";
    openssl(dir, &format!("x509 -req -days 2 -in {name}.csr {by} -out {name}.pem"));
}

/// Members of one cluster, with their files.
struct Etcd {
    dir: PathBuf,
    processes: Vec<Child>,
    ports: Vec<[u16; 2]>,
}

impl Etcd {
    /// The user `masu` may use its prefix.
    fn start(dir: &Path) -> Etcd {
        let dir = dir.join("etcd");
        fs::create_dir(&dir).expect("a directory");
        ["member", "client"].iter().for_each(|name| certify(&dir, name));
        openssl(&dir, "genrsa -out token.key 2048");
        openssl(&dir, "rsa -in token.key -pubout -out token.pub");
        let ports = (0..MEMBERS).map(|_| [test_ports::claim(), test_ports::claim()]).collect();
        let mut etcd = Etcd { dir, processes: vec![], ports };
        for at in 0..MEMBERS {
            let process = etcd.run(at);
            etcd.processes.push(process);
        }
        until("etcd answers", || etcd.ask(&["get", "x"], "").is_some());
        for administration in [
            "role add root",
            "role add masu",
            "role grant-permission masu --prefix=true readwrite /masu/",
            "user add root:of-all",
            "user add masu:first-geheim",
            "user grant-role root root",
            "user grant-role masu masu",
            "auth enable",
        ] {
            let words: Vec<&str> = administration.split(' ').collect();
            assert!(etcd.ask(&words, "").is_some(), "etcdctl {administration}");
        }
        etcd.log_in(FIRST_PASSWORD);
        etcd
    }

    fn run(&self, at: usize) -> Child {
        let mut cluster = String::new();
        for (at, [_, peer]) in self.ports.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(cluster, "{comma}m{at}=https://127.0.0.1:{peer}").expect("a string");
        }
        let [client, peer] = self.ports[at].map(|port| format!("https://127.0.0.1:{port}"));
        let log = File::options().create(true).append(true).open(self.dir.join(format!("m{at}.log")));
        let files = ["--trusted-ca-file=ca.pem", "--cert-file=member.pem", "--key-file=member.key"];
        Command::new("etcd")
            .current_dir(&self.dir)
            .args([&format!("--name=m{at}"), &format!("--data-dir=m{at}")])
            .args(["--initial-cluster", &cluster, "--client-cert-auth", "--peer-client-cert-auth"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(files.iter().map(|file| (*file).to_owned()))
            .args(files.iter().map(|file| file.replacen("--", "--peer-", 1)))
            // Tokens that end in the middle of everything.
            .args(["--auth-token", "jwt,pub-key=token.pub,priv-key=token.key,sign-method=RS256,ttl=4s"])
            .stderr(log.expect("a log"))
            .spawn()
            .expect("etcd runs")
    }

    /// etcdctl, at all members, or the one at this port. None: it failed.
    fn ask(&self, words: &[&str], user: &str) -> Option<String> {
        self.ask_at(&self.all(), words, user)
    }

    fn all(&self) -> String {
        (0..MEMBERS).map(|at| self.member(at)).collect::<Vec<_>>().join(",")
    }

    fn member(&self, at: usize) -> String {
        format!("https://127.0.0.1:{}", self.ports[at][0])
    }

    fn command(&self, members: &str) -> Command {
        let mut command = Command::new("etcdctl");
        command.current_dir(&self.dir).env("ETCDCTL_API", "3").args(["--endpoints", members]);
        command.args(["--cacert=ca.pem", "--cert=client.pem", "--key=client.key", "--command-timeout=10s"]);
        command
    }

    fn ask_at(&self, members: &str, words: &[&str], user: &str) -> Option<String> {
        let mut command = self.command(members);
        if !user.is_empty() {
            command.args(["--user", user]);
        }
        let done = command.args(words).output().expect("etcdctl runs");
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn change_password(&self, password: &str) {
        let mut command = self.command(&self.all());
        command.args(["--user", "root:of-all", "user", "passwd", "masu", "--interactive=false"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("etcdctl runs");
        let mut input = process.stdin.take().expect("its input");
        std::io::Write::write_all(&mut input, format!("{password}\n").as_bytes()).expect("written");
        drop(input);
        assert!(process.wait().expect("ended").success());
    }

    /// The member that leads, as this one knows.
    fn leader(&self) -> usize {
        let leads = |at: &usize| {
            let status = self.ask_at(&self.member(*at), &["endpoint", "status", "-w", "json"], "root:of-all");
            let status: Option<serde_json::Value> = status.and_then(|text| serde_json::from_str(&text).ok());
            status.is_some_and(|all| all[0]["Status"]["leader"] == all[0]["Status"]["header"]["member_id"])
        };
        let mut leader = None;
        until("a leader", || {
            leader = (0..MEMBERS).find(leads);
            leader.is_some()
        });
        leader.expect("a leader")
    }

    fn kill(&mut self, at: usize) {
        self.processes[at].kill().expect("kill -9");
        self.processes[at].wait().expect("ended");
    }

    fn again(&mut self, at: usize) {
        self.processes[at] = self.run(at);
        let member = self.member(at);
        until("the member answers", || self.ask_at(&member, &["get", "x"], "root:of-all").is_some());
    }

    /// Two members stand still: no quorum.
    fn without_quorum(&self, time: Duration) {
        let signal = |name: &str| {
            for process in &self.processes[1..] {
                let sent = Command::new("kill").args([name, &process.id().to_string()]).status();
                assert!(sent.expect("kill runs").success());
            }
        };
        signal("-STOP");
        sleep(time);
        signal("-CONT");
    }

    /// What the nodes log in with, from now on.
    fn log_in(&self, password: &str) {
        let (login, new) = (self.dir.join("login"), self.dir.join("login.new"));
        fs::write(&new, format!("masu\n{password}\n")).expect("written");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("permissions");
        fs::rename(new, login).expect("renamed");
    }

    /// How masu reaches it.
    fn options(&self) -> Vec<String> {
        fs::set_permissions(self.dir.join("client.key"), fs::Permissions::from_mode(0o600))
            .expect("permissions");
        let files = [("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"), ("login", "login")];
        let file = |name: &str| self.dir.join(name).display().to_string();
        files.iter().flat_map(|(what, name)| [format!("--registry-{what}"), file(name)]).collect()
    }

    fn address(&self) -> String {
        let members: Vec<String> =
            self.ports.iter().map(|[client, _]| format!("127.0.0.1:{client}")).collect();
        format!("etcds://{}/masu/trusted", members.join(","))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn three_nodes(etcd: &Etcd, dir: tempfile::TempDir) -> Cluster {
    let mut cluster = Cluster::of(0, dir, &new_image("trusted"), etcd.address());
    cluster.options = etcd.options();
    (0..3).for_each(|_| cluster.join());
    cluster
}

/// A command of `masu node` at this registry.
fn node(cluster: &Cluster, words: &[&str]) -> Output {
    let mut all = vec!["node"];
    all.extend(words);
    all.extend(["--registry", &cluster.registry]);
    all.extend(cluster.options.iter().map(String::as_str));
    cluster.nodes[0].command(&all)
}

/// What was acknowledged is there. On a machine with other work the host is slow: it has written enough by
/// then.
fn verified(host: Host) -> Acknowledged {
    until("a hundred writes", || host.count.load(Relaxed) > 150);
    host.verified()
}

/// Nobody can read a password where others look.
fn keeps_secrets(cluster: &Cluster) {
    let is_secret = |text: &str| text.contains(FIRST_PASSWORD) || text.contains(NEXT_PASSWORD);
    let owner = &cluster.nodes[cluster.owner()];
    let mut told = vec![owner.ok(&["status", "--output", "json"]), owner.ok(&["event", "list"])];
    for node in &cluster.nodes {
        let path = format!("/proc/{}/cmdline", node.process.id());
        told.push(String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned());
        told.push(node.log());
    }
    told.push(String::from_utf8_lossy(&node(cluster, &["list", "--output", "json"]).stdout).into_owned());
    assert!(!told.iter().any(|text| is_secret(text)), "a password is told");
}

/// All in one cluster, one case after the other.
#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh trusted"]
fn in_short() {
    let dir = directory();
    let mut etcd = Etcd::start(dir.path());
    let mut cluster = three_nodes(&etcd, dir);

    // A node takes over while one of three members is down.
    let owner = cluster.owner();
    let leader = etcd.leader();
    etcd.kill((leader + 1) % MEMBERS);
    let host = Host::start(&cluster);
    cluster.nodes[owner].process.kill().expect("kill -9");
    cluster.successor(owner);
    tell("owner killed, a member down", &verified(host), UNPLANNED);
    cluster.nodes[owner].ended();
    cluster.again(owner);
    cluster.nodes[owner].stands_by();
    etcd.again((leader + 1) % MEMBERS);

    // The certificate, its key and the password are exchanged, and nobody notices: the next connections have
    // the new ones.
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    certify(&etcd.dir, "client");
    etcd.log_in(NEXT_PASSWORD);
    etcd.change_password(NEXT_PASSWORD);
    // Longer than a token, and than the owner's term.
    sleep(Duration::from_secs(6));
    tell("password and key exchanged", &verified(host), PLANNED);
    assert_eq!(cluster.owner(), owner, "{}", cluster.nodes[owner].log());

    let host = Host::start(&cluster);
    let leader = etcd.leader();
    etcd.kill(leader);
    sleep(Duration::from_secs(4));
    tell("leader of etcd killed", &verified(host), ELECTION);
    assert_eq!(cluster.owner(), owner, "the owner serves on");
    etcd.again(leader);

    let host = Host::start(&cluster);
    // An election takes up to two seconds more, and the owner's term is five from its last renewal: with
    // three seconds it was chance whether the owner went on.
    etcd.without_quorum(Duration::from_secs(2));
    sleep(Duration::from_secs(3));
    tell("no quorum for 2 s", &verified(host), PLANNED);
    assert_eq!(cluster.owner(), owner, "the owner serves on");

    let host = Host::start(&cluster);
    etcd.without_quorum(Duration::from_secs(20));
    assert_eq!(cluster.nodes[owner].ended(), Some(LOST));
    cluster.successor(owner);
    tell("no quorum for 20 s", &verified(host), 2 * ETCD_AWAY);
    cluster.again(owner);
    cluster.nodes[owner].stands_by();

    keeps_secrets(&cluster);
}
