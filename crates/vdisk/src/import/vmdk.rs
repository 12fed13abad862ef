//! VMDK: sparse extents (also stream-optimised, compressed ones), and descriptors with flat ones.

use std::cell::RefCell;
use std::path::Path;

use block::Pieces;
use world::{Drive, DriveSpec, World};

use super::{Budget, inflate, is_enough, is_there, read_bytes};
use crate::VdiskError;

/// The magic numbers of a sparse extent and of a descriptor.
pub(super) const MAGIC: &[u8] = b"KDMV";
pub(super) const TEXT_MAGIC: &[u8] = b"# Disk DescriptorFile";
const SECTOR: u64 = 512;
const HEADER_BYTES: u64 = 512;
/// A grain of 4 KiB to 2 MiB.
const GRAIN_SECTORS: std::ops::RangeInclusive<u64> = 8..=4096;
/// Entries of a grain table: 512 in all known images, or close to it.
const TABLE_ENTRIES: std::ops::RangeInclusive<u64> = 1..=4096;
/// A larger grain directory is refused, because it is kept in memory.
const DIRECTORY_BYTES_MAX: u64 = 32 << 20;
const SECTORS_MAX: u64 = 1 << 52;
const DESCRIPTOR_BYTES_MAX: u64 = 1 << 20;
const EXTENTS_MAX: usize = 4096;
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=3;
/// The line-end characters in a header, which detect a transfer in text mode.
const LINE_ENDS: &[u8] = b"\n \r\n";
const DEFLATE: u16 = 1;
/// The header of a compressed grain: its first sector, and its length.
const MARKER_BYTES: u64 = 12;
const FILE: &str = "the VMDK";
/// The directory is behind the grains, and the footer has its offset.
const AT_END: u64 = u64::MAX;
const COMPRESSED: u32 = 1 << 16;
const HAS_ZERO_GRAINS: u32 = 1 << 2;

/// A VMDK without a parent.
pub struct Vmdk {
    parts: Vec<Part>,
    len_bytes: u64,
}

/// An extent of the descriptor: a part of the disk.
struct Part {
    at: u64,
    len: u64,
    content: Content,
}

enum Content {
    Zeros,
    Flat { drive: Drive, from: u64 },
    Sparse(Sparse),
}

/// A sparse extent.
struct Sparse {
    drive: Drive,
    len: u64,
    grain_bytes: u64,
    table_entries: u64,
    directory: Vec<u32>,
    is_compressed: bool,
    has_zero_grains: bool,
    /// The last used grain table, and its number.
    table: RefCell<Option<(u64, Vec<u32>)>>,
}

fn damaged(cause: impl Into<String>) -> VdiskError {
    VdiskError::damaged(FILE, cause)
}

impl Vmdk {
    pub(super) async fn open(world: &World, drive: Drive, path: &Path) -> Result<Vmdk, VdiskError> {
        let first = read_bytes(&drive, 0, drive.len_bytes().min(HEADER_BYTES), FILE).await?;
        if first.starts_with(MAGIC) {
            let sparse = Sparse::open(drive).await?;
            let len_bytes = sparse.len;
            let parts = vec![Part { at: 0, len: len_bytes, content: Content::Sparse(sparse) }];
            return Ok(Vmdk { parts, len_bytes });
        }
        if drive.len_bytes() > DESCRIPTOR_BYTES_MAX {
            return Err(damaged("its descriptor exceeds the limit"));
        }
        let text = read_bytes(&drive, 0, drive.len_bytes(), FILE).await?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_end_matches('\0');
        check_parent(text)?;
        let (mut parts, mut at) = (Vec::new(), 0_u64);
        for line in text.lines() {
            let Some(declared) = Declared::parse(line)? else { continue };
            if parts.len() == EXTENTS_MAX || declared.sectors > SECTORS_MAX {
                return Err(damaged("its extents exceed the limits of number or length"));
            }
            let len = declared.sectors * SECTOR;
            let content = declared.open(world, path, len).await?;
            parts.push(Part { at, len, content });
            at = at.checked_add(len).filter(|len| *len <= SECTORS_MAX * SECTOR).ok_or_else(|| {
                damaged(format!("its extents have more than {SECTORS_MAX} sectors in total"))
            })?;
        }
        if parts.is_empty() {
            return Err(damaged("its descriptor has no extent"));
        }
        Ok(Vmdk { parts, len_bytes: at })
    }

