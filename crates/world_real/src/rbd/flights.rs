//! Operations in flight on an image: their memory, and how their results come to the controller's thread.
//!
//! ```text
//!   controller: submit ──Work, Ticket──> librbd ──> its thread: landed ──(number, result)──> list
//!        ^                                                                                     │
//!        └── completes the caller's future <──── pump (a task of the controller) <────wake─────┘
//! ```
//!
//! The memory of an operation lies in `Flights`, which lives until the image is closed, and the image is
//! closed only when nothing is in flight: whether the caller drops its future or the controller ends makes
//! no difference. In steady state nothing is allocated here; librbd allocates for itself.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use world::{Buf, Data};

use super::image::{Errno, Image};
use super::library::{Api, Completion};

/// What an operation does, with its memory.
pub(super) enum Work {
    Read { at: u64, buf: Buf },
    Write { at: u64, data: Data },
    WriteVectored { at: u64, list: Vec<Data> },
    Zero { at: u64, len: u64 },
    Flush,
}

/// The place of an operation in flight. librbd holds a count of it until the operation has ended.
pub(super) struct Ticket {
    id: u32,
    flights: Arc<Flights>,
}

impl Ticket {
    pub(super) fn new(id: u32, flights: &Arc<Flights>) -> Arc<Ticket> {
        let mut state = flights.lock();
        let places = id as usize + 1;
        if state.works.len() < places {
            state.works.resize_with(places, || None);
            state.iovecs.resize_with(places, || Addresses(Vec::new()));
        }
        drop(state);
        Arc::new(Ticket { id, flights: flights.clone() })
    }
}

/// The addresses of a vectored write as librbd takes them.
struct Addresses(Vec<libc::iovec>);

// SAFETY: the addresses are those of the memory of a `Work` in the same state, which is `Send`; they are only
// read by librbd while that memory is in flight.
unsafe impl Send for Addresses {}

#[derive(Default)]
struct State {
    /// By number; `None`: free.
    works: Vec<Option<Work>>,
    iovecs: Vec<Addresses>,
    /// What has ended, in this order: number and result.
    landed: Vec<(u32, i64)>,
    in_flight: usize,
    /// The pump of the controller.
    waker: Option<Waker>,
}

