//! The memory drive: sparse, complete at once, gone with the process.

use std::cell::RefCell;
use std::rc::Rc;

use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io, OpenError};

/// Memory is taken and given back in pieces of this size: large enough for cheap tables, small enough for sparse volumes.
const CHUNK_LEN: usize = 1 << 20;
/// Chunks of one table: a table covers 1 GiB.
const TABLE_LEN: usize = 1024;
/// The logical block of most disks, and the one that every guest can use.
const BLOCK_BYTES: u32 = 512;
/// The largest memory drive: 1 PiB, whose empty top table takes 8 MiB.
const LEN_BYTES_MAX: u64 = 1 << 50;

type Chunk = Box<[u8]>;
type Table = Box<[Option<Chunk>]>;

/// Opens a memory drive.
pub(crate) fn open(name: &str, len_bytes: u64) -> Result<Drive, OpenError> {
    let refuse = |cause: String| OpenError { name: name.to_owned(), cause };
    if len_bytes == 0 || !len_bytes.is_multiple_of(BLOCK_BYTES.into()) {
        return Err(refuse(format!(
            "{len_bytes} bytes are not a positive multiple of the block of {BLOCK_BYTES} bytes"
        )));
    }
    if len_bytes > LEN_BYTES_MAX {
        return Err(refuse(format!(
            "{len_bytes} bytes are over the limit of {LEN_BYTES_MAX} bytes for a memory drive"
        )));
    }
    let tables = len_bytes.div_ceil((CHUNK_LEN * TABLE_LEN) as u64);
    let tables = usize::try_from(tables).map_err(|e| refuse(e.to_string()))?;
    let mut sparse = Sparse { tables: Vec::new() };
    sparse.tables.resize_with(tables, || None);
    let info = DriveInfo {
        name: name.to_owned(),
        len_bytes,
        block_bytes: BLOCK_BYTES,
        // Nothing is lost at a flush boundary: all of it is lost with the process, acknowledged or not.
        volatile_cache: false,
        cheap_zero: true,
    };
    Ok(Drive::new(info, Box::new(MemoryDrive(Rc::new(RefCell::new(sparse))))))
}

struct MemoryDrive(Rc<RefCell<Sparse>>);

struct Sparse {
    tables: Vec<Option<Table>>,
}

/// The parts of a range, chunk by chunk: table, chunk within it, first byte within that, length.
fn parts(at: u64, len: u64) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    let (mut at, mut left) = (at as usize, len as usize);
    std::iter::from_fn(move || {
        (left > 0).then(|| {
            let (chunk, from) = (at / CHUNK_LEN, at % CHUNK_LEN);
            let len = left.min(CHUNK_LEN - from);
            at += len;
            left -= len;
            (chunk / TABLE_LEN, chunk % TABLE_LEN, from, len)
        })
    })
}

impl Sparse {
    fn read(&self, at: u64, buf: &mut [u8]) {
        let mut rest = buf;
        for (table, chunk, from, len) in parts(at, rest.len() as u64) {
            let (part, after) = rest.split_at_mut(len);
            match self.tables[table].as_ref().and_then(|t| t[chunk].as_ref()) {
                Some(bytes) => part.copy_from_slice(&bytes[from..from + len]),
                None => part.fill(0),
            }
            rest = after;
        }
    }

    fn write(&mut self, at: u64, data: &[u8]) {
        let mut rest = data;
        for (table, chunk, from, len) in parts(at, data.len() as u64) {
            let (part, after) = rest.split_at(len);
            let table = self.tables[table]
                .get_or_insert_with(|| std::iter::repeat_with(|| None).take(TABLE_LEN).collect());
            // Fresh zero pages from the kernel: memory is really taken page by page, as it is touched.
            let bytes = table[chunk].get_or_insert_with(|| vec![0; CHUNK_LEN].into_boxed_slice());
            bytes[from..from + len].copy_from_slice(part);
            rest = after;
        }
    }

    fn zero(&mut self, at: u64, len: u64) {
        for (table, chunk, from, len) in parts(at, len) {
            let Some(table) = &mut self.tables[table] else { continue };
            if len == CHUNK_LEN {
                table[chunk] = None;
            } else if let Some(bytes) = &mut table[chunk] {
                bytes[from..from + len].fill(0);
            }
        }
    }
}

impl DriveBackend for MemoryDrive {
    fn read(&self, at: u64, mut buf: Buf) -> Io<Filled> {
        self.0.borrow().read(at, &mut buf);
        Io::ready(Filled { buf, result: Ok(()) })
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        self.0.borrow_mut().write(at, &data);
        Io::ready(Ok(()))
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.0.borrow_mut().zero(at, len);
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(chunks: usize) -> Sparse {
        let mut sparse = Sparse { tables: Vec::new() };
        sparse.tables.resize_with(chunks.div_ceil(TABLE_LEN), || None);
        sparse
    }

    #[test]
    fn content_follows_a_plain_vector() {
        let mut drive = sparse(4);
        let mut plain = vec![0u8; 4 * CHUNK_LEN];
        let mut rng = world::Rng::with_seed(3);
        for step in 0..200u32 {
            let at = rng.usize(0..plain.len() / 512) * 512;
            let len = (rng.usize(1..3000) * 512).min(plain.len() - at);
            if rng.u8(0..3) == 0 {
                drive.zero(at as u64, len as u64);
                plain[at..at + len].fill(0);
            } else {
                let data = vec![step as u8; len];
                drive.write(at as u64, &data);
                plain[at..at + len].copy_from_slice(&data);
            }
        }
        let mut all = vec![1u8; plain.len()];
        drive.read(0, &mut all);
        assert!(all == plain);
    }

    #[test]
    fn a_whole_zeroed_chunk_gives_its_memory_back() {
        let mut drive = sparse(2);
        drive.write(0, &vec![1; 2 * CHUNK_LEN]);
        drive.zero(0, (CHUNK_LEN + 512) as u64);
        let table = drive.tables[0].as_ref().expect("written");
        assert!(table[0].is_none() && table[1].is_some());
    }
}
