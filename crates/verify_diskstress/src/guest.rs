//! A guest of an emulator that runs the load on its drive, which is an image file of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

const EMULATOR: &str = "qemu-system-x86_64";
/// A boot takes 5 s of one core without hardware virtualization.
const BOOT_TIME_MAX: Duration = Duration::from_secs(180);
/// Of a run of a pattern, written and read.
const RUN_TIME_MAX: Duration = Duration::from_secs(3600);
/// A line of the guest's console: longer ones are not the load's.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What the load in the guest says of a pattern.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Said {
    pub(super) pattern: String,
    pub(super) mb_per_s: f64,
    pub(super) wrong: u64,
    pub(super) direct: bool,
}

/// Kernel and initramfs of the guest.
pub(super) struct Parts {
    kernel: PathBuf,
    initramfs: PathBuf,
}

impl Parts {
    /// In this folder, where `make diskstress` puts them.
    pub(super) fn of(dir: &Path) -> Result<Parts> {
        let parts = Parts { kernel: dir.join("vmlinuz"), initramfs: dir.join("initramfs") };
        for part in [&parts.kernel, &parts.initramfs] {
            ensure!(part.is_file(), "{}: not found; build the guest with `make diskstress`", part.display());
        }
        Ok(parts)
    }
}

/// A guest that runs. Dropped, it is switched off.
pub(super) struct Guest {
    child: Child,
    orders: ChildStdin,
    lines: Receiver<String>,
}

/// A thread waits for what the guest says.
fn lines_of(console: impl Read + Send + 'static) -> Receiver<String> {
    let (say, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut console = BufReader::new(console);
        loop {
            let mut line = Vec::new();
            match (&mut console).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(n) if n > 0 => {
                    let text = String::from_utf8_lossy(&line).trim().to_owned();
                    if say.send(text).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    });
    lines
}

impl Guest {
    /// Boots it; its drive is this image, past the page cache of this machine.
    pub(super) fn boot(parts: &Parts, image: &Path, memory_mb: u32) -> Result<Guest> {
        let drive = format!("file={},format=raw,if=virtio,cache=none,aio=threads", image.display());
        let memory = memory_mb.to_string();
        let mut child = Command::new(EMULATOR)
            .args(["-accel", "tcg", "-cpu", "max", "-m", &memory, "-display", "none", "-monitor", "none"])
            .args([
                "-serial",
                "stdio",
                "-no-reboot",
                "-append",
                "console=ttyS0 quiet panic=-1",
                "-drive",
                &drive,
            ])
            .arg("-kernel")
            .arg(&parts.kernel)
            .arg("-initrd")
            .arg(&parts.initramfs)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("{EMULATOR} (Debian package qemu-system-x86)"))?;
        let (Some(orders), Some(console)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{EMULATOR}: no pipes to it");
        };
        let mut guest = Guest { child, orders, lines: lines_of(console) };
        guest.until("DISKSTRESS_READY", BOOT_TIME_MAX).context("the guest does not boot")?;
        Ok(guest)
    }

    /// Runs the load with these options. Gives what it says of each pattern.
    pub(super) fn run(&mut self, options: &str) -> Result<Vec<Said>> {
        writeln!(self.orders, "{options}").and_then(|()| self.orders.flush()).context("the guest is gone")?;
        let said = self.until("DISKSTRESS_DONE 0", RUN_TIME_MAX)?;
        let outcomes = said.iter().filter_map(|line| serde_json::from_str(line).ok());
        Ok(outcomes.collect())
    }

    /// The lines before this one. One that tells of a failure ends it.
    fn until(&mut self, wanted: &str, time: Duration) -> Result<Vec<String>> {
        let end = Instant::now() + time;
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line == wanted => return Ok(before),
                Ok(line) if line.starts_with("DISKSTRESS_") => {
                    bail!("the guest says {line}: {}", before.last().map_or("", String::as_str))
                }
                Ok(line) => before.push(line),
                Err(RecvTimeoutError::Timeout) => bail!("no output from the guest for {} s", time.as_secs()),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the guest ended: {}", before.last().map_or("no output", String::as_str))
                }
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the emulator calls itself.
pub(super) fn version() -> String {
    let said = Command::new(EMULATOR).arg("--version").output().ok();
    let text = said.map(|out| String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or("").to_owned());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".into())
}
