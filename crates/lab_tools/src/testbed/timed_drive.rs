//! Modelled drives in real time: a world like another one, whose modelled drives take as long by its clock as
//! their model says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use array::Config;
use world::io::{Completer, Completions};
use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, DriveSpec, Filled, Io, World};
use world_model::drives::{Kind, Prepared, Usage};

use super::other_drives::world_with;
use super::platter::Platter;

/// The unit in which content is kept. Pages of zeros are not kept: so terabytes that are written with zeros
/// cost no memory.
const PAGE: u64 = 4096;
const BLOCK_BYTES: u64 = 512;
static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// The drives that a world is given.
#[derive(Clone)]
pub struct Drives {
    /// By name.
    pub prepared: BTreeMap<String, Prepared>,
    /// Until it is set, everything is done at once: an array is made without waiting.
    pub takes_time: Arc<AtomicBool>,
}

/// A world with these drives, and what tells how much they work.
pub fn metered_world_with(inner: World, drives: Drives) -> (World, Meter) {
    let (meter, world) = (Meter::default(), inner.clone());
    let opened = meter.clone();
    let open = move |spec: &DriveSpec| match spec {
        DriveSpec::Modelled { name } if drives.prepared.contains_key(name) => {
            let (drive, platter) = open(&world, name, &drives);
            opened.0.borrow_mut().insert(name.clone(), platter);
            Some(Io::ready(Ok(drive)))
        }
        _ => None,
    };
    (world_with(inner, open), meter)
}

/// How much the drives of a world work.
#[derive(Clone, Default)]
pub struct Meter(Rc<RefCell<BTreeMap<String, Rc<Platter<Op>>>>>);

impl Meter {
    /// What each drive that was opened has done so far, by name.
    pub fn usage(&self) -> BTreeMap<String, Usage> {
        self.0.borrow().iter().map(|(name, platter)| (name.clone(), platter.usage())).collect()
    }
}

impl Drives {
    /// The modelled drives of an array, all alike.
    pub fn alike(config: &Config, prepared: &Prepared) -> Drives {
        let names = config.drives.iter().map(|drive| drive.name.clone());
        Drives { prepared: names.map(|name| (name, prepared.clone())).collect(), takes_time: Arc::default() }
    }
}

fn open(world: &World, name: &str, drives: &Drives) -> (Drive, Rc<Platter<Op>>) {
    let prepared = &drives.prepared[name];
    let info = DriveInfo {
        name: name.to_owned(),
        len_bytes: prepared.len_bytes() / PAGE * PAGE,
        block_bytes: BLOCK_BYTES as u32,
        volatile_cache: false,
        cheap_zero: false,
    };
    let content = Rc::new(Content::default());
    let kept = content.clone();
    let platter = Platter::new(world, prepared, move |op| kept.end(op));
    let drive = TimedDrive {
        takes_time: drives.takes_time.clone(),
        platter: platter.clone(),
        content,
        reads: Completions::default(),
        others: Completions::default(),
    };
    (Drive::new(info, Box::new(drive)), platter)
}

/// A request and what is done when it ends.
enum Op {
    Read { at: u64, buf: Buf, done: Completer<Filled> },
    Write { at: u64, data: Data, done: Completer<Result<(), DriveError>> },
    Zero { at: u64, len: u64, done: Completer<Result<(), DriveError>> },
    Other { done: Completer<Result<(), DriveError>> },
}

struct TimedDrive {
    takes_time: Arc<AtomicBool>,
    platter: Rc<Platter<Op>>,
    content: Rc<Content>,
    reads: Completions<Filled>,
    others: Completions<Result<(), DriveError>>,
}

impl DriveBackend for TimedDrive {
    fn read(&self, at: u64, buf: Buf) -> Io<Filled> {
        let (io, done) = self.reads.start();
        let len = buf.len() as u64;
        self.submit(Kind::Read, (at, len), Op::Read { at, buf, done });
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        let (io, done) = self.others.start();
        let len = data.len() as u64;
        self.submit(Kind::Write, (at, len), Op::Write { at, data, done });
        io
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        let (io, done) = self.others.start();
        self.submit(Kind::Zero, (at, len), Op::Zero { at, len, done });
        io
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        let (io, done) = self.others.start();
        self.submit(Kind::Flush, (0, 0), Op::Other { done });
        io
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }
}

impl TimedDrive {
    fn submit(&self, kind: Kind, range: (u64, u64), op: Op) {
        match self.takes_time.load(Ordering::Relaxed) {
            true => self.platter.submit(kind, range, op),
            false => self.content.end(op),
        }
    }
}

/// What is on a drive.
#[derive(Default)]
struct Content {
    pages: RefCell<BTreeMap<u64, Box<[u8]>>>,
}

