//! A running `masu serve` of its own directory, and its clients.

use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(crate) const TARGET: &str = "iqn.2026-11.net.example:array";
const START_TIME: Duration = Duration::from_secs(20);
/// The longest rebuild of the tests takes a part of it.
const WAIT_TIME: Duration = Duration::from_secs(30);

/// Runs `masu` to its end on a data directory.
pub(crate) fn masu(data: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.env("MASU_DATA", data).args(args).output().expect("masu runs")
}

/// Runs commands of qemu-io, one process for all. `Err` has what it printed when one of them failed.
pub(crate) fn qemu_io(url: &str, commands: &[&str]) -> Result<(), String> {
    let mut qemu = Command::new("qemu-io");
    qemu.args(["-f", "raw", "-t", "none"]);
    commands.iter().for_each(|c| {
        qemu.args(["-c", c]);
    });
    let output = qemu.arg(url).output().expect("qemu-io is there (make setup installs it)");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // qemu-io exits with 0 after a failed comparison.
    let failed = !output.status.success() || text.contains("failed") || text.contains("rror");
    if failed { Err(text) } else { Ok(()) }
}

pub(crate) struct Running {
    process: Child,
    dir: tempfile::TempDir,
    extra: Vec<String>,
    pub(crate) port: u16,
}

impl Running {
    /// Starts an array with this declaration and one portal.
    pub(crate) fn start(toml: &str) -> Running {
        Running::start_with(toml, &[])
    }

    pub(crate) fn start_with(toml: &str, extra: &[&str]) -> Running {
        let dir = tempfile::tempdir().expect("a directory");
        let port = test_ports::claim();
        // Keys of the top level must come before the first table.
        let (top, tables) = toml.split_at(toml.find("[[").unwrap_or(toml.len()));
        let text =
            format!("target = \"{TARGET}\"\n{top}\n[[portal]]\nlisten = \"127.0.0.1:{port}\"\n{tables}");
        std::fs::write(dir.path().join("array.toml"), text).expect("write the declaration");
        let extra = extra.iter().map(ToString::to_string).collect();
        let process = spawn(dir.path(), &extra);
        let mut running = Running { process, dir, extra, port };
        running.wait_until_it_serves();
        running
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn url(&self, lun: u16) -> String {
        format!("iscsi://127.0.0.1:{}/{TARGET}/{lun}", self.port)
    }

    /// Runs a command of administration.
    pub(crate) fn command(&self, args: &[&str]) -> Output {
        masu(&self.data(), args)
    }

    /// Runs a command that must succeed, and gives what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(output.status.success(), "masu {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Repeats a command until what it prints holds: events and the ends of jobs arrive a moment later.
    pub(crate) fn wait_until(&self, args: &[&str], what: &str, holds: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let text = self.ok(args);
            if holds(&text) {
                return;
            }
            assert!(begun.elapsed() < WAIT_TIME, "masu {args:?} never says {what}: {text}");
            sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn kill_and_restart(&mut self) {
        self.process.kill().expect("kill -9");
        self.process.wait().expect("it is gone");
        // It had no time to remove its socket; the next one's is a sign that it serves.
        std::fs::remove_file(self.data().join("api.sock")).expect("the socket of the dead one");
        self.restart();
    }

    /// Asks it to stop, and waits.
    pub(crate) fn stop(&mut self) {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", self.log());
    }

    pub(crate) fn restart(&mut self) {
        self.process = spawn(self.dir.path(), &self.extra);
        self.wait_until_it_serves();
    }

    fn log(&mut self) -> String {
        let mut text = String::new();
        if let Some(log) = &mut self.process.stderr {
            let _ = log.read_to_string(&mut text);
        }
        text
    }

    fn wait_until_it_serves(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() || !self.data().join("api.sock").exists()
        {
            if let Ok(Some(status)) = self.process.try_wait() {
                panic!("the array ended with {status}: {}", self.log());
            }
            assert!(begun.elapsed() < START_TIME, "the array does not serve");
            sleep(Duration::from_millis(20));
        }
    }
}

fn spawn(dir: &Path, extra: &Vec<String>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command
        .arg("serve")
        .arg("--data")
        .arg(dir.join("data"))
        .arg("--config")
        .arg(dir.join("array.toml"))
        .args(extra);
    command.env("RUST_LOG", "warn").stderr(Stdio::piped()).spawn().expect("masu runs")
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
