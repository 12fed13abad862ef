//! `masu run`: the command line of a scenario of one's own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use lab_core::console;
use lab_core::record::World;
use lab_core::sweep::{POINTS, POINTS_DEFAULT};
use lab_core::verification::{self, Request, Sweep};

use super::scenario::EXAMPLE;
use super::{Run as Verification, report, words};

/// Run a scenario of your own: arrays, loads, phases and claims in one file
///
/// Promises of the scenario decide the exit status: 0 all are held, 1 one is not held, 3 none is refuted but
/// some are undecided (also where the run measured nothing for one) or in doubt, 2 the run could not be done.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu run --new my.toml                                  write a commented scenario to begin with
  masu run my.toml --check                                what it would do, and how long it takes
  masu run my.toml                                        in virtual time, on modelled drives
  masu run my.toml --world real                           over iSCSI, on modelled or real drives
  masu run my.toml --world real --target URL --destroy-data
  masu run my.toml --sweep                                also over the ranges that it declares

docs/verify_run.md describes the keys; scenarios/examples has six scenarios.")]
pub struct Run {
    /// The scenario, a TOML file
    #[arg(required_unless_present = "new")]
    scenario: Option<PathBuf>,
    /// Write a commented scenario to this new file, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "check"])]
    new: Option<PathBuf>,
    /// Check the scenario and say what a run does and how long it takes, without running it: what the run
    /// would refuse is refused. The LUs of --target are asked for their size
    #[arg(long)]
    check: bool,
    /// Also repeat the run over the [[range]]s that the scenario declares, and judge its claims at each point
    #[arg(long)]
    sweep: bool,
    /// Points of --sweep over all ranges together, at least 64 to publish them
    #[arg(long, requires = "sweep", default_value_t = POINTS_DEFAULT, value_parser = clap::value_parser!(u32).range(points()))]
    points: u32,
    /// Where it runs
    #[arg(long, value_enum, default_value_t = WorldName::Model)]
    world: WorldName,
    /// A LU of another array as iscsi://host:port/target/lun, a device or a file; one for each volume of the
    /// scenario
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<String>,
    /// Agree that the LUs behind --target are overwritten
    #[arg(long, requires = "targets")]
    destroy_data: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the report, results.json and the samples go
    #[arg(long, default_value = "./run")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorldName {
    /// Modelled drives in virtual time
    Model,
    /// iSCSI sessions in real time; modelled drives take their time, files and devices are real
    Real,
}

/// Does what was asked; gives the exit status.
///
/// # Errors
///
/// When it cannot be done: exit status 2.
pub fn run(asked: &Run, commit: Option<&str>) -> Result<u8> {
    if let Some(path) = &asked.new {
        write_new(path)?;
        return Ok(0);
    }
    let world = match asked.world {
        WorldName::Model => World::Model,
        WorldName::Real => World::Real,
    };
    let request = Request {
        targets: asked.targets.clone(),
        destroy_data: asked.destroy_data,
        repeats: 1,
        seed: asked.seed,
        out: asked.out.clone(),
        scenario: asked.scenario.clone(),
        command: lab_core::command_line::of_process(),
        commit: commit.map(str::to_owned),
        ..Request::default()
    };
    ensure!(!asked.sweep || world == World::Model, "--sweep requires --world model");
    let sweep = asked.sweep.then_some(Sweep { points: asked.points, form: &world });
    if asked.check {
        let (plan, _) = report::load(&request)?;
        super::runs::prepare(&plan, world, &request)?;
        if let Some(Sweep { points, form }) = sweep {
            lab_core::sweep::check::<Verification>(&request, form, points)?;
        }
        console::print(&words::check(&plan, world, request.targets.len()));
        return Ok(0);
    }
    Ok(verification::run_and_sweep::<Verification>(&request, &world, sweep)?.verdict.exit_status)
}

fn points() -> std::ops::RangeInclusive<i64> {
    i64::from(*POINTS.start())..=i64::from(*POINTS.end())
}

fn write_new(path: &Path) -> Result<()> {
    ensure!(!path.exists(), "refusing to overwrite {}: name a new file", path.display());
    std::fs::write(path, EXAMPLE).with_context(|| path.display().to_string())?;
    console::print(&format!("{0}: change what you need, then: masu run {0} --check", path.display()));
    Ok(())
}
