//! VMDK: sparse extents (also those that are compressed for transport), and descriptors with flat ones.

use std::cell::RefCell;
use std::path::Path;

use block::Pieces;
use world::{Drive, DriveSpec, ImageAccess, World};

use super::{inflate, read_bytes};
use crate::VdiskError;

const SECTOR: u64 = 512;
const HEADER_BYTES: u64 = 512;
/// A grain of 4 KiB to 2 MiB.
const GRAIN_SECTORS: std::ops::RangeInclusive<u64> = 8..=4096;
/// Entries of a grain table: 512, as all makers have it, or close to it.
const TABLE_ENTRIES: std::ops::RangeInclusive<u64> = 1..=4096;
/// A grain directory over this is refused: it is kept in memory.
const DIRECTORY_BYTES_MAX: u64 = 32 << 20;
const SECTORS_MAX: u64 = 1 << 52;
const DESCRIPTOR_BYTES_MAX: u64 = 1 << 20;
const EXTENTS_MAX: usize = 4096;
/// The directory is behind the grains, and the header there has its place.
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
    /// The grain table that was used last, and its number.
    table: RefCell<Option<(u64, Vec<u32>)>>,
}

fn damaged(cause: impl Into<String>) -> VdiskError {
    VdiskError::damaged("the VMDK", cause)
}

impl Vmdk {
    pub(super) async fn open(world: &World, drive: Drive, path: &Path) -> Result<Vmdk, VdiskError> {
        let first = read_bytes(&drive, 0, HEADER_BYTES).await?;
        if first.starts_with(b"KDMV") {
            let sparse = Sparse::open(drive).await?;
            let len_bytes = sparse.len;
            let parts = vec![Part { at: 0, len: len_bytes, content: Content::Sparse(sparse) }];
            return Ok(Vmdk { parts, len_bytes });
        }
        if drive.len_bytes() > DESCRIPTOR_BYTES_MAX {
            return Err(damaged("its descriptor is too long"));
        }
        let text = read_bytes(&drive, 0, drive.len_bytes()).await?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_end_matches('\0');
        check_parent(text)?;
        let (mut parts, mut at) = (Vec::new(), 0);
        for line in text.lines() {
            let Some(declared) = Declared::parse(line) else { continue };
            if parts.len() == EXTENTS_MAX || declared.sectors > SECTORS_MAX {
                return Err(damaged("it has too many extents, or too long ones"));
            }
            let len = declared.sectors * SECTOR;
            let content = declared.open(world, path).await?;
            parts.push(Part { at, len, content });
            at += len;
        }
        if parts.is_empty() {
            return Err(damaged("its descriptor names no extent"));
        }
        Ok(Vmdk { parts, len_bytes: at })
    }

    /// Size of the disk.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Reads `len` bytes at `at`, appended to `out`.
    pub async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        for part in &self.parts {
            let (from, to) = (at.max(part.at), (at + len).min(part.at + part.len));
            if from >= to {
                continue;
            }
            let (inside, n) = (from - part.at, to - from);
            match &part.content {
                Content::Zeros => out.push_zeros(n as usize),
                Content::Flat { drive, from } => {
                    out.append(Pieces::copy_of(&read_bytes(drive, from + inside, n).await?));
                }
                Content::Sparse(sparse) => sparse.read(inside, n, out).await?,
            }
        }
        Ok(())
    }
}

fn check_parent(text: &str) -> Result<(), VdiskError> {
    let of =
        |line: &str| line.split_once('=').map(|(k, v)| (k.trim().to_owned(), v.trim().to_ascii_lowercase()));
    let mut pairs = text.lines().filter_map(of);
    match pairs.any(|(key, value)| key == "parentCID" && value != "ffffffff") {
        true => Err(VdiskError::unsupported("a VMDK over a parent: join them first")),
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
    fn parse(line: &str) -> Option<Declared<'_>> {
        let (head, rest) = line.split_once('"').unwrap_or((line, ""));
        let mut words = head.split_whitespace();
        let access = words.next()?;
        if !matches!(access, "RW" | "RDONLY" | "NOACCESS") {
            return None;
        }
        let (sectors, kind) = (words.next()?.parse().ok()?, words.next()?);
        let (file, offset) = rest.split_once('"').unwrap_or((rest, ""));
        Some(Declared { sectors, kind, file, from: offset.trim().parse().unwrap_or(0) })
    }

    async fn open(&self, world: &World, descriptor: &Path) -> Result<Content, VdiskError> {
        if self.kind == "ZERO" {
            return Ok(Content::Zeros);
        }
        // Beside the descriptor and nowhere else: what a file says must not have others read.
        if self.file.contains(['/', '\\']) || self.file.is_empty() || self.file == ".." {
            return Err(VdiskError::unsupported(format!("an extent in another directory: {:?}", self.file)));
        }
        let path = descriptor.parent().unwrap_or(Path::new("")).join(self.file);
        let spec = DriveSpec::Image { path, access: ImageAccess::Read };
        let drive = world.open_drive(&spec).await.map_err(|e| VdiskError::refused(e.to_string()))?;
        match self.kind {
            "FLAT" | "VMFS" if self.from <= SECTORS_MAX => {
                Ok(Content::Flat { drive, from: self.from * SECTOR })
            }
            "SPARSE" => Ok(Content::Sparse(Sparse::open(drive).await?)),
            kind => Err(VdiskError::unsupported(format!("a VMDK extent of type {kind:?}"))),
        }
    }
}

