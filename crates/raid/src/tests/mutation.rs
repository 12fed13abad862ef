//! Labels and frames of the stripe journal that say anything at all, with checksums that are right, and bits
//! that were flipped: opening gives an error or a group that can be used and opened again; never a panic,
//! never more memory than the journal's length on all drives.

use std::time::Duration;

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use world::Rng;

use super::*;

const WIDTH_MAX: usize = 4;
/// The rings of all drives are read at once: see `JOURNAL_LEN_MAX` of the label.
const MEMORY_MAX: u64 = WIDTH_MAX as u64 * (64 << 20) + (16 << 20);
const UNIT: u32 = 8192;
const LABEL: usize = 4096;
const COPIES: [u64; 2] = [0, 512 << 10];
/// The journal of levels 5 and 6 begins here, the data of the others.
const BEHIND_LABELS: u64 = 1 << 20;
/// (None just below the end of counters: one that is counted on from there is not read again, as after 2^62
/// changes.)
const EDGES: [u64; 11] =
    [0, 1, 3, 511, 1 << 16, u32::MAX as u64, 1 << 32, 1 << 61, 1 << 62, u64::MAX - 1, u64::MAX];

/// Drives of a group whose process died in the middle of writes.
struct Medium {
    model: Model,
    disks: Vec<Disk>,
    spec: GroupSpec,
    images: Vec<Vec<u8>>,
    /// Where frames begin, disk by disk.
    frames: Vec<(usize, u64)>,
}

fn medium(level: Level, width: usize) -> Medium {
    let model = Model::new(5);
    let disk = DiskSpec::new(2 << 20).with_jitter(Duration::from_micros(120));
    let disks: Vec<Disk> = (0..width).map(|i| model.disk(&format!("d{i}"), disk.clone())).collect();
    let spec = GroupSpec { stripe_unit_bytes: UNIT, ..spec(level) };
    model.disks().cut_power_after(model.disks().persistence_points() + 120);
    let outcome = model.run_until_crash(async |world| {
        let group = Group::create(world.clone(), spec.clone(), drives(&world, 0..width)).await;
        let group = group.expect("create");
        for i in 0.. {
            let (at, len) = (i % 5 * 12_288, if i % 3 == 0 { 4 * UNIT as usize } else { 4096 });
            group.write(at, &pattern(len, i as u8)).await.expect("write");
        }
    });
    assert_eq!(outcome, Outcome::PowerCut);
    model.reboot();
    model.disks().keep_power();
    let images: Vec<Vec<u8>> = disks.iter().map(|d| d.peek(0, 2 << 20)).collect();
    let found = images.iter().enumerate().flat_map(|(i, image)| {
        let places = (BEHIND_LABELS..2 << 20).step_by(4096);
        places.filter(|at| image[*at as usize..].starts_with(b"MASUSTRJ")).map(move |at| (i, at))
    });
    let frames = found.collect();
    Medium { model, disks, spec, images, frames }
}

/// Changes fields, and makes the checksum right.
fn change(
    bytes: &mut [u8],
    changes: &[(usize, usize, u64)],
    sum_at: usize,
    covered: impl Fn(&[u8]) -> usize,
) {
    for (from, width, value) in changes {
        bytes[*from..*from + *width].copy_from_slice(&value.to_le_bytes()[..*width]);
    }
    let len = covered(bytes).min(bytes.len());
    bytes[sum_at..sum_at + 4].fill(0);
    let sum = crc_fast::checksum(Crc32Iscsi, &bytes[..len]) as u32;
    bytes[sum_at..sum_at + 4].copy_from_slice(&sum.to_le_bytes());
}

fn draw(rng: &mut Rng, reach: usize) -> Vec<(usize, usize, u64)> {
    let mut one = || {
        let value = match rng.u8(..3) {
            0 => EDGES[rng.usize(..EDGES.len())],
            1 => rng.u64(..) >> rng.u32(..64),
            _ => 1 << rng.u32(..64),
        };
        (rng.usize(..reach / 4) * 4, 1 << rng.u32(..4), value)
    };
    (0..3).map(|_| one()).take(1 + reach % 3).collect()
}

impl Medium {
    fn restore(&self) {
        self.disks.iter().zip(&self.images).for_each(|(disk, image)| disk.poke(0, image));
    }

