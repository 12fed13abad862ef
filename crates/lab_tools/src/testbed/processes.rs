//! Nodes of one array as real processes: `masu serve` with a registry in a directory. Their drives are files
//! that take the time of a modelled drive, in the process that has them open. The first node owns the array
//! and takes over the controllers of one that is gone.

#![expect(
    clippy::disallowed_types,
    reason = "it looks for free ports of this machine, as its processes will"
)]

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use array::Config;
use lab_core::interrupt::{Abandoned, Stop};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::TempDir;

use super::scratch;

/// The nodes, until they are dropped. Its calls block, as those of a person at a terminal do.
pub struct Processes {
    program: PathBuf,
    /// Which drive their files are.
    model: String,
    portals: Vec<SocketAddr>,
    /// None: killed.
    running: Mutex<Vec<Option<Child>>>,
    dir: TempDir,
}

/// Until a node serves, or runs its controllers, on a busy machine.
const START_TIME: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Below the ports that Linux gives to clients, so that no client has one when the node opens it.
const PORTS: std::ops::Range<u16> = 28_000..32_000;
/// Of a log, in an error.
const LINES_SHOWN: usize = 3;

impl Processes {
    /// Starts the nodes of an array, one for each of its controllers; `declare` declares it with its files in
    /// a directory. It is made on drives that cost no time.
    ///
    /// # Errors
    /// A node does not start: the last lines of its log. [`Abandoned`] after a stop request.
    pub fn start(
        (program, model): (&Path, &str),
        declare: impl FnOnce(&Path) -> Config,
        stop: &Stop,
    ) -> Result<(Processes, Config)> {
        let dir = scratch::directory()?;
        let config = declare(dir.path());
        let nodes = config.controllers;
        let config = Config { controller_nodes: (0..nodes).map(name).collect(), ..config };
        let all = Processes {
            program: program.to_owned(),
            model: model.to_owned(),
            portals: free_portals(nodes)?,
            running: Mutex::default(),
            dir,
        };
        all.declare(&config)?;
        all.make(stop)?;
        for node in 0..nodes {
            all.run(node, true)?;
            let text = match node {
                0 => "array: serves".to_owned(),
                _ => format!("controller {node} runs at node {}", name(node)),
            };
            all.wait_for((0, node), &text, stop)?;
        }
        Ok((all, config))
    }

    /// The portal of a node.
    pub fn portal(&self, node: usize) -> SocketAddr {
        self.portals[node]
    }

    /// The owner makes everything, and stops.
    fn make(&self, stop: &Stop) -> Result<()> {
        self.run(0, false)?;
        self.wait_for((0, 0), "array: serves", stop)?;
        let Some(mut child) = self.running()[0].take() else { bail!("{} has ended", name(0)) };
        kill_process(pid(&child)?, Signal::TERM)?;
        let status = child.wait()?;
        ensure!(
            status.success(),
            "{} has made the array and ends with {status}: {}",
            name(0),
            self.end_of_log(0)
        );
        // The next life has a log of its own.
        fs::remove_file(self.log_file(0))?;
        self.running().clear();
        Ok(())
    }

