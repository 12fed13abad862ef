//! A drive that keeps all writes in memory, on top of a drive that is only read.
//!
//! ```text
//!   reads  ──> pieces in memory, and between them ──> the drive below
//!   writes, zeros ──> pieces in memory                  (never written)
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use world::io::Completions;
use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io, World};

/// Memory that all overlays of one examination may use in total. The journals of the groups (64 MiB each at
/// most) and the repairs of a scrub fit many times. An array that needs more repairs is beyond an
/// examination.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The state that the overlays of one examination share.
#[derive(Clone)]
pub(crate) struct OverlayMemory(Rc<Cell<u64>>);

impl Default for OverlayMemory {
    fn default() -> OverlayMemory {
        OverlayMemory(Rc::new(Cell::new(MEMORY_BYTES_MAX)))
    }
}

/// A write on top of the drive.
#[derive(Clone)]
struct Piece {
    len: u64,
    /// The bytes; `None` is zeros.
    data: Option<Data>,
}

impl Piece {
    /// The part of the piece from byte `from` to byte `to`.
    fn part(&self, from: u64, to: u64) -> Piece {
        let data = self.data.as_ref().map(|d| d.slice(from as usize..to as usize));
        Piece { len: to - from, data }
    }
}

/// The writes by their first byte; they do not overlap.
#[derive(Default)]
struct Pieces(BTreeMap<u64, Piece>);

impl Pieces {
    /// Writes a piece on top of the existing ones.
    fn put(&mut self, at: u64, piece: Piece) {
        let end = at + piece.len;
        let before = self.0.range(..at).next_back().map(|(start, piece)| (*start, piece.clone()));
        if let Some((start, old)) = before
            && start + old.len > at
        {
            self.0.insert(start, old.part(0, at - start));
            if start + old.len > end {
                self.0.insert(end, old.part(end - start, old.len));
            }
        }
        let covered: Vec<u64> = self.0.range(at..end).map(|(start, _)| *start).collect();
        for start in covered {
            let Some(old) = self.0.remove(&start) else { continue };
            if start + old.len > end {
                self.0.insert(end, old.part(end - start, old.len));
            }
        }
        self.0.insert(at, piece);
    }

    /// The parts of a range that are in memory, with their positions.
    fn within(&self, at: u64, len: u64) -> Vec<(u64, Piece)> {
        let end = at + len;
        let first = self.0.range(..at).next_back().filter(|(start, piece)| *start + piece.len > at);
        let rest = self.0.range(at..end);
        first
            .into_iter()
            .chain(rest)
            .map(|(start, piece)| {
                let (from, to) = (at.max(*start), end.min(start + piece.len));
                (from, piece.part(from - start, to - start))
            })
            .collect()
    }
}

/// One overlay, for the examination.
#[derive(Clone)]
pub(crate) struct Overlay {
    /// The drive to use.
    pub(crate) drive: Drive,
    written: Rc<RefCell<Vec<(u64, u64)>>>,
}

impl Overlay {
    /// Puts memory on top of a drive. Writes to [`Overlay::drive`] do not reach the drive below.
    pub(crate) fn new(world: World, below: Drive, memory: OverlayMemory) -> Overlay {
        let written = Rc::new(RefCell::new(Vec::new()));
        let info = DriveInfo { cheap_zero: true, ..below.info().clone() };
        let backend = OverlayBackend {
            world,
            below,
            pieces: RefCell::default(),
            memory,
            written: written.clone(),
            reads: Completions::default(),
        };
        Overlay { drive: Drive::new(info, Box::new(backend)), written }
    }

    /// The ranges that were written or zeroed since the last call, as (first byte, length), sorted and
    /// merged.
    pub(crate) fn take_written(&self) -> Vec<(u64, u64)> {
        let mut ranges = self.written.take();
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (at, len) in ranges {
            match merged.last_mut() {
                Some((last, last_len)) if *last + *last_len >= at => {
                    *last_len = (*last_len).max(at + len - *last);
                }
                _ => merged.push((at, len)),
            }
        }
        merged
    }
}

struct OverlayBackend {
    world: World,
    below: Drive,
    pieces: RefCell<Pieces>,
    memory: OverlayMemory,
    written: Rc<RefCell<Vec<(u64, u64)>>>,
    reads: Completions<Filled>,
}

impl OverlayBackend {
    fn note(&self, at: u64, len: u64) {
        self.written.borrow_mut().push((at, len));
    }
}

