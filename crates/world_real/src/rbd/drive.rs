//! The back end of drives on RBD images.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use world::io::{Completer, Completions};
use world::{Buf, Data, Drive, DriveBackend, DriveError, Filled, Io};

use super::fenced;
use super::flights::{self, Flights, Ticket, Work};
use super::image::Errno;
use super::open::OpenImage;
use crate::local::Local;
use crate::operations::drive::End;
use crate::term;

/// Longest part of a range that librbd zeroes at once: an operation for each of its objects (4 MiB) begins at
/// the same time.
const ZERO_LEN_MAX: u64 = 256 << 20;

impl OpenImage {
    /// The drive, on the thread that will use it.
    pub(crate) fn into_drive(self, local: &Local) -> Drive {
        let OpenImage { flights, info, key } = self;
        let front = Rc::new(Front {
            flights,
            name: info.name.clone(),
            key,
            local: local.clone(),
            places: RefCell::default(),
            free: RefCell::default(),
            fenced: Cell::new(false),
            ends: Cell::new(false),
        });
        local.opened(front.lane(), &front.flights);
        local.tasks.spawn(Box::pin(pump(front.clone())));
        Drive::new(
            info,
            Box::new(RbdDrive {
                front,
                fills: Completions::default(),
                outcomes: Completions::default(),
                probers: Rc::default(),
                probing: Rc::default(),
            }),
        )
    }
}

/// The waiters of a question that is asked only once.
type Askers = Rc<RefCell<Vec<Completer<Result<(), DriveError>>>>>;

struct RbdDrive {
    front: Rc<Front>,
    fills: Completions<Filled>,
    outcomes: Completions<Result<(), DriveError>>,
    probers: Askers,
    probing: Rc<Cell<bool>>,
}

/// One place for an operation in flight.
struct Place {
    ticket: Arc<Ticket>,
    end: Option<End>,
    /// What of a range to be zeroed comes after the part in flight: begin and end.
    more_zeros: (u64, u64),
}

/// The controller's side of the operations in flight.
struct Front {
    flights: Arc<Flights>,
    name: String,
    /// See [`fenced`].
    key: String,
    local: Local,
    places: RefCell<Vec<Place>>,
    free: RefCell<Vec<u32>>,
    /// Another client broke the lock, or took it: the image accepts nothing more.
    fenced: Cell<bool>,
    /// The drive is closed.
    ends: Cell<bool>,
}

impl Front {
    fn submit(&self, work: Work, end: End) {
        let (at, len) = range_of(&work);
        let id = self.place();
        {
            let mut places = self.places.borrow_mut();
            places[id as usize].end = Some(end);
            places[id as usize].more_zeros = (at + len, at + len);
        }
        self.enter(id, work);
    }

    /// Hands work over in its place.
    fn enter(&self, id: u32, work: Work) {
        let (work, rest) = cut(work);
        if let Some(rest) = rest {
            self.places.borrow_mut()[id as usize].more_zeros = rest;
        }
        if self.fenced.get() {
            return self.finish(id, work, -i64::from(libc::ESHUTDOWN));
        }
        let ticket = self.places.borrow()[id as usize].ticket.clone();
        let Some(image) = self.flights.image() else {
            return self.finish(id, work, -i64::from(libc::EBADF));
        };
        if let Err((work, errno)) = flights::submit(&image, &ticket, work) {
            self.finish(id, work, -i64::from(errno.0));
        }
    }

    /// A free place.
    fn place(&self) -> u32 {
        if let Some(id) = self.free.borrow_mut().pop() {
            return id;
        }
        let mut places = self.places.borrow_mut();
        let id = u32::try_from(places.len()).expect("fewer than 2^32 operations are in flight");
        let ticket = Ticket::new(id, &self.flights);
        places.push(Place { ticket, end: None, more_zeros: (0, 0) });
        id
    }