    /// The faults of its tables: tables and grains outside the files.
    pub(super) async fn faults(&self) -> Result<Vec<String>, VdiskError> {
        let mut faults = Vec::new();
        for part in &self.parts {
            if let Content::Sparse(sparse) = &part.content {
                sparse.faults(&mut faults).await?;
            }
        }
        Ok(faults)
    }

    /// Size of the disk.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Number of bytes from here on, in one extent, that are zeros.
    pub(super) async fn hole(&self, at: u64) -> u64 {
        let Some(part) = self.parts.iter().find(|part| part.at <= at && at - part.at < part.len) else {
            return 0;
        };
        let left = part.len - (at - part.at);
        match &part.content {
            Content::Zeros => left,
            Content::Flat { .. } => 0,
            Content::Sparse(sparse) => sparse.hole(at - part.at).await.min(left),
        }
    }

    /// Reads `len` bytes at `at`, appended to `out`.
    pub(super) async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        for part in &self.parts {
            let (from, to) = (at.max(part.at), (at + len).min(part.at + part.len));
            if from >= to {
                continue;
            }
            let (inside, n) = (from - part.at, to - from);
            match &part.content {
                Content::Zeros => out.push_zeros(n as usize),
                Content::Flat { drive, from } => {
                    out.append(Pieces::copy_of(&read_bytes(drive, from + inside, n, "a flat extent").await?));
                }
                Content::Sparse(sparse) => sparse.read(inside, n, out).await?,
            }
        }
        Ok(())
    }
}

/// Refuses a disk with a parent: a part of its data is there, and would be missing.
fn check_parent(text: &str) -> Result<(), VdiskError> {
    let names_parent = text.lines().filter_map(|line| line.split_once('=')).any(|(key, value)| {
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        (key.eq_ignore_ascii_case("parentCID") && !value.eq_ignore_ascii_case("ffffffff"))
            || (key.eq_ignore_ascii_case("parentFileNameHint") && !value.is_empty())
    });
    match names_parent {
        true => Err(VdiskError::unsupported(
            "a VMDK with a parent; merge them first (qemu-img convert or vmware-vdiskmanager -r)",
        )),
        false => Ok(()),
    }
}

/// A line of the descriptor: `RW 4192256 FLAT "disk-flat.vmdk" 0`.
struct Declared<'a> {
    sectors: u64,
    kind: &'a str,
    file: &'a str,
    from: u64,
}

impl Declared<'_> {
    /// The extent that a line declares, if any: an extent that is not understood is an error, because it is a
    /// part of the disk.
    fn parse(line: &str) -> Result<Option<Declared<'_>>, VdiskError> {
        let (head, rest) = line.split_once('"').unwrap_or((line, ""));
        let mut words = head.split_whitespace();
        match words.next() {
            Some("RW" | "RDONLY") => {}
            Some("NOACCESS") => return Err(VdiskError::unsupported("a VMDK extent with access NOACCESS")),
            _ => return Ok(None),
        }
        let unclear = || damaged(format!("its descriptor has an invalid extent: {line:?}"));
        let sectors = words.next().and_then(|n| n.parse().ok()).ok_or_else(unclear)?;
        let kind = words.next().ok_or_else(unclear)?;
        let (file, offset) = rest.split_once('"').unwrap_or((rest, ""));
        // A partition and a device may follow the offset, for types that are refused.
        let from = match offset.split_whitespace().next() {
            None => 0,
            Some(offset) => offset.parse().map_err(|_| unclear())?,
        };
        Ok(Some(Declared { sectors, kind, file, from }))
    }

    async fn open(&self, world: &World, descriptor: &Path, len: u64) -> Result<Content, VdiskError> {
        if self.kind == "ZERO" {
            return Ok(Content::Zeros);
        }
        if !matches!(self.kind, "FLAT" | "VMFS" | "SPARSE") {
            return Err(VdiskError::unsupported(format!("a VMDK extent of type {:?}", self.kind)));
        }
        // Beside the descriptor only: the content of a file must not give access to other files.
        if self.file.contains(['/', '\\']) || self.file.is_empty() || self.file == ".." {
            return Err(VdiskError::unsupported(format!("an extent in another directory: {:?}", self.file)));
        }
        let folder = descriptor.parent().unwrap_or(Path::new("")).to_owned();
        let spec = DriveSpec::ImageWithin { folder, path: self.file.into() };
        let drive = world.open_drive(&spec).await?;
        let short =
            |has: u64| damaged(format!("extent {:?} of {len} bytes has {has} bytes in its file", self.file));
        if self.kind == "SPARSE" {
            let sparse = Sparse::open(drive).await?;
            return if sparse.len < len { Err(short(sparse.len)) } else { Ok(Content::Sparse(sparse)) };
        }
        let from = self.from.checked_mul(SECTOR).ok_or_else(|| short(0))?;
        match is_there(&drive, from, len) {
            true => Ok(Content::Flat { drive, from }),
            false => Err(short(drive.len_bytes().saturating_sub(from))),
        }
    }
}

