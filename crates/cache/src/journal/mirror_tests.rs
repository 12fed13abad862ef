//! A journal on two mirrors of which one lost something: what was durable is found on the other one, and
//! stays when the first is copied over it.

use block::{BlockError, Buf, Device, Geometry, Pieces};
use world::World;
use world_model::{Disk, DiskSpec, Model};

use super::{BLOCK, Journal, JournalError, RING_START, journal_with_records};
use crate::tests::OnDrive;

const LEN: u64 = 10 << 20;
/// The batch that ends the journal; each is a header and one block of payload.
const LAST: u64 = 19;

/// Two mirrors that may differ: the first one is read.
#[derive(Clone)]
struct OnMirrors([OnDrive; 2]);

impl OnMirrors {
    fn open(world: &World) -> OnMirrors {
        OnMirrors(["m0", "m1"].map(|name| OnDrive::open(world, name)))
    }
}

impl Device for OnMirrors {
    fn geometry(&self) -> Geometry {
        self.0[0].geometry()
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.0[0].read(at, len, out).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.0[0].write(at, data).await?;
        self.0[1].write(at, data).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.0[0].zero(at, len).await?;
        self.0[1].zero(at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.0[0].flush().await?;
        self.0[1].flush().await
    }

    fn mirrors(&self) -> usize {
        2
    }

    async fn read_mirror(&self, mirror: usize, at: u64, len: usize) -> Option<Pieces> {
        let mut data = Pieces::new();
        self.0[mirror].read(at, len, &mut data).await.ok().map(|()| data)
    }
}

fn content(sequence: u64) -> Pieces {
    let mut buf = Buf::new(BLOCK as usize);
    buf.fill(sequence as u8);
    buf.freeze().into()
}

/// Twenty commits of one record each, of which the first ten are retired, and no close.
fn life() -> (Model, [Disk; 2]) {
    let model = Model::new(1);
    let disks = ["m0", "m1"].map(|name| model.disk(name, DiskSpec::new(LEN)));
    model.run(async |world| {
        let device = OnMirrors::open(&world);
        let journal = Journal::create(world.clone(), device, [1; 16]).await.expect("create");
        for sequence in 1..=20 {
            journal.append_write(1, sequence * BLOCK, &content(sequence));
            journal.durable(sequence).await.expect("durable");
            journal.retire(sequence.min(10));
        }
    });
    (model, disks)
}

/// The records that are replayed.
async fn records(world: &World) -> Result<Vec<u64>, JournalError> {
    let device = OnMirrors::open(world);
    assert_eq!(journal_with_records(&device).await?.map(|found| found.id), Some([1; 16]));
    let (_, mut replay) = Journal::open(world.clone(), device).await?;
    let mut sequences = Vec::new();
    while let Some(record) = replay.next().await? {
        assert!(record.data.joined()[..] == content(record.sequence).joined()[..]);
        sequences.push(record.sequence);
    }
    Ok(sequences)
}

fn scribble(disk: &Disk, at: u64) {
    let mut bytes = disk.peek(at + 70, 1);
    bytes[0] ^= 0x10;
    disk.poke(at + 70, &bytes);
}

fn header_of(batch: u64) -> u64 {
    RING_START + 2 * batch * BLOCK
}

#[test]
fn what_one_mirror_lost_is_found_on_the_other_and_stays() {
    let expected: Vec<u64> = (11..=20).collect();
    let payload = header_of(LAST) + BLOCK;
    let cases: [&[u64]; 6] = [
        &[header_of(LAST)],
        &[payload],
        &[header_of(14)],
        &[0, BLOCK],
        &[0, BLOCK, header_of(12), header_of(13) + BLOCK, payload],
        &[header_of(12), header_of(13), header_of(14), header_of(LAST)],
    ];
    for damaged in cases {
        for bad in 0..2 {
            let (model, disks) = life();
            damaged.iter().for_each(|at| scribble(&disks[bad], *at));
            let found = model.run(async |world| records(&world).await);
            assert_eq!(found.as_ref(), Ok(&expected), "{damaged:?} of mirror {bad}");
            // The resync.
            disks[1].poke(0, &disks[0].peek(0, LEN as usize));
            let found = model.run(async |world| records(&world).await);
            assert_eq!(found.as_ref(), Ok(&expected), "{damaged:?} of mirror {bad}, resynchronised");
        }
    }
}

#[test]
fn batches_come_from_different_mirrors_and_what_both_lost_is_lost() {
    let (model, disks) = life();
    [12, 15, LAST].iter().for_each(|batch| scribble(&disks[0], header_of(*batch)));
    [13, 16].iter().for_each(|batch| scribble(&disks[1], header_of(*batch)));
    assert_eq!(model.run(async |world| records(&world).await), Ok((11..=20).collect()));

    let (model, disks) = life();
    disks.iter().for_each(|disk| scribble(disk, header_of(LAST)));
    assert_eq!(
        model.run(async |world| records(&world).await),
        Ok((11..20).collect()),
        "the end, as it seems"
    );

    let (model, disks) = life();
    disks.iter().for_each(|disk| scribble(disk, header_of(14)));
    // The first mirror lost what proves it, too.
    (15..=LAST).for_each(|batch| scribble(&disks[0], header_of(batch)));
    let before = disks.clone().map(|disk| disk.peek(0, LEN as usize));
    let refused = model.run(async |world| records(&world).await);
    assert!(matches!(refused, Err(JournalError::Damaged { number: 14, .. })), "{refused:?}");
    assert!(disks.map(|disk| disk.peek(0, LEN as usize)) == before, "both mirrors are as they were");
}
