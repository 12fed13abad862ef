//! `masu doctor`: what of this machine, of the drives and of the array is not as it should be, and what would
//! fail next.

mod facts;
mod judge;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::{DriveHealth, Smartctl, Status, Store, Tls, certificate_end_s};
use anyhow::{Context, Result};
use clap::Args;
use config::Config;
use rustix::process::{Resource, getrlimit};
use world::DriveSpec;

use self::judge::{Finding, Level};
use super::request::{Where, client, wait};
use crate::table::column::{Column, Kind, Noun};
use crate::table::{self, ListArgs};

pub(super) const HELP: &str = "\
Without a running array it looks at the machine and at the drives of the declaration that the data directory
keeps, or of --config.

Exit status: 0 no problem (warnings are none), 1 a problem, 2 bad input or failure.";

#[derive(Args)]
pub(crate) struct DoctorCommand {
    /// The declaration to look at, if no array runs and none was kept in the data directory
    #[arg(long)]
    config: Option<PathBuf>,
    /// The certificate of the API (PEM) of an array that does not run, if not that of the data directory
    #[arg(long, value_name = "FILE")]
    api_cert: Option<PathBuf>,
    #[command(flatten)]
    args: ListArgs,
}

static COLUMNS: [Column<Finding>; 4] = [
    Column::shown("subject", Kind::Text, |f| (&f.subject).into()),
    Column::shown("result", Kind::State, |f| {
        match f.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
        .into()
    }),
    Column::shown("text", Kind::Text, |f| (&f.text).into()),
    Column::new("to-do", Kind::Text, |f| f.to_do.as_ref().into()),
];

static FINDING: Noun<Finding> =
    Noun { one: "finding", many: "findings", columns: &COLUMNS, hint: "", is_sorted: false };

