//! Whatever a host sends, it gets an answer.

use std::time::Duration;

use world_model::Model;

use super::*;
use crate::host_view::HostView;
use crate::opcode::{DataOut, TABLE};

/// Commands that need a reservation key, or a copy that a random list does not begin.
const GUESSED: [&str; 9] = [
    "PERSISTENT RESERVE OUT/RESERVE",
    "PERSISTENT RESERVE OUT/RELEASE",
    "PERSISTENT RESERVE OUT/CLEAR",
    "PERSISTENT RESERVE OUT/PREEMPT",
    "PERSISTENT RESERVE OUT/PREEMPT AND ABORT",
    "PERSISTENT RESERVE OUT/REGISTER AND MOVE",
    "RECEIVE COPY RESULTS/FAILED SEGMENT DETAILS(LID1)",
    "RECEIVE COPY STATUS(LID4)",
    "RECEIVE ROD TOKEN INFORMATION",
];

/// A random request. Most begin with an operation code of the table, have few bits set elsewhere and bring
/// the data that they ask for, so that they get past the first checks.
fn random_request(rng: &mut world::Rng) -> Request {
    let mut cdb = [0u8; 16];
    rng.fill(&mut cdb);
    let mut wanted = None;
    if rng.u8(..8) != 0 {
        let command = &TABLE[rng.usize(..TABLE.len())];
        let zeros = rng.u8(..8);
        for (at, byte) in cdb.iter_mut().enumerate() {
            *byte &= if rng.bool() { 0x1f } else { 0xff };
            *byte &= if rng.u8(..32) == 0 { 0xff } else { command.usage[at] };
            if rng.u8(..8) < zeros {
                *byte = 0;
            }
        }
        cdb[0] = command.opcode;
        cdb[1] = match command.service_action {
            Some(action) => cdb[1] & !crate::opcode::SERVICE_ACTION_MASK | action,
            None => cdb[1],
        };
        if command.name == "LOG SENSE" && rng.bool() {
            // Cumulative values (PC = 01b), from the first parameter on.
            cdb[2] = cdb[2] & 0x3f | 0x40;
            cdb[5..7].fill(0);
        }
        if let (DataOut::List { at, width }, true) = (command.data_out, rng.bool()) {
            // A length that some parameter list has.
            let end = usize::from(at + width);
            cdb[usize::from(at)..end].fill(0);
            cdb[end - 1] = [8, 16, 24, 24, 24, 40, 76][rng.usize(..7)];
        }
        wanted = usize::try_from(command.data_out_len(&crate::cdb::Cdb(cdb), BLOCK as u32)).ok();
    }
    let len = match wanted {
        Some(wanted) if rng.u8(..8) != 0 => wanted.min(64 << 10),
        _ => rng.usize(..2000),
    };
    let mut data = vec![0; len];
    match rng.u8(..4) {
        0 => rng.fill(&mut data),
        1 => {}
        _ => data.iter_mut().take(256).for_each(|b| *b = if rng.u8(..8) == 0 { rng.u8(..32) } else { 0 }),
    }
    let attribute =
        [TaskAttribute::Simple, TaskAttribute::Ordered, TaskAttribute::HeadOfQueue, TaskAttribute::Aca];
    let attribute = attribute[rng.usize(..4)];
    Request { attribute, ..Request::new(cdb, Pieces::copy_of(&data), rng.u32(..)) }
}

#[test]
fn a_hundred_thousand_random_commands_and_no_panic() {
    Model::new(3).run(async |world| {
        let mut rng = world.random("commands");
        let b = Bench::on(world.clone(), ThinMemory::new(1 << 20, BLOCK as u32, PAGE));
        b.lu.moved_by(Box::new(Moves));
        let hosts = [b.host(1).await, b.host(2).await];
        let mut good = std::collections::BTreeMap::new();
        for step in 0..100_000 {
            let request = random_request(&mut rng);
            let host = &hosts[usize::from(rng.u8(..8) == 0)];
            let lun = [Some(Lun(0)), Some(Lun(0)), Some(Lun(0)), Some(Lun(1)), None][rng.usize(..5)];
            let cdb = request.cdb;
            host.data_out_len(lun, &cdb);
            let response = host.execute(lun, request).await;
            if response.status == Status::Good {
                *good.entry(crate::opcode::find(&crate::cdb::Cdb(cdb)).map(|c| c.name)).or_insert(0) += 1;
            }
            if step % 100 == 0 {
                // A reservation that came about by chance does not stand for ever.
                b.lu.reservations.reset();
                b.lu.modes.reset();
            }
            let is_check = response.status == Status::CheckCondition;
            assert_eq!(is_check, !response.sense.is_empty(), "{cdb:02x?}");
            assert!(response.status == Status::Good || response.data_in.is_empty(), "{cdb:02x?}");
            if b.lu.check_ready().is_err() {
                // A sanitize operation began: let it end, or lead out of its failure.
                world.sleep(Duration::from_secs(60)).await;
            }
        }
        assert_eq!(b.lu.locks.in_use(), 0);
        // The commands got behind the first checks: all but those of `GUESSED` ended with GOOD now and then.
        let never = TABLE.iter().map(|c| c.name).filter(|n| !good.contains_key(&Some(n)));
        let never: Vec<_> = never.filter(|name| !GUESSED.contains(name)).collect();
        assert!(never.is_empty(), "never GOOD: {never:?}");
    });
}
