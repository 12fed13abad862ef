//! Many writers at once, more than the journal has room for: all come to their end.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{Buf, Device, Pieces};
use world::{Drive, DriveSpec};
use world_model::{DiskSpec, Model};

use crate::{ArrayId, Group, GroupSpec, Level};

const WIDTH: usize = 9;
const WRITERS: u64 = 64;
const WRITES_EACH: u64 = 4;
/// With rows of 7 x 64 KiB each write has full rows and parts of rows: checksums for the journal, and
/// content.
const WRITE_BYTES: u64 = 4 << 20;

/// A writer that wrote a batch for others, and waited there for room on the rings, waited for his own change
/// of an older batch to be put in place: by himself.
#[test]
fn nobody_who_waits_for_room_in_the_journal_is_waited_for() {
    let model = Model::new(1);
    let spec = DiskSpec::new(256 << 20).with_jitter(Duration::from_micros(500));
    (0..WIDTH).for_each(|i| drop(model.disk(&format!("d{i}"), spec.clone())));
    let done = Rc::new(Cell::new(0));
    let all = done.clone();
    model.run(async |world| {
        let open = |i| world.open_now(&DriveSpec::Modelled { name: format!("d{i}") }).expect("it is there");
        let drives: Vec<Drive> = (0..WIDTH).map(open).collect();
        let spec = GroupSpec::new("g", Level::Raid6, ArrayId([7; 16]));
        let group = Rc::new(Group::create(world.clone(), spec, drives).await.expect("create"));
        let data = Pieces::from(Buf::zeroed(WRITE_BYTES as usize).freeze());
        for writer in 0..WRITERS {
            let (group, data, done) = (group.clone(), data.clone(), all.clone());
            world.spawn(async move {
                for turn in 0..WRITES_EACH {
                    group.write((turn * WRITERS + writer) * WRITE_BYTES, &data).await.expect("write");
                }
                done.set(done.get() + 1);
            });
        }
        world.sleep(Duration::from_secs(600)).await;
    });
    assert_eq!(done.get(), WRITERS, "writers that came to their end");
}
