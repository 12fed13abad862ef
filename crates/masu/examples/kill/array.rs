//! The array under judgement: a process, its directory, its end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(crate) const TARGET: &str = "iqn.2026-11.net.example:kill";
const START_TIME: Duration = Duration::from_secs(30);
const STOP_TIME: Duration = Duration::from_secs(20);
/// Bytes of each file drive, and of each volume.
const DRIVE: &str = "192MiB";
pub(crate) const VOLUME_LEN: u64 = 48 << 20;

/// What the array stands on.
pub(crate) struct Layout<'a> {
    /// With a cache, smaller than the volumes, and a journal for the first pool on drives of its own.
    pub(crate) cached: bool,
    /// On the images a0, b0, b1 and j0 of the pool `vms` of the Ceph cluster with this configuration.
    pub(crate) ceph: Option<&'a Path>,
}

impl Layout<'_> {
    /// Names of the drives, and what each is.
    fn drives(&self) -> Vec<(&'static str, String)> {
        let file = |name| (name, format!("file = \"{name}.img\"\nsize = \"{DRIVE}\"\n"));
        match self.ceph {
            None => ["a0", "a1", "a2", "a3", "b0", "b1", "j0", "j1"].map(file).to_vec(),
            Some(conf) => {
                let conf = conf.display();
                let image = |name| (name, format!("rbd = \"vms/{name}\"\nrbd_conf = \"{conf}\"\n"));
                ["a0", "b0", "b1", "j0"].map(image).to_vec()
            }
        }
    }

    /// The groups: name, level, drives. Ceph replicates by itself.
    fn groups(&self) -> [(&'static str, &'static str, &'static str); 3] {
        match self.ceph {
            None => [
                ("ga", "raid5", r#"["a0", "a1", "a2", "a3"]"#),
                ("gb", "raid1", r#"["b0", "b1"]"#),
                ("gj", "raid1", r#"["j0", "j1"]"#),
            ],
            Some(_) => [
                ("ga", "raid0", r#"["a0"]"#),
                ("gb", "raid0", r#"["b0", "b1"]"#),
                ("gj", "raid0", r#"["j0"]"#),
            ],
        }
    }
}

/// Two pools, each with one volume: RAID 5 on four drives (LUN 0), RAID 1 on two (LUN 1); on images without
/// redundancy, on one and on two of them.
fn declaration(port: u16, layout: &Layout) -> String {
    let cached = layout.cached;
    let mut text = format!("target = \"{TARGET}\"\n[[portal]]\nlisten = \"127.0.0.1:{port}\"\n");
    if cached {
        text += "[cache]\nmemory = \"32MiB\"\n";
    }
    for (name, medium) in layout.drives() {
        text += &format!("[[drive]]\nname = \"{name}\"\n{medium}");
    }
    for (group, level, drives) in layout.groups() {
        text += &format!("[[group]]\nname = \"{group}\"\nlevel = \"{level}\"\ndrives = {drives}\n");
    }
    for (name, group) in [("pa", "ga"), ("pb", "gb")] {
        text += &format!("[[pool]]\nname = \"{name}\"\ngroups = [\"{group}\"]\n");
        if cached && name == "pa" {
            text += "journal = \"gj\"\n";
        }
        text += &format!("[[volume]]\nname = \"v{name}\"\npool = \"{name}\"\nsize = \"{VOLUME_LEN}\"\n");
    }
    text + "[[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = { 0 = \"vpa\", 1 = \"vpb\" }\n"
}

pub(crate) struct Array {
    masu: PathBuf,
    dir: PathBuf,
    pub(crate) port: u16,
    process: Option<Child>,
}

impl Array {
    /// Starts a new array under this directory.
    pub(crate) fn start(masu: &Path, dir: &Path, layout: &Layout) -> io::Result<Array> {
        let port = test_ports::claim();
        fs::create_dir_all(dir)?;
        fs::write(dir.join("array.toml"), declaration(port, layout))?;
        let mut array = Array { masu: masu.into(), dir: dir.into(), port, process: None };
        array.serve(true)?;
        Ok(array)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts the process; the declaration is given only the first time, later it is what the array kept.
    pub(crate) fn serve(&mut self, first: bool) -> io::Result<()> {
        let log = fs::File::options().create(true).append(true).open(self.dir.join("log"))?;
        let mut command = Command::new(&self.masu);
        command.arg("serve").arg("--data").arg(self.data()).stdout(Stdio::null()).stderr(log);
        if first {
            command.arg("--config").arg(self.dir.join("array.toml"));
        }
        // Without the old one, which the kernel closes late, as it does the ports of a killed process:
        // whoever answers there is the new process.
        let _ = fs::remove_file(self.data().join("api.sock"));
        let mut process = command.spawn()?;
        let begun = Instant::now();
        while !self.answers() {
            if let Some(status) = process.try_wait()? {
                return Err(io::Error::other(format!("the array ended with {status}: {}", self.last_line())));
            }
            if begun.elapsed() > START_TIME {
                let _ = process.kill();
                return Err(io::Error::other("the array does not serve"));
            }
            sleep(Duration::from_millis(10));
        }
        self.process = Some(process);
        Ok(())
    }

    /// Whether the API answers, which it does when all portals are open. That a portal can be connected to
    /// says less: it may still be the one of the killed process.
    fn answers(&self) -> bool {
        self.masu(&["status"]).is_ok_and(|output| output.status.success())
    }

    fn last_line(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        log.lines().last().unwrap_or_default().to_owned()
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// SIGTERM, and waits for the end, which must be a good one.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        Command::new("kill").args(["-TERM", &process.id().to_string()]).status()?;
        let begun = Instant::now();
        while begun.elapsed() < STOP_TIME {
            match process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(io::Error::other(format!("the array ended with {status}"))),
                None => sleep(Duration::from_millis(20)),
            }
        }
        let _ = process.kill();
        Err(io::Error::other("the array does not stop"))
    }

    /// Runs a command of administration.
    pub(crate) fn masu(&self, args: &[&str]) -> io::Result<Output> {
        Command::new(&self.masu).env("MASU_DATA", self.data()).args(args).output()
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