impl Sparse {
    async fn open(drive: Drive) -> Result<Sparse, VdiskError> {
        let first = read_bytes(&drive, 0, HEADER_BYTES, FILE).await?;
        if !first.starts_with(MAGIC) {
            return Err(damaged("a sparse extent has no header"));
        }
        let mut header = first.clone();
        if u64_at(&header, 56) == AT_END {
            header = read_bytes(&drive, drive.len_bytes().saturating_sub(1024), HEADER_BYTES, FILE).await?;
            if !header.starts_with(MAGIC) {
                return Err(damaged("missing footer: it was not written to the end"));
            }
        }
        check_header(&header)?;
        // The parent, if any, is in the descriptor within the file.
        let (text_at, text_sectors) = (u64_at(&first, 28), u64_at(&first, 36));
        if text_at != 0 && text_sectors != 0 {
            if text_at > SECTORS_MAX || text_sectors > DESCRIPTOR_BYTES_MAX / SECTOR {
                return Err(damaged(format!("invalid descriptor of {text_sectors} sectors at {text_at}")));
            }
            let text =
                read_bytes(&drive, text_at * SECTOR, text_sectors * SECTOR, "the descriptor in the VMDK")
                    .await?;
            check_parent(&String::from_utf8_lossy(&text))?;
        }
        let (flags, sectors, grain, entries) =
            (u32_at(&header, 8), u64_at(&header, 12), u64_at(&header, 20), u64::from(u32_at(&header, 44)));
        let fits =
            GRAIN_SECTORS.contains(&grain) && grain.is_power_of_two() && TABLE_ENTRIES.contains(&entries);
        if !fits || sectors > SECTORS_MAX {
            return Err(damaged(format!(
                "invalid size of {sectors} sectors, grains of {grain} or tables of {entries} entries"
            )));
        }
        let (count, at) = (sectors.div_ceil(grain * entries), u64_at(&header, 56));
        if count * 4 > DIRECTORY_BYTES_MAX || at > SECTORS_MAX {
            return Err(damaged(format!("invalid grain directory of {count} tables at sector {at}")));
        }
        let directory = words(&read_bytes(&drive, at * SECTOR, count * 4, "the grain directory").await?);
        Ok(Sparse {
            drive,
            len: sectors * SECTOR,
            grain_bytes: grain * SECTOR,
            table_entries: entries,
            directory,
            is_compressed: flags & COMPRESSED != 0,
            has_zero_grains: flags & HAS_ZERO_GRAINS != 0,
            table: RefCell::default(),
        })
    }

