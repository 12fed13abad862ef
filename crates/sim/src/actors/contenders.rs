//! Other hosts of an array of several nodes, beside the one whose data are compared: some that count in one
//! block by COMPARE AND WRITE, one that a persistent reservation keeps out, and one that has pools served
//! elsewhere.
//!
//! A command may be executed twice, when its first answer is lost. So the block has a count of each host, and
//! who is told that it miscompares reads whether it was its own that came before.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Done, Options};
use scsi::Lun;
use world::World;
use world::sync::Signal;

use super::paths::Paths;

/// Hosts that count.
const COUNTERS: usize = 3;
/// Both do something else between commands, at most for so long.
const THINK: Duration = Duration::from_millis(400);
/// Between two wishes that a pool be served elsewhere.
const WISH_PAUSE_MAX: Duration = Duration::from_secs(6);
/// Logical blocks of the LUs here.
const BLOCK_BYTES: usize = 512;
const GOOD: u8 = 0x00;
/// RESERVATION CONFLICT (SAM-6 5.3.1).
const RESERVATION_CONFLICT: u8 = 0x18;
const UNIT_ATTENTION: u8 = 0x6;
/// MISCOMPARE DURING VERIFY OPERATION (SBC-4 5.3).
const MISCOMPARE: (u8, u8, u8) = (0xe, 0x1d, 0x00);
/// Write exclusive, registrants only (SPC-5 6.16.3).
const WRITE_EXCLUSIVE_REGISTRANTS: u8 = 5;
const KEY: [u8; 8] = *b"simulate";

/// What counters found and did.
#[derive(Default)]
struct Counts {
    /// Of each host: how often it was told that it had counted.
    told: [Cell<u64>; COUNTERS],
    /// How often a reserved LU refused the host that is kept out.
    refused: Cell<u64>,
    /// How often a host's wish that a pool be served elsewhere was taken.
    asked: Cell<u64>,
    /// The tasks that have begun, and those that have ended.
    begun: Cell<usize>,
    ended: Cell<usize>,
}

/// The other hosts.
pub(crate) struct Contenders {
    world: World,
    counts: Rc<Counts>,
    ends: Rc<Cell<bool>>,
    ended: Rc<Signal>,
}

impl Contenders {
    /// Begins: hosts count in block `lba` of `counted`, and one writes to `reserved`, which has a
    /// reservation.
    pub(crate) fn start(world: &World, paths: &[Options], (counted, lba): (Lun, u64), reserved: Lun) -> Self {
        let (counts, ends, ended) = (Rc::<Counts>::default(), Rc::<Cell<bool>>::default(), Rc::default());
        let contenders = Contenders { world: world.clone(), counts, ends, ended };
        for number in 0..COUNTERS {
            let host = named(world, paths, &format!("counter{number}"));
            let counter = Counter { host, lun: counted, lba, number, counts: contenders.counts.clone() };
            contenders.spawn(async move |ends| counter.count(&ends).await);
        }
        let host = named(world, paths, "outsider");
        let counts = contenders.counts.clone();
        contenders.spawn(async move |ends| keep_out(&host, reserved, &counts, &ends).await);
        contenders
    }

    /// One that asks now and then that the pool of one of so many LUs be served at one of these port groups.
    pub(crate) fn ask_for_moves(&self, paths: &[Options], luns: u16, groups: Vec<u16>) {
        let (host, counts) = (named(&self.world, paths, "mover"), self.counts.clone());
        let (world, mut rng) = (self.world.clone(), self.world.random("moves of hosts"));
        self.spawn(async move |ends| {
            while !ends.get() {
                world.sleep(Duration::from_nanos(rng.u64(..WISH_PAUSE_MAX.as_nanos() as u64))).await;
                let (lun, group) = (Lun(rng.u16(..luns)), groups[rng.usize(..groups.len())]);
                // A port group that is not there, or a pool that cannot move now, is refused.
                if set_target_port_group(&host, lun, group).await.is_good() {
                    counts.asked.set(counts.asked.get() + 1);
                }
            }
        });
    }

    fn spawn(&self, task: impl AsyncFnOnce(Rc<Cell<bool>>) + 'static) {
        let (ends, ended, counts) = (self.ends.clone(), self.ended.clone(), self.counts.clone());
        counts.begun.set(counts.begun.get() + 1);
        self.world.spawn(async move {
            task(ends).await;
            counts.ended.set(counts.ended.get() + 1);
            ended.wake_all();
        });
    }

    /// Waits until no host sends commands, and compares the block. How often hosts counted, how often the
    /// reserved LU refused a write, and how often a pool was to be served elsewhere.
    pub(crate) async fn end(self, paths: &[Options], (counted, lba): (Lun, u64)) -> (u64, u64, u64) {
        self.ends.set(true);
        let all = self.counts.begun.get();
        self.ended.wait_for(|| (self.counts.ended.get() == all).then_some(())).await;
        let host = named(&self.world, paths, "reader");
        let found = read(&host, counted, lba).await;
        let told = self.counts.told.each_ref().map(Cell::get);
        assert_eq!(found, told, "counts of hosts in the block, and as they were told");
        (told.iter().sum(), self.counts.refused.get(), self.counts.asked.get())
    }
}

