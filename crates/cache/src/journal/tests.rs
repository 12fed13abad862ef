//! A journal on a modelled disk: what was durable comes back, after every cut.

use std::cell::Cell;
use std::rc::Rc;

use block::{Buf, Device, Pieces};
use world::World;
use world_model::{DiskSpec, Model, Outcome};

use super::batch::{Kind, crc};
use super::header::{Header, VERSION};
use super::{BLOCK, Journal, JournalError, RING_START};
use crate::tests::OnDrive;

const LEN: u64 = 10 << 20;

fn model(seed: u64) -> Model {
    let model = Model::new(seed);
    model.disk("journal", DiskSpec::new(LEN));
    model
}

fn content(sequence: u64, len: usize) -> Pieces {
    let mut buf = Buf::new(len);
    buf.fill((sequence % 251) as u8);
    buf[..8].copy_from_slice(&sequence.to_le_bytes());
    buf.freeze().into()
}

/// Length and kind of a record are drawn from its number.
fn shape(sequence: u64) -> (Kind, u64) {
    let draw = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    match draw % 8 {
        0 => (Kind::Forget, 1 << 30),
        1 => (Kind::Write, 512 * (1 + draw / 8 % 500)),
        _ => (Kind::Write, 512 * (1 + draw / 8 % 16)),
    }
}

fn append(journal: &Journal<OnDrive>) -> u64 {
    let sequence = journal.next_sequence();
    let given = match shape(sequence) {
        (Kind::Forget, len) => journal.append_forget(2, 0, len),
        (Kind::Write, len) => journal.append_write(1, sequence * 512, &content(sequence, len as usize)),
    };
    assert_eq!(given, sequence);
    sequence
}

async fn open(world: &World) -> Result<(Journal<OnDrive>, Vec<u64>), JournalError> {
    let device = OnDrive::open(world, "journal");
    let (journal, mut replay) = Journal::open(world.clone(), device).await?;
    let mut sequences = Vec::new();
    while let Some(record) = replay.next().await.map_err(JournalError::Device)? {
        let (kind, len) = shape(record.sequence);
        assert_eq!((kind, record.len, record.unit), (Kind::Write, len, 1));
        let same = record.data.joined()[..] == content(record.sequence, len as usize).joined()[..];
        assert!(same, "record {}", record.sequence);
        sequences.push(record.sequence);
    }
    assert_eq!(replay.bytes_left(), 0);
    let all_forgets = |w: &[u64]| (w[0] + 1..w[1]).all(|s| shape(s).0 == Kind::Forget);
    assert!(sequences.windows(2).all(all_forgets), "in order, none missing: {sequences:?}");
    Ok((journal, sequences))
}

#[test]
fn records_come_back_in_order_and_retired_ones_do_not() {
    let model = model(1);
    let last = model.run(async |world| {
        let device = OnDrive::open(&world, "journal");
        let journal = Journal::create(world.clone(), device, [1; 16]).await.expect("create");
        let mut last = 0;
        for _ in 0..3000 {
            journal.room().await.expect("room");
            last = append(&journal);
            if last.is_multiple_of(7) {
                journal.durable(last).await.expect("durable");
            }
            if journal.presses() {
                journal.durable(last).await.expect("durable");
                journal.retire(last - 10);
            }
        }
        journal.durable(last).await.expect("durable");
        let counts = journal.counts();
        assert!(counts.bytes > 3 * counts.ring_bytes, "several laps: {counts:?}");
        last
    });
    let last = model.run(async |world| {
        let (journal, sequences) = open(&world).await.expect("open");
        assert_eq!(sequences.last(), Some(&last));
        assert!(sequences.len() < 1500, "{} records", sequences.len());
        assert!(journal.holds(1, last * 512..last * 512 + 512) || shape(last).0 == Kind::Forget);
        journal.retire(last);
        journal.close().await.expect("close");
        last
    });
    model.run(async |world| {
        let (journal, sequences) = open(&world).await.expect("open");
        assert!(sequences.is_empty());
        assert_eq!(journal.next_sequence(), last + 1);
        assert!(!journal.holds(1, 0..1 << 40));
    });
}