impl Content {
    fn end(&self, op: Op) {
        match op {
            Op::Read { at, mut buf, done } => {
                self.fill(at, &mut buf);
                done.complete(Filled { buf, result: Ok(()) });
            }
            Op::Write { at, data, done } => {
                self.put(at, data.len() as u64, Some(&data));
                done.complete(Ok(()));
            }
            Op::Zero { at, len, done } => {
                self.put(at, len, None);
                done.complete(Ok(()));
            }
            Op::Other { done } => done.complete(Ok(())),
        }
    }

    fn fill(&self, at: u64, buf: &mut [u8]) {
        let pages = self.pages.borrow();
        each_page(at, buf.len() as u64, |number, within, from, len| {
            let to = &mut buf[from..from + len];
            match pages.get(&number) {
                Some(page) => to.copy_from_slice(&page[within..within + len]),
                None => to.fill(0),
            }
        });
    }

    /// Changes pages, to zeros without a source; those that are zeros then are let go.
    fn put(&self, at: u64, len: u64, source: Option<&[u8]>) {
        let mut pages = self.pages.borrow_mut();
        let Some(data) = source else { return zero(&mut pages, at, len) };
        each_page(at, len, |number, within, from, len| {
            let part = Some(&data[from..from + len]).filter(|part| *part != &ZEROS[..len]);
            match (part, pages.get_mut(&number)) {
                (Some(part), Some(page)) => page[within..within + len].copy_from_slice(part),
                (Some(part), None) => {
                    let mut page = ZEROS.to_vec().into_boxed_slice();
                    page[within..within + len].copy_from_slice(part);
                    pages.insert(number, page);
                }
                (None, Some(_)) => zero(&mut pages, number * PAGE + within as u64, len as u64),
                (None, None) => {}
            }
        });
    }
}

/// Looks at the pages that are kept only: a whole drive is zeroed in no time.
fn zero(pages: &mut BTreeMap<u64, Box<[u8]>>, at: u64, len: u64) {
    let end = at + len;
    let kept = pages.range_mut(at / PAGE..end.div_ceil(PAGE));
    let mut empty = Vec::new();
    for (number, page) in kept {
        let (from, to) = (at.max(number * PAGE), end.min((number + 1) * PAGE));
        page[(from % PAGE) as usize..][..(to - from) as usize].fill(0);
        if page[..] == ZEROS {
            empty.push(*number);
        }
    }
    empty.iter().for_each(|number| drop(pages.remove(number)));
}

/// Number of the page, place within it, place within the range, length.
fn each_page(at: u64, len: u64, mut each: impl FnMut(u64, usize, usize, usize)) {
    let mut done = 0;
    while done < len {
        let (number, within) = ((at + done) / PAGE, (at + done) % PAGE);
        let part = (PAGE - within).min(len - done);
        each(number, within as usize, done as usize, part as usize);
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drives;

    fn given(takes_time: bool) -> Drives {
        let parameters = drives::load("savvio-10k4").expect("in the catalogue");
        Drives {
            prepared: [("d".into(), Prepared::new(&parameters).expect("a drive"))].into(),
            takes_time: Arc::new(AtomicBool::new(takes_time)),
        }
    }

    fn with_drive<T: Send + 'static>(
        takes_time: bool,
        job: impl AsyncFnOnce(World, Drive) -> T + Send + 'static,
    ) -> T {
        let run = world_real::run(world_real::Options::default(), move |world| async move {
            let (world, _) = metered_world_with(world, given(takes_time));
            let drive = world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("it is there");
            job(world, drive).await
        });
        run.expect("a world")
    }

    #[test]
    fn content_is_kept_and_zeros_cost_nothing() {
        with_drive(false, async |_, drive| {
            drive.write(512, Buf::copy_of(&[7; 8192]).freeze()).await.expect("written");
            drive.zero(1024, 512).await.expect("zeroed");
            let filled = drive.read(0, Buf::new(12288)).await;
            filled.result.expect("read");
            let expected = [vec![0; 512], vec![7; 512], vec![0; 512], vec![7; 7168], vec![0; 3584]].concat();
            assert!(filled.buf[..] == expected[..]);
            drive.write(0, Buf::zeroed(12288).freeze()).await.expect("written");
            let filled = drive.read(512, Buf::new(8192)).await;
            assert!(filled.buf.iter().all(|byte| *byte == 0));
        });
    }

    /// Ten random reads take ten times a seek and half a turn, by the clock of the real world: longer on a
    /// busy machine, never shorter.
    #[test]
    fn requests_take_the_time_of_the_model() {
        let took = with_drive(true, async |world, drive| {
            let (from, mut rng) = (world.now(), world.random("places"));
            for _ in 0..10 {
                let at = rng.u64(..drive.info().len_bytes / 4096 - 1) * 4096;
                drive.read(at, Buf::new(4096)).await.result.expect("read");
            }
            world.now().since(from)
        });
        assert!(took > Duration::from_millis(40), "{took:?}");
    }
}
