//! Whatever a host sends, it gets an answer.

use std::time::Duration;

use world_model::Model;

use super::*;
use crate::opcode::TABLE;

/// A random request: half of them begin with an operation code of the table and have few bits set elsewhere, so that they get
/// past the first checks.
fn random_request(rng: &mut world::Rng) -> Request {
    let mut cdb = [0u8; 16];
    rng.fill(&mut cdb);
    if rng.bool() {
        let command = &TABLE[rng.usize(..TABLE.len())];
        let sparse = rng.bool();
        for (at, byte) in cdb.iter_mut().enumerate().take(usize::from(command.cdb_len)) {
            *byte &= command.usage[at];
            if sparse && rng.u8(..4) != 0 {
                *byte = 0;
            }
        }
        cdb[0] = command.opcode;
        cdb[1] = cdb[1] & 0xe0 & command.usage[1] | command.service_action.unwrap_or(cdb[1] & 0x1f & command.usage[1]);
    }
    let len = match rng.u8(..8) {
        0 => 0,
        1 => 512,
        2 => 1024,
        3 => rng.usize(..5000),
        _ => rng.usize(..128),
    };
    let mut data = vec![0; len];
    if rng.bool() {
        rng.fill(&mut data);
    } else {
        data.iter_mut().for_each(|b| *b = if rng.u8(..8) == 0 { rng.u8(..) } else { 0 });
    }
    let attribute = [TaskAttribute::Simple, TaskAttribute::Ordered, TaskAttribute::HeadOfQueue, TaskAttribute::Aca];
    Request {
        cdb,
        attribute: attribute[rng.usize(..4)],
        data_out: Pieces::copy_of(&data),
        data_in_max: rng.u32(..),
    }
}

#[test]
fn a_hundred_thousand_random_commands_and_no_panic() {
    Model::new(3).run(async |world| {
        let mut rng = world.random("commands");
        let b = Bench::on(world.clone(), ThinMemory::new(1 << 20, BLOCK as u32, PAGE));
        let hosts = [b.host(1).await, b.host(2).await];
        for _ in 0..100_000 {
            let request = random_request(&mut rng);
            let host = &hosts[usize::from(rng.u8(..8) == 0)];
            let lun = [Some(Lun(0)), Some(Lun(0)), Some(Lun(0)), Some(Lun(1)), None][rng.usize(..5)];
            let cdb = request.cdb;
            host.data_out_len(lun, &cdb);
            let response = host.execute(lun, request).await;
            let is_check = response.status == Status::CheckCondition;
            assert_eq!(is_check, !response.sense.is_empty(), "{cdb:02x?}");
            assert!(response.status == Status::Good || response.data_in.is_empty(), "{cdb:02x?}");
            if b.lu.check_ready().is_err() {
                // A sanitize operation began: let it end, or lead out of its failure.
                world.sleep(Duration::from_secs(60)).await;
            }
        }
        assert_eq!(b.lu.ranges.in_use(), 0);
    });
}
