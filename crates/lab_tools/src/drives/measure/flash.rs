//! A drive without an arm: service time, units and link.

use std::time::Duration;

use world_model::drives::{BLOCK_BYTES, DriveParameters, FlashParameters, ParameterError};

use super::probe::{MeasureError, Plan, Probe, Writing};
use super::stream;

/// Random reads at each depth.
const READS: usize = 1000;
/// Depths, as far as they bring more.
const DEPTHS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// A depth that brings less than this, twice, is deep enough.
const GAIN: f64 = 1.05;
/// The size of a random read.
const READ_BYTES: u64 = 4096;
const READ_BLOCKS: u64 = READ_BYTES / BLOCK_BYTES;
/// Streams whose fastest is the link's.
const STREAMS: u64 = 4;
/// The writes that show where the buffer is full: so many chunks of this size, less on a small drive.
const CHUNKS: u64 = 64;
const CHUNK_BYTES: u64 = 32 << 20;
/// The buffer of a drive whose writes were not measured, or that never filled it.
const BUFFER_BYTES: u64 = 64 << 20;

/// What was measured of a drive without an arm.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashFigures {
    /// Random reads of 4 KiB per second, by their depth, from 1 on.
    pub reads_per_s: Vec<(u64, f64)>,
    /// Sequential reads, in bytes per second.
    pub read_rate: f64,
    /// Writes, if they were measured.
    pub writes: Option<Writes>,
}

/// What was measured of its writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// Single writes of 4 KiB per second.
    pub per_s: f64,
    /// Sequential writes, chunk by chunk, in bytes per second.
    pub rates: Vec<f64>,
    /// The size of a chunk.
    pub chunk_bytes: u64,
}

