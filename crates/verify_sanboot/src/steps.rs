//! What servers do, step by step: transfers of one size as published, and loads that no forecast was made
//! for.

use std::rc::Rc;

use anyhow::{Result, ensure};
use world::Rng;

use super::boot::Trace;
use super::front::Op;
use super::pattern::{FILE_READ_PERCENT, Pattern};
use super::scenario::Sanboot;

/// What a server does next.
pub(super) struct Walk {
    pattern: Pattern,
    read_percent: u32,
    transfers: u64,
    /// Where each stream is in its part of the file.
    next: Vec<u64>,
    pub(super) rng: Rng,
}

impl Walk {
    /// It, over so many transfers of a file that so many streams share.
    pub(super) fn new(
        pattern: Pattern,
        read_percent: u32,
        (transfers, streams): (u64, u32),
        mut rng: Rng,
    ) -> Walk {
        let part = transfers / u64::from(streams);
        let next = (0..streams).map(|_| rng.u64(..part)).collect();
        Walk { pattern, read_percent, transfers, next, rng }
    }

    /// How many streams share the file.
    pub(super) fn streams(&self) -> usize {
        self.next.len()
    }

    /// The number of a transfer, and whether it reads.
    pub(super) fn next(&mut self, stream: usize) -> (u64, bool) {
        let number = match self.pattern.is_random() {
            true => self.rng.u64(..self.transfers),
            false => {
                let part = self.transfers / self.next.len() as u64;
                let next = self.next[stream];
                self.next[stream] = (next + 1) % part;
                stream as u64 * part + next
            }
        };
        let reads = match self.read_percent {
            0 => false,
            100 => true,
            percent => self.rng.u32(..100) < percent,
        };
        (number, reads)
    }
}

/// Of 100 I/Os of a pattern, how many read.
pub(super) fn read_percent(sanboot: &Sanboot, pattern: Pattern) -> u32 {
    match pattern.read_percent() {
        0 => 0,
        100 => 100,
        _ => sanboot.published.mix_read_percent,
    }
}

/// What a server does next, of any pattern.
pub(super) enum Steps {
    /// Transfers of so many bytes each.
    Even(Walk, u64),
    Files(Files),
    Boots(Boots),
}

impl Steps {
    /// Those of a server.
    ///
    /// # Errors
    ///
    /// The trace of the boots cannot be read.
    pub(super) fn new(sanboot: &Sanboot, pattern: Pattern, rng: Rng) -> Result<Steps> {
        let (bytes, streams) = (sanboot.published.transfer.0, sanboot.run.streams);
        Ok(match pattern {
            Pattern::Fileserver => Steps::Files(Files::new(sanboot.published.file.0, streams, rng)),
            Pattern::Boots => Steps::Boots(Boots::new(sanboot, rng)?),
            _ => {
                let transfers = (sanboot.published.file.0 / bytes, streams);
                Steps::Even(Walk::new(pattern, read_percent(sanboot, pattern), transfers, rng), bytes)
            }
        })
    }

    /// How many follow one another each for itself.
    pub(super) fn streams(&self) -> usize {
        match self {
            Steps::Even(walk, _) => walk.streams(),
            Steps::Files(files) => files.copies.len(),
            Steps::Boots(_) => 1,
        }
    }

    /// A read or write, and its bytes.
    pub(super) fn next(&mut self, stream: usize) -> (Op, u64) {
        match self {
            Steps::Even(walk, bytes) => {
                let (transfer, reads) = walk.next(stream);
                (Op { at: transfer * *bytes, reads }, *bytes)
            }
            Steps::Files(files) => files.next(stream),
            Steps::Boots(boots) => boots.next(),
        }
    }

    /// The longest of them.
    pub(super) fn bytes_max(&self) -> u64 {
        match self {
            Steps::Even(_, bytes) => *bytes,
            Steps::Files(_) => REQUEST_BYTES,
            Steps::Boots(boots) => boots.trace.bytes_max(),
        }
    }