    /// An operation has landed: the rest of its range follows, or its caller gets the outcome.
    fn complete(&self, id: u32, result: i64) {
        let Some(work) = self.flights.take_work(id) else { return };
        let (at, end) = self.places.borrow()[id as usize].more_zeros;
        if result >= 0 && at < end && matches!(work, Work::Zero { .. }) {
            self.places.borrow_mut()[id as usize].more_zeros = (end, end);
            return self.enter(id, Work::Zero { at, len: end - at });
        }
        self.finish(id, work, result);
    }

    fn finish(&self, id: u32, work: Work, result: i64) {
        let end = self.places.borrow_mut()[id as usize].end.take();
        self.free.borrow_mut().push(id);
        let outcome = self.outcome(&work, result);
        match (end, work) {
            (Some(End::Filled(end)), Work::Read { buf, .. }) => {
                end.complete(Filled { buf, result: outcome });
            }
            (Some(End::Outcome(end)), work) => {
                drop(work);
                end.complete(outcome);
            }
            (Some(End::Filled(_)), _) => unreachable!("only reads are filled"),
            (None, _) => {}
        }
    }

    fn outcome(&self, work: &Work, result: i64) -> Result<(), DriveError> {
        let (at, len) = range_of(work);
        if result < 0 {
            let errno = i32::try_from(-result).unwrap_or(libc::EIO);
            if matches!(errno, libc::ESHUTDOWN | libc::EROFS) && !self.fenced.replace(true) {
                fenced::remember(&self.key);
            }
            if errno == libc::ESHUTDOWN {
                term::fenced(&self.name);
            }
            return Err(match (work, error_of(&self.name, at, errno)) {
                // librbd's own cache found no room for what it had acknowledged.
                (Work::Flush, DriveError::NoRoom { .. }) => {
                    DriveError::flush_failed(&self.name, io::Error::from_raw_os_error(errno))
                }
                (_, error) => error,
            });
        }
        // librbd cuts a range that passes the end of the image, which somebody may have cut.
        let is_short = matches!(work, Work::Read { .. }) && result.unsigned_abs() < len;
        let size = self.flights.len_bytes();
        if is_short || at + len > size {
            let cause = format!("the image was cut to {size} bytes while in use");
            return Err(DriveError::Gone { drive: self.name.clone(), cause });
        }
        Ok(())
    }

    fn lane(&self) -> PathBuf {
        PathBuf::from(&self.name)
    }

    /// Another client has changed the image: reads its size on another thread.
    fn look_at_size(&self) {
        let flights = self.flights.clone();
        drop(self.local.ask(&self.lane(), None, move || flights.read_len(), |_| ()));
    }
}

fn range_of(work: &Work) -> (u64, u64) {
    match work {
        Work::Read { at, buf } => (*at, buf.len() as u64),
        Work::Write { at, data } => (*at, data.len() as u64),
        Work::WriteVectored { at, list } => (*at, list.iter().map(|data| data.len() as u64).sum()),
        Work::Zero { at, len } => (*at, *len),
        Work::Flush => (0, 0),
    }
}

/// The part of the work that goes to librbd at once, and the rest of a range to be zeroed.
fn cut(work: Work) -> (Work, Option<(u64, u64)>) {
    match work {
        Work::Zero { at, len } if len > ZERO_LEN_MAX => {
            (Work::Zero { at, len: ZERO_LEN_MAX }, Some((at + ZERO_LEN_MAX, at + len)))
        }
        work => (work, None),
    }
}

/// Completes what has landed, until the drive is closed and nothing is in flight.
async fn pump(front: Rc<Front>) {
    let mut landed = Vec::new();
    poll_fn(move |cx| turn(&front, &mut landed, cx)).await;
}

