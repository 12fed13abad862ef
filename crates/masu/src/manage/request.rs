//! Requests to the API of a running array, and printing of responses.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use admin::{Change, Client, ClientError, Endpoint, STARTING, Status, Trust};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;

use super::follow;
use crate::table::column::Noun;
use crate::table::{self, Color, ListArgs, Look, Output};

/// The array, the output format, and what a change asks first.
#[derive(Args)]
pub(crate) struct Where {
    /// The data directory of the running array [default: ./data, or /var/lib/masu if only that exists]
    #[arg(long, env = "MASU_DATA", global = true, help_heading = "Array")]
    data: Option<PathBuf>,
    /// Use the array's API on TCP, as https://host:port, or host:port without TLS; requires --token
    #[arg(long, value_parser = api_address, requires = "token", global = true, help_heading = "Array")]
    api: Option<String>,
    /// The server's certificate has this SHA-256, as `masu serve` logs it; for a certificate that no root has
    /// signed
    #[arg(long, value_name = "SHA256", value_parser = Trust::fingerprint, conflicts_with = "api_ca")]
    #[arg(env = "MASU_API_FINGERPRINT", global = true, help_heading = "Array")]
    api_fingerprint: Option<Trust>,
    /// Roots that may sign the server's certificate (PEM)
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    #[arg(env = "MASU_API_CA", global = true, help_heading = "Array")]
    api_ca: PathBuf,
    /// The token for the API on TCP
    #[arg(long, env = "MASU_TOKEN", hide_env_values = true, global = true, help_heading = "Array")]
    token: Option<String>,
    #[command(flatten)]
    pub(super) form: Form,
    /// Do not ask for confirmation
    #[arg(long, global = true, help_heading = "Changes")]
    pub(super) yes: bool,
    /// Say what would change, or what refuses it, and change nothing
    #[arg(long, global = true, help_heading = "Changes")]
    pub(super) dry_run: bool,
}

/// The output format.
#[derive(Args, Clone, Copy)]
pub(crate) struct Form {
    /// Print tables, JSON, CSV (RFC 4180), or names, one a line
    #[arg(long, value_enum, default_value_t = Output::Table, global = true, help_heading = "Output")]
    pub(super) output: Output,
    /// Colours: on a terminal unless NO_COLOR is set, always, or never
    #[arg(long, value_enum, default_value_t = Color::Auto, global = true, help_heading = "Output")]
    color: Color,
}

/// A node that has not heard from its registry by then has a fault, and says that.
const START_TIME_MAX: Duration = Duration::from_secs(5);
const START_PAUSE: Duration = Duration::from_millis(50);
/// A change that takes longer is told of.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// The data directory of `masu serve` without options, and that of the installed service.
const DATA_DIRS: [&str; 2] = ["./data", "/var/lib/masu"];

impl Where {
    /// Whether the array is elsewhere.
    pub(super) fn is_remote(&self) -> bool {
        self.api.is_some()
    }

    /// Refuses --dry-run where the command is nothing else than what it would do.
    ///
    /// # Errors
    /// It was given.
    pub(crate) fn refuse_dry_run(&self, command: &str) -> Result<()> {
        ensure!(!self.dry_run, "invalid --dry-run: masu {command} cannot say what it would do; leave it out");
        Ok(())
    }

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

impl Form {
    pub(super) fn look(self) -> Look {
        Look { output: self.output, color: self.color }
    }

    /// Whether people read it: the table.
    pub(super) fn is_plain(self) -> bool {
        self.output == Output::Table
    }

