//! A world like another one, but for some of its drives.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use world::{
    Drive, DriveSpec, FenceError, Instant, Io, Listener, NetError, OpenError, Stream, StreamOptions,
    TaskBackend, World, WorldBackend,
};

/// Opens a drive in place of the world's own; none: the world opens it.
type Opener = Box<dyn Fn(&DriveSpec) -> Option<Io<Result<Drive, OpenError>>>>;

struct OtherDrives {
    inner: World,
    open: Opener,
}

/// A world that asks `open` first for each drive.
pub(super) fn world_with(
    inner: World,
    open: impl Fn(&DriveSpec) -> Option<Io<Result<Drive, OpenError>>> + 'static,
) -> World {
    World::new(Rc::new(OtherDrives { inner, open: Box::new(open) }))
}

impl TaskBackend for OtherDrives {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn cpu_time(&self) -> Duration {
        self.inner.cpu_time()
    }

    fn sleep_until(&self, deadline: Instant) -> Io<()> {
        self.inner.sleep_until(deadline)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()>>>) {
        self.inner.spawn(task);
    }
}

impl WorldBackend for OtherDrives {
    fn seed(&self) -> u64 {
        self.inner.seed()
    }

    fn open_drive(&self, spec: &DriveSpec) -> Io<Result<Drive, OpenError>> {
        (self.open)(spec).unwrap_or_else(|| self.inner.open_for_outer(spec))
    }

    fn fence(&self, spec: &DriveSpec) -> Io<Result<Option<String>, FenceError>> {
        self.inner.fence(spec)
    }

    fn listen(&self, addr: SocketAddr, options: StreamOptions) -> Result<Listener, NetError> {
        self.inner.listen_with(addr, options)
    }

    fn listen_local(&self, path: &Path) -> Result<Listener, NetError> {
        self.inner.listen_local(path)
    }

    fn connect(&self, addr: SocketAddr, options: StreamOptions) -> Io<Result<Stream, NetError>> {
        self.inner.connect(addr, options)
    }
}