fn turn(front: &Rc<Front>, landed: &mut Vec<(u32, i64)>, cx: &mut Context<'_>) -> Poll<()> {
    front.flights.take_landed(landed, cx.waker());
    for (id, result) in landed.drain(..) {
        front.complete(id, result);
    }
    if front.flights.take_changed() && !front.ends.get() {
        front.look_at_size();
    }
    match front.ends.get() && front.flights.in_flight() == 0 {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}

/// Maps an error of librbd to a drive error.
fn error_of(drive: &str, at: u64, errno: i32) -> DriveError {
    let drive = drive.to_owned();
    let cause = match errno {
        libc::EIO => return DriveError::Medium { drive, at },
        libc::ENOSPC | libc::EDQUOT => return DriveError::NoRoom { drive, at },
        libc::ESHUTDOWN => {
            "fenced: another client broke the image's lock and blocklisted this one".to_owned()
        }
        libc::EROFS => "the image's exclusive lock was lost".to_owned(),
        libc::ENOENT => "the image was removed".to_owned(),
        libc::EACCES | libc::EPERM => "the Ceph cluster refuses this user".to_owned(),
        _ => io::Error::from_raw_os_error(errno).to_string(),
    };
    DriveError::Gone { drive, cause }
}

/// Asks the cluster whether this client still has the lock of the image. Blocks.
fn check(flights: &Flights, key: &str) -> Result<(), String> {
    let Some(image) = flights.image() else { return Err("closed".to_owned()) };
    let gone = |e: Errno| {
        if e.0 == libc::ESHUTDOWN {
            fenced::remember(key);
        }
        match error_of("", 0, e.0) {
            DriveError::Gone { cause, .. } => cause,
            _ => e.text(),
        }
    };
    if image.is_owner().map_err(gone)? {
        return Ok(());
    }
    // Without the object that has the lock, nobody has it.
    image.watchers().map_err(gone)?;
    fenced::remember(key);
    match image.owner().map_err(gone)? {
        Some(owner) => Err(format!("the image's exclusive lock was lost to the client {owner}")),
        None => Err("the image's exclusive lock was lost".to_owned()),
    }
}

impl RbdDrive {
    fn start(&self, work: Work) -> Io<Result<(), DriveError>> {
        let (io, end) = self.outcomes.start();
        self.front.submit(work, End::Outcome(end));
        io
    }
}

impl DriveBackend for RbdDrive {
    fn read(&self, at: u64, buf: Buf) -> Io<Filled> {
        let (io, end) = self.fills.start();
        self.front.submit(Work::Read { at, buf }, End::Filled(end));
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        self.start(Work::Write { at, data })
    }

    fn write_vectored(&self, at: u64, list: Vec<Data>) -> Io<Result<(), DriveError>> {
        self.start(Work::WriteVectored { at, list })
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.start(Work::Zero { at, len })
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        self.start(Work::Flush)
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        if self.front.fenced.get() {
            return Io::ready(Err(error_of(&self.front.name, 0, libc::ESHUTDOWN)));
        }
        let (io, end) = self.outcomes.start();
        let askers = self.probers.clone();
        askers.borrow_mut().retain(Completer::is_awaited);
        askers.borrow_mut().push(end);
        if self.probing.replace(true) {
            return io;
        }
        let (flights, drive, probing) =
            (self.front.flights.clone(), self.front.name.clone(), self.probing.clone());
        let key = self.front.key.clone();
        drop(self.front.local.ask(
            &self.front.lane(),
            None,
            move || check(&flights, &key),
            move |there| {
                probing.set(false);
                // Too many calls wait, so the state is unknown, and the cluster does not answer.
                let Some(there) = there else { return };
                let outcome = there.map_err(|cause| DriveError::Gone { drive, cause });
                askers.take().into_iter().for_each(|end| end.complete(outcome.clone()));
            },
        ));
        io
    }

    fn len_now(&self) -> Option<u64> {
        Some(self.front.flights.len_bytes())
    }
}

impl Drop for RbdDrive {
    /// Closes the image on another thread, when nothing is in flight on it.
    fn drop(&mut self) {
        self.front.ends.set(true);
        self.front.flights.wake();
        let flights = self.front.flights.clone();
        self.front.local.closings.close(&self.front.lane(), move || flights.close());
    }
}