    /// Refuses a format that is for objects only; says whether it is JSON.
    ///
    /// # Errors
    /// It is CSV or names.
    pub(super) fn is_json(self) -> Result<bool> {
        match self.output {
            Output::Table => Ok(false),
            Output::Json => Ok(true),
            Output::Csv | Output::Name => {
                bail!("invalid --output: csv and name are for list and show; use table or json")
            }
        }
    }
}

/// The path of the API's socket in a data directory.
pub(crate) fn socket_in(data: &Path) -> PathBuf {
    data.join("api.sock")
}

pub(crate) fn client(at: &Where) -> Client {
    Client::new(match (&at.api, &at.token) {
        (Some(api), Some(token)) => {
            let (addr, trust) = at.server(api);
            Endpoint::Tcp { addr, token: token.clone(), trust }
        }
        _ => Endpoint::Unix(socket_in(at.data())),
    })
}

/// An address of the API on TCP, as it was given. A socket is no such address.
fn api_address(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let host = rest.trim_end_matches('/');
    let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    let is_address = match scheme {
        "https" => !matches!(port, Some(Err(_))) || host.ends_with(']'),
        "http" | "" => matches!(port, Some(Ok(_))),
        _ => false,
    };
    if is_address && !host.is_empty() && !host.starts_with(':') && !host.contains('/') {
        return Ok(text.to_owned());
    }
    let socket = "; the socket of an array is found by its data directory: --data DIR";
    let hint = if text.contains('/') && scheme.is_empty() { socket } else { "" };
    Err(format!("not https://HOST[:PORT] or HOST:PORT{hint}"))
}

/// The port of a URL without one.
const HTTPS_PORT: u16 = 443;

impl Where {
    /// `host:port` of what `--api` says, and how the server is known if it speaks TLS.
    fn server(&self, api: &str) -> (String, Option<Trust>) {
        let Some(host) = api.strip_prefix("https://") else {
            return (api.trim_start_matches("http://").trim_end_matches('/').to_owned(), None);
        };
        let host = host.trim_end_matches('/');
        let has_port =
            host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        let addr = if has_port { host.to_owned() } else { format!("{host}:{HTTPS_PORT}") };
        let trust = self.api_fingerprint.clone().unwrap_or_else(|| Trust::Roots(self.api_ca.clone()));
        (addr, Some(trust))
    }
}

pub(super) fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    Ok(runtime.block_on(work))
}

/// The status of the array. A node that has just begun says so for a moment: what it is then is waited for,
/// so that who asks right after a start is not told of a standby that becomes the owner.
pub(super) fn status(at: &Where) -> Result<Status> {
    let client = client(at);
    Ok(wait(async {
        let (begun, mut starts) = (tokio::time::Instant::now(), false);
        loop {
            match client.status().await {
                Err(error) if begun.elapsed() < START_TIME_MAX && starts_yet(&error, starts) => {
                    starts = true;
                    tokio::time::sleep(START_PAUSE).await;
                }
                answer => return answer,
            }
        }
    })??)
}

/// Whether a node is about to be something else. One that goes on from its start closes its connections.
fn starts_yet(error: &ClientError, started: bool) -> bool {
    match error {
        ClientError::Unavailable(text) => text.contains(STARTING),
        ClientError::Protocol { .. } => started,
        _ => false,
    }
}

/// Makes a change, and prints the result; with `--dry-run`, what it would be.
pub(super) fn change(at: &Where, change: &Change) -> Result<ExitCode> {
    changes(at, std::slice::from_ref(change))
}

/// Makes a change, and says on a terminal that it takes long. None: an interrupt has ended the command; the
/// array makes the change all the same.
async fn made(client: &Client, change: &Change) -> Result<Option<Vec<String>>, ClientError> {
    let mut making = pin!(client.change(change));
    let mut is_told = !std::io::stderr().is_terminal();
    loop {
        tokio::select! {
            done = &mut making => return done.map(Some),
            () = tokio::time::sleep(TOLD_AFTER), if !is_told => {
                is_told = true;
                eprintln!("the array makes the change, or others come first; masu status says which");
            }
            _ = tokio::signal::ctrl_c() => {
                eprintln!("the change may go on in the array; masu status shows it");
                return Ok(None);
            }
        }
    }
}

