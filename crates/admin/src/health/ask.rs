//! Runs smartctl: one process for each look at a device, with a time limit and a bounded answer.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use status::DriveHealth;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::parse::parse;

const PROGRAM: &str = "smartctl";
/// Where it is installed; the PATH of users does not have these on every system.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// A disk that repairs a sector may answer after 10 s and more.
const TIME_MAX: Duration = Duration::from_secs(30);
/// How long a process that was killed may take to end, unless the kernel waits for the device on its behalf.
const END_TIME: Duration = Duration::from_secs(1);
/// An answer has some 10 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// A disk that sleeps is not woken. The log `ssd` has the wear of SATA and SAS, `error` the errors of SAS.
const ARGUMENTS: [&str; 7] =
    ["--json=c", "--nocheck=standby", "--info", "--health", "--attributes", "--log=ssd", "--log=error"];

/// The program smartctl of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smartctl {
    program: PathBuf,
    time_max: Duration,
}

/// Why nothing is known of a device.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be started.
    #[error("smartctl cannot be started: {0}")]
    Start(std::io::Error),
    /// It has read nothing: why.
    #[error("{0}")]
    Nothing(String),
    /// It did not end in time, and was killed.
    #[error("smartctl did not end within {} s, and was killed", .time.as_secs_f64())]
    Silent {
        /// The time limit.
        time: Duration,
        /// The process, where it still waits for the device.
        running: Option<Box<Child>>,
    },
}

impl Smartctl {
    /// The one that is found first: in `PATH`, then where systems install it.
    pub fn find() -> Option<Smartctl> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Smartctl::find_in(&path)
    }

    fn find_in(path: &OsStr) -> Option<Smartctl> {
        let places = std::env::split_paths(path).chain(PLACES.map(PathBuf::from));
        let found = places.filter(|dir| dir.is_absolute()).map(|dir| dir.join(PROGRAM)).find(|p| p.is_file());
        found.map(|program| Smartctl { program, time_max: TIME_MAX })
    }

    /// Where it is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// What the disk at a path says of itself; of a partition, its disk.
    ///
    /// # Errors
    /// smartctl reads nothing from it, or does not end in time.
    pub async fn ask(&self, device: &Path) -> Result<DriveHealth, AskError> {
        let device = device.to_owned();
        let disk = tokio::task::spawn_blocking(move || disk_of(&device)).await.ok().flatten();
        self.ask_disk(&disk.ok_or_else(|| AskError::Nothing("it is not a block device".into()))?).await
    }

    pub(super) async fn ask_disk(&self, disk: &Path) -> Result<DriveHealth, AskError> {
        let mut command = Command::new(&self.program);
        // Its environment is empty: masu's may have a token.
        command.args(ARGUMENTS).arg(disk).env_clear().env("LC_ALL", "C").current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(AskError::Start)?;
        let ended = tokio::time::timeout(self.time_max, answer_of(&mut child)).await;
        let Ok(answer) = ended else {
            let running = end(child).await;
            return Err(AskError::Silent { time: self.time_max, running });
        };
        parse(&answer.map_err(AskError::Nothing)?).map_err(AskError::Nothing)
    }
}

/// All of what a process prints until it ends.
async fn answer_of(child: &mut Child) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("smartctl: {error}");
    let mut answer = Vec::new();
    if let Some(out) = child.stdout.take() {
        let bounded = &mut out.take(ANSWER_BYTES_MAX as u64 + 1);
        bounded.read_to_end(&mut answer).await.map_err(failed)?;
    }
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(format!("smartctl has printed more than {ANSWER_BYTES_MAX} bytes"));
    }
    // Its bits say what the answer says too; an answer that says nothing has nothing else.
    let status = child.wait().await.map_err(failed)?;
    if answer.is_empty() { Err(format!("smartctl has printed nothing ({status})")) } else { Ok(answer) }
}

/// Kills a process. Some: it waits in the kernel, and ends when the device answers.
async fn end(mut child: Child) -> Option<Box<Child>> {
    let _ = child.start_kill();
    let ended = tokio::time::timeout(END_TIME, child.wait()).await;
    ended.is_err().then(|| Box::new(child))
}

