//! A drive of the model: operations on a disk, from submission to completion.

use std::rc::Rc;
use std::time::Duration;

use world::io::{Completer, Completions};
use world::{
    Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, DriveSpec, FenceError, Filled, Io, OpenError,
};

use crate::clockwork::{Clockwork, MECHANISM};
use crate::disk::{Health, Shared};
use crate::disk_spec::{DiskSpec, Timing};
use crate::drives::{BLOCK_BYTES, Prepared, Request};
use crate::in_flight::{Client, Op};
use crate::process::Process;
use crate::rack::Disks;
use crate::store::{Content, SECTOR_BYTES};
use crate::timeline::{Fire, Timeline};
use crate::trace::digest_of;

/// Memory drives of the model: about what a copy of 4 KiB and a trip through the executor cost.
const MEMORY_LATENCY: Duration = Duration::from_micros(1);
/// What storage needs to fence a client; with Ceph some hundred milliseconds.
const FENCE_TIME: Duration = Duration::from_millis(100);
/// Who had the drive.
type Fenced = Result<Option<String>, FenceError>;
/// The number of memory drives in the trace: they are in no rack.
const MEMORY_NUMBER: u64 = u64::MAX;

/// Opens a drive in the run of this timeline, for a machine or for the one process of the run.
pub(crate) fn open(
    timeline: &Rc<Timeline>,
    disks: &Disks,
    machine: Option<&Rc<Process>>,
    spec: &DriveSpec,
) -> Result<Drive, OpenError> {
    let refuse =
        |name: String, cause: &str| Err(OpenError { name, cause: cause.to_owned(), is_absent: false });
    let disk = match spec {
        DriveSpec::Modelled { name } => match disks.get(name) {
            Some(disk) => disk.0,
            None => return refuse(name.clone(), "the model has no disk of this name"),
        },
        DriveSpec::Memory { name, len_bytes } => {
            let spec = DiskSpec::new(len_bytes / SECTOR_BYTES * SECTOR_BYTES).with_latency(MEMORY_LATENCY);
            // A power of its own: it dies with the process, and what it does is no persistence point.
            Rc::new(Shared::new(name, MEMORY_NUMBER, spec.with_cache_bytes(0), Rc::default()))
        }
        DriveSpec::File { path, .. }
        | DriveSpec::Image { path, .. }
        | DriveSpec::ImageWithin { path, .. }
        | DriveSpec::Device { path }
        | DriveSpec::ReadOnly { path } => {
            return refuse(path.display().to_string(), "the model world has no files or devices");
        }
        DriveSpec::Rbd(image) => return refuse(image.to_string(), "the model world has no Ceph cluster"),
    };
    if disk.faults.borrow().read_only {
        // It would be opened for reading and writing.
        return refuse(disk.name.clone(), "read-only");
    }
    let left = disk.faults.borrow().refuse_opens;
    if left > 0 {
        disk.faults.borrow_mut().refuse_opens = left - 1;
        return refuse(disk.name.clone(), "the disk refuses to be opened");
    }
    let client = match machine.map(|machine| disk.lock.take(machine)).transpose() {
        Ok(client) => client.unwrap_or(0),
        Err(holder) => return refuse(disk.name.clone(), &format!("{holder} has it open")),
    };
    if disk.timeline.borrow().as_ptr() != Rc::as_ptr(timeline) {
        // Another run: its time begins anew, and the drive is at rest.
        *disk.clockwork.borrow_mut() = Clockwork::new(&disk.spec.timing);
    }
    *disk.timeline.borrow_mut() = Rc::downgrade(timeline);
    timeline.record("open", disk.number, disk.spec.len_bytes);
    let info = DriveInfo {
        name: disk.name.clone(),
        len_bytes: disk.spec.len_bytes,
        block_bytes: disk.spec.block_bytes,
        volatile_cache: disk.spec.cache_bytes > 0,
        cheap_zero: !matches!(disk.spec.timing, Timing::Drive(Prepared::HardDisk(_))),
    };
    let drive = ModelledDrive {
        disk,
        client,
        machine: machine.cloned(),
        timeline: timeline.clone(),
        reads: Completions::default(),
        others: Completions::default(),
    };
    Ok(Drive::new(info, Box::new(drive)))
}