/// A host of this name, over all paths.
fn named(world: &World, paths: &[Options], name: &str) -> Paths {
    let initiator = format!("iqn.2026-11.sim:{name}");
    let all = paths.iter().map(|path| Options { initiator: initiator.clone(), ..path.clone() }).collect();
    Paths::new(world, name, all, THINK)
}

/// One that counts.
struct Counter {
    host: Paths,
    lun: Lun,
    lba: u64,
    number: usize,
    counts: Rc<Counts>,
}

impl Counter {
    async fn count(&self, ends: &Cell<bool>) {
        let told = |number: usize| &self.counts.told[number];
        // Whether its last command may have been executed without its knowledge.
        let mut in_doubt = false;
        loop {
            let before: [u64; COUNTERS] = std::array::from_fn(|number| told(number).get());
            let found = read(&self.host, self.lun, self.lba).await;
            let own = told(self.number);
            if std::mem::take(&mut in_doubt) && found[self.number] == own.get() + 1 {
                own.set(own.get() + 1);
            }
            assert_eq!(found[self.number], own.get(), "what host {} has counted", self.number);
            for (number, least) in before.into_iter().enumerate() {
                assert!(found[number] >= least, "host {number}: {} after it was told {least}", found[number]);
            }
            if ends.get() {
                return;
            }
            let mut next = found;
            next[self.number] += 1;
            let mut cdb = [0; 16];
            cdb[0] = 0x89;
            cdb[2..10].copy_from_slice(&self.lba.to_be_bytes());
            cdb[13] = 1;
            let data = Pieces::copy_of(&[block_of(&found), block_of(&next)].concat());
            let done = command(&self.host, self.lun, cdb, data, 0).await;
            match done.sense_codes() {
                _ if done.is_good() => own.set(own.get() + 1),
                Some(MISCOMPARE) => in_doubt = true,
                _ => panic!("COMPARE AND WRITE: {done:?}"),
            }
        }
    }
}

/// Reserves the LU for the host of these paths, through every port. `aptpl`: it asks that the reservation
/// survives a loss of power. At several nodes it has to survive them also if it does not.
pub(crate) async fn reserve(host: &Paths, lun: Lun, aptpl: bool) {
    const REGISTER_AND_IGNORE: u8 = 6;
    const RESERVE: u8 = 1;
    // ALL_TG_PT, and APTPL (SPC-5 6.16.4).
    let flags = 0x04 | u8::from(aptpl);
    for (action, kind, old, new, flags) in
        [(REGISTER_AND_IGNORE, 0, [0; 8], KEY, flags), (RESERVE, WRITE_EXCLUSIVE_REGISTRANTS, KEY, [0; 8], 0)]
    {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
        let list = [&old[..], &new, &[0, 0, 0, 0, flags, 0, 0, 0]].concat();
        let done = command(host, lun, cdb, Pieces::copy_of(&list), 0).await;
        assert!(done.is_good(), "PERSISTENT RESERVE OUT {action}: {done:?}");
    }
}

/// SET TARGET PORT GROUPS (SPC-5 6.37): this group is to be active/optimized.
async fn set_target_port_group(host: &Paths, lun: Lun, group: u16) -> Done {
    let [high, low] = group.to_be_bytes();
    let list = [0, 0, 0, 0, 0, 0, high, low];
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[9]) = (0xa4, 0x0a, list.len() as u8);
    command(host, lun, cdb, Pieces::copy_of(&list), 0).await
}

/// Writes to a LU that is reserved for another host: whichever node serves, it has to refuse that.
async fn keep_out(host: &Paths, lun: Lun, counts: &Counts, ends: &Cell<bool>) {
    while !ends.get() {
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x8a, 1);
        let done = command(host, lun, cdb, Pieces::copy_of(&[0xee; BLOCK_BYTES]), 0).await;
        assert_eq!(done.status, RESERVATION_CONFLICT, "a write to a LU that is reserved: {done:?}");
        counts.refused.set(counts.refused.get() + 1);
    }
}

fn block_of(counts: &[u64; COUNTERS]) -> Vec<u8> {
    let mut block: Vec<u8> = counts.iter().flat_map(|count| count.to_be_bytes()).collect();
    block.resize(BLOCK_BYTES, 0);
    block
}

async fn read(host: &Paths, lun: Lun, lba: u64) -> [u64; COUNTERS] {
    let mut cdb = [0; 16];
    cdb[0] = 0x88;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[13] = 1;
    let done = command(host, lun, cdb, Pieces::new(), BLOCK_BYTES as u32).await;
    assert_eq!(done.status, GOOD, "READ: {done:?}");
    let block = done.data_in.joined();
    let counts =
        std::array::from_fn(|n| u64::from_be_bytes(block[8 * n..][..8].try_into().expect("8 bytes")));
    assert_eq!(block[..], block_of(&counts)[..], "a block of counts");
    counts
}

/// Sends a command until no unit attention answers it.
async fn command(host: &Paths, lun: Lun, cdb: [u8; 16], data: Pieces, data_in_max: u32) -> Done {
    loop {
        let done = host.command(lun, cdb, data.clone(), data_in_max).await;
        if done.sense_codes().is_none_or(|(key, ..)| key != UNIT_ATTENTION) {
            return done;
        }
    }
}
