//! Requests to the API of a running array, and printing of responses.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::{Change, Client, Endpoint, Status};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::follow;

/// The array, and the output format.
#[derive(Args)]
pub(crate) struct Where {
    /// The data directory of the running array [default: ./data, or /var/lib/masu if only that exists]
    #[arg(long, env = "MASU_DATA", global = true)]
    data: Option<PathBuf>,
    /// Use the array's API on TCP, as host:port; requires --token
    #[arg(long, requires = "token", global = true)]
    api: Option<String>,
    /// The token for the API on TCP
    #[arg(long, env = "MASU_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
    /// Print tables or JSON
    #[arg(long, value_enum, default_value_t = Output::Table, global = true)]
    pub(super) output: Output,
}

/// The data directory of `masu serve` without options, and that of the installed service.
const DATA_DIRS: [&str; 2] = ["./data", "/var/lib/masu"];

impl Where {
    /// The data directory.
    pub(super) fn data(&self) -> &Path {
        let [own, installed] = DATA_DIRS.map(Path::new);
        match &self.data {
            Some(data) => data,
            None if !own.exists() && installed.exists() => installed,
            None => own,
        }
    }

    /// The data directory, for commands that need it on this machine.
    ///
    /// # Errors
    /// The array is named by its address.
    pub(super) fn data_here(&self) -> Result<&Path> {
        match &self.api {
            Some(api) => {
                bail!("this command needs the array's data directory: pass --data instead of --api {api}")
            }
            None => Ok(self.data()),
        }
    }

    /// Where the API is, for messages.
    pub(super) fn place(&self) -> String {
        self.api.clone().unwrap_or_else(|| socket_in(self.data()).display().to_string())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

/// The path of the API's socket in a data directory.
pub(crate) fn socket_in(data: &Path) -> PathBuf {
    data.join("api.sock")
}

pub(crate) fn client(at: &Where) -> Client {
    Client::new(match (&at.api, &at.token) {
        (Some(addr), Some(token)) => Endpoint::Tcp { addr: addr.clone(), token: token.clone() },
        _ => Endpoint::Unix(socket_in(at.data())),
    })
}

pub(super) fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    Ok(runtime.block_on(work))
}

/// Makes a change, and prints the result.
pub(super) fn change(at: &Where, change: &Change) -> Result<ExitCode> {
    let done = wait(client(at).change(change))??;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&done)?),
        Output::Table if done.is_empty() => println!("nothing to do"),
        Output::Table => done.iter().for_each(|line| println!("{line}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a job, and follows it to its end unless told otherwise.
pub(super) fn begin(at: &Where, request: &Change, job: (&str, &str), detach: bool) -> Result<ExitCode> {
    let events_before = wait(client(at).status())??.events.len();
    change(at, request)?;
    if detach || at.output == Output::Json {
        return Ok(ExitCode::SUCCESS);
    }
    wait(follow::follow(&client(at), job, events_before))?
}

/// Prints a part of the status.
pub(super) fn show(at: &Where, print: impl FnOnce(&Status)) -> Result<ExitCode> {
    let status = wait(client(at).status())??;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&status)?),
        Output::Table => print(&status),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one object of the status; an error if it does not exist.
pub(super) fn show_one<T: serde::Serialize>(
    at: &Where,
    kind: &str,
    name: &str,
    find: impl Fn(&Status) -> Option<T>,
    print: impl FnOnce(&Status, &T),
) -> Result<ExitCode> {
    let status = wait(client(at).status())??;
    let found = find(&status).with_context(|| format!("no {kind} {name:?}"))?;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&found)?),
        Output::Table => print(&status, &found),
    }
    Ok(ExitCode::SUCCESS)
}
