//! `masu serve`: the array as a daemon.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use admin::{Declaration, ServerOptions, Store, format_bytes};
use anyhow::{Context, Result, bail};
use array::config::{ArrayId, Config, DriveConfig, GroupConfig, Level, PoolConfig, PortalConfig};
use array::{Array, ControlError, ControllerHandle, DriveSpec};
use clap::Args;

use crate::declared::laid_over;
use crate::held::wait_until_free;
use crate::manage::socket_in;

/// Serve block storage over iSCSI.
///
/// With no configuration: one pool on a file under the data directory, nothing mapped to anybody. Volumes and hosts are
/// then made with `masu volume` and `masu host`, and kept. A declared array (--config) is applied idempotently: what is
/// declared is made, what is there and not declared stays.
#[derive(Args)]
pub(crate) struct Serve {
    /// Where the array keeps its state, and file drives with relative names
    #[arg(long, default_value = "./data", env = "MASU_DATA")]
    data: PathBuf,
    /// A declaration (array.toml) to apply
    #[arg(long)]
    config: Option<PathBuf>,
    /// Where to listen for hosts, when nothing is declared
    #[arg(long, default_value = "127.0.0.1:3260")]
    listen: SocketAddr,
    /// Controllers (threads), when nothing is declared
    #[arg(long)]
    controllers: Option<usize>,
    /// Run controller N on processor FIRST + N
    #[arg(long)]
    pin_first: Option<usize>,
    /// Serve the API on TCP, too; needs --api-token
    #[arg(long, requires = "api_token")]
    api: Option<SocketAddr>,
    /// The token that requests on TCP must carry (16 characters or more)
    #[arg(long, env = "MASU_TOKEN", hide_env_values = true)]
    api_token: Option<String>,
}

/// What of the file system the embedded default takes, so that the system beside it can breathe.
const DEFAULT_DRIVE_SHARE_PERCENT: u64 = 90;
/// The smallest embedded array that is worth starting.
const DEFAULT_DRIVE_BYTES_MIN: u64 = 256 << 20;

pub(crate) fn run(serve: &Serve) -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    // A thousand sessions need more files than a process is given by default.
    world_real::raise_open_files_max();
    let store = Store::open(&serve.data)?;
    let mut config = declared(serve, &store)?;
    if config.id == ArrayId::default() {
        config.id = ArrayId(random()?);
    }
    config.check()?;
    wait_until_free(&config)?;
    let mut handles = Vec::new();
    let mut threads = Vec::new();
    for index in 0..config.controllers {
        let (handle, mailbox) = ControllerHandle::new(index);
        let cpu = serve.pin_first.map(|first| first + index);
        // Secrets (CHAP challenges, copy tokens) come from the world's random streams: the seed must not be guessed.
        let options = world_real::Options {
            cpu,
            seed: u64::from_le_bytes(random()?),
            ..world_real::Options::default()
        };
        handles.push(handle);
        threads.push((index, options, mailbox));
    }
    let threads: Vec<_> = threads
        .into_iter()
        .map(|(index, options, mailbox)| {
            let all = handles.clone();
            world_real::start(&format!("controller-{index}"), options, move |world| {
                array::run_controller(world, index, mailbox, all)
            })
        })
        .collect::<Result<_, _>>()
        .context("a controller cannot start")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let served = runtime.block_on(run_until_signal(serve, config, store, handles));
    for thread in threads {
        match thread.join() {
            Ok(ended) => ended?,
            Err(_) => bail!("a controller has panicked: see the log above"),
        }
    }
    served
}

async fn run_until_signal(
    serve: &Serve,
    config: Config,
    store: Store,
    handles: Vec<ControllerHandle>,
) -> Result<()> {
    let mut array = Array::new(handles, &config.target);
    match array.apply(config).await {
        Ok(done) => done.iter().for_each(|line| tracing::info!("{line}")),
        Err(error) => {
            let _ = array.stop().await;
            return Err(anyhow::anyhow!("{}{error}", declared_at(serve, &error)));
        }
    }
    store.save(array.config())?;
    let parts = array.status().await?;
    for image in parts.iter().flat_map(|part| &part.images) {
        if let Err(cause) = &image.state {
            let error =
                ControlError::Failed { place: format!("image {:?}", image.name), cause: cause.clone() };
            tracing::error!("{}{error}: it is not served", declared_at(serve, &error));
        }
    }
    for port in parts.iter().flat_map(|part| &part.ports) {
        tracing::info!("serving {} at {}", array.config().target, port.listen);
    }
    let socket = socket_in(store.dir());
    let tcp = serve.api.zip(serve.api_token.clone());
    tracing::info!("administered at {}", socket.display());
    let (server, owner) = admin::serve(ServerOptions { socket, tcp }, array, store).await?;
    stop_signal().await?;
    tracing::info!("stopping: hosts are told, data is made durable");
    server.stop();
    owner.stop_array().await?;
    tracing::info!("stopped");
    Ok(())
}

/// Where what failed is declared, in front of the error.
fn declared_at(serve: &Serve, error: &ControlError) -> String {
    match (&serve.config, error) {
        (Some(path), ControlError::Failed { place, .. }) => {
            format!("{}: ", Declaration::place_in(path, place))
        }
        _ => String::new(),
    }
}

/// Bytes from the system's random generator.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("no random bytes")?;
    Ok(bytes)
}

async fn stop_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// What is kept, with what is declared laid over it; the embedded default when there is neither.
fn declared(serve: &Serve, store: &Store) -> Result<Config> {
    let kept = store.load()?;
    if let Some(path) = &serve.config {
        let declared = Declaration::read(path, store.dir())?;
        return Ok(match kept {
            Some(kept) => laid_over(kept, declared),
            None => declared,
        });
    }
    match kept {
        Some(mut kept) => {
            kept.controllers = serve.controllers.unwrap_or(kept.controllers);
            Ok(kept)
        }
        None => embedded_default(serve, store.dir()),
    }
}

fn embedded_default(serve: &Serve, dir: &Path) -> Result<Config> {
    let stat = rustix::fs::statvfs(dir).with_context(|| format!("{}", dir.display()))?;
    let free = stat.f_bavail * stat.f_frsize;
    let len = (free / 100 * DEFAULT_DRIVE_SHARE_PERCENT) >> 20 << 20;
    if len < DEFAULT_DRIVE_BYTES_MIN {
        bail!("{}: only {} free: too little for an array", dir.display(), format_bytes(free));
    }
    let path = dir.join("drive0.img");
    let mut config = Config::empty("iqn.2026-11.net.masu:array");
    config.controllers = serve.controllers.unwrap_or(1);
    config.portals = vec![PortalConfig { listen: serve.listen, controller: 0, segment_bytes_max: None }];
    config.drives = vec![DriveConfig {
        name: "drive0".into(),
        spec: DriveSpec::File { path, create_len_bytes: Some(len) },
    }];
    config.groups = vec![GroupConfig {
        stripe_unit_bytes: 64 << 10,
        ..GroupConfig::new("group0".into(), Level::Raid0, vec!["drive0".into()])
    }];
    config.pools = vec![PoolConfig::new("pool0".into(), vec!["group0".into()])];
    Ok(config)
}