    /// `timed`: its drives take their time.
    fn run(&self, node: usize, timed: bool) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file(node))?;
        let mut command = self.command();
        command
            .args(["serve", "--parent", &std::process::id().to_string()])
            .args(["--node", &name(node), "--listen", &self.portals[node].to_string()])
            .arg("--registry")
            .arg(self.dir.path().join("registry"))
            .arg("--data")
            .arg(self.dir.path().join(name(node)))
            .arg("--config")
            .arg(self.declaration());
        if timed {
            command.args(["--drive-model", &self.model]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().with_context(|| self.program.display().to_string())?;
        self.running().push(Some(child));
        Ok(())
    }

    /// Of the program; what the environment says to it is not of this array.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let is_own = |name: &OsStr| name.to_string_lossy().starts_with("MASU_") || name == "RUST_LOG";
        std::env::vars_os().filter(|(name, _)| is_own(name)).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command
    }

    /// Asks the owner.
    fn ask(&self, args: &[&OsStr]) -> Result<Output> {
        let asked = self.command().env("MASU_DATA", self.dir.path().join(name(0))).args(args).output();
        let output = asked.with_context(|| self.program.display().to_string())?;
        let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).collect();
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "masu {}: {}", words.join(" "), said.trim());
        Ok(output)
    }

    fn declare(&self, config: &Config) -> Result<()> {
        let path = self.declaration();
        fs::write(&path, config.to_text()).with_context(|| path.display().to_string())
    }

    /// Puts another declaration in force.
    ///
    /// # Errors
    /// The array refuses it.
    pub fn import(&self, config: &Config) -> Result<()> {
        self.declare(config)?;
        let path = self.declaration();
        self.ask(&["config".as_ref(), "import".as_ref(), path.as_os_str(), "--yes".as_ref()]).map(drop)
    }

    /// The volumes of which the owner says that they are below their minimum.
    ///
    /// # Errors
    /// It does not answer.
    pub fn below_minimum(&self) -> Result<Vec<String>> {
        let output = self.ask(&["status".as_ref(), "--output".as_ref(), "json".as_ref()])?;
        let status: Status = serde_json::from_slice(&output.stdout).context("the status of the array")?;
        let below = status.volumes.into_iter().filter(|volume| volume.qos.state == "below_minimum");
        Ok(below.map(|volume| volume.name).collect())
    }

    /// Kills a node, as `kill -9` does.
    ///
    /// # Errors
    /// It has ended before.
    pub fn kill(&self, node: usize) -> Result<()> {
        let Some(mut child) = self.running()[node].take() else { bail!("{} was killed before", name(node)) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Whether the first node runs the controller of one that was killed.
    pub fn has_taken_over(&self, node: usize) -> bool {
        self.log(0).contains(&format!("controller {node} runs at this node"))
    }

    /// Whether all nodes run that were not killed.
    ///
    /// # Errors
    /// One has ended: the last lines of its log.
    pub fn check(&self) -> Result<()> {
        for (node, child) in self.running().iter_mut().enumerate() {
            let ended = child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = ended {
                bail!("{} has ended with {status}: {}", name(node), self.end_of_log(node));
            }
        }
        Ok(())
    }

    /// Waits until a node has said something; another one is why.
    fn wait_for(&self, (node, why): (usize, usize), text: &str, stop: &Stop) -> Result<()> {
        let begun = Instant::now();
        while !self.log(node).contains(text) {
            if stop.is_asked() {
                return Err(Abandoned.into());
            }
            self.check()?;
            if begun.elapsed() > START_TIME {
                let secs = START_TIME.as_secs();
                bail!("{} does not start within {secs} s: {}", name(why), self.end_of_log(why));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn log(&self, node: usize) -> String {
        fs::read_to_string(self.log_file(node)).unwrap_or_default()
    }

    /// In one line.
    fn end_of_log(&self, node: usize) -> String {
        let log = self.log(node);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("; ")
    }

    fn log_file(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("{}.log", name(node)))
    }

    fn declaration(&self) -> PathBuf {
        self.dir.path().join("array.toml")
    }

    fn running(&self) -> MutexGuard<'_, Vec<Option<Child>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.running().iter_mut().flatten() {
            // One that has ended already needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What is read of the status.
#[derive(Deserialize)]
struct Status {
    volumes: Vec<Volume>,
}

#[derive(Deserialize)]
struct Volume {
    name: String,
    qos: Promise,
}

#[derive(Deserialize)]
struct Promise {
    state: String,
}

fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

fn pid(child: &Child) -> Result<Pid> {
    let raw = i32::try_from(child.id()).ok();
    raw.and_then(Pid::from_raw).ok_or_else(|| anyhow!("a process without a number"))
}

/// So many addresses of this machine at which nobody listens. Runs at the same time begin at other ones.
fn free_portals(count: usize) -> Result<Vec<SocketAddr>> {
    let len = PORTS.len() as u32;
    let first = std::process::id() * 16 % len;
    let all = (0..len).map(|n| PORTS.start + ((first + n) % len) as u16);
    let free = all.filter(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok());
    let free: Vec<SocketAddr> = free.map(|port| (Ipv4Addr::LOCALHOST, port).into()).take(count).collect();
    ensure!(free.len() == count, "no {count} free TCP ports in {PORTS:?}");
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(program: &str, stop: &Stop) -> String {
        let declare = |_: &Path| Config::empty("iqn.2026-11.net.masu.lab:nodes");
        let started = Processes::start((Path::new(program), "savvio-10k4"), declare, stop);
        format!("{:#}", started.map(drop).expect_err("no array"))
    }

    #[test]
    fn a_node_that_does_not_start_is_named() {
        let said = started("/bin/false", &Stop::default());
        assert!(said.contains("n1 has ended with exit status: 1"), "{said}");
        assert!(started("/nowhere/masu", &Stop::default()).contains("/nowhere/masu"));
    }

    #[test]
    fn portals_are_free_and_differ() {
        let all = free_portals(3).expect("there are some");
        assert!(all[0] != all[1] && all[1] != all[2]);
        let taken = TcpListener::bind(all[0]).expect("free");
        assert!(!free_portals(3).expect("others").contains(&taken.local_addr().expect("its own")));
    }
}
