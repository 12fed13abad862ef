//! The command line of masu.

// First: what prints a line, in all others.
#[macro_use]
mod stdout;

#[cfg(test)]
mod advice;
mod check;
mod compare;
mod daemon;
mod declared;
mod drive;
mod held;
mod known_nodes;
mod load;
mod manage;
mod predict;
mod registry_option;
mod report;
mod sample;
mod state_key;
mod stderr_queue;
mod table;
mod texts;
mod vdisk;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A storage array for virtual machines, and a laboratory that verifies storage
///
/// The same program serves block storage over iSCSI, and verifies storage: its own, or any other iSCSI
/// target.
#[derive(Parser)]
#[command(
    name = "masu",
    version,
    after_help = "\
Examples:
  masu verify vaai                        measure the savings of offloads, and write a report
  masu run --new my.toml                  write a commented scenario of your own, for masu run my.toml
  masu serve --data ./data                run an array on files under ./data
  masu volume create v1 --size 10GiB      create a thin volume
  masu host set kvm1 iqn.2004-10.com.example:kvm1
  masu host map kvm1 v1                   map v1 to the host as LUN 0
  masu status                             show problems first, then everything
  masu check ./data                       check a stopped array

Exit status: 0 done (and every promise held), 1 a promise is not held, 2 bad input or failure, 3 undecided or in doubt."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Verify(verify::Verify),
    Run(verify_run::cli::Run),
    Serve(daemon::Serve),
    Check(check::Check),
    Compare(compare::Compare),
    Predict(predict::Predict),
    Report(report::Report),
    Sample(sample::Sample),
    #[command(flatten)]
    Manage(manage::Manage),
    /// Virtual disk images: VHD and VHDX; QCOW2 and VMDK as sources of a conversion
    #[command(subcommand)]
    Vdisk(vdisk::Vdisk),
    Load(Box<load::Load>),
    Agent(verify_fileserver::load::cli::AgentArgs),
    Completions(texts::Completions),
    #[command(hide = true)]
    Man(texts::Man),
}

fn main() -> ExitCode {
    stdout::end_instead_of_panics();
    world_real::ignore_file_size_signal();
    let cli: Cli = stdout::command_line();
    let outcome = match cli.command {
        Command::Verify(verify) => verify::run(&verify),
        Command::Run(run) => verify_run::cli::run(&run, option_env!("MASU_COMMIT")).map(ExitCode::from),
        Command::Serve(serve) => daemon::run(&serve),
        Command::Check(check) => check::run(&check),
        Command::Compare(compare) => compare::run(&compare),
        Command::Predict(predict) => predict::run(&predict),
        Command::Report(report) => report::run(&report),
        Command::Sample(sample) => sample::run(&sample),
        Command::Manage(manage) => manage::run(&manage),
        Command::Vdisk(vdisk) => vdisk::run(&vdisk),
        Command::Load(load) => load::run(&load),
        Command::Completions(completions) => texts::completions(&completions, Cli::command()),
        Command::Man(man) => texts::man(&man, Cli::command()),
        Command::Agent(agent) => verify_fileserver::load::cli::serve(&agent).map(|()| ExitCode::SUCCESS),
    };
    if let Some(error) = lab_core::console::failure() {
        stdout::failed(&error);
    }
    stdout::flush();
    outcome.unwrap_or_else(|error| {
        // Where it cannot be written, the status says it.
        lab_core::console::note(&format!("masu: {}", lab_core::console::causes(&error)));
        ExitCode::from(2)
    })
}
