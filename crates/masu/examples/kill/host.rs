//! The host: a session, and tasks that write, zero and flush until the array is gone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::Pieces;
use iscsi::initiator::{Done, Error, Options, Session};
use scsi::Lun;
use world::{Buf, Data, World};

use crate::array::{TARGET, VOLUME_LEN};
use crate::shadow::{SECTOR_LEN, Shadow};

/// Writers per volume, each in a part of its own, so that one write of a sector is in flight at a time.
const WRITERS: u64 = 6;
/// The longest write: more than a row of the RAID 5 group.
const SECTORS_MAX: u64 = 512;
/// How much is read at once while verifying.
const READ_LEN: usize = 1 << 20;
const UNIT_ATTENTION: u8 = 6;

/// What was done in a round.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) writes: Cell<u64>,
    pub(crate) flushes: Cell<u64>,
    /// Writers that run.
    running: Cell<u64>,
    /// Asks the writers to end.
    pub(crate) stop: Cell<bool>,
    /// What the array refused while it was there.
    pub(crate) refused: RefCell<Vec<String>>,
}

impl Counts {
    pub(crate) fn all_ended(&self) -> bool {
        self.running.get() == 0
    }
}

pub(crate) async fn login(world: &World, port: u16) -> Result<Session, Error> {
    let options = Options::new(([127, 0, 0, 1], port).into(), "iqn.2026-11.net.example:host", TARGET, 1);
    Session::login(world, &options).await
}

/// A command, sent again after a unit attention.
async fn command(
    session: &Session,
    lun: Lun,
    cdb: [u8; 16],
    data: Pieces,
    expect: usize,
) -> Result<Done, Error> {
    loop {
        let done = session.command(lun, cdb, data.clone(), expect as u32).await?;
        if done.sense_codes().is_none_or(|(key, ..)| key != UNIT_ATTENTION) {
            return Ok(done);
        }
    }
}

fn cdb(opcode: u8, lba: u64, sectors: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&sectors.to_be_bytes());
    cdb
}

const READ_16: u8 = 0x88;
const WRITE_16: u8 = 0x8a;
const SYNCHRONIZE_CACHE_16: u8 = 0x91;
const WRITE_SAME_16: u8 = 0x93;

/// Begins the writers of a volume.
pub(crate) fn write(
    world: &World,
    session: &Session,
    lun: u16,
    shadow: &Rc<RefCell<Shadow>>,
    counts: &Rc<Counts>,
) {
    for writer in 0..WRITERS {
        counts.running.set(counts.running.get() + 1);
        let (session, shadow, counts) = (session.clone(), shadow.clone(), counts.clone());
        let mut random = world.random(&format!("writer {lun} {writer}"));
        let seed = shadow.borrow().sectors() ^ random.u64(..);
        random.seed(seed);
        world.spawn(async move {
            let part = shadow.borrow().sectors() / WRITERS;
            while !counts.stop.get() {
                let step = step(
                    &session,
                    Lun(lun),
                    &shadow,
                    &counts,
                    &mut random,
                    part * writer..part * (writer + 1),
                );
                if step.await.is_err() {
                    break;
                }
            }
            counts.running.set(counts.running.get() - 1);
        });
    }
}

/// One command: mostly a write, sometimes a flush or a write of zeros. An error when the session is broken.
async fn step(
    session: &Session,
    lun: Lun,
    shadow: &RefCell<Shadow>,
    counts: &Counts,
    random: &mut world::Rng,
    part: std::ops::Range<u64>,
) -> Result<(), Error> {
    let refuse = |what: &str, done: &Done| {
        counts.refused.borrow_mut().push(format!(
            "{what}: status {:02x}h, {:02x?}",
            done.status,
            done.sense_codes()
        ));
    };
    if random.u8(..10) == 0 {
        let covered = shadow.borrow_mut().begin_flush();
        let done = command(session, lun, cdb(SYNCHRONIZE_CACHE_16, 0, 0), Pieces::new(), 0).await?;
        match done.is_good() {
            true => {
                shadow.borrow_mut().flushed(covered);
                counts.flushes.set(counts.flushes.get() + 1);
            }
            false => refuse("flush", &done),
        }
        return Ok(());
    }
    // Small and large ones, so that all ways of writing a row occur.
    let sectors = if random.bool() { random.u64(1..=16) } else { random.u64(1..=SECTORS_MAX) };
    let first = random.u64(part.start..part.end - sectors);
    let zeros = random.u8(..16) == 0;
    let write = shadow.borrow_mut().begin(first..first + sectors, zeros);
    let (opcode, data) = match zeros {
        true => (WRITE_SAME_16, vec![0; SECTOR_LEN]),
        false => (WRITE_16, shadow.borrow().content(&write)),
    };
    let data = Pieces::from(Data::copy_of(&data));
    let done = command(session, lun, cdb(opcode, first, sectors as u32), data, 0).await?;
    match done.is_good() {
        true => {
            shadow.borrow_mut().acknowledged(write);
            counts.writes.set(counts.writes.get() + 1);
        }
        false => refuse("write", &done),
    }
    Ok(())
}

/// Reads a whole volume and compares it with what it must and may hold.
pub(crate) async fn verify(
    session: &Session,
    lun: u16,
    shadow: &RefCell<Shadow>,
) -> Result<Vec<String>, Error> {
    let mut wrong = Vec::new();
    let sectors = (READ_LEN / SECTOR_LEN) as u64;
    for first in (0..VOLUME_LEN / SECTOR_LEN as u64).step_by(sectors as usize) {
        let done =
            command(session, Lun(lun), cdb(READ_16, first, sectors as u32), Pieces::new(), READ_LEN).await?;
        if done.is_good() && done.data_in.len() == READ_LEN {
            shadow.borrow_mut().settle(first, &done.data_in.joined(), &mut wrong);
        } else {
            wrong.push(format!(
                "LUN {lun}: sectors from {first} cannot be read: status {:02x}h, {:02x?}",
                done.status,
                done.sense_codes()
            ));
        }
    }
    Ok(wrong)
}

/// A buffer is touched once, so that the first round is as fast as the others.
pub(crate) fn warm() {
    drop(Buf::zeroed(READ_LEN));
}
