//! Levels 5 and 6 on sparse drives whose file systems are full. Drives were dropped for that, one after the
//! other, until the group had failed.

use std::time::Duration;

use block::{BlockError, Device};
use world::World;

use super::{Rack, drives, pattern, rack, read, spec_of};
use crate::{Group, GroupError, GroupState, Level, Throttle};

const LEVELS: [(Level, usize); 2] = [(Level::Raid5, 4), (Level::Raid6, 6)];
const LEN: usize = 1 << 20;
const PART: usize = 20 << 10;

/// What finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Journal,
    InPlace,
    FullRows,
}

const ALL: [Where; 3] = [Where::Journal, Where::InPlace, Where::FullRows];

impl Where {
    /// The range of the group that is written without room.
    fn range(self, group: &Group) -> (u64, usize) {
        match self {
            // Part of a row that is in place already.
            Where::Journal => (4096, PART),
            // Nothing was written here; full rows, whose content is not in the journal, and parts of rows.
            Where::InPlace => ((4 << 20) + 4096, LEN),
            Where::FullRows => (40 * group.row_bytes(), 8 * group.row_bytes() as usize),
        }
    }

    /// Writes until there is no room.
    async fn write(self, group: &Group) -> Result<(), BlockError> {
        let (at, len) = self.range(group);
        let rounds = if self == Where::Journal { 200 } else { 1 };
        for _ in 0..rounds {
            group.write(at, &pattern(len, 2)).await?;
        }
        Ok(())
    }
}

fn set_full(rack: &Rack, which: &[usize], from: Option<u64>) {
    which.iter().for_each(|i| rack.disks[*i].set_full_from(from));
}

/// A group with data, whose drives of these positions are full.
async fn full(
    world: &World,
    rack: &Rack,
    (level, width): (Level, usize),
    what: Where,
    which: &[usize],
) -> Group {
    let created = Group::create(world.clone(), spec_of(level, width), drives(world, 0..width)).await;
    let group = created.expect("create");
    group.write(0, &pattern(LEN, 1)).await.expect("write");
    group.flush().await.expect("flush");
    let from = if what == Where::Journal { 0 } else { group.0.data_offset };
    set_full(rack, which, Some(from));
    group
}

fn is_no_room<T>(outcome: &Result<T, BlockError>) -> bool {
    matches!(outcome, Err(BlockError::NoRoom { .. }))
}

#[test]
fn a_full_file_system_below_fails_writes_and_drops_no_drive() {
    for (kind, what) in LEVELS.into_iter().flat_map(|kind| ALL.map(|what| (kind, what))) {
        for some in 0..3 {
            let rack = rack(some, kind.1);
            let all: Vec<usize> = (0..kind.1).collect();
            let which = [&all[..], &all[..1], &all[..3]][some as usize];
            rack.model.run(async |world| {
                let group = full(&world, &rack, kind, what, which).await;
                let begun = world.now();
                let written = what.write(&group).await;
                assert!(is_no_room(&written), "{kind:?}, {what:?}, {which:?}: {written:?}");
                assert!(is_no_room(&group.write(0, &pattern(4096, 3)).await), "it waits for the first one");
                assert!(is_no_room(&group.flush().await), "{kind:?}, {what:?}");
                assert!(world.now() - begun < Duration::from_secs(1), "nobody waits for room");
                world.sleep(Duration::from_secs(20)).await;
                assert_eq!(group.status().state, GroupState::Optimal, "{kind:?}, {what:?}, {which:?}");
                let found = read(&group, 64 << 10, LEN / 2).await;
                assert_eq!(found, pattern(LEN, 1).slice(64 << 10, LEN / 2).joined().to_vec(), "reads go on");
                set_full(&rack, which, None);
                world.sleep(Duration::from_secs(1)).await;
                group.flush().await.expect("there is room");
                let (at, len) = what.range(&group);
                assert_eq!(read(&group, at, len).await, pattern(len, 2).joined().to_vec(), "it was done");
                group.write(0, &pattern(LEN, 4)).await.expect("write");
                let scrubbed = group.scrub(&Throttle::none(world.clone())).await.expect("scrub");
                assert_eq!((group.status().state, scrubbed.mismatches), (GroupState::Optimal, 0));
            });
        }
    }
}

#[test]
fn a_start_on_a_full_file_system_drops_no_drive_and_goes_on_when_there_is_room() {
    for (kind, what) in LEVELS.into_iter().flat_map(|kind| ALL.map(|what| (kind, what))) {
        let (level, width) = kind;
        let rack = rack(1, width);
        let all: Vec<usize> = (0..width).collect();
        rack.model.run(async |world| {
            // A start computes the parity of full rows from what is in place.
            let which = if what == Where::FullRows { &all[..1] } else { &all[..] };
            let group = full(&world, &rack, kind, what, which).await;
            let written = what.write(&group).await;
            assert!(is_no_room(&written), "{level}: {written:?}");
        });
        let open = async |world: &World| {
            Group::open(world.clone(), spec_of(level, width), drives(world, 0..width)).await
        };
        rack.model.run(async |world| match (open(&world).await, what) {
            // There is nothing to write where nothing was.
            (Ok(group), Where::Journal) => assert_eq!(group.status().state, GroupState::Optimal, "{level}"),
            (
                Err(GroupError::Io { cause: BlockError::NoRoom { .. }, .. }),
                Where::InPlace | Where::FullRows,
            ) => {}
            (opened, _) => panic!("{level}, {what:?}: {:?}", opened.map(|group| group.status())),
        });
        set_full(&rack, &all, None);
        rack.model.run(async |world| {
            let group = open(&world).await.expect("there is room");
            assert_eq!(group.status().state, GroupState::Optimal, "{level}");
            let found = read(&group, 64 << 10, LEN / 2).await;
            assert_eq!(found, pattern(LEN, 1).slice(64 << 10, LEN / 2).joined().to_vec());
            let scrubbed = group.scrub(&Throttle::none(world.clone())).await.expect("scrub");
            assert_eq!(scrubbed.mismatches, 0, "{level}");
        });
    }
}