/// Makes changes one after the other, and prints the results together.
pub(super) fn changes(at: &Where, changes: &[Change]) -> Result<ExitCode> {
    let is_json = at.form.is_json()?;
    let mut done: Vec<String> = Vec::new();
    for change in changes {
        let lines = match at.dry_run {
            true => wait(client(at).change(&Change::DryRun { of: Box::new(change.clone()) }))??,
            false => match wait(made(&client(at), change))?? {
                Some(lines) => lines,
                None => return Ok(ExitCode::from(follow::INTERRUPTED)),
            },
        };
        done.extend(lines);
    }
    match is_json {
        true => println!("{}", serde_json::to_string_pretty(&done)?),
        false if done.is_empty() => println!("nothing to do"),
        false => done.iter().for_each(|line| println!("{line}")),
    }
    if at.dry_run {
        eprintln!("dry run: nothing was changed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a job, and follows it to its end unless told otherwise.
pub(super) fn begin(at: &Where, request: &Change, job: (&str, &str), detach: bool) -> Result<ExitCode> {
    if at.dry_run {
        return change(at, request);
    }
    let events_before = status(at)?.events.len();
    change(at, request)?;
    if detach || at.form.output == Output::Json {
        return Ok(ExitCode::SUCCESS);
    }
    wait(follow::follow(&client(at), job, events_before))?
}

/// Prints a part of the status.
pub(super) fn show(at: &Where, print: impl FnOnce(&Status)) -> Result<ExitCode> {
    let is_json = at.form.is_json()?;
    let status = status(at)?;
    match is_json {
        true => println!("{}", serde_json::to_string_pretty(&status)?),
        false => print(&status),
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists objects of the status.
pub(super) fn list<T: Serialize>(
    at: &Where,
    noun: &Noun<T>,
    args: &ListArgs,
    of: impl FnOnce(Status) -> Vec<T>,
) -> Result<ExitCode> {
    table::list(noun, args, at.form.look(), || Ok(of(status(at)?)))
}

/// Why a declared object is not in the status, if it cannot be served now: it is there all the same.
fn not_served(status: &Status, kind: &str, name: &str) -> Option<String> {
    let missing = status.missing.iter().find(|missing| missing.kind == kind && missing.name == name)?;
    Some(format!("{kind} {name:?} is declared and not served: {}; see masu status", missing.cause))
}

/// Shows one object of the status; `more` prints what a table adds.
pub(super) fn show_one<T: Serialize>(
    at: &Where,
    noun: &Noun<T>,
    name: &str,
    of: impl FnOnce(Status) -> Vec<T>,
    more: impl FnOnce(&Status, &T),
) -> Result<ExitCode> {
    let status = status(at)?;
    if let Some(text) = not_served(&status, noun.one, name) {
        bail!("{text}");
    }
    let objects = of(status.clone());
    table::show(noun, name, at.form.look(), objects, |object| more(&status, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script that asked right after a start was told of a standby that looks for the owner, with status 2.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a node beside the command")]
    fn a_node_that_has_just_begun_is_asked_again_until_it_is_something_else() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            at: Where,
        }
        let dir = tempfile::tempdir().expect("a directory");
        let socket = std::os::unix::net::UnixListener::bind(socket_in(dir.path())).expect("a socket");
        let starting = format!("node n1: {STARTING}");
        // It says so twice, goes on from there (nobody answers who has connected before), and stands by.
        let answers =
            [starting.as_str(), &starting, "", "node n1: standby of n2 (epoch 1)"].map(str::to_owned);
        let node = std::thread::spawn(move || {
            for text in answers {
                let (mut host, _) = socket.accept().expect("a connection");
                let _ = std::io::Read::read(&mut host, &mut [0; 4096]);
                let head = format!("HTTP/1.1 503 x\r\ncontent-length: {}\r\n\r\n", text.len());
                if !text.is_empty() {
                    std::io::Write::write_all(&mut host, format!("{head}{text}").as_bytes())
                        .expect("written");
                }
            }
        });
        let data = dir.path().display().to_string();
        let line = <Line as clap::Parser>::try_parse_from(["x", "--data", &data]).expect("options");
        let told = status(&line.at).expect_err("it stands by").to_string();
        assert!(told.contains("standby of n2"), "{told}");
        node.join().expect("asked four times");
    }

    #[test]
    fn an_object_that_is_not_served_is_not_said_to_be_unknown() {
        let cause = "node n2 is gone, and its drives are not free yet".to_owned();
        let of = |kind: &str| admin::Missing { kind: kind.into(), name: "p1".into(), ..Default::default() };
        let missing = vec![of("group"), admin::Missing { cause, ..of("pool") }];
        let status = Status { missing, ..Status::default() };
        let told = not_served(&status, "pool", "p1").expect("it is declared");
        assert!(told.contains("not served: node n2 is gone"), "{told}");
        assert_eq!((not_served(&status, "pool", "p2"), not_served(&status, "volume", "p1")), (None, None));
    }

    #[test]
    fn addresses_of_the_api_are_hosts_with_ports_and_no_sockets() {
        for good in ["https://a", "https://a:1/", "https://[::1]", "[::1]:80", "a:80", "http://a:80/"] {
            assert_eq!(api_address(good).as_deref(), Ok(good));
        }
        for bad in
            ["", "a", ":80", "a:x", "a:99999", "https://", "https://a:x", "ftp://a:1", "http://a", "a:1/v1"]
        {
            assert!(api_address(bad).is_err(), "{bad}");
        }
        let socket = api_address("/var/lib/masu/api.sock").expect_err("a socket");
        assert!(socket.ends_with("--data DIR"), "{socket}");
    }
}