    /// On all drives alike, or on one; in both copies.
    fn change_labels(&self, rng: &mut Rng) {
        let changes = draw(rng, 240);
        let only = (rng.u8(..3) == 0).then(|| rng.usize(..self.disks.len()));
        for (_, disk) in self.disks.iter().enumerate().filter(|(i, _)| only.is_none_or(|o| o == *i)) {
            for at in COPIES {
                let mut bytes = disk.peek(at, LABEL);
                change(&mut bytes, &changes, 12, |_| LABEL);
                disk.poke(at, &bytes);
            }
        }
    }

    fn change_frames(&self, rng: &mut Rng) {
        let changes = draw(rng, 96 + 3 * 24);
        for (disk, at) in &self.frames {
            if rng.bool() {
                continue;
            }
            let mut bytes = self.disks[*disk].peek(*at, 64 << 10);
            let len = |bytes: &[u8]| u32::from_le_bytes(bytes[12..16].try_into().expect("4")) as usize;
            change(&mut bytes, &changes, 8, |b| len(b).max(96));
            let end = len(&bytes).clamp(200, bytes.len());
            self.disks[*disk].poke(*at, &bytes[..end]);
        }
    }

    fn flip_bits(&self, rng: &mut Rng) {
        for _ in 0..rng.usize(1..8) {
            let disk = rng.usize(..self.disks.len());
            let at = match rng.u8(..2) {
                0 => COPIES[rng.usize(..2)] + rng.u64(..1500),
                _ => BEHIND_LABELS + rng.u64(..96 << 10),
            };
            let mut byte = self.disks[disk].peek(at, 1);
            byte[0] ^= 1 << rng.u32(..8);
            self.disks[disk].poke(at, &byte);
        }
    }

    /// Whether it opened.
    fn look(&self) -> bool {
        let all = || 0..self.disks.len();
        let opened = self.model.run(async |world| {
            let group =
                Group::open_degraded(world.clone(), self.spec.clone(), drives(&world, all())).await.ok()?;
            let len = group.geometry().len_bytes;
            for at in [0, len / 2 / 4096 * 4096, len - 4096] {
                let mut out = Pieces::new();
                let _ = group.read(at, 4096, &mut out).await;
                let _ = group.write(at, &pattern(4096, 1)).await;
            }
            let _ = group.write(0, &pattern(4 * UNIT as usize, 2)).await;
            let well = group.flush().await.is_ok();
            let _ = group.scrub(&Throttle::none(world)).await;
            Some(well && group.status().members.iter().all(|m| m.state != MemberState::Failed))
        });
        if opened == Some(true) {
            self.model.run(async |world| {
                let again =
                    Group::open_degraded(world.clone(), self.spec.clone(), drives(&world, all())).await;
                again.map(drop).expect("what was opened and used opens again");
            });
        }
        opened.is_some()
    }
}

/// Says on a panic which case it was.
struct Case(&'static str, Level, u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {} of {}, seed {}", self.0, self.1, self.2);
        }
    }
}

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)];

fn check(name: &'static str, seeds: std::ops::Range<u64>, change: impl Fn(&Medium, &mut Rng)) {
    let (mut opened, mut refused) = (0, 0);
    for (level, width) in LEVELS {
        let medium = medium(level, width);
        if name == "frames" && medium.frames.is_empty() {
            continue;
        }
        medium.restore();
        assert!(medium.look(), "unchanged it opens");
        for seed in seeds.clone() {
            let _case = Case(name, level, seed);
            medium.restore();
            change(&medium, &mut Rng::with_seed(seed));
            let mut open = false;
            let memory = allocation_counter::measure(|| open = medium.look());
            assert!(memory.bytes_max < MEMORY_MAX, "{} bytes at once", memory.bytes_max);
            *(if open { &mut opened } else { &mut refused }) += 1;
        }
    }
    assert!(opened > 0 && (refused > 0 || name != "labels"), "{name}: {opened} opened, {refused} refused");
}

#[test]
fn changed_labels_are_an_error_or_a_group() {
    check("labels", 0..120, Medium::change_labels);
}

#[test]
fn changed_frames_are_an_error_or_a_group() {
    check("frames", 0..200, Medium::change_frames);
}

#[test]
fn flipped_bits_are_an_error_or_a_group() {
    check("bits", 0..80, Medium::flip_bits);
}

#[test]
#[ignore = "long: make soak"]
fn a_hundred_thousand_mutations() {
    check("labels", 1000..11_000, Medium::change_labels);
    check("frames", 1000..11_000, Medium::change_frames);
    check("bits", 1000..5000, Medium::flip_bits);
}