/// Fences the holder of a disk; `None`: there is no such disk.
pub(crate) fn fence(timeline: &Timeline, disks: &Disks, spec: &DriveSpec) -> Option<Io<Fenced>> {
    let DriveSpec::Modelled { name } = spec else { return None };
    let disk = disks.get(name)?.0;
    if disk.faults.borrow().fences_fail {
        let cause = "it does not answer".to_owned();
        return Some(Io::ready(Err(FenceError { name: name.clone(), cause })));
    }
    timeline.record("fence", disk.number, 0);
    let (io, done) = Completions::default().start();
    let token = disk.ops.borrow_mut().insert(0, Op::Fence { done });
    let at_ns = timeline.now_ns() + FENCE_TIME.as_nanos() as u64;
    timeline.arm(at_ns, disk, token);
    Some(io)
}

struct ModelledDrive {
    disk: Rc<Shared>,
    client: Client,
    machine: Option<Rc<Process>>,
    timeline: Rc<Timeline>,
    reads: Completions<Filled>,
    others: Completions<Result<(), DriveError>>,
}

impl ModelledDrive {
    fn submit(&self, op: Op) {
        if !self.disk.power.is_on() {
            // The caller is dead already; its last step just does not know.
            return;
        }
        let (kind, at, len) = op.request();
        let token = self.disk.ops.borrow_mut().insert(self.client, op);
        if let Some(delay_ns) = self.machine.as_ref().map(|machine| machine.delay_ns()).filter(|ns| *ns > 0) {
            // It is executed when it arrives.
            return self.timeline.arm(self.timeline.now_ns() + delay_ns, self.disk.clone(), token);
        }
        let request = Request { token, kind, block: at / BLOCK_BYTES, blocks: len / BLOCK_BYTES };
        let slow = self.disk.faults.borrow().slow;
        self.disk.clockwork.borrow_mut().submit(&self.timeline, &self.disk, slow, request);
    }

    fn write_content(&self, at: u64, content: Content) -> Io<Result<(), DriveError>> {
        let (io, done) = self.others.start();
        self.submit(Op::Write { at, content, done });
        io
    }
}

impl Drop for ModelledDrive {
    fn drop(&mut self) {
        self.disk.lock.release(self.client);
    }
}

impl DriveBackend for ModelledDrive {
    fn read(&self, at: u64, buf: Buf) -> Io<Filled> {
        self.timeline.record("read", self.disk.number, at);
        let (io, done) = self.reads.start();
        self.submit(Op::Read { at, buf, done });
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        self.timeline.record("write", self.disk.number, at);
        let looked_at = self.disk.spec.keeps_content && !data.is_shared_zeros();
        let digest = if looked_at { digest_of(&data) } else { 0 };
        self.timeline.record("bytes", data.len() as u64, digest);
        self.write_content(at, Content::Bytes(data))
    }

    /// A drive without content has nothing to join.
    fn write_vectored(&self, at: u64, list: Vec<Data>) -> Io<Result<(), DriveError>> {
        let data = match self.disk.spec.keeps_content {
            true => Data::joined(&list),
            false => Buf::shared_zeros(list.iter().map(|data| data.len()).sum()).freeze(),
        };
        self.write(at, data)
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.timeline.record("zero", self.disk.number, at);
        self.timeline.record("bytes", len, 0);
        self.write_content(at, Content::Zeros(len))
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        self.timeline.record("flush", self.disk.number, 0);
        let (io, done) = self.others.start();
        let before = self.disk.store.borrow().next_write();
        self.submit(Op::Flush { before, done });
        io
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        self.timeline.record("probe", self.disk.number, 0);
        let (io, done) = self.others.start();
        self.submit(Op::Probe { done });
        io
    }
}