/// Lives with a cut in each: what was durable and not retired comes back, and nothing out of order.
#[test]
fn cuts_lose_nothing_that_was_durable() {
    for seed in 0..60 {
        let model = model(seed);
        model.run(async |world| {
            let device = OnDrive::open(&world, "journal");
            drop(Journal::create(world.clone(), device, [1; 16]).await.expect("create"));
        });
        let (durable, retired, appended) =
            (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut rng = fastrand::Rng::with_seed(seed);
        for _life in 0..8 {
            let disks = model.disks();
            disks.cut_power_after(disks.persistence_points() + rng.u64(1..60));
            let cells = (durable.clone(), retired.clone(), appended.clone());
            let seed = rng.u64(..);
            let outcome = model.run_until_crash(async move |world| one_life(world, cells, seed).await);
            if outcome == Outcome::PowerCut {
                model.reboot();
            }
        }
        model.run(async move |world| {
            let (journal, sequences) = open(&world).await.expect("open");
            check(&journal, &sequences, (durable.get(), retired.get(), appended.get()));
        });
    }
}

fn check(journal: &Journal<OnDrive>, sequences: &[u64], (durable, retired, appended): (u64, u64, u64)) {
    let last = journal.next_sequence() - 1;
    assert!((durable..=appended).contains(&last), "{durable} was durable of {appended}, the last is {last}");
    // Forgets are not given, and there may be nothing but them.
    let first = sequences.first().copied().unwrap_or(last + 1);
    let needed = (retired + 1..first).find(|s| shape(*s).0 == Kind::Write);
    assert_eq!(needed, None, "{retired} were retired, the first is {first}");
}

type Cells = (Rc<Cell<u64>>, Rc<Cell<u64>>, Rc<Cell<u64>>);

async fn one_life(world: World, (durable, retired, appended): Cells, seed: u64) {
    let (journal, sequences) = open(&world).await.expect("open");
    check(&journal, &sequences, (durable.get(), retired.get(), appended.get()));
    // What was replayed counts from now on; what was not acknowledged and is gone has numbers that are used
    // again.
    let last = journal.next_sequence() - 1;
    durable.set(last);
    appended.set(last);
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..400 {
        journal.room().await.expect("room");
        let sequence = append(&journal);
        appended.set(sequence);
        if rng.u8(..4) == 0 || journal.presses() {
            journal.durable(sequence).await.expect("durable");
            durable.set(sequence);
        }
        if journal.presses() {
            retired.set(sequence - rng.u64(..5).min(sequence - retired.get()));
            journal.retire(retired.get());
        }
    }
}

/// Twenty commits of one record each, and then bytes of a block changed: what opening says.
fn changed_block(block_of: impl Fn(u64) -> u64 + 'static) -> Option<JournalError> {
    let model = model(1);
    model.run(async move |world| {
        let device = OnDrive::open(&world, "journal");
        let journal = Journal::create(world.clone(), device.clone(), [1; 16]).await.expect("create");
        for sequence in 1..=20 {
            let sequence = journal.append_write(1, sequence * 512, &content(sequence, 4096));
            journal.durable(sequence).await.expect("durable");
        }
        journal.retire(10);
        journal.close().await.expect("close");
        let at = block_of(8192);
        let mut block = Pieces::new();
        device.read(at, 4096, &mut block).await.expect("read");
        let mut changed = Buf::copy_of(&block.joined());
        changed[40] ^= 1;
        device.write(at, &changed.freeze().into()).await.expect("write");
        Journal::open(world.clone(), device).await.err()
    })
}

/// Each batch is a header and one block of payload. A later commit was begun when all but the last one were
/// durable.
#[test]
fn a_batch_that_was_durable_and_is_changed_is_damage_and_not_an_end() {
    for number in 10..19 {
        for block in 0..2 {
            let refused = changed_block(move |ring| ring + (2 * number + block) * 4096);
            let named = matches!(refused, Some(JournalError::Damaged { number: n, .. }) if n == number);
            assert!(named, "batch {number}, block {block}: {refused:?}");
        }
    }
    assert_eq!(changed_block(|ring| ring + 2 * 9 * 4096), None, "retired");
}

/// A batch that says it is of a later life than it is does not make those behind it look like leftovers:
/// their commits were begun when it was durable, so that what is missing behind it is damage. Found by
/// fuzzing: the first open took the shorter journal, the second refused it.
#[test]
fn an_epoch_from_the_future_does_not_hide_the_batches_behind_it() {
    let refused = model(1).run(async |world| {
        let device = OnDrive::open(&world, "journal");
        let journal = Journal::create(world.clone(), device.clone(), [1; 16]).await.expect("create");
        for sequence in 1..=20 {
            let sequence = journal.append_write(1, sequence * 512, &content(sequence, 4096));
            journal.durable(sequence).await.expect("durable");
        }
        let header = Header { epoch: 9, ..journal.0.header.get() };
        device.write(header.at(), &header.encode().freeze().into()).await.expect("write");
        // A batch is a header and one block of payload: the sixth, with its epoch behind the magic number and
        // the journal's name.
        let at = RING_START + 2 * 5 * BLOCK;
        let mut block = Pieces::new();
        device.read(at, BLOCK as usize, &mut block).await.expect("read");
        let mut changed = Buf::copy_of(&block.joined());
        changed[24..32].copy_from_slice(&9_u64.to_le_bytes());
        let sum_at = BLOCK as usize - 4;
        let sum = crc(&changed[..sum_at]);
        changed[sum_at..].copy_from_slice(&sum.to_le_bytes());
        device.write(at, &changed.freeze().into()).await.expect("write");
        Journal::open(world.clone(), device).await.err()
    });
    assert!(matches!(refused, Some(JournalError::Damaged { number: 6, .. })), "{refused:?}");
}

/// The newer copy of the header is lost after some laps, with as many of the last records needed as `needed`
/// says, up to a full ring: damage, or all is found from the older copy on.
#[test]
fn the_older_copy_of_the_header_never_hides_what_was_durable() {
    let mut refused = 0;
    let records = 400;
    for needed in [1, 40, 80, 120, 140, 148, 149] {
        let model = model(1);
        let outcome = model.run(async move |world| {
            let device = OnDrive::open(&world, "journal");
            let journal = Journal::create(world.clone(), device.clone(), [1; 16]).await.expect("create");
            for sequence in 1..=records {
                journal.append_write(1, 0, &content(sequence, 64 << 10));
                journal.durable(sequence).await.expect("durable");
                journal.retire(sequence.saturating_sub(needed));
            }
            let at = journal.0.header.get().at();
            device.write(at, &Pieces::copy_of(&[0; 4096])).await.expect("write");
            Journal::open(world.clone(), device).await.map(|(journal, _)| journal.next_sequence())
        });
        match outcome {
            Ok(next) => assert_eq!(next, records + 1),
            Err(JournalError::Damaged { .. }) => refused += 1,
            Err(other) => panic!("{needed} needed: {other}"),
        }
    }
    assert!(refused > 0, "where the ring is full, the older copy names what was written over");
}

#[test]
fn a_device_without_a_journal_and_one_that_is_too_small_are_refused() {
    let model = model(1);
    model.disk("small", DiskSpec::new(1 << 20));
    model.run(async |world| {
        let refused = Journal::open(world.clone(), OnDrive::open(&world, "journal")).await.err();
        assert_eq!(refused, Some(JournalError::None));
        let refused = Journal::create(world.clone(), OnDrive::open(&world, "small"), [1; 16]).await.err();
        assert!(matches!(refused, Some(JournalError::TooSmall { .. })));
    });
}

#[test]
fn a_journal_whose_device_fails_says_so_and_stops() {
    let model = Model::new(1);
    let disk = model.disk("journal", DiskSpec::new(LEN));
    model.run(async |world| {
        let device = OnDrive::open(&world, "journal");
        let journal = Journal::create(world.clone(), device, [1; 16]).await.expect("create");
        disk.kill();
        let sequence = append(&journal);
        let text = journal.durable(sequence).await.expect_err("the disk is gone").to_string();
        assert!(text.contains("journal"), "{text}");
        let sequence = append(&journal);
        journal.room().await.expect("room");
        assert!(journal.durable(sequence).await.is_err());
    });
}

#[test]
fn a_journal_of_a_newer_version_is_named_and_nothing_is_written() {
    let model = model(11);
    let disk = model.disks().get("journal").expect("it is there");
    model.run(async |world| {
        let device = OnDrive::open(&world, "journal");
        drop(Journal::create(world.clone(), device, [1; 16]).await.expect("create"));
    });
    let mut block = disk.peek(0, BLOCK as usize);
    block[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let sum_at = block.len() - 4;
    let sum = crc(&block[..sum_at]);
    block[sum_at..].copy_from_slice(&sum.to_le_bytes());
    // The other copy is as an older masu would have it.
    disk.poke(BLOCK, &block);
    let before = disk.peek(0, LEN as usize);
    model.run(async |world| {
        let refused = open(&world).await.err();
        assert_eq!(refused, Some(JournalError::Version { found: VERSION + 1, known: VERSION }));
        let told = format!("newer format version {}, this program reads up to {VERSION}", VERSION + 1);
        assert!(refused.is_some_and(|e| e.to_string().contains(&told)));
    });
    assert!(disk.peek(0, LEN as usize) == before, "nothing was written");
}
