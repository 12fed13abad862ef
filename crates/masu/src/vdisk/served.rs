//! `masu vdisk serve`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use admin::SocketFile;
use anyhow::{Context, Result};
use lab_core::words::shown;
use tokio::signal::unix::{SignalKind, signal};
use vdisk::nbd::{Export, serve as serve_nbd};
use vdisk::{Access, Image, ImageTrouble, open_chain};
use world::{Listener, World};

use super::arguments::Source;
use super::in_world::in_world;
use super::parents;
use super::shared::{Gated, Member, Sharing};
use crate::stderr_queue;

/// Interval of checks for a request to stop.
pub(super) const STOP_POLL: Duration = Duration::from_millis(100);

/// The files of the images are looked after each time after so many of them.
const LOOK_POLLS: u32 = 50;

/// The address for clients.
pub(super) enum Place<'a> {
    /// An address.
    Tcp(SocketAddr),
    /// A path on this machine.
    Path(Cow<'a, Path>),
}

impl Place<'_> {
    /// That of one of several images: ports count up (unless the system chooses), paths get a number.
    fn of(&self, number: usize) -> Result<Place<'_>> {
        Ok(match self {
            Place::Tcp(addr) if addr.port() == 0 => Place::Tcp(*addr),
            Place::Tcp(addr) => {
                let port = u16::try_from(number).ok().and_then(|number| addr.port().checked_add(number));
                Place::Tcp(SocketAddr::new(
                    addr.ip(),
                    port.context("too many images for the ports from --nbd on")?,
                ))
            }
            Place::Path(path) if number == 0 => Place::Path(Cow::Borrowed(path)),
            Place::Path(path) => Place::Path(Cow::Owned(format!("{}.{number}", path.display()).into())),
        })
    }

    fn listen(&self, world: &World) -> Result<Listener> {
        match self {
            Place::Tcp(addr) => Ok(world.listen(*addr)?),
            Place::Path(path) => {
                SocketFile::make_room(path).with_context(|| path.display().to_string())?;
                Ok(world.listen_local(path)?)
            }
        }
    }

    /// Its name for clients, as in QEMU.
    fn url(&self, listener: &Listener) -> String {
        match self {
            Place::Tcp(_) => format!("nbd://{}", listener.local()),
            Place::Path(path) => format!("nbd+unix:///?socket={}", shown(path)),
        }
    }

    /// The file of its socket, which goes when that is dropped.
    fn file(&self) -> Option<SocketFile> {
        match self {
            Place::Tcp(_) => None,
            Place::Path(path) => Some(SocketFile::of_bound(path.clone().into_owned())),
        }
    }
}

pub(super) fn serve(
    paths: &[PathBuf],
    place: &Place<'_>,
    read_only: bool,
    raw: bool,
    source: &Source,
    sharing: &Sharing,
) -> Result<ExitCode> {
    let stop = stop_signals()?;
    // Clients wait for nobody who reads what is said of the images.
    stderr_queue::begin_plain()?;
    let served = in_world(async |world| {
        let access = if read_only { Access::Read } else { Access::Write };
        let mut images = Vec::new();
        for path in paths {
            images.push(open(&world, path, access, raw, source).await?);
            if !read_only && let Some(child) = parents::child_beside(&world, path).await {
                eprintln!(
                    "note     {} is the parent of {}: after a write the child does not open any more, or has other data; \
                     pass --read-only",
                    shown(path),
                    shown(&child)
                );
            }
        }
        let names: Vec<String> = paths.iter().map(|path| file_name(path)).collect();
        let mut member = sharing.join(&world, names.clone()).await?;
        let mut listeners = Vec::new();
        for (number, (image, name)) in images.iter().zip(names).enumerate() {
            let place = place.of(number)?;
            let listener = place.listen(&world)?;
            let file = place.file();
            println!("{}: {}", shown(&paths[number]), place.url(&listener));
            let gate = member.as_ref().map(|member| member.gate(number));
            let export = Export { device: Gated::new(image.clone(), gate), name, read_only };
            world.spawn(serve_nbd(world.clone(), listener.clone(), export));
            listeners.push((listener, file));
        }
        let mut watched: Vec<Watched> = images.iter().cloned().map(Watched::new).collect();
        let mut polls = 0;
        while stop.try_recv().is_err() {
            world.sleep(STOP_POLL).await;
            member.iter_mut().for_each(Member::tell);
            polls += 1;
            if polls % LOOK_POLLS == 0 {
                for image in &mut watched {
                    image.look().await;
                }
            }
        }
        drop(watched);
        for (listener, file) in listeners {
            listener.close();
            drop(file);
        }
        if let Some(member) = &member {
            println!("shares at the end: {}", member.shares(images.len()));
            member.leave();
            // Its task gives the lease back; if the registry is away, the lease ends by itself.
            world.sleep(STOP_POLL).await;
        }
        for image in &images {
            image.close().await?;
        }
        Ok(ExitCode::SUCCESS)
    });
    stderr_queue::drain();
    served
}

/// An image whose file is looked after, and what was told of it last.
struct Watched {
    image: Image,
    told: Option<ImageTrouble>,
}

impl Watched {
    fn new(image: Image) -> Watched {
        Watched { image, told: None }
    }

    async fn look(&mut self) {
        self.image.look().await;
        let trouble = self.image.trouble();
        if trouble == self.told {
            return;
        }
        let name = &self.image.drive().info().name;
        match &trouble {
            Some(trouble) => stderr_queue::note(&format!("{name}: {trouble}")),
            None => stderr_queue::note(&format!("{name}: writes succeed again")),
        }
        self.told = trouble;
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(super) async fn open(
    world: &World,
    path: &Path,
    access: Access,
    raw: bool,
    source: &Source,
) -> Result<Image> {
    let place = source.place(path)?;
    let opened = open_chain(world, &source.chain(&place, access, raw)).await;
    opened.map_err(|error| super::named(error.into(), &[path]))
}

/// Receives SIGTERM and SIGINT on a thread of its own, because the world has no signals.
pub(super) fn stop_signals() -> Result<std::sync::mpsc::Receiver<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            let (Ok(mut terminate), Ok(mut interrupt)) =
                (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
            else {
                return;
            };
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if send.send(()).is_err() {
                    break;
                }
            }
        });
    })?;
    Ok(receive)
}
