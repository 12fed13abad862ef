//! `masu job`, `masu session`, `masu port` and `masu event`: what comes and goes by itself, listed and shown.

use std::process::ExitCode;

use admin::{Job, Port, Session, Status};
use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

use super::events;
use super::nouns::{EVENT, JOB, PORT, SESSION};
use super::request::{Where, list, show_one};
use crate::table::{self, ListArgs, column::Noun};

#[derive(Subcommand)]
pub(crate) enum ObservedCommand {
    /// List them
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one with everything of it
    Show {
        /// Its name: the first column of the list
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum EventCommand {
    /// List the kept events, the oldest first
    List {
        /// Only events since: an age (90s, 30m, 2h, 7d), or a time (2026-11-23T08:00:00Z)
        #[arg(long, value_parser = crate::table::moment::since)]
        since: Option<u64>,
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one event with everything of it
    Show {
        /// Its number (masu event list --columns number,text)
        number: String,
    },
}

fn run<T: Serialize>(
    what: &ObservedCommand,
    at: &Where,
    noun: &Noun<T>,
    of: impl FnOnce(Status) -> Vec<T>,
) -> Result<ExitCode> {
    match what {
        ObservedCommand::List { args } => list(at, noun, args, of),
        ObservedCommand::Show { name } => show_one(at, noun, name, of, |_, _| ()),
    }
}

fn jobs(status: Status) -> Vec<Job> {
    status.jobs
}

fn sessions(status: Status) -> Vec<Session> {
    status.sessions
}

fn ports(status: Status) -> Vec<Port> {
    status.ports
}

pub(super) fn run_job(what: &ObservedCommand, at: &Where) -> Result<ExitCode> {
    run(what, at, &JOB, jobs)
}

pub(super) fn run_session(what: &ObservedCommand, at: &Where) -> Result<ExitCode> {
    run(what, at, &SESSION, sessions)
}

pub(super) fn run_port(what: &ObservedCommand, at: &Where) -> Result<ExitCode> {
    run(what, at, &PORT, ports)
}

pub(super) fn run_event(what: &EventCommand, at: &Where) -> Result<ExitCode> {
    match what {
        EventCommand::List { since, args } => {
            table::list(&EVENT, args, at.form.look(), || events::kept(at, since.unwrap_or_default()))
        }
        EventCommand::Show { number } => {
            table::show(&EVENT, number, at.form.look(), events::kept(at, 0)?, |_| ())
        }
    }
}
