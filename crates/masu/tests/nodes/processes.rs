//! The processes of an array, their shared drives, and their registry.

use super::*;

pub(super) const TARGET: &str = "iqn.2026-11.net.example:array";
pub(super) const WAIT: Duration = Duration::from_secs(20);
/// The exit status of an owner that has lost the array.
pub(super) const LOST: i32 = 75;

pub(super) fn until(what: &str, holds: impl FnMut() -> bool) -> Duration {
    until_within(what, WAIT, holds)
}

pub(super) fn until_within(what: &str, time: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < time, "{what}: not within {time:?}");
        sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

/// In memory where files there can be opened as drives: on a disk that others use, a flush may wait for
/// seconds, as long as a lease.
pub(super) fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = tempfile::tempdir_in(memory).ok().filter(|dir| {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::DIRECT;
        rustix::fs::open(dir.path().join("probe"), flags, Mode::RUSR).is_ok()
    });
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a directory"))
}

/// A process of one node.
pub(super) struct Node {
    pub(super) process: Child,
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) dir: PathBuf,
}

/// The shared drives, the registry, and the nodes.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    pub(super) registry: String,
    /// More for each process.
    pub(super) options: Vec<String>,
    /// The program of processes that are started from now on.
    pub(super) masu: PathBuf,
    pub(super) dir: tempfile::TempDir,
}

impl Cluster {
    /// With so many nodes, all started at once.
    pub(super) fn start(nodes: usize) -> Cluster {
        let dir = directory();
        let drive = format!("file = \"{}\"\nsize = \"64MiB\"", dir.path().join("d0.img").display());
        let registry = dir.path().join("registry").display().to_string();
        Cluster::of(nodes, dir, &drive, registry)
    }

    /// On this drive, with this registry.
    pub(super) fn of(nodes: usize, dir: tempfile::TempDir, drive: &str, registry: String) -> Cluster {
        let group = "[[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]";
        Cluster::over(nodes, dir, &format!("[[drive]]\nname = \"d0\"\n{drive}\n{group}"), registry)
    }

    /// On these drives, declared with their group g0.
    pub(super) fn over(nodes: usize, dir: tempfile::TempDir, drives: &str, registry: String) -> Cluster {
        let text = format!(
            "target = \"{TARGET}\"\n{drives}\n\
             [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n\
             [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"16MiB\"\n\
             [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
        );
        Cluster::declared(nodes, dir, &text, registry)
    }

    /// With this declaration.
    pub(super) fn declared(nodes: usize, dir: tempfile::TempDir, text: &str, registry: String) -> Cluster {
        fs::write(dir.path().join("array.toml"), text).expect("written");
        let masu = PathBuf::from(env!("CARGO_BIN_EXE_masu"));
        let mut cluster = Cluster { nodes: vec![], registry, options: vec![], masu, dir };
        (0..nodes).for_each(|_| cluster.join());
        cluster
    }

    /// One more node.
    pub(super) fn join(&mut self) {
        let name = format!("n{}", self.nodes.len() + 1);
        let port = test_ports::claim();
        let dir = self.dir.path().join(&name);
        let process = self.process(&name, port, &dir);
        self.nodes.push(Node { process, name, port, dir });
    }

    pub(super) fn process(&self, name: &str, port: u16, dir: &Path) -> Child {
        let log = File::options().create(true).append(true).open(dir.with_extension("log")).expect("a log");
        Command::new(&self.masu)
            .args(["serve", "--node", name, "--listen", &format!("127.0.0.1:{port}")])
            .arg("--registry")
            .arg(&self.registry)
            .arg("--data")
            .arg(dir)
            .arg("--config")
            .arg(self.dir.path().join("array.toml"))
            .args(&self.options)
            .stderr(Stdio::from(log))
            .spawn()
            .expect("masu runs")
    }

    pub(super) fn again(&mut self, at: usize) {
        let (name, port, dir) = (&self.nodes[at].name, self.nodes[at].port, &self.nodes[at].dir);
        self.nodes[at].process = self.process(name, port, dir);
    }

    pub(super) fn registry(&self) -> PathBuf {
        PathBuf::from(&self.registry)
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// The node that serves, when one does; two at once are the failure.
    pub(super) fn owner(&self) -> usize {
        let mut owner = None;
        until("an owner", || {
            let serving: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].serves()).collect();
            assert!(serving.len() <= 1, "{serving:?} serve at once");
            owner = serving.first().copied();
            owner.is_some()
        });
        owner.expect("an owner")
    }

    /// The node that serves instead of this one, which may stand still. Fences and leases wait for disks.
    pub(super) fn successor(&self, of: usize) -> usize {
        let mut next = None;
        until_within("another owner", 3 * WAIT, || {
            next = (0..self.nodes.len()).find(|at| *at != of && self.nodes[*at].serves());
            next.is_some()
        });
        next.expect("another owner")
    }

    /// The content of the drive.
    pub(super) fn drive(&self) -> Vec<u8> {
        fs::read(self.dir.path().join("d0.img")).expect("readable")
    }
}

impl Node {
    pub(super) fn serves(&self) -> bool {
        // A standby accepts connections, too, for the owner.
        let log = self.log();
        let begun = log.rfind("array: serves");
        let stands_by = log.rfind("standby").max(log.rfind("hands over"));
        begun.is_some() && begun > stands_by && TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    pub(super) fn stands_by(&self) {
        let says = || self.log().trim_end().lines().last().is_some_and(|line| line.contains("standby of"));
        until(&format!("{} stands by", self.name), says);
    }

    pub(super) fn signal(&self, name: &str) {
        let told = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
    }

    /// A signal is only sent by `kill`: each thread stops when it gets it.
    pub(super) fn stands_still(&self) -> bool {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.process.id())) else { return false };
        tasks.flatten().all(|task| {
            let state = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.dir.with_extension("log")).unwrap_or_default()
    }

    /// How often it became the owner: of what nobody owned or was handed over, and after the lease of the one
    /// before had ended.
    pub(super) fn takes_over(&self) -> (usize, usize) {
        let log = self.log();
        let taken =
            log.lines().filter(|line| line.contains("INFO") && line.contains("owns the array (epoch"));
        let (late, at_once): (Vec<_>, _) = taken.partition(|line| line.contains("has ended"));
        (at_once.len(), late.len())
    }

    pub(super) fn says(&self, what: &str) -> Duration {
        until(&format!("{} says {what:?}", self.name), || self.log().contains(what))
    }

    pub(super) fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
        command.env("MASU_DATA", &self.dir).args(args).output().expect("masu runs")
    }

    pub(super) fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(output.status.success(), "masu {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Its exit status.
    pub(super) fn ended(&mut self) -> Option<i32> {
        until("its end", || self.process.try_wait().expect("wait").is_some());
        self.process.wait().expect("it ended").code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let stands = if self.stands_still() { " (stands still)" } else { "" };
            eprintln!("--- {}{stands}:\n{}", self.name, self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