    pub(super) fn rng(&mut self) -> &mut Rng {
        match self {
            Steps::Even(walk, _) => &mut walk.rng,
            Steps::Files(files) => &mut files.rng,
            Steps::Boots(boots) => &mut boots.rng,
        }
    }
}

/// The longest read and write of SMB 2.0 (MS-SMB2 3.3.5.4), as in fileserver.toml.
const REQUEST_BYTES: u64 = 64 << 10;
/// The published set of the file servers: the logarithm of a size is normal, with this mean and deviation.
/// Its clients use files from here on.
const SIZE_MU: f64 = 9.0624;
const SIZE_SIGMA: f64 = 2.6055;
const SIZE_BYTES_MIN: f64 = 50_000.0;
/// A part of what a server has: one file is not most of it.
const SIZE_BYTES_MAX: f64 = (64 << 20) as f64;
const BLOCK_BYTES: u64 = 4096;

/// A file server: whole files are read, or written, each from its beginning to its end.
pub(super) struct Files {
    /// Where each begins and how long it is; they lie one behind the other.
    files: Vec<(u64, u64)>,
    /// What is copied at once.
    copies: Vec<Copy>,
    rng: Rng,
}

/// A file that is copied.
#[derive(Clone, Copy, Default)]
struct Copy {
    at: u64,
    end: u64,
    reads: bool,
}

impl Files {
    fn new(bytes: u64, copies: u32, mut rng: Rng) -> Files {
        let (mut files, mut at) = (Vec::new(), 0);
        while at + SIZE_BYTES_MIN as u64 <= bytes {
            let len = (size(&mut rng) as u64).next_multiple_of(BLOCK_BYTES).min(bytes - at);
            files.push((at, len));
            at += len;
        }
        Files { files, copies: vec![Copy::default(); copies as usize], rng }
    }

    fn next(&mut self, copy: usize) -> (Op, u64) {
        let mut now = self.copies[copy];
        if now.at == now.end {
            let (at, len) = self.files[self.rng.u64(..self.files.len() as u64) as usize];
            now = Copy { at, end: at + len, reads: self.rng.u32(..100) < FILE_READ_PERCENT };
        }
        let (at, bytes) = (now.at, (now.end - now.at).min(REQUEST_BYTES));
        self.copies[copy] = Copy { at: at + bytes, ..now };
        (Op { at, reads: now.reads }, bytes)
    }
}

/// The size of a file that clients use: normal by the sum of twelve even numbers, drawn again if it is not.
fn size(rng: &mut Rng) -> f64 {
    loop {
        let normal = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let size = (SIZE_MU + SIZE_SIGMA * normal).exp();
        if (SIZE_BYTES_MIN..=SIZE_BYTES_MAX).contains(&size) {
            return size;
        }
    }
}

/// The recorded boot, from one of several images on the server's disk after the other: what a host of virtual
/// machines reads that are started one after the other. No time passes between its commands.
pub(super) struct Boots {
    trace: Rc<Trace>,
    /// An image each.
    image_bytes: u64,
    images: u64,
    image: u64,
    step: usize,
    rng: Rng,
}

impl Boots {
    fn new(sanboot: &Sanboot, mut rng: Rng) -> Result<Boots> {
        let trace = Rc::new(Trace::load(&sanboot.boot.trace)?);
        ensure!(trace.end() <= sanboot.array.lu.0, "array.lu: the boot reads beyond its end");
        let image_bytes = trace.end().next_multiple_of(1 << 20);
        let images = (sanboot.published.file.0 / image_bytes).max(1);
        // Not all servers are at the same command.
        let (image, step) = (rng.u64(..images), rng.u64(..trace.steps.len() as u64) as usize);
        Ok(Boots { trace, image_bytes, images, image, step, rng })
    }

