//! Media of an array that say anything: fields of its structures changed, the checksums made right again.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use world_model::{Disk, DisksImage, Loss, Model};

/// The most that a checksum covers.
const COVERED_LEN_MAX: u64 = 256 << 10;

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
    /// Where else its checksum stands.
    pub told: Option<Told>,
}

/// Structures on the same disk that refer to one by its checksum: they go on to refer to it when it is
/// changed.
#[derive(Clone, Copy)]
pub struct Told {
    /// They begin with this.
    pub by: &'static [u8],
    /// Where the checksum stands in them.
    pub sum_at: usize,
    /// 32-bit fields that are the same in both: where in the structure itself, and where in theirs.
    pub same: (usize, usize),
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
    /// A head and so many records as the 32-bit field at a place says, to whole blocks of 4,096.
    Records {
        /// Bytes of the head.
        head: usize,
        /// Bytes of a record.
        each: usize,
        /// Where the field lies.
        at: usize,
    },
}

/// A structure on a disk.
#[derive(Clone, Copy)]
struct Structure {
    disk: usize,
    at: u64,
    kind: Kind,
}

/// What is on disks that are as they should be, and what can be changed there. Made once; every input gets
/// disks that share its content.
pub struct Media {
    image: DisksImage,
    names: Vec<String>,
    structures: Vec<Structure>,
}

impl Media {
    /// Takes the model's disks as they are, and finds the structures in the first `len` bytes of each.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(model: &Model, disks: &[Disk], len: usize, kinds: &[Kind]) -> Media {
        let mut structures = Vec::new();
        for (disk, image) in disks.iter().map(|d| d.peek(0, len)).enumerate() {
            for (i, block) in image.chunks(4096).enumerate() {
                let fits = |k: &&Kind| block.starts_with(k.magic);
                let found = kinds.iter().filter(fits);
                structures.extend(found.map(|kind| Structure { disk, at: i as u64 * 4096, kind: *kind }));
            }
        }
        assert!(!structures.is_empty(), "there is nothing to change");
        let names = disks.iter().map(|d| d.name().to_owned()).collect();
        Media { image: model.disks().image(), names, structures }
    }

    /// How many disks there are.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// A model of its own with everything as it was, then changed as `data` says: which structure (of all
    /// disks alike, or of one), where, how much, what.
    ///
    /// # Panics
    /// When a disk is not in the image, where all of them are.
    pub fn changed(&self, mut data: &[u8]) -> Model {
        let model = Model::from_image(1, self.image.clone(), Loss::Process);
        let disk = |name: &String| model.disks().get(name).expect("it is in the image");
        let disks: Vec<Disk> = self.names.iter().map(disk).collect();
        while let [which, low, high, len, tail @ ..] = data {
            let bytes = &tail[..tail.len().min(usize::from(len % 32))];
            data = &tail[bytes.len()..];
            let chosen = self.structures[usize::from(which >> 1) % self.structures.len()];
            let from = usize::from(u16::from_le_bytes([*low, *high]));
            for structure in &self.structures {
                let alike = structure.at == chosen.at && (which & 1 == 0 || structure.disk == chosen.disk);
                if alike {
                    let disk = &disks[structure.disk];
                    let before = structure.sum(disk);
                    structure.change(disk, from % chosen.kind.reach, bytes);
                    self.tell(structure, before, disk);
                }
            }
        }
        model
    }

    /// Has those that referred to a structure by its checksum refer to it as it is now.
    fn tell(&self, changed: &Structure, before: [u8; 4], disk: &Disk) {
        let Some(told) = changed.kind.told else { return };
        let refers = |s: &&Structure| {
            let there = s.disk == changed.disk && s.kind.magic == told.by;
            there && disk.peek(s.at + told.sum_at as u64, 4) == before
        };
        for other in self.structures.iter().filter(refers) {
            disk.poke(other.at + told.same.1 as u64, &disk.peek(changed.at + told.same.0 as u64, 4));
            other.change(disk, told.sum_at, &changed.sum(disk));
        }
    }
}

impl Structure {
    fn sum(&self, disk: &Disk) -> [u8; 4] {
        let at = self.at + self.kind.sum_at as u64;
        disk.peek(at, 4).try_into().expect("four bytes")
    }

    /// Puts bytes into it, and makes its checksum right.
    fn change(&self, disk: &Disk, from: usize, bytes: &[u8]) {
        let Structure { at, kind, .. } = *self;
        disk.poke(at + from as u64, bytes);
        let room = (disk.spec().len_bytes - at).min(COVERED_LEN_MAX) as usize;
        let field = |field: usize| {
            let field = disk.peek(at + field as u64, 4).try_into().expect("four bytes");
            u32::from_le_bytes(field) as usize
        };
        let covered = match kind.covers {
            Covers::Bytes(len) => len,
            Covers::Field { plus, at } => field(at).saturating_add(plus).min(room),
            Covers::Records { head, each, at } => {
                let records = field(at).saturating_mul(each);
                records.saturating_add(head).min(room).next_multiple_of(4096).min(room)
            }
        };
        // A length may say less than where the checksum lies.
        let mut block = disk.peek(at, covered.max(kind.sum_at + 4));
        if kind.sum_at < covered {
            block[kind.sum_at..kind.sum_at + 4].fill(0);
        }
        let sum = crc_fast::checksum(Crc32Iscsi, &block[..covered]) as u32;
        disk.poke(at + kind.sum_at as u64, &sum.to_le_bytes());
    }
}
