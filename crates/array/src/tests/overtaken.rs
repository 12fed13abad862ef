//! Commands that are at a port when something happens to their logical unit, at either controller: each is
//! made ([`Request::new`]), then that happens, and only then it is executed.

use block::Pieces;
use scsi::{Request, Response, Status, TaskFunction, TaskOutcome};

use super::two_controllers::{BLOCK, Host, Rig, config, outcome};
use crate::{Config, Lun};

type Outcome = (Status, Option<(u8, u16)>);
const GOOD: Outcome = (Status::Good, None);
const NOT_SUPPORTED: Outcome = (Status::CheckCondition, Some((5, 0x2500)));
const READY: [u8; 6] = [0; 6];

fn write() -> Request {
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x8a, 1);
    Request::new(cdb, Pieces::copy_of(&[7; BLOCK as usize]), 0)
}

/// Whether nothing was written to the first block.
async fn is_untouched(host: &Host, lun: u16) -> bool {
    host.transfer(0x88, lun, 0, Pieces::new(), BLOCK).await.joined()[..] == [0; BLOCK as usize]
}

fn remapped(lun: u16, volume: &str) -> Config {
    let mut config = config();
    config.hosts[1].luns.retain(|_, name| name != volume);
    config.hosts[1].luns.insert(lun, volume.into());
    config
}

#[test]
fn a_write_does_not_reach_the_volume_that_has_taken_its_lun_on_any_controller() {
    // From here to here, from here to there, from there to there, and from there to here.
    for (lun, volume) in [(0, "w0"), (0, "w1"), (1, "w1"), (1, "w0")] {
        for uses_before in [true, false] {
            Rig::run(|mut rig| async move {
                let host = if uses_before { rig.host("b", 0, 4).await } else { rig.open("b", 0) };
                let late = write();
                rig.array.apply(remapped(lun, volume)).await.expect("it is mapped");
                let response = host.execute(lun, late).await;
                assert_eq!(outcome(&response), NOT_SUPPORTED, "LUN {lun}, then {volume}");
                let mut told = Vec::new();
                while let (Status::CheckCondition, Some((6, asc))) = host.outcome(lun, &READY).await {
                    told.push(asc);
                }
                if uses_before {
                    assert!(told.contains(&0x3f0e) && told.contains(&0x3f03), "{told:04x?}");
                }
                assert!(is_untouched(&host, lun).await, "{volume}");
                assert_eq!(outcome(&host.execute(lun, write()).await), GOOD);
            });
        }
    }
}

#[test]
fn a_reset_at_one_port_reaches_what_waits_at_the_other_one() {
    for lun in [0, 1] {
        for function in [TaskFunction::LunReset(Lun(lun)), TaskFunction::ClearTaskSet(Lun(lun))] {
            for uses_before in [true, false] {
                Rig::run(|rig| async move {
                    let (a, b) = (rig.open("a", 0), rig.host("b", 1, 2).await);
                    if uses_before {
                        while a.outcome(lun, &READY).await != GOOD {}
                    }
                    let late = write();
                    assert_eq!(b.manage(function).await, TaskOutcome::Complete);
                    assert!(a.execute(lun, late).await.aborted, "{function:?}");
                    while b.outcome(lun, &READY).await != GOOD {}
                    assert!(is_untouched(&b, lun).await);
                    while a.outcome(lun, &READY).await != GOOD {}
                    assert_eq!(outcome(&a.execute(lun, write()).await), GOOD);
                });
            }
        }
    }
}

#[test]
fn the_list_of_luns_has_changed_in_the_format_that_the_host_has_selected() {
    Rig::run(|mut rig| async move {
        let host = rig.host("b", 0, 4).await;
        let list = [0, 0, 0, 0, 0x0a, 0x0a, 0x04, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
        let selected = host.send(1, &[0x15, 0x10, 0, 0, 16, 0], Pieces::copy_of(&list), 0).await;
        assert_eq!(outcome(&selected), GOOD);
        rig.array.apply(remapped(0, "w0")).await.expect("it is mapped");
        let told = host.send(1, &READY, Pieces::new(), 0).await;
        assert_eq!(told.sense[..4], [0x72, 6, 0x3f, 0x0e]);
        assert_eq!(outcome(&host.send(1, &READY, Pieces::new(), 0).await), GOOD, "once");
    });
}

#[test]
fn a_command_for_another_volume_is_refused_in_the_format_of_the_one_that_is_there() {
    for (lun, volume, is_at) in [(1, "w1", 3), (0, "w0", 2)] {
        for port in [0, 1] {
            Rig::run(|mut rig| async move {
                let host = rig.host("b", port, 4).await;
                let list = [0, 0, 0, 0, 0x0a, 0x0a, 0x04, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
                let selected = host.send(is_at, &[0x15, 0x10, 0, 0, 16, 0], Pieces::copy_of(&list), 0).await;
                assert_eq!(outcome(&selected), GOOD);
                let late = write();
                rig.array.apply(remapped(lun, volume)).await.expect("it is mapped");
                let refused = host.execute(lun, late).await;
                assert_eq!(refused.sense[..4], [0x72, 5, 0x25, 0], "LUN {lun} at port {port}");
            });
        }
    }
}

#[test]
fn a_reset_counts_after_the_pool_has_moved() {
    Rig::run(|mut rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        let (late, spared) = (write(), write());
        assert_eq!(b.manage(TaskFunction::LunReset(Lun(1))).await, TaskOutcome::Complete);
        let mut config = config();
        config.pools[1].controller = 0;
        rig.array.apply(config).await.expect("it moves");
        let response: Response = a.execute(1, late).await;
        assert!(response.aborted, "{response:?}");
        while b.outcome(1, &READY).await != GOOD {}
        assert!(is_untouched(&b, 1).await);
        // One that no reset meets moves along with its logical unit.
        while b.outcome(3, &READY).await != GOOD {}
        assert_eq!(outcome(&b.execute(3, spared).await), GOOD);
    });
}