/// The device of a whole disk that a path leads to, or on which the partition is to which it leads.
fn disk_of(path: &Path) -> Option<PathBuf> {
    let device = path.canonicalize().ok()?;
    let name = device.file_name()?;
    let in_sysfs = Path::new("/sys/class/block").join(name).canonicalize().ok()?;
    let is_partition = in_sysfs.join("partition").exists();
    let disk = if is_partition { in_sysfs.parent()?.file_name()? } else { name };
    Some(Path::new("/dev").join(disk))
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program in place of smartctl. It is written by another process: one that this process has open for
    /// writing while another test forks cannot be executed (ETXTBSY).
    pub(in crate::health) fn fake(dir: &Path, script: &str) -> Smartctl {
        let program = dir.join(PROGRAM);
        let source = dir.join("source");
        std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let copied = std::process::Command::new("cp").arg(&source).arg(&program).status().expect("cp");
        assert!(copied.success());
        Smartctl::find_in(dir.as_os_str()).expect("found")
    }

    async fn asked(script: &str) -> Result<DriveHealth, AskError> {
        let dir = tempfile::tempdir().expect("a directory");
        fake(dir.path(), script).ask_disk(Path::new("/dev/sdx")).await
    }

    async fn refused(script: &str) -> String {
        asked(script).await.expect_err("nothing").to_string()
    }

    #[tokio::test]
    async fn it_is_asked_for_one_device_with_nothing_of_this_process() {
        let script = r#"[ "$(env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=)" = LC_ALL=C ] || exit 1
            [ -z "$(cat)" ] && [ "$(pwd)" = / ] || exit 1
            printf '{"model_name": "%s", "temperature": {"current": 30}}' "$*"; exit 68"#;
        let health = asked(script).await.expect("health");
        assert_eq!(health.temperature_celsius, Some(30), "whatever its status");
        let model = health.model.expect("the arguments");
        assert!(model.starts_with("--json=c --nocheck=standby --info"), "{model}");
        let script = r#"for last in "$@"; do :; done
            printf '{"model_name": "%s", "temperature": {"current": 30}}' "$last""#;
        assert_eq!(asked(script).await.expect("health").model.as_deref(), Some("/dev/sdx"));
    }

    #[tokio::test]
    async fn an_answer_of_any_kind_is_bounded_and_told() {
        assert!(refused("exit 1").await.contains("printed nothing (exit status: 1)"));
        assert!(refused("kill -9 $$").await.contains("printed nothing (signal: 9"));
        assert!(refused("echo usage").await.contains("no JSON"));
        assert!(refused("head -c 100 /dev/urandom").await.contains("no JSON"));
        assert!(refused("exec cat /dev/zero").await.contains("more than 1048576 bytes"));
        let said = refused(
            r#"echo '{"smartctl": {"messages": [{"string": "Permission denied", "severity": "error"}]}}'"#,
        );
        assert_eq!(said.await, "Permission denied");
    }

    #[tokio::test]
    async fn a_process_that_does_not_end_is_killed() {
        let dir = tempfile::tempdir().expect("a directory");
        let smartctl =
            Smartctl { time_max: Duration::from_millis(100), ..fake(dir.path(), "exec sleep 3600") };
        let error = smartctl.ask_disk(Path::new("/dev/sdx")).await.expect_err("silent");
        assert!(matches!(error, AskError::Silent { running: None, .. }), "it has ended: {error}");
        assert!(error.to_string().contains("did not end within 0.1 s"), "{error}");
    }

    #[tokio::test]
    async fn what_is_no_block_device_is_not_asked_about() {
        let dir = tempfile::tempdir().expect("a directory");
        let smartctl = fake(dir.path(), r#"echo '{"temperature": {"current": 30}}'"#);
        for path in [dir.path(), Path::new("/dev/null"), Path::new("/nowhere")] {
            let said = smartctl.ask(path).await.expect_err("no device").to_string();
            assert_eq!(said, "it is not a block device", "{}", path.display());
        }
        std::fs::remove_file(smartctl.program()).expect("removed");
        let error = smartctl.ask_disk(Path::new("/dev/sdx")).await.expect_err("gone");
        assert!(matches!(error, AskError::Start(_)), "{error}");
    }
}
