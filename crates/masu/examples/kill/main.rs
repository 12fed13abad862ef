//! kill -9 under load, again and again: what was acknowledged and flushed is there after the restart,
//! everything else is old or new, sector by sector.
//!
//! ```text
//! cargo run --release --package masu --example kill -- --rounds 50 [--masu target/release/masu] [--seed 1]
//! cargo run --release --package masu --example kill -- --cached    the same with a cache and a journal
//! cargo run --release --package masu --example kill -- --ceph CONF  on images of a Ceph cluster
//! cargo run --release --package masu --example kill -- --replace   a drive's file is removed and replaced under load
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a judge runs processes and reads the clock"
)]

mod array;
mod host;
mod shadow;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use world::World;

use array::{Array, Layout, VOLUME_LEN};
use host::Counts;
use shadow::{SECTOR_LEN, Shadow};

/// How often it is looked whether something has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How long a rebuild of one small drive may take under load.
const REBUILD_TIME: Duration = Duration::from_secs(120);

#[derive(Parser)]
struct Options {
    /// How often the array is killed
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Remove a drive's file and replace the drive under load, instead of killing
    #[arg(long)]
    replace: bool,
    /// With a cache, and a journal for one of the pools
    #[arg(long)]
    cached: bool,
    /// On the RBD images vms/a0, b0, b1 and j0 of the Ceph cluster with this configuration
    #[arg(long, conflicts_with = "replace")]
    ceph: Option<PathBuf>,
    /// The program
    #[arg(long, default_value = "target/release/masu")]
    masu: PathBuf,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

struct Judge {
    world: World,
    array: Array,
    shadows: Vec<Rc<RefCell<Shadow>>>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let dir =
        tempfile::Builder::new().prefix("kill").tempdir_in("target").context("no directory under target")?;
    let layout = Layout { cached: options.cached, ceph: options.ceph.as_deref() };
    let array = Array::start(&options.masu, dir.path(), &layout).context("the array cannot start")?;
    let world_options = world_real::Options { seed: options.seed, ..world_real::Options::default() };
    let outcome = world_real::run(world_options, async |world| {
        host::warm();
        let shadow = |volume| Rc::new(RefCell::new(Shadow::new(volume, VOLUME_LEN / SECTOR_LEN as u64)));
        let mut judge = Judge { world, array, shadows: vec![shadow(0), shadow(1)] };
        match options.replace {
            true => judge.replace().await,
            false => judge.kill(options.rounds).await,
        }
    })?;
    if let Err(error) = outcome {
        let kept = dir.keep();
        eprintln!("kill: {error:#} (the array is kept in {}, seed {})", kept.display(), options.seed);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

impl Judge {
    async fn kill(&mut self, rounds: u32) -> Result<()> {
        let mut random = self.world.random("moments");
        let (mut writes, mut flushes) = (0, 0);
        for round in 1..=rounds {
            let load = self.begin_load().await?;
            let moment = Duration::from_millis(random.u64(50..1500));
            self.world.sleep(moment).await;
            self.array.kill()?;
            self.until_ended(&load).await;
            refused_nothing(&load)?;
            let begun = Instant::now();
            self.array.serve(false)?;
            let started = begun.elapsed();
            self.verify().await?;
            println!(
                "round {round}: killed after {:.2} s, {} writes and {} flushes acknowledged; serves again after {:.2} s; nothing lost",
                moment.as_secs_f64(),
                load.writes.get(),
                load.flushes.get(),
                started.as_secs_f64()
            );
            writes += load.writes.get();
            flushes += load.flushes.get();
        }
        self.end()?;
        println!(
            "killed {rounds} times: {writes} writes, {flushes} flushes; nothing lost, and the examination is clean"
        );
        Ok(())
    }

    /// A drive's file is removed, the group goes on, another drive takes its place and is filled; all under
    /// load.
    async fn replace(&mut self) -> Result<()> {
        for (group, drive) in [("ga", "a1"), ("gb", "b0")] {
            let load = self.begin_load().await?;
            self.world.sleep(Duration::from_millis(500)).await;
            std::fs::remove_file(self.array.data().join(format!("{drive}.img")))?;
            self.until_state(group, |state| state != "optimal").await?;
            let before = load.writes.get();
            self.world.sleep(Duration::from_millis(500)).await;
            if load.writes.get() == before {
                bail!("group {group}: no write ends without drive {drive}");
            }
            let output = self.array.masu(&[
                "group",
                "replace",
                group,
                drive,
                &format!("{drive}-new.img"),
                "--detach",
            ])?;
            if !output.status.success() {
                bail!("the drive is not replaced: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            let begun = Instant::now();
            self.until_state(group, |state| state == "optimal").await?;
            let rebuilt = begun.elapsed();
            load.stop.set(true);
            self.until_ended(&load).await;
            refused_nothing(&load)?;
            self.verify().await?;
            println!(
                "group {group}: the file of {drive} was removed and the drive replaced under {} writes and {} flushes; rebuilt in {:.1} s; nothing lost",
                load.writes.get(),
                load.flushes.get(),
                rebuilt.as_secs_f64()
            );
        }
        self.end()
    }

    async fn begin_load(&self) -> Result<Rc<Counts>> {
        let counts = Rc::new(Counts::default());
        for (lun, shadow) in (0..).zip(&self.shadows) {
            shadow.borrow_mut().crashed();
            let session = host::login(&self.world, self.array.port).await?;
            host::write(&self.world, &session, lun, shadow, &counts);
        }
        Ok(counts)
    }

    async fn until_ended(&self, load: &Counts) {
        while !load.all_ended() {
            self.world.sleep(LOOK_INTERVAL).await;
        }
    }

    async fn until_state(&self, group: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let output = self.array.masu(&["group", "show", group, "--output", "json"])?;
            let shown: serde_json::Value = serde_json::from_slice(&output.stdout).context("no JSON")?;
            if wanted(shown["state"].as_str().unwrap_or_default()) {
                return Ok(());
            }
            if begun.elapsed() > REBUILD_TIME {
                bail!("group {group} stays {}", shown["state"]);
            }
            self.world.sleep(LOOK_INTERVAL * 10).await;
        }
    }

    async fn verify(&self) -> Result<()> {
        for (lun, shadow) in (0..).zip(&self.shadows) {
            let session = host::login(&self.world, self.array.port).await?;
            let wrong = host::verify(&session, lun, shadow).await?;
            session.close();
            if let Some(first) = wrong.first() {
                bail!("{} sectors or reads are wrong, the first: {first}", wrong.len());
            }
        }
        Ok(())
    }

    /// Stops the array in order, and examines it.
    fn end(&mut self) -> Result<()> {
        self.array.stop()?;
        let data = self.array.data();
        let output = self.array.masu(&["check", &data.display().to_string(), "--data"])?;
        if !output.status.success() {
            bail!("the examination finds: {}", String::from_utf8_lossy(&output.stdout).trim());
        }
        Ok(())
    }
}

fn refused_nothing(load: &Counts) -> Result<()> {
    match load.refused.borrow().first() {
        Some(first) => bail!("{} commands were refused, the first: {first}", load.refused.borrow().len()),
        None => Ok(()),
    }
}