    fn next(&mut self) -> (Op, u64) {
        if self.step == self.trace.steps.len() {
            (self.image, self.step) = (self.rng.u64(..self.images), 0);
        }
        let step = &self.trace.steps[self.step];
        self.step += 1;
        (Op { at: self.image * self.image_bytes + step.op.at, ..step.op }, step.bytes)
    }

    /// All that is read of an image.
    fn reads_of(&self, image: u64) -> impl Iterator<Item = (Op, u64)> + '_ {
        let reads = self.trace.steps.iter().filter(|step| step.op.reads);
        reads.map(move |step| (Op { at: image * self.image_bytes + step.op.at, ..step.op }, step.bytes))
    }
}

/// What the images of so many servers have that they boot from: what fills a cache of so many bytes.
///
/// # Errors
///
/// The trace cannot be read.
pub(super) fn reads_of_boots(
    sanboot: &Sanboot,
    servers: u32,
    (cache_bytes, mut rng): (u64, Rng),
) -> Result<Vec<(usize, Op, u64)>> {
    let boots = Boots::new(sanboot, rng.clone())?;
    let mut images: Vec<(u32, u64)> =
        (0..servers).flat_map(|server| (0..boots.images).map(move |image| (server, image))).collect();
    rng.shuffle(&mut images);
    let (mut all, mut bytes) = (Vec::new(), 0);
    for (server, image) in images {
        if bytes >= cache_bytes {
            break;
        }
        all.extend(boots.reads_of(image).map(|(op, len)| (server as usize, op, len)));
        bytes += boots.trace.read_bytes();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;
    use world_model::Model;

    use super::*;

    fn steps(pattern: Pattern) -> Steps {
        let (sanboot, _) = Sanboot::load(None).expect("built in");
        let rng = Model::new(1).run(async |world| world.random("server 0"));
        Steps::new(&sanboot, pattern, rng).expect("steps")
    }

    #[test]
    fn a_file_is_read_or_written_from_its_beginning_to_its_end() {
        let Steps::Files(mut files) = steps(Pattern::Fileserver) else { panic!("files") };
        let all = files.files.clone();
        assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "one behind the other");
        let bytes = all.iter().map(|file| file.1).sum::<u64>();
        assert!((3 << 30) - bytes < 50_000, "all of 3 GiB but what is too short for a file: {bytes}");
        let mean = all.iter().map(|file| file.1).sum::<u64>() / all.len() as u64;
        assert!((600_000..1_500_000).contains(&mean), "a megabyte, as published: {mean}");
        let (mut reads, mut begun) = (0, 0);
        for _ in 0..2000 {
            let (first, mut bytes) = files.next(0);
            let (at, len) = *all.iter().find(|file| file.0 == first.at).expect("at its beginning");
            while bytes < len {
                let (op, more) = files.next(0);
                assert_eq!((op.at, op.reads), (at + bytes, first.reads));
                bytes += more;
            }
            assert_eq!(bytes, len);
            (reads, begun) = (reads + u32::from(first.reads), begun + 1);
        }
        assert!((0.77..0.83).contains(&(f64::from(reads) / f64::from(begun))), "{reads} of {begun}");
    }

    #[test]
    fn an_image_is_booted_to_its_end_and_then_another_one() {
        let Steps::Boots(mut boots) = steps(Pattern::Boots) else { panic!("boots") };
        let (commands, image_bytes, images) = (boots.trace.steps.len(), boots.image_bytes, boots.images);
        assert!(images > 10, "{images}");
        while boots.step < commands {
            boots.next();
        }
        let of = |boots: &mut Boots| -> Vec<u64> {
            (0..commands).map(|_| boots.next().0.at / image_bytes).collect()
        };
        let boots: Vec<Vec<u64>> = (0..4).map(|_| of(&mut boots)).collect();
        assert!(boots.iter().all(|boot| boot.iter().all(|image| *image == boot[0])), "one image at a time");
        assert!(boots.iter().any(|boot| boot[0] != boots[0][0]), "not the same again and again");
    }
}
