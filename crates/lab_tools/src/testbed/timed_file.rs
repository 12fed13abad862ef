//! Files as drives that take the time of a modelled drive: what several processes share in real time.
//!
//! The content is in the file, which one process has open at a time. The mechanism is that process's: it
//! begins anew when another process opens the file, with its heads over the first cylinder and nothing
//! queued. What a killed process had in its mechanism is not in the file.

use std::rc::Rc;

use anyhow::Result;
use world::io::{Completer, Completions};
use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, DriveSpec, Filled, Io, OpenError, World};
use world_model::drives::{Kind, Prepared};

use super::other_drives::world_with;
use super::platter::Platter;
use crate::drives;

/// Which modelled drive the files of a world are.
#[derive(Clone)]
pub struct FileDrives(Prepared);

impl FileDrives {
    /// All of one model: of the catalogue, or of a file.
    ///
    /// # Errors
    /// There is no such model, or it makes no sense.
    pub fn alike(model: &str) -> Result<FileDrives> {
        Ok(FileDrives(Prepared::new(&drives::load(model)?)?))
    }

    /// Size of each in bytes, in whole MiB.
    pub fn len_bytes(&self) -> u64 {
        self.0.len_bytes() >> 20 << 20
    }

    /// A world like this one, whose files take their time.
    pub fn world(self, inner: World) -> World {
        let world = inner.clone();
        world_with(inner, move |spec| {
            let DriveSpec::File { .. } = spec else { return None };
            let (io, opened) = Completions::default().start();
            let (opens, world, prepared) = (world.open_for_outer(spec), world.clone(), self.0.clone());
            world.clone().spawn(async move {
                opened.complete(opens.await.and_then(|file| timed(&world, file, &prepared)));
            });
            Some(io)
        })
    }
}

fn timed(world: &World, file: Drive, prepared: &Prepared) -> Result<Drive, OpenError> {
    let info = DriveInfo { volatile_cache: false, cheap_zero: false, ..file.info().clone() };
    if info.len_bytes > prepared.len_bytes() {
        let cause = format!("larger than the modelled drive, which has {} bytes", prepared.len_bytes());
        return Err(OpenError { name: info.name, cause, is_absent: false });
    }
    let (here, below) = (world.clone(), file.clone());
    let platter = Platter::new(world, prepared, move |op| here.spawn(end(below.clone(), op)));
    let (reads, others) = (Completions::default(), Completions::default());
    Ok(Drive::new(info, Box::new(TimedFile { file, platter, reads, others })))
}

type Done = Completer<Result<(), DriveError>>;

/// What is done to the file when the mechanism has had its time.
enum Op {
    Read { at: u64, buf: Buf, done: Completer<Filled> },
    Write { at: u64, data: Data, done: Done },
    Zero { at: u64, len: u64, done: Done },
    Flush { done: Done },
}

struct TimedFile {
    file: Drive,
    platter: Rc<Platter<Op>>,
    reads: Completions<Filled>,
    others: Completions<Result<(), DriveError>>,
}

impl DriveBackend for TimedFile {
    fn read(&self, at: u64, buf: Buf) -> Io<Filled> {
        let (io, done) = self.reads.start();
        let len = buf.len() as u64;
        self.platter.submit(Kind::Read, (at, len), Op::Read { at, buf, done });
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        let (io, done) = self.others.start();
        let len = data.len() as u64;
        self.platter.submit(Kind::Write, (at, len), Op::Write { at, data, done });
        io
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        let (io, done) = self.others.start();
        self.platter.submit(Kind::Zero, (at, len), Op::Zero { at, len, done });
        io
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        let (io, done) = self.others.start();
        self.platter.submit(Kind::Flush, (0, 0), Op::Flush { done });
        io
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        self.file.probe()
    }

    fn file_id(&self) -> Option<u64> {
        self.file.file_id()
    }
}

const PAGE: usize = 4096;
static ZEROS: [u8; PAGE] = [0; PAGE];

fn is_zeros(data: &[u8]) -> bool {
    data.chunks(PAGE).all(|part| *part == ZEROS[..part.len()])
}

/// Zeros become a hole: disks of many GiB that are written with zeros need no room.
async fn end(file: Drive, op: Op) {
    match op {
        Op::Read { at, buf, done } => done.complete(file.read(at, buf).await),
        Op::Write { at, data, done } if is_zeros(&data) => {
            done.complete(file.zero(at, data.len() as u64).await);
        }
        Op::Write { at, data, done } => done.complete(file.write(at, data).await),
        Op::Zero { at, len, done } => done.complete(file.zero(at, len).await),
        Op::Flush { done } => done.complete(file.flush().await),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn with_world<T: Send + 'static>(job: impl AsyncFnOnce(World) -> T + Send + 'static) -> T {
        let drives = FileDrives::alike("savvio-10k4").expect("in the catalogue");
        let run = world_real::run(world_real::Options::default(), move |world| async move {
            job(drives.world(world)).await
        });
        run.expect("a world")
    }

    fn spec(path: PathBuf, len_bytes: u64) -> DriveSpec {
        DriveSpec::File { path, create_len_bytes: Some(len_bytes) }
    }

    /// As a node that opens the drives of one that is gone.
    #[test]
    fn a_file_takes_the_time_of_the_model_and_keeps_its_content_for_who_opens_it_next() {
        let dir = crate::testbed::scratch::directory().expect("a directory");
        let path = dir.path().join("d.img");
        let there = path.clone();
        let took = with_world(async move |world| {
            let drive = world.open_drive(&spec(there, 1 << 40 >> 4)).await.expect("opened");
            assert!(!drive.info().volatile_cache && !drive.info().cheap_zero);
            drive.write(4096, Buf::copy_of(&[7; 8192]).freeze()).await.expect("written");
            let (from, mut rng) = (world.now(), world.random("places"));
            for _ in 0..10 {
                let at = rng.u64(1..drive.info().len_bytes / 65536) * 65536;
                drive.write(at, Buf::zeroed(65536).freeze()).await.expect("written");
            }
            world.now().since(from)
        });
        assert!(took > Duration::from_millis(40), "{took:?}");
        let read = with_world(async move |world| {
            let drive = world.open_drive(&spec(path, 1 << 36)).await.expect("opened");
            let filled = drive.read(0, Buf::new(16384)).await;
            filled.result.expect("read");
            filled.buf[..].to_vec()
        });
        assert!(read == [vec![0; 4096], vec![7; 8192], vec![0; 4096]].concat());
    }

    #[test]
    fn a_file_that_is_larger_than_the_drive_is_refused() {
        let dir = crate::testbed::scratch::directory().expect("a directory");
        let path = dir.path().join("d.img");
        let said = with_world(async move |world| {
            world.open_drive(&spec(path, 1 << 40)).await.map(drop).expect_err("600 GB").to_string()
        });
        assert!(said.contains("larger than the modelled drive"), "{said}");
    }
}