impl DriveBackend for OverlayBackend {
    fn read(&self, at: u64, mut buf: Buf) -> Io<Filled> {
        let len = buf.len() as u64;
        let pieces = self.pieces.borrow().within(at, len);
        if pieces.is_empty() {
            return self.below.read(at, buf);
        }
        let covered: u64 = pieces.iter().map(|(_, piece)| piece.len).sum();
        fill(&mut buf, at, &pieces);
        if covered == len {
            return Io::ready(Filled { buf, result: Ok(()) });
        }
        // A range in memory is not read from the drive: writes can replace an unreadable range.
        let (io, done) = self.reads.start();
        let below = self.below.clone();
        self.world.spawn(async move {
            let result = read_gaps(&below, at, &mut buf, &pieces).await;
            done.complete(Filled { buf, result });
        });
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        let len = data.len() as u64;
        let Some(left) = self.memory.0.get().checked_sub(len) else {
            return Io::ready(Err(DriveError::NoRoom { drive: self.below.info().name.clone(), at }));
        };
        self.memory.0.set(left);
        self.note(at, len);
        // A copy: the writer's buffer may be a slice of a much larger one that must be recycled.
        let data = Some(Data::copy_of(&data));
        self.pieces.borrow_mut().put(at, Piece { len, data });
        Io::ready(Ok(()))
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.note(at, len);
        self.pieces.borrow_mut().put(at, Piece { len, data: None });
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        self.below.probe()
    }
}

fn fill(buf: &mut Buf, at: u64, pieces: &[(u64, Piece)]) {
    for (from, piece) in pieces {
        let begin = (from - at) as usize;
        let to = &mut buf[begin..begin + piece.len as usize];
        match &piece.data {
            Some(data) => to.copy_from_slice(data),
            None => to.fill(0),
        }
    }
}

/// Reads the gaps between the pieces from the drive.
async fn read_gaps(below: &Drive, at: u64, buf: &mut Buf, pieces: &[(u64, Piece)]) -> Result<(), DriveError> {
    let end = at + buf.len() as u64;
    let mut next = at;
    let ends = pieces.iter().map(|(from, piece)| (*from, from + piece.len)).chain([(end, end)]);
    for (from, to) in ends {
        if from > next {
            let filled = below.read(next, Buf::new((from - next) as usize)).await;
            filled.result?;
            let begin = (next - at) as usize;
            buf[begin..begin + filled.buf.len()].copy_from_slice(&filled.buf);
        }
        next = to;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use world::DriveSpec;
    use world_model::{DiskSpec, Model};

    use super::*;

    const LEN: u64 = 64 << 10;

    fn open(world: &World) -> Drive {
        world.open_now(&DriveSpec::Modelled { name: "d0".into() }).expect("it is there")
    }

    async fn content(drive: &Drive) -> Vec<u8> {
        let filled = drive.read(0, Buf::new(LEN as usize)).await;
        filled.result.expect("it can be read");
        filled.buf.to_vec()
    }

    /// The overlay shows the drive with the writes on top; the drive itself does not change.
    fn check(changes: &[(u64, u64, Option<u8>)], written: &[(u64, u64)]) {
        let model = Model::new(1);
        model.disk("d0", DiskSpec::new(LEN));
        model.run(|world| async move {
            let below = open(&world);
            let pattern: Vec<u8> = (0..LEN).map(|i| (i / 512) as u8 | 1).collect();
            below.write(0, Data::copy_of(&pattern)).await.expect("written");
            let overlay = Overlay::new(world, below.clone(), OverlayMemory::default());
            let mut expected = pattern.clone();
            for &(at, len, byte) in changes {
                expected[at as usize..(at + len) as usize].fill(byte.unwrap_or(0));
                match byte {
                    Some(byte) => overlay.drive.write(at, Data::copy_of(&vec![byte; len as usize])).await,
                    None => overlay.drive.zero(at, len).await,
                }
                .expect("memory takes it");
            }
            assert_eq!(content(&overlay.drive).await, expected, "{changes:?}");
            let part = overlay.drive.read(1024, Buf::new(2048)).await;
            assert_eq!(part.buf[..], expected[1024..3072], "{changes:?}");
            assert_eq!(content(&below).await, pattern, "the drive was written: {changes:?}");
            assert_eq!(overlay.take_written(), written, "{changes:?}");
            assert_eq!(overlay.take_written(), [], "asked again");
        });
    }

    #[test]
    fn writes_stay_in_memory_and_are_seen() {
        check(&[], &[]);
        check(&[(0, LEN, Some(9))], &[(0, LEN)]);
        check(&[(512, 1024, Some(9)), (1024, 512, None)], &[(512, 1024)]);
        check(&[(1024, 512, Some(8)), (512, 2048, Some(9))], &[(512, 2048)]);
        check(&[(0, 4096, Some(8)), (4096, 4096, Some(7)), (2048, 4096, None)], &[(0, 8192)]);
        check(
            &[(0, 1024, Some(8)), (2048, 1024, None), (8192, 512, Some(7))],
            &[(0, 1024), (2048, 1024), (8192, 512)],
        );
    }

    #[test]
    fn memory_has_an_end() {
        let model = Model::new(1);
        model.disk("d0", DiskSpec::new(LEN));
        model.run(|world| async move {
            let memory = OverlayMemory(Rc::new(Cell::new(1024)));
            let overlay = Overlay::new(world.clone(), open(&world), memory);
            overlay.drive.write(0, Data::copy_of(&[1; 1024])).await.expect("there is room");
            let refused = overlay.drive.write(0, Data::copy_of(&[1; 512])).await;
            assert!(matches!(refused, Err(DriveError::NoRoom { .. })));
        });
    }
}
