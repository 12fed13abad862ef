//! Media of an array that say anything: fields of its structures changed, the checksums made right again.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use world_model::Disk;

/// How a kind of structure is found and mended.
#[derive(Clone, Copy)]
pub struct Kind {
    /// It begins with this, at a multiple of 4,096.
    pub magic: &'static [u8],
    /// Where its checksum lies.
    pub sum_at: usize,
    /// What the checksum covers.
    pub covers: Covers,
    /// Bytes from its start that are worth changing.
    pub reach: usize,
}

/// What a checksum covers, itself taken as zero where it lies within.
#[derive(Clone, Copy)]
pub enum Covers {
    /// So many bytes from the start.
    Bytes(usize),
    /// So many, and what the 32-bit field at this place says.
    Field {
        /// Bytes before those that the field counts.
        plus: usize,
        /// Where the field lies.
        at: usize,
    },
}

/// A structure on a disk.
#[derive(Clone, Copy)]
pub struct Structure {
    disk: usize,
    at: u64,
    kind: Kind,
}

/// What is on disks that are as they should be, and what can be changed there.
pub struct Media {
    /// The disks.
    pub disks: Vec<Disk>,
    images: Vec<Vec<u8>>,
    structures: Vec<Structure>,
}

impl Media {
    /// Takes the disks as they are, and finds the structures in their first `len` bytes.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(disks: Vec<Disk>, len: usize, kinds: &[Kind]) -> Media {
        let images: Vec<Vec<u8>> = disks.iter().map(|d| d.peek(0, len)).collect();
        let mut structures = Vec::new();
        for (disk, image) in images.iter().enumerate() {
            for (i, block) in image.chunks(4096).enumerate() {
                let fits = |k: &&Kind| block.starts_with(k.magic);
                let found = kinds.iter().filter(fits);
                structures.extend(found.map(|kind| Structure { disk, at: i as u64 * 4096, kind: *kind }));
            }
        }
        assert!(!structures.is_empty(), "there is nothing to change");
        Media { disks, images, structures }
    }

    /// Everything as it was, then changed as `data` says: which structure (of all disks alike, or of one), where, how much, what.
    pub fn change(&self, mut data: &[u8]) {
        self.disks.iter().zip(&self.images).for_each(|(disk, image)| disk.poke(0, image));
        while let [which, low, high, len, tail @ ..] = data {
            let bytes = &tail[..tail.len().min(usize::from(len % 32))];
            data = &tail[bytes.len()..];
            let chosen = self.structures[usize::from(which >> 1) % self.structures.len()];
            let from = usize::from(u16::from_le_bytes([*low, *high]));
            for structure in &self.structures {
                let alike = structure.at == chosen.at && (which & 1 == 0 || structure.disk == chosen.disk);
                if alike {
                    self.change_one(structure, from % chosen.kind.reach, bytes);
                }
            }
        }
    }

    fn change_one(&self, Structure { disk, at, kind }: &Structure, from: usize, bytes: &[u8]) {
        let disk = &self.disks[*disk];
        let room = disk.spec().len_bytes - at;
        let mut block = disk.peek(*at, room.min(256 << 10) as usize);
        block[from..from + bytes.len()].copy_from_slice(bytes);
        let covered = match kind.covers {
            Covers::Bytes(len) => len,
            Covers::Field { plus, at } => {
                let field = block[at..at + 4].try_into().expect("four bytes");
                (u32::from_le_bytes(field) as usize).saturating_add(plus).min(block.len())
            }
        };
        if kind.sum_at < covered {
            block[kind.sum_at..kind.sum_at + 4].fill(0);
        }
        let sum = crc_fast::checksum(Crc32Iscsi, &block[..covered]) as u32;
        block[kind.sum_at..kind.sum_at + 4].copy_from_slice(&sum.to_le_bytes());
        disk.poke(*at, &block);
    }
}