pub(super) fn run(what: &DoctorCommand, at: &Where) -> Result<ExitCode> {
    let findings = examine(what, at)?;
    let is_bad = findings.iter().any(|f| f.level == Level::Problem);
    if at.form.is_plain() && what.args.is_plain() {
        findings.iter().for_each(|finding| print(finding, at));
    } else {
        table::list(&FINDING, &what.args, at.form.look(), || Ok(findings))?;
    }
    Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn examine(what: &DoctorCommand, at: &Where) -> Result<Vec<Finding>> {
    let (file, mut findings) = (what.config.as_deref(), machine());
    let running = wait(async {
        let client = client(at);
        let status = client.status().await?;
        Ok::<_, admin::ClientError>((status, client.config().await?.text))
    })?;
    let (status, config) = match running {
        Ok((status, text)) => {
            let config = Config::parse(&text, "the array's declaration", at.data());
            (Some(status), Some(config.map_err(anyhow::Error::msg)?))
        }
        // Somebody answers, or was meant to.
        Err(error) if at.is_remote() || !matches!(error, admin::ClientError::Unreachable { .. }) => {
            return Err(error.into());
        }
        Err(_) if file.is_none() => (None, kept(at.data())?),
        Err(_) => (None, file.map(|file| read(file, at.data())).transpose()?),
    };
    match (&status, &config) {
        (Some(status), _) => findings.push(Finding::ok("array", format!("{} runs", status.target))),
        (None, Some(_)) => {
            findings.push(Finding::ok("array", "none runs here; its pools and groups were not looked at"))
        }
        (None, None) => {
            findings.push(Finding::ok("array", "none runs here, and none was declared (--data, --config)"))
        }
    }
    if let Some(config) = &config {
        let drives = facts::drives(config);
        findings.extend(drives.iter().map(judge::drive));
        findings.extend(judge::space(&drives));
        findings.extend(portals(config, status.as_ref()));
        findings.extend(health(config, status.as_ref())?);
    }
    if status.is_none() {
        findings.extend(certificate(what.api_cert.as_deref(), at.data()));
    }
    findings.extend(status.iter().flat_map(judge::array));
    Ok(findings)
}

fn machine() -> Vec<Finding> {
    let release = facts::text("/proc/sys/kernel/osrelease").unwrap_or_else(|| "of unknown version".into());
    let release = release.trim();
    let disabled = facts::text("/proc/sys/kernel/io_uring_disabled");
    let source = facts::text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    vec![
        judge::io_uring(release, disabled.as_deref(), facts::ring()),
        judge::nofile(getrlimit(Resource::Nofile).maximum),
        judge::memlock(release, getrlimit(Resource::Memlock).maximum),
        judge::clock(source.as_deref()),
    ]
}

/// What block devices report about themselves: of a running array what it was told, otherwise what this user
/// is told.
fn health(config: &Config, status: Option<&Status>) -> Result<Vec<Finding>> {
    let devices = config.drives.iter().filter_map(|drive| match &drive.spec {
        DriveSpec::Device { path } => Some((&drive.name, path)),
        _ => None,
    });
    let mut devices = devices.peekable();
    if devices.peek().is_none() {
        return Ok(Vec::new());
    }
    let smartctl = Smartctl::find();
    let mut findings = vec![judge::smartctl(smartctl.as_ref().map(Smartctl::program))];
    for (name, path) in devices {
        let read: Option<Result<DriveHealth, String>> = match (status, &smartctl) {
            (Some(status), _) => {
                let drive = status.drives.iter().find(|drive| drive.name == *name);
                let unknown = |drive: &admin::Drive| drive.health_unknown.clone().map(Err);
                drive.and_then(|drive| drive.health.clone().map(Ok).or_else(|| unknown(drive)))
            }
            (None, Some(smartctl)) => {
                Some(wait(async { smartctl.ask(path).await.map_err(|error| error.to_string()) })?)
            }
            (None, None) => None,
        };
        findings.extend(read.map(|read| judge::health(name, read.as_ref().map_err(String::as_str))));
    }
    Ok(findings)
}

/// The certificate of the API of an array that does not run: the running one tells itself.
fn certificate(file: Option<&Path>, data: &Path) -> Option<Finding> {
    let own = Tls::own_certificate(data);
    let path = file.or_else(|| own.exists().then_some(&*own))?;
    let now_s = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
    judge::certificate(path, certificate_end_s(path).map_err(|error| error.to_string()), now_s)
}

/// The declaration that a stopped array has kept.
fn kept(data: &Path) -> Result<Option<Config>> {
    // Looking creates no data directory.
    if !data.is_dir() {
        return Ok(None);
    }
    Ok(Store::open(data)?.load()?.map(|kept| kept.config))
}

fn read(file: &Path, data: &Path) -> Result<Config> {
    let shown = file.display().to_string();
    let text = lab_core::text_file::read(file).with_context(|| format!("cannot read {shown}"))?;
    Config::parse(&text, &shown, data).map_err(anyhow::Error::msg)
}

/// The portals' interfaces: of a running array those that it has, otherwise those that are declared.
fn portals(config: &Config, status: Option<&Status>) -> Vec<Finding> {
    let listens: Vec<SocketAddr> = match status {
        Some(status) => status.ports.iter().map(|port| port.listen).collect(),
        None => config.portals.iter().map(|portal| portal.listen).collect(),
    };
    let of = |listen: SocketAddr| {
        let found = facts::interfaces(listen);
        found.into_iter().map(move |(name, mtu)| judge::mtu(&listen.to_string(), &name, mtu))
    };
    listens.into_iter().flat_map(of).collect()
}

/// A finding in lines of the terminal's width: what, how it is, and what to do.
fn print(finding: &Finding, at: &Where) {
    let word = match finding.level {
        Level::Ok => "ok",
        Level::Warning => "warning",
        Level::Problem => "problem",
    };
    let mark = at.form.look().toned(word, &format!("{word:<7}"));
    super::state::wrapped(
        &format!("{}: {}", finding.subject, finding.text),
        &format!("{mark}  "),
        "         ",
    );
    if let Some(to_do) = &finding.to_do {
        super::state::wrapped(&format!("→ {to_do}"), "         ", "         ");
    }
}
