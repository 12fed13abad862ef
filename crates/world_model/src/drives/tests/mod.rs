//! Drives in operation, without a world around them.

mod cache;
mod flash;
mod mechanism;
mod queue;
mod strange;

use std::borrow::Cow;

use super::parameters::{
    DriveParameters, HardDiskParameters, HeadOrder, Overheads, ReadAhead, Scheduling, Seek,
    SegmentParameters, Spares, Zone,
};
use super::{Completion, DriveModel, Kind, Request};

/// Two surfaces of 1,000 cylinders with 100 sectors to the track; a turn takes 10 ms, so that a sector passes
/// in 100 µs. No skew, no overhead, no cache; a seek takes 1 to 9 ms.
fn plain() -> HardDiskParameters {
    let zone = Zone {
        first_cylinder: 0,
        last_cylinder: 999,
        sectors_per_track: 100,
        track_skew_sectors: 0,
        cylinder_skew_sectors: 0,
        spare_sectors: 0,
        offset_sectors: 0,
        reserved_sectors: 0,
    };
    HardDiskParameters {
        name: Cow::Borrowed("plain"),
        revolution_ns: 10_000_000,
        heads: 2,
        zones: vec![zone].into(),
        spares: Spares::Zone,
        slips_use_spares: true,
        defects: Cow::Borrowed(&[]),
        head_order: HeadOrder::Ascending,
        len_blocks: None,
        head_switch_ns: 0,
        write_settle_ns: 0,
        write_seek_min_ns: 0,
        seek_read: Seek::Measured(vec![(1, 1_000_000), (999, 9_000_000)].into()),
        seek_write: None,
        overheads: Overheads::same(0),
        bus_ns_per_block: 0,
        segments: SegmentParameters::plain(0, 100),
        scheduling: Scheduling::Fcfs,
        queue_depth: 64,
    }
}

/// Blocks of a cylinder of [`plain`].
const CYLINDER: u64 = 200;

fn model(disk: HardDiskParameters) -> DriveModel {
    DriveModel::new(&DriveParameters::HardDisk(disk)).expect("a drive can be like this")
}

fn request(token: u64, kind: Kind, block: u64, blocks: u64) -> Request {
    Request { token, kind, block, blocks }
}

/// Lets the drive work until all of these are done; in the order of their completion.
fn wait_for(model: &mut DriveModel, mut done: Vec<Completion>, count: usize) -> Vec<Completion> {
    while done.len() < count {
        let due_ns = model.due_ns().expect("a drive with requests is due");
        model.wake(due_ns, &mut done);
    }
    done.sort_by_key(|completion| completion.at_ns);
    done
}

/// Gives all at one time; in the order of their completion.
fn at_once(model: &mut DriveModel, now_ns: u64, requests: &[Request]) -> Vec<Completion> {
    let mut done = Vec::new();
    for request in requests {
        model.submit(now_ns, *request, &mut done);
    }
    wait_for(model, done, requests.len())
}

/// One alone: when it is done.
fn alone(model: &mut DriveModel, now_ns: u64, kind: Kind, block: u64, blocks: u64) -> u64 {
    at_once(model, now_ns, &[request(0, kind, block, blocks)])[0].at_ns
}