impl Fire for Shared {
    fn fire(self: Rc<Self>, timeline: &Timeline, token: u64) {
        let health = self.faults.borrow().health;
        if health == Health::Hung {
            self.ops.borrow_mut().park(token);
            return;
        }
        if token == MECHANISM {
            self.clockwork.borrow_mut().go_on(timeline, &self);
            return;
        }
        let Some((client, op)) = self.ops.borrow_mut().remove(token) else { return };
        timeline.record("done", self.number, token);
        let refused = match health {
            Health::Dead => Some("the disk is dead"),
            _ => self.lock.is_fenced(client).then_some("another machine has taken it over"),
        };
        let gone = |cause: &str| DriveError::Gone { drive: self.name.clone(), cause: cause.to_owned() };
        match (op, refused) {
            (Op::Read { buf, done, .. }, Some(cause)) => {
                done.complete(Filled { buf, result: Err(gone(cause)) })
            }
            (Op::Write { done, .. } | Op::Flush { done, .. } | Op::Probe { done }, Some(cause)) => {
                done.complete(Err(gone(cause)))
            }
            (Op::Fence { done }, Some(cause)) => {
                done.complete(Err(FenceError { name: self.name.clone(), cause: cause.to_owned() }));
            }
            (op, None) => self.execute(op),
        }
    }
}

impl Shared {
    fn execute(&self, op: Op) {
        match op {
            Op::Fence { done } => done.complete(Ok(self.lock.fence())),
            Op::Write { done, .. } if self.faults.borrow().read_only => {
                // What a system says of a device that was set read-only.
                let cause = "read-only file system (os error 30)".to_owned();
                done.complete(Err(DriveError::Gone { drive: self.name.clone(), cause }));
            }
            Op::Probe { done } => done.complete(Ok(())),
            Op::Read { at, mut buf, done } => {
                let result = self.read(at, &mut buf);
                done.complete(Filled { buf, result });
            }
            Op::Write { at, content: Content::Bytes(data), done } if self.has_no_room(at, &data) => {
                done.complete(Err(DriveError::NoRoom { drive: self.name.clone(), at }));
            }
            Op::Write { at, content, done } => {
                self.put(at, content);
                self.persisted(done);
            }
            Op::Flush { done, .. } if self.faults.borrow().fail_flushes > 0 => {
                self.faults.borrow_mut().fail_flushes -= 1;
                done.complete(Err(DriveError::Medium { drive: self.name.clone(), at: 0 }));
            }
            Op::Flush { before, done } => {
                if !self.faults.borrow().flush_lies {
                    self.store.borrow_mut().flush_before(before);
                }
                self.persisted(done);
            }
        }
    }

    fn read(&self, at: u64, buf: &mut Buf) -> Result<(), DriveError> {
        let end = at + buf.len() as u64;
        let sectors = at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        if self.faults.borrow().latent.range(sectors).next().is_some() {
            return Err(DriveError::Medium { drive: self.name.clone(), at });
        }
        let store = self.store.borrow();
        if store.has_nothing(at, buf.len() as u64) {
            *buf = Buf::shared_zeros(buf.len());
        } else {
            store.read(at, buf);
        }
        Ok(())
    }

    fn has_no_room(&self, at: u64, data: &Data) -> bool {
        let is_full = self.faults.borrow().full_from.is_some_and(|from| at >= from);
        is_full && self.store.borrow().has_hole(at, data.len() as u64)
    }

    fn put(&self, at: u64, content: Content) {
        let mut faults = self.faults.borrow_mut();
        if faults.lose_writes > 0 {
            faults.lose_writes -= 1;
            return;
        }
        let at = faults.misdirect_to.take().unwrap_or(at);
        let sectors = at / SECTOR_BYTES..(at + content.len()) / SECTOR_BYTES;
        while let Some(&healed) = faults.latent.range(sectors.clone()).next() {
            faults.latent.remove(&healed);
        }
        self.store.borrow_mut().put(at, content);
    }

    /// Completes, unless the power goes at this very point.
    fn persisted(&self, done: Completer<Result<(), DriveError>>) {
        if self.power.pass_point() {
            done.complete(Ok(()));
        }
    }
}
