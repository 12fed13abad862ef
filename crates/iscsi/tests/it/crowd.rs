//! A thousand sessions, one of which misbehaves in every way: the others notice nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::Options;
use iscsi::target::Limits;
use scsi::Lun;

use crate::rig::{READ, WRITE, cdb10, check_with};
use crate::sins::{SINS, sin};

const SESSIONS: u32 = 1000;

#[test]
fn one_of_a_thousand_misbehaves_and_the_others_notice_nothing() {
    let limits =
        Limits { sessions: 1100, sessions_proven: 0, sessions_per_initiator: 1100, ..Limits::default() };
    check_with(limits, |rig| async move {
        let (over, rounds, slowest) =
            (Rc::new(Cell::new(false)), Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64)));
        for port in 0..SESSIONS - 1 {
            let session = rig.login(&Options { depth_max: 4, ..rig.options(port) }).await.expect("a login");
            let (world, over, rounds, slowest) =
                (rig.world.clone(), over.clone(), rounds.clone(), slowest.clone());
            rig.world.spawn(async move {
                let data = Pieces::copy_of(&[port as u8; 512]);
                while !over.get() {
                    let before = world.now();
                    let wrote = session.command(Lun(0), cdb10(WRITE, 1000 + port, 1), data.clone(), 0).await;
                    assert!(wrote.as_ref().is_ok_and(|d| d.is_good()), "session {port}: {wrote:?}");
                    let read = session.command(Lun(0), cdb10(READ, 1000 + port, 1), Pieces::new(), 512).await;
                    let read = read.unwrap_or_else(|e| panic!("session {port}: {e}"));
                    assert!(
                        read.is_good() && read.data_in.first_difference(&data).is_none(),
                        "session {port}"
                    );
                    slowest.set(slowest.get().max(world.now().since(before).as_millis() as u64));
                    rounds.set(rounds.get() + 1);
                    world.sleep(Duration::from_secs(10)).await;
                }
            });
        }
        let mut rng = rig.world.random("sins");
        for kind in SINS {
            let began = rig.world.now();
            sin(&rig, kind, &mut rng).await;
            let took = rig.world.now().since(began).as_secs();
            assert!(took < 200, "{kind:?} held its session for {took} s");
            rig.wait_until("only the good ones are left", || {
                rig.portal.sessions().len() == SESSIONS as usize - 1
            })
            .await;
            assert_eq!(rig.ram.nexuses.get(), SESSIONS - 1, "after {kind:?}");
        }
        over.set(true);
        assert!(rounds.get() > u64::from(SESSIONS) * 10, "{} rounds", rounds.get());
        assert!(slowest.get() < 1000, "a command took {} ms", slowest.get());
    });
}
