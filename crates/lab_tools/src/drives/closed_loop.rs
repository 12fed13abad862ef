//! A closed loop on one modelled drive, without a world around it: as many requests under way as asked for,
//! each followed by the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use world::Rng;
use world_model::drives::{
    BLOCK_BYTES, Completion, DriveModel, DriveParameters, Kind, ParameterError, Request,
};

/// What is asked of the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Read or write.
    pub kind: Kind,
    /// The size of a request.
    pub blocks: u64,
    /// Requests under way at once.
    pub queue_depth: u64,
    /// How many requests in all.
    pub requests: u64,
    /// Anywhere on the drive; otherwise one after the other from `from_share`.
    pub random: bool,
    /// Where a sequential load begins: 0 at the outermost block, 1 at the innermost.
    pub from_share: f64,
    /// Random ones only among so many blocks from the first on.
    pub within: Option<u64>,
}

impl Load {
    /// 4 KiB anywhere on the drive.
    pub fn random_4k(kind: Kind, queue_depth: u64, requests: u64) -> Load {
        Load { kind, blocks: 8, queue_depth, requests, random: true, from_share: 0.0, within: None }
    }

    /// 64 KiB after 64 KiB, four at once, so that the drive always knows the next one.
    pub fn stream(kind: Kind, from_share: f64) -> Load {
        Load { kind, blocks: 128, queue_depth: 4, requests: 4000, random: false, from_share, within: None }
    }
}

/// What the drive made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Requests per second.
    pub per_s: f64,
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// The longest response time.
    pub longest_ms: f64,
    /// The share of time in which the mechanism worked.
    pub busy: f64,
}

/// Runs the load.
pub fn measure(drive: &DriveParameters, load: &Load) -> Result<Measured, ParameterError> {
    let mut model = DriveModel::new(drive)?;
    let len_blocks = model.len_blocks();
    let mut rng = Rng::with_seed(1);
    let mut next = (load.from_share * len_blocks as f64) as u64 / load.blocks * load.blocks;
    let mut draw = || {
        if load.random {
            return rng.u64(..load.within.unwrap_or(len_blocks).min(len_blocks) / load.blocks) * load.blocks;
        }
        let block = if next + load.blocks > len_blocks { 0 } else { next };
        next = block + load.blocks;
        block
    };
    // Completions by time, with the arrival of the request.
    let mut coming: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut arrived = vec![0; load.queue_depth as usize];
    let mut done: Vec<Completion> = Vec::new();
    let (mut now_ns, mut completed, mut longest_ns) = (0, 0, 0);
    for token in 0..load.queue_depth {
        model.submit(0, Request { token, kind: load.kind, block: draw(), blocks: load.blocks }, &mut done);
    }
    while completed < load.requests {
        coming.extend(done.drain(..).map(|completion| Reverse((completion.at_ns, completion.token))));
        let next_ns = coming.peek().map(|Reverse((at_ns, _))| *at_ns);
        if let Some(due_ns) = model.due_ns().filter(|due_ns| next_ns.is_none_or(|next_ns| *due_ns <= next_ns))
        {
            model.wake(due_ns.max(now_ns), &mut done);
            continue;
        }
        let Some(Reverse((at_ns, token))) = coming.pop() else { break };
        now_ns = at_ns;
        completed += 1;
        longest_ns = longest_ns.max(now_ns - arrived[token as usize]);
        arrived[token as usize] = now_ns;
        model.submit(
            now_ns,
            Request { token, kind: load.kind, block: draw(), blocks: load.blocks },
            &mut done,
        );
    }
    let seconds = now_ns as f64 / 1e9;
    Ok(Measured {
        per_s: completed as f64 / seconds,
        mb_per_s: (completed * load.blocks * BLOCK_BYTES) as f64 / seconds / 1e6,
        longest_ms: longest_ns as f64 / 1e6,
        busy: model.usage().busy_ns as f64 / now_ns as f64,
    })
}
