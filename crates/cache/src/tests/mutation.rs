//! Journals that say anything at all, with checksums that are right, and bits that were flipped: opening and
//! taking over give an error or units that can be used; never a panic, never more memory than the ring is
//! long.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use world::Rng;

use super::*;
use crate::{Journal, JournalError};

const LEN: u64 = 8 << 20;
/// The memory of the cache, what the ring holds, and buffers.
const MEMORY_MAX: u64 = 64 << 20;
const BLOCK: usize = 4096;
const SUM_AT: usize = BLOCK - 4;
const EDGES: [u64; 10] = [0, 1, 2, 511, 4096, 1 << 20, 1 << 32, (1 << 62) - 1, u64::MAX - 1, u64::MAX];

/// A journal with what a process that died had acknowledged.
struct Medium {
    model: Model,
    data: Disk,
    journal: Disk,
    image: Vec<u8>,
    batches: Vec<u64>,
}

fn medium() -> Medium {
    let (model, data, journal) = rack(4, LEN);
    model.run(async |world| {
        let journal = Journal::create(world.clone(), OnDrive::open(&world, "journal"), [1; 16]).await;
        let journal = journal.expect("create");
        for i in 0..40_u64 {
            match i % 9 {
                8 => journal.append_forget(1, i << 12, 8 << 10),
                _ => journal.append_write(1, i % 13 * 4096, &Pieces::copy_of(&vec![i as u8; 512 << (i % 4)])),
            };
            if i % 3 == 0 {
                journal.durable(i + 1).await.expect("durable");
            }
        }
        journal.durable(40).await.expect("durable");
    });
    let image = journal.peek(0, 9 << 20);
    let places = (8192..image.len()).step_by(BLOCK);
    let batches = places.filter(|at| image[*at..].starts_with(b"MASUJBAT")).map(|at| at as u64).collect();
    Medium { model, data, journal, image, batches }
}

impl Medium {
    /// Fields of both copies of the header, or of a batch.
    fn change_fields(&self, rng: &mut Rng) {
        let header = rng.u8(..3) == 0;
        let reach = if header { 80 } else { 96 + 2 * 32 };
        let changes: Vec<(usize, usize, u64)> = (0..rng.usize(1..4))
            .map(|_| {
                let value = match rng.u8(..3) {
                    0 => EDGES[rng.usize(..EDGES.len())],
                    1 => rng.u64(..) >> rng.u32(..64),
                    _ => 1 << rng.u32(..64),
                };
                (rng.usize(2..reach / 4) * 4, 1 << rng.u32(..4), value)
            })
            .collect();
        let places = match header {
            true => vec![0, BLOCK as u64],
            false => vec![self.batches[rng.usize(..self.batches.len())]],
        };
        for at in places {
            let mut bytes = self.journal.peek(at, BLOCK);
            for (from, width, value) in &changes {
                bytes[*from..*from + *width].copy_from_slice(&value.to_le_bytes()[..*width]);
            }
            let sum = crc_fast::checksum(Crc32Iscsi, &bytes[..SUM_AT]) as u32;
            bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
            self.journal.poke(at, &bytes);
        }
    }

    fn flip_bits(&self, rng: &mut Rng) {
        for _ in 0..rng.usize(1..6) {
            let at = match rng.u8(..3) {
                0 => rng.u64(..100),
                1 => BLOCK as u64 + rng.u64(..100),
                _ => self.batches[rng.usize(..self.batches.len())] + rng.u64(..5000),
            };
            let mut byte = self.journal.peek(at, 1);
            byte[0] ^= 1 << rng.u32(..8);
            self.journal.poke(at, &byte);
        }
    }

    fn restore(&self) {
        self.journal.poke(0, &self.image);
    }

    /// Whether what was acknowledged could be taken over.
    fn open(&self) -> bool {
        let taken = self.model.run(async |world| {
            let device = OnDrive::open(&world, "journal");
            let (journal, replay) = Journal::open(world.clone(), device).await.ok()?;
            let cache = Cache::new(world.clone(), small());
            let unit = cache.attach(
                OnDrive::open(&world, "data"),
                spec(1, WritePolicy::Back),
                Some(journal.clone()),
            );
            cache.replay(replay, std::slice::from_ref(&unit)).await.ok()?;
            for at in [0, LEN / 2, LEN - 4096] {
                let mut out = Pieces::new();
                unit.read(at, 4096, &mut out).await.ok()?;
                unit.write(at, &Pieces::copy_of(&[9; 4096])).await.ok()?;
            }
            unit.flush().await.ok()?;
            cache.detach(&unit).await.ok()?;
            journal.close().await.ok()
        });
        if taken.is_some() {
            self.model.run(async |world| {
                let again = Journal::open(world.clone(), OnDrive::open(&world, "journal")).await;
                again.map(drop).expect("what was taken over and closed opens again");
            });
        }
        taken.is_some()
    }
}

/// Says on a panic which case it was.
struct Case(&'static str, u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {}, seed {}", self.0, self.1);
        }
    }
}

fn check(name: &'static str, seeds: std::ops::Range<u64>, change: impl Fn(&Medium, &mut Rng)) {
    let medium = medium();
    assert!(medium.batches.len() > 5, "there is something to change");
    assert!(medium.open(), "unchanged it opens");
    let (mut opened, mut refused) = (0, 0);
    for seed in seeds {
        let _case = Case(name, seed);
        medium.restore();
        medium.data.poke(0, &[0; 4096]);
        change(&medium, &mut Rng::with_seed(seed));
        let mut open = false;
        let memory = allocation_counter::measure(|| open = medium.open());
        assert!(memory.bytes_max < MEMORY_MAX, "{} bytes at once", memory.bytes_max);
        *(if open { &mut opened } else { &mut refused }) += 1;
    }
    assert!(opened > 0 && refused > 0, "{name}: {opened} opened, {refused} refused");
}

#[test]
fn changed_fields_are_an_error_or_a_cache() {
    check("fields", 0..400, Medium::change_fields);
}

#[test]
fn flipped_bits_are_an_error_or_a_cache() {
    check("bits", 0..200, Medium::flip_bits);
}

#[test]
fn a_journal_at_the_end_of_a_counter_is_refused_and_left_as_it_is() {
    let medium = medium();
    // How often the header was written, and the lives.
    for field in [32, 40] {
        medium.restore();
        for at in [0, BLOCK as u64] {
            let mut bytes = medium.journal.peek(at, BLOCK);
            bytes[field..field + 8].copy_from_slice(&((1_u64 << 62) - 1).to_le_bytes());
            let sum = crc_fast::checksum(Crc32Iscsi, &bytes[..SUM_AT]) as u32;
            bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
            medium.journal.poke(at, &bytes);
        }
        let before = medium.journal.peek(0, medium.image.len());
        medium.model.run(async |world| {
            let opened = Journal::open(world.clone(), OnDrive::open(&world, "journal")).await;
            assert_eq!(opened.err(), Some(JournalError::UsedUp), "field at {field}");
        });
        assert!(medium.journal.peek(0, medium.image.len()) == before, "field at {field}: it was written to");
    }
}

#[test]
#[ignore = "long: make soak"]
fn a_hundred_thousand_mutations() {
    check("fields", 1000..80_000, Medium::change_fields);
    check("bits", 1000..20_000, Medium::flip_bits);
}