/// An open image and what is in flight on it.
pub(crate) struct Flights {
    image: Mutex<Option<Arc<Image>>>,
    state: Mutex<State>,
    none_in_flight: Condvar,
    /// The watch of the image's changes.
    watch: Mutex<Option<u64>>,
    /// The size as librbd last told.
    len_bytes: AtomicU64,
    /// The image was changed by somebody; its size has to be read again.
    is_changed: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    pub(super) fn new(image: Image, len_bytes: u64) -> Arc<Flights> {
        Arc::new(Flights {
            image: Mutex::new(Some(Arc::new(image))),
            state: Mutex::default(),
            none_in_flight: Condvar::new(),
            watch: Mutex::new(None),
            len_bytes: AtomicU64::new(len_bytes),
            is_changed: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The image; `None` after it was closed.
    pub(super) fn image(&self) -> Option<Arc<Image>> {
        lock(&self.image).clone()
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Acquire)
    }

    /// Reads the size from the cluster.
    pub(super) fn read_len(&self) {
        if let Some(Ok(len)) = self.image().map(|image| image.len_bytes()) {
            self.len_bytes.store(len, Ordering::Release);
        }
    }

    /// Whether the image was changed since the last call.
    pub(super) fn take_changed(&self) -> bool {
        self.is_changed.swap(false, Ordering::AcqRel)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.lock().in_flight
    }

    /// Moves what has landed to `landed`, which is empty, and has `waker` woken when more does.
    pub(super) fn take_landed(&self, landed: &mut Vec<(u32, i64)>, waker: &Waker) {
        let mut state = self.lock();
        std::mem::swap(&mut state.landed, landed);
        match &mut state.waker {
            Some(old) => old.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// The work of an operation that has landed.
    pub(super) fn take_work(&self, id: u32) -> Option<Work> {
        self.lock().works[id as usize].take()
    }

    /// Wakes the pump.
    pub(super) fn wake(&self) {
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn landed(&self, id: u32, result: i64) {
        let mut state = self.lock();
        // The pump is awake when the list was not empty.
        let waker = if state.landed.is_empty() { state.waker.clone() } else { None };
        state.landed.push((id, result));
        state.in_flight -= 1;
        if state.in_flight == 0 {
            self.none_in_flight.notify_all();
        }
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until nothing is in flight, then closes the image, which releases its lock. Blocks.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        while state.in_flight > 0 {
            state = self.none_in_flight.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let Some(image) = lock(&self.image).take() else { return };
        if let Some(handle) = lock(&self.watch).take() {
            // SAFETY: the image is open, and the handle is that of its watch.
            unsafe { (image.api().rbd_update_unwatch)(image.handle(), handle) };
        }
        // A probe may still have it; then the image is closed when that has ended, on its helper thread.
        drop(image);
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        self.close();
    }
}

/// Submits an operation to librbd. If it is refused at once, its work comes back with the error.
pub(super) fn submit(image: &Image, ticket: &Arc<Ticket>, work: Work) -> Result<(), (Work, Errno)> {
    let (api, flights) = (image.api(), &ticket.flights);
    let completion = match new_completion(api, ticket) {
        Ok(completion) => completion,
        Err(errno) => return Err((work, errno)),
    };
    let place = ticket.id as usize;
    let mut state = flights.lock();
    state.in_flight += 1;
    let call = Call::of(&mut state, place, work);
    drop(state);
    // Without the lock: librbd may complete it before the call returns.
    let result = call.make(image, completion);
    if result >= 0 {
        return Ok(());
    }
    // SAFETY: a call that was refused never calls back; the completion was made above.
    unsafe { (api.rbd_aio_release)(completion) };
    // SAFETY: this is the count that `new_completion` gave away.
    drop(unsafe { Arc::from_raw(Arc::as_ptr(ticket)) });
    let mut state = flights.lock();
    state.in_flight -= 1;
    let work = state.works[place].take().unwrap_or(Work::Flush);
    Err((work, Errno(-result)))
}

/// A completion that holds a count of the ticket until `landed_on_its_thread`.
fn new_completion(api: &Api, ticket: &Arc<Ticket>) -> Result<Completion, Errno> {
    let argument = Arc::into_raw(ticket.clone());
    let mut completion = ptr::null_mut();
    // SAFETY: the argument is a counted ticket, which the callback takes back; `completion` is room for the
    // handle.
    let made = unsafe {
        (api.rbd_aio_create_completion)(argument.cast_mut().cast(), landed_on_its_thread, &raw mut completion)
    };
    if made < 0 {
        // SAFETY: nobody else took the count that was given away above.
        drop(unsafe { Arc::from_raw(argument) });
        return Err(Errno(-made));
    }
    Ok(completion)
}

/// An operation has ended; this is a thread of librbd.
unsafe extern "C" fn landed_on_its_thread(completion: Completion, argument: *mut c_void) {
    // SAFETY: the argument is the ticket whose count `new_completion` gave away, and librbd calls once.
    let ticket = unsafe { Arc::from_raw(argument.cast::<Ticket>().cast_const()) };
    // The libraries are loaded, for they call.
    let Ok(api) = super::library::api() else { return };
    // SAFETY: the completion has ended, and is released once, here.
    let result = unsafe {
        let result = (api.rbd_aio_get_return_value)(completion);
        (api.rbd_aio_release)(completion);
        result
    };
    ticket.flights.landed(ticket.id, result as i64);
}

/// The arguments of one call. The memory is that of the work in its place.
enum Call {
    Read { at: u64, to: *mut c_char, len: usize },
    Write { at: u64, from: *const c_char, len: usize },
    WriteVectored { at: u64, list: *const libc::iovec, count: c_int },
    Zero { at: u64, len: usize },
    Flush,
}

impl Call {
    /// Puts the work into its place, and returns the call with the addresses of its memory, which is on the
    /// heap and does not move until it has landed.
    fn of(state: &mut State, place: usize, mut work: Work) -> Call {
        let call = match &mut work {
            Work::Read { at, buf } => Call::Read { at: *at, to: buf.as_mut_ptr().cast(), len: buf.len() },
            Work::Write { at, data } => Call::Write { at: *at, from: data.as_ptr().cast(), len: data.len() },
            Work::WriteVectored { at, list } => {
                let iovecs = &mut state.iovecs[place].0;
                iovecs.clear();
                iovecs.extend(list.iter().map(|data| libc::iovec {
                    iov_base: data.as_ptr().cast_mut().cast(),
                    iov_len: data.len(),
                }));
                // At most VECTORED_MAX.
                Call::WriteVectored { at: *at, list: iovecs.as_ptr(), count: iovecs.len() as c_int }
            }
            Work::Zero { at, len } => Call::Zero { at: *at, len: *len as usize },
            Work::Flush => Call::Flush,
        };
        state.works[place] = Some(work);
        call
    }

    fn make(self, image: &Image, done: Completion) -> c_int {
        let (api, image) = (image.api(), image.handle());
        // SAFETY: the image is open. The memory lies in the place of its ticket until the operation has
        // landed, and nobody touches it there: a buffer to be filled has no other holder, data are immutable.
        unsafe {
            match self {
                Call::Read { at, to, len } => (api.rbd_aio_read)(image, at, len, to, done),
                Call::Write { at, from, len } => (api.rbd_aio_write)(image, at, len, from, done),
                Call::WriteVectored { at, list, count } => (api.rbd_aio_writev)(image, list, count, at, done),
                // Not a discard, which leaves parts of objects as they are.
                Call::Zero { at, len } => (api.rbd_aio_write_zeroes)(image, at, len, done, 0, 0),
                Call::Flush => (api.rbd_aio_flush)(image, done),
            }
        }
    }
}

/// Watches the image for changes of its size, until it is closed. Blocks.
pub(super) fn watch(flights: &Arc<Flights>) -> Result<(), Errno> {
    let Some(image) = flights.image() else { return Ok(()) };
    let mut handle = 0;
    // SAFETY: the image is open. The argument outlives the watch: `Flights::close` ends it, at the latest
    // when the flights are dropped, and that waits for a call in progress.
    let watched = unsafe {
        (image.api().rbd_update_watch)(
            image.handle(),
            &raw mut handle,
            changed_on_its_thread,
            Arc::as_ptr(flights).cast_mut().cast(),
        )
    };
    if watched < 0 {
        return Err(Errno(-watched));
    }
    *lock(&flights.watch) = Some(handle);
    Ok(())
}

/// The image was changed; this is a thread of librbd, which must not call librbd.
unsafe extern "C" fn changed_on_its_thread(argument: *mut c_void) {
    // SAFETY: the argument is the `Flights` of `watch`, which live longer than the watch.
    let flights = unsafe { &*argument.cast::<Flights>().cast_const() };
    flights.is_changed.store(true, Ordering::Release);
    flights.wake();
}
