//! The world's handle: time, tasks, randomness, and the openers of drives and sockets.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use crate::{
    Drive, DriveSpec, FenceError, Instant, Io, Listener, NetError, OpenError, Rng, Stream, StreamOptions,
    TaskBackend, fnv1a,
};

/// A world as `world_real` and `world_model` implement it. Callers use [`World`].
pub trait WorldBackend: TaskBackend {
    /// The seed of the run.
    fn seed(&self) -> u64;
    /// Opens a drive without blocking the thread.
    fn open_drive(&self, spec: &DriveSpec) -> Io<Result<Drive, OpenError>>;
    /// Fences the holder of a drive (see [`World::fence`]).
    fn fence(&self, spec: &DriveSpec) -> Io<Result<Option<String>, FenceError>>;
    /// Listens on an address.
    fn listen(&self, addr: SocketAddr, options: StreamOptions) -> Result<Listener, NetError>;
    /// Listens on a socket at a path, for programs on this machine.
    fn listen_local(&self, path: &Path) -> Result<Listener, NetError>;
    /// Connects to an address.
    fn connect(&self, addr: SocketAddr, options: StreamOptions) -> Io<Result<Stream, NetError>>;
}

/// The world of one thread: a handle, cheap to clone.
#[derive(Clone)]
pub struct World(Rc<dyn WorldBackend>);

impl World {
    /// Wraps a back end.
    pub fn new(backend: Rc<dyn WorldBackend>) -> World {
        World(backend)
    }

    /// The current time of this world.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// CPU time that the thread of this world has used; zero in the model world, where code takes no time.
    pub fn cpu_time(&self) -> Duration {
        self.0.cpu_time()
    }

    /// Completes at `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Io<()> {
        self.0.sleep_until(deadline)
    }

    /// Completes after `time`.
    pub fn sleep(&self, time: Duration) -> Io<()> {
        self.0.sleep_until(self.0.now() + time)
    }

    /// Runs a task on this thread until it ends. It allocates, so it must not be called per I/O.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(Box::pin(task));
    }

    /// The random stream of this name: reproducible by the seed, and independent of the other streams.
    pub fn random(&self, stream: &str) -> Rng {
        // A digest of the name, so that adding a stream does not change others.
        Rng::with_seed(self.0.seed() ^ fnv1a(stream.bytes()))
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.0.seed()
    }

    /// Opens a drive, whose operations have deadlines. Returns in bounded time, even if the device never
    /// answers.
    ///
    /// # Errors
    ///
    /// The path does not exist or may not be opened, the device does not answer in time, or it does not allow
    /// direct I/O.
    pub async fn open_drive(&self, spec: &DriveSpec) -> Result<Drive, OpenError> {
        let tasks: Rc<dyn TaskBackend> = self.0.clone();
        self.0.open_drive(spec).await.map(|drive| drive.with_deadlines(&tasks))
    }

    /// Opens a drive for a world that wraps this one and provides the clock of the deadlines.
    pub fn open_for_outer(&self, spec: &DriveSpec) -> Io<Result<Drive, OpenError>> {
        self.0.open_drive(spec)
    }

    /// Opens a drive that is available at once: memory, or a responsive drive of the model. Any other is
    /// refused.
    ///
    /// # Errors
    ///
    /// The drive is not of these kinds.
    pub fn open_now(&self, spec: &DriveSpec) -> Result<Drive, OpenError> {
        let opened = self.0.open_drive(spec).try_now().unwrap_or_else(|_| {
            Err(OpenError {
                name: spec.name(),
                cause: "it has to be waited for until it is open".into(),
                is_absent: false,
            })
        });
        let tasks: Rc<dyn TaskBackend> = self.0.clone();
        opened.map(|drive| drive.with_deadlines(&tasks))
    }

    /// Fences whoever has this drive open: after it nothing that the holder wrote, or still writes when it
    /// wakes up, reaches the drive. Returns the address of the holder; `None` if there was none. The drive
    /// must not be open here.
    ///
    /// # Errors
    ///
    /// The drive is of a kind that cannot be fenced, or its storage does not answer or refuses.
    pub fn fence(&self, spec: &DriveSpec) -> Io<Result<Option<String>, FenceError>> {
        self.0.fence(spec)
    }

    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// The address is in use, or not one of this machine.
    pub fn listen(&self, addr: SocketAddr) -> Result<Listener, NetError> {
        self.0.listen(addr, StreamOptions::default())
    }

    /// Listens on an address, with options for the connections it accepts.
    pub fn listen_with(&self, addr: SocketAddr, options: StreamOptions) -> Result<Listener, NetError> {
        self.0.listen(addr, options)
    }

    /// Listens on a socket at a new path, for programs on this machine. The addresses of its connections are
    /// meaningless.
    ///
    /// # Errors
    ///
    /// The path exists, or cannot be created.
    pub fn listen_local(&self, path: &Path) -> Result<Listener, NetError> {
        self.0.listen_local(path)
    }

    /// Connects to an address.
    pub fn connect(&self, addr: SocketAddr, options: StreamOptions) -> Io<Result<Stream, NetError>> {
        self.0.connect(addr, options)
    }
}