impl Sparse {
    async fn open(drive: Drive) -> Result<Sparse, VdiskError> {
        let mut header = read_bytes(&drive, 0, HEADER_BYTES).await?;
        if !header.starts_with(b"KDMV") {
            return Err(damaged("a sparse extent has no header"));
        }
        if u64_at(&header, 56) == AT_END {
            let len = drive.len_bytes();
            let footer = read_bytes(&drive, len.saturating_sub(1024), HEADER_BYTES).await?;
            if !footer.starts_with(b"KDMV") {
                return Err(damaged("its footer is missing"));
            }
            header = footer;
        }
        let (flags, sectors, grain, entries) =
            (u32_at(&header, 8), u64_at(&header, 12), u64_at(&header, 20), u64::from(u32_at(&header, 44)));
        let fits =
            GRAIN_SECTORS.contains(&grain) && grain.is_power_of_two() && TABLE_ENTRIES.contains(&entries);
        if !fits || sectors > SECTORS_MAX {
            return Err(damaged(format!(
                "{sectors} sectors in grains of {grain} and tables of {entries} cannot be"
            )));
        }
        let (count, at) = (sectors.div_ceil(grain * entries), u64_at(&header, 56));
        if count * 4 > DIRECTORY_BYTES_MAX || at > SECTORS_MAX {
            return Err(damaged(format!("a directory of {count} tables at sector {at} cannot be")));
        }
        let directory = words(&read_bytes(&drive, at * SECTOR, count * 4).await?);
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
            match self.grain(here / self.grain_bytes).await? {
                None => out.push_zeros(n as usize),
                Some(place) if self.is_compressed => {
                    let grain = self.unpacked(place).await?;
                    out.append(Pieces::copy_of(&grain[from as usize..(from + n) as usize]));
                }
                Some(place) => {
                    out.append(Pieces::copy_of(&read_bytes(&self.drive, place + from, n).await?));
                }
            }
            here += n;
        }
        Ok(())
    }

    /// Where a grain begins in the file. None: it is zeros.
    async fn grain(&self, number: u64) -> Result<Option<u64>, VdiskError> {
        let index = number / self.table_entries;
        let Some(table_at) = self.directory.get(index as usize).filter(|at| **at != 0) else {
            return Ok(None);
        };
        let known = self.table.borrow().as_ref().is_some_and(|(known, _)| *known == index);
        if !known {
            let bytes =
                read_bytes(&self.drive, u64::from(*table_at) * SECTOR, self.table_entries * 4).await?;
            *self.table.borrow_mut() = Some((index, words(&bytes)));
        }
        let table = self.table.borrow();
        let entry = table.as_ref().map_or(0, |(_, table)| table[(number % self.table_entries) as usize]);
        Ok(match entry {
            0 => None,
            1 if self.has_zero_grains => None,
            sector => Some(u64::from(sector) * SECTOR),
        })
    }

    /// A compressed grain: its marker has the length, then it follows.
    async fn unpacked(&self, place: u64) -> Result<Vec<u8>, VdiskError> {
        let marker = read_bytes(&self.drive, place, 12).await?;
        let len = u64::from(u32_at(&marker, 8));
        // Deflate never makes anything so much longer.
        if len == 0 || len > 2 * self.grain_bytes {
            return Err(damaged(format!("a grain of {len} compressed bytes cannot be")));
        }
        let packed = read_bytes(&self.drive, place + 12, len).await?;
        let mut grain = vec![0; self.grain_bytes as usize];
        inflate(&packed, &mut grain, true, "a compressed grain")?;
        Ok(grain)
    }
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