/// Measures.
pub(super) async fn figures(
    probe: &mut Probe<'_>,
    plan: Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<FlashFigures, MeasureError> {
    let mut reads_per_s: Vec<(u64, f64)> = Vec::new();
    let mut without_gain = 0;
    let so_far = |reads: &[(u64, f64)]| {
        let reads = reads.iter().map(|(depth, per_s)| format!("{per_s:.0} per s with {depth} under way"));
        let reads: Vec<String> = reads.collect();
        match &reads[..] {
            [] => "before anything was measured".to_owned(),
            reads => {
                format!("before the sequential requests were measured; random reads: {}", reads.join(", "))
            }
        }
    };
    for depth in DEPTHS {
        probe.go_on(so_far(&reads_per_s))?;
        progress(&format!("random reads, {depth} under way"));
        let per_s = random_reads(probe, depth as usize).await?;
        let best = reads_per_s.iter().map(|(_, per_s)| *per_s).fold(0.0, f64::max);
        reads_per_s.push((depth, per_s));
        without_gain = if per_s < best * GAIN { without_gain + 1 } else { 0 };
        if without_gain == 2 {
            break;
        }
    }
    progress("sequential reads");
    let mut read_rate = 0.0_f64;
    for i in 0..STREAMS {
        probe.go_on(so_far(&reads_per_s))?;
        let from = probe.len_blocks() / STREAMS * i / 8 * 8;
        read_rate = read_rate.max(stream::reads(probe, from, probe.len_blocks() / STREAMS).await?);
    }
    let writes = match plan.writes != Writing::None && !probe.stop.is_asked() {
        true => Some(writes(probe, progress).await?),
        false => None,
    };
    Ok(FlashFigures { reads_per_s, read_rate, writes })
}

async fn random_reads(probe: &mut Probe<'_>, depth: usize) -> Result<f64, MeasureError> {
    let mut rng = probe.world.random("drive measure, depth");
    let places: Vec<(u64, u64)> =
        (0..READS).map(|_| (probe.anywhere(&mut rng, READ_BLOCKS), READ_BLOCKS)).collect();
    Ok(READS as f64 / probe.read_many(places, depth, 0).await?.as_secs_f64())
}

async fn writes(probe: &mut Probe<'_>, progress: &mut dyn FnMut(&str)) -> Result<Writes, MeasureError> {
    progress("random writes");
    let mut rng = probe.world.random("drive measure, writes");
    let begun = probe.world.now();
    for _ in 0..READS {
        let block = probe.anywhere(&mut rng, READ_BLOCKS);
        probe.write(block, READ_BLOCKS).await?;
    }
    let seconds = probe.world.now().since(begun).max(Duration::from_nanos(1)).as_secs_f64();
    progress("sequential writes");
    let chunk_bytes = CHUNK_BYTES.min(probe.drive.len_bytes() / CHUNKS / (1 << 20) * (1 << 20)).max(1 << 20);
    let chunks = CHUNKS.min(probe.drive.len_bytes() / chunk_bytes) as usize;
    let rates = stream::writes(probe, chunks, chunk_bytes).await?;
    Ok(Writes { per_s: READS as f64 / seconds, rates, chunk_bytes })
}

impl FlashFigures {
    /// The drive that gives these figures.
    pub(super) fn parameters(&self, name: &str, len_blocks: u64) -> Result<DriveParameters, ParameterError> {
        let sending_ns = READ_BYTES as f64 * 1e9 / self.read_rate;
        let single = self.reads_per_s.first().map_or(1.0, |(_, per_s)| *per_s);
        let most = self.reads_per_s.iter().map(|(_, per_s)| *per_s).fold(single, f64::max);
        let read_ns = (1e9 / single - sending_ns).max(1000.0);
        let read_rate = self.read_rate as u64;
        let buffer = self.writes.as_ref().map(Writes::buffer);
        let (write_rate, program_rate, buffer_bytes) = buffer.unwrap_or((read_rate, read_rate, BUFFER_BYTES));
        let write_ns = self.writes.as_ref().map_or(read_ns, |writes| {
            (1e9 / writes.per_s - READ_BYTES as f64 * 1e9 / write_rate as f64).max(1000.0)
        });
        let parameters = DriveParameters::Flash(FlashParameters {
            name: name.to_owned().into(),
            len_blocks,
            units: (most * read_ns / 1e9).round().max(1.0) as usize,
            read_ns: read_ns.min(1e9) as u32,
            write_ns: write_ns.min(1e9) as u32,
            link_read_bytes_per_s: read_rate,
            link_write_bytes_per_s: write_rate,
            buffer_bytes,
            program_bytes_per_s: program_rate,
            amplification_percent: 100,
            protected_buffer: false,
        });
        parameters.check().map(|()| parameters)
    }

    /// What the figures cannot tell.
    pub(super) fn unknown(&self) -> Vec<String> {
        let mut out = match &self.writes {
            None => vec!["Unknown: writes; they are taken to be as fast as reads.".into()],
            Some(writes) if writes.buffer().2 == BUFFER_BYTES => {
                vec!["Unknown: the size of the write buffer; it never became full.".into()]
            }
            Some(_) => vec![],
        };
        out.push("Unknown: write amplification, and whether a flush must empty the buffer (assumed).".into());
        out
    }
}

impl Writes {
    /// The rates into the buffer and out of it, and its size.
    fn buffer(&self) -> (u64, u64, u64) {
        let fastest = self.rates.iter().copied().fold(1.0, f64::max);
        let last = &self.rates[self.rates.len() * 3 / 4..];
        let sustained = (last.iter().sum::<f64>() / last.len().max(1) as f64).max(1.0);
        let full = self.rates.iter().position(|rate| *rate < (fastest + sustained) / 2.0);
        let bytes = match full {
            Some(chunk) if sustained < 0.8 * fastest => {
                // While it fills, it is emptied, too.
                let taken = (chunk as u64 * self.chunk_bytes) as f64;
                (taken * (1.0 - sustained / fastest)) as u64
            }
            _ => BUFFER_BYTES,
        };
        (fastest as u64, sustained as u64, bytes.max(1 << 20))
    }
}