    async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        let (mut here, end) = (at, at + len);
        while here < end {
            let from = here % self.grain_bytes;
            let n = (self.grain_bytes - from).min(end - here);
            let number = here / self.grain_bytes;
            match self.grain(number).await? {
                None => out.push_zeros(n as usize),
                Some(place) if self.is_compressed => {
                    let grain = self.unpacked(number, place).await?;
                    out.append(Pieces::copy_of(&grain[from as usize..(from + n) as usize]));
                }
                Some(place) => {
                    out.append(Pieces::copy_of(
                        &read_bytes(&self.drive, place + from, n, "a grain of the VMDK").await?,
                    ));
                }
            }
            here += n;
        }
        Ok(())
    }

    /// Number of bytes from here on that are zeros: tables that do not exist, or grains of one table. What is
    /// damaged is for a read to find.
    async fn hole(&self, at: u64) -> u64 {
        let number = at / self.grain_bytes;
        let index = number / self.table_entries;
        let gone = self.directory.iter().skip(index as usize).take_while(|at| **at == 0).count() as u64;
        let mut end = number;
        if gone > 0 {
            end = (index + gone) * self.table_entries;
        } else {
            let last = (index + 1) * self.table_entries;
            while end < last && matches!(self.grain(end).await, Ok(None)) {
                end += 1;
            }
        }
        (end * self.grain_bytes).saturating_sub(at)
    }

    /// Offset of a grain in the file. None: zeros.
    async fn grain(&self, number: u64) -> Result<Option<u64>, VdiskError> {
        let index = number / self.table_entries;
        let Some(table_at) = self.directory.get(index as usize).filter(|at| **at != 0) else {
            return Ok(None);
        };
        let known = self.table.borrow().as_ref().is_some_and(|(known, _)| *known == index);
        if !known {
            let table = self.grain_table(*table_at).await?;
            *self.table.borrow_mut() = Some((index, table));
        }
        let table = self.table.borrow();
        let entry = table.as_ref().and_then(|(_, table)| table.get((number % self.table_entries) as usize));
        Ok(self.place(entry.copied().unwrap_or(0)))
    }

    /// Offset of the grain of an entry in the file. None: zeros.
    fn place(&self, entry: u32) -> Option<u64> {
        match entry {
            0 => None,
            1 if self.has_zero_grains => None,
            sector => Some(u64::from(sector) * SECTOR),
        }
    }

    async fn grain_table(&self, sector: u32) -> Result<Vec<u32>, VdiskError> {
        let (at, len) = (u64::from(sector) * SECTOR, self.table_entries * 4);
        Ok(words(&read_bytes(&self.drive, at, len, "a grain table").await?))
    }

    async fn faults(&self, faults: &mut Vec<String>) -> Result<(), VdiskError> {
        let mut budget = Budget::of(&self.drive);
        for (index, sector) in (0_u64..).zip(&self.directory).filter(|(_, sector)| **sector != 0) {
            if is_enough(faults) {
                break;
            }
            let table = match self.grain_table(*sector).await {
                Ok(table) => table,
                Err(VdiskError::Damaged { place, cause }) => {
                    faults.push(format!("{place}, number {index}: {cause}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (number, entry) in (index * self.table_entries..).zip(table) {
                let disk_here = self.len.saturating_sub(number.saturating_mul(self.grain_bytes));
                if disk_here == 0 || is_enough(faults) {
                    break;
                }
                let here = disk_here.min(self.grain_bytes);
                // Of a compressed grain the marker, which has its length.
                let stored = if self.is_compressed { MARKER_BYTES } else { here };
                let Some(place) = self.place(entry) else { continue };
                if !is_there(&self.drive, place, stored) {
                    faults.push(format!("grain {number}: its bytes at {place} are outside the file"));
                } else if self.is_compressed
                    && let Some(cause) = budget.fault(here, self.unpacked(number, place)).await?
                {
                    faults.push(format!("grain {number}: {cause}"));
                }
            }
        }
        Ok(())
    }

    /// A compressed grain: its marker with the length, then the data.
    async fn unpacked(&self, number: u64, place: u64) -> Result<Vec<u8>, VdiskError> {
        let marker = read_bytes(&self.drive, place, MARKER_BYTES, "a compressed grain").await?;
        let len = u64::from(u32_at(&marker, 8));
        // Deflate never expands data so much.
        if len == 0 || len > 2 * self.grain_bytes {
            return Err(damaged(format!("invalid length of {len} bytes of a compressed grain")));
        }
        let packed = read_bytes(&self.drive, place + MARKER_BYTES, len, "a compressed grain").await?;
        // The last grain has the bytes of the disk only, or zeros behind them.
        let disk_here = self.len - number * self.grain_bytes;
        let mut grain = vec![0; self.grain_bytes.min(disk_here) as usize];
        inflate(&packed, &mut grain, true, "a compressed grain")?;
        Ok(grain)
    }
}

/// Checks the fields of a header that are not sizes.
fn check_header(header: &[u8]) -> Result<(), VdiskError> {
    let version = u32_at(header, 4);
    if !VERSIONS.contains(&version) {
        return Err(VdiskError::unsupported(format!("version {version} of sparse VMDK extents")));
    }
    let flags = u32_at(header, 8);
    if flags & 1 != 0 && header[73..77] != *LINE_ENDS {
        return Err(damaged("it was damaged by a transfer in text mode"));
    }
    let algorithm = u16::from_le_bytes([header[77], header[78]]);
    if flags & COMPRESSED != 0 && algorithm != DEFLATE {
        return Err(VdiskError::unsupported(format!("compression {algorithm} of a VMDK")));
    }
    Ok(())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}
