//! A pool moves between two controllers while hosts use it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use futures::future::{join, join_all};
use scsi::{Response, Status};
use world::World;

use super::rig::{group, portal};
use super::tokens_across::LEN;
use super::two_controllers::{BLOCK, Host, Rig, config, outcome};
use crate::Config;
use crate::config::{CachePolicy, CacheSettings, Level, PortalConfig};

type Outcome = (Status, Option<(u8, u16)>);
const GOOD: Outcome = (Status::Good, None);
/// UNIT ATTENTION, ASYMMETRIC ACCESS STATE CHANGED.
const PATHS_CHANGED: Outcome = (Status::CheckCondition, Some((6, 0x2a06)));

/// The same as [`config`], with a cache at each controller and a journal for `p1`.
fn cached() -> Config {
    let mut config = config();
    config.cache = Some(CacheSettings::new(8 << 20));
    config.drives.push(super::rig::drive(2));
    config.groups.push(group("j1", Level::Raid0, 2..3));
    config.pools[1].journal = Some("j1".into());
    config.volumes.iter_mut().for_each(|v| v.cache = CachePolicy::WriteBack);
    config
}

fn moved(config: &Config, pool: usize, controller: usize) -> Config {
    let mut config = config.clone();
    config.pools[pool].controller = controller;
    config
}

fn write(at: u64) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x8a;
    cdb[2..10].copy_from_slice(&(at / BLOCK).to_be_bytes());
    cdb[13] = 1;
    cdb
}

fn filled(byte: u8) -> Pieces {
    Pieces::copy_of(&[byte; BLOCK as usize])
}

impl Host {
    /// A command; a unit attention about the paths is heard, and the command sent again.
    async fn heard(&self, lun: u16, cdb: &[u8], data: Pieces) -> Response {
        loop {
            let response = self.send(lun, cdb, data.clone(), 4096).await;
            if outcome(&response) != PATHS_CHANGED {
                return response;
            }
        }
    }

    /// Writes its own block of the LU again and again until it is told to stop, and reads each back. Gives
    /// how often.
    async fn write_on(self, world: World, (lun, at): (u16, u64), stop: Rc<Cell<bool>>) -> u64 {
        let mut rounds = 0;
        while !stop.get() {
            rounds += 1;
            let data = filled(rounds as u8);
            let wrote = self.heard(lun, &write(at), data.clone()).await;
            assert_eq!(outcome(&wrote), GOOD, "write {rounds} of LUN {lun}");
            let mut read = write(at);
            read[0] = 0x88;
            let found = self.heard(lun, &read, Pieces::new()).await;
            assert_eq!(outcome(&found), GOOD, "read {rounds} of LUN {lun}");
            assert_eq!(found.data_in.first_difference(&data), None, "read {rounds} of LUN {lun}");
            world.sleep(Duration::from_micros(50)).await;
        }
        rounds
    }
}

/// The target port groups of a LUN: number, and whether they are optimized.
async fn optimized(host: &Host, lun: u16) -> BTreeMap<u16, bool> {
    let mut cdb = [0; 12];
    (cdb[0], cdb[1], cdb[8]) = (0xa3, 0x0a, 4);
    let list = host.heard(lun, &cdb, Pieces::new()).await.data_in.joined();
    let group = |d: &[u8]| (u16::from_be_bytes([d[2], d[3]]), d[0] & 0x0f == 0);
    list[4..].chunks(12).map(group).collect()
}

/// The pools of each controller.
async fn pools(rig: &Rig) -> Vec<Vec<String>> {
    let parts = rig.array.status().await.expect("a status");
    parts.iter().map(|part| part.pools.iter().map(|p| p.name.clone()).collect()).collect()
}

#[test]
fn hosts_at_all_ports_write_and_read_while_a_pool_moves() {
    for config in [config(), cached()] {
        let plain = config.clone();
        Rig::run_with(config, None, |mut rig| async move {
            let (world, stop) = (rig.world.clone(), Rc::new(Cell::new(false)));
            let mut hosts = Vec::new();
            for (port, lun) in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 3), (1, 3)] {
                let host = rig.host("b", port, 4).await;
                let at = (port as u64 * 4 + u64::from(lun)) * BLOCK;
                hosts.push(host.write_on(world.clone(), (lun, at), stop.clone()));
            }
            let moves = async {
                for to in [0, 1, 0, 1] {
                    world.sleep(Duration::from_millis(20)).await;
                    let done = rig.array.apply(moved(&plain, 1, to)).await.expect("it moves");
                    let text = format!("pool p1: moved from controller {} to controller {to}", 1 - to);
                    assert!(done.contains(&text), "{done:?}");
                    assert_eq!(pools(&rig).await[to], [format!("p{to}"), "p1".into()][to..]);
                }
                world.sleep(Duration::from_millis(20)).await;
                stop.set(true);
            };
            let (rounds, ()) = join(join_all(hosts), moves).await;
            assert!(rounds.iter().all(|n| *n > 100), "they wrote all the time: {rounds:?}");
        });
    }
}

#[test]
fn a_lu_takes_along_what_it_has_in_memory_and_hosts_hear_of_the_paths_alone() {
    let mut config = config();
    let portal = |n| PortalConfig { listen: portal(n), controller: usize::from(n), segment_bytes_max: None };
    config.portals = vec![portal(0), portal(1)];
    Rig::run_with(config, None, |mut rig| async move {
        // Controller 0 has not met `b` yet.
        let (a, b) = (rig.host("a", 0, 2).await, rig.host_on("b", 1, [1, 3]).await);
        let reserve = [0x16, 0, 0, 0, 0, 0];
        assert_eq!(b.outcome(1, &reserve).await, GOOD);
        // MODE SELECT of the caching page without saving it: WCE = 0.
        let caching = [0, 0, 0, 0, 0x08, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let select = b.send(1, &[0x15, 0x10, 0, 0, 24, 0], Pieces::copy_of(&caching), 0).await;
        assert_eq!(outcome(&select), GOOD);
        assert_eq!(wce(&b).await, 0);
        // Registered without APTPL.
        let register = [[0; 8], 7u64.to_be_bytes(), [0; 8]].concat();
        let cdb = [0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0];
        assert_eq!(outcome(&b.send(3, &cdb, Pieces::copy_of(&register), 0).await), GOOD);
        // What `a` has not heard yet is heard after the move: the mode parameters have changed.
        assert_eq!(optimized(&b, 1).await, BTreeMap::from([(1, false), (2, true)]));
        rig.array.move_pool("p1", 0).await.expect("it moves");
        assert_eq!(a.outcome(1, &[0; 6]).await, (Status::CheckCondition, Some((6, 0x2a01))));
        assert_eq!(a.outcome(1, &[0; 6]).await, PATHS_CHANGED);
        assert_eq!(a.outcome(1, &[0; 6]).await, (Status::ReservationConflict, None));
        assert_eq!(b.outcome(1, &[0; 6]).await, PATHS_CHANGED);
        assert_eq!(b.outcome(1, &[0; 6]).await, GOOD, "the holder has access, and hears of nothing else");
        assert_eq!(wce(&b).await, 0);
        let keys = b.heard(3, &[0x5e, 0, 0, 0, 0, 0, 0, 0, 64, 0], Pieces::new()).await.data_in.joined();
        assert_eq!(keys[8..], 7u64.to_be_bytes());
        assert_eq!(optimized(&b, 1).await, BTreeMap::from([(1, true), (2, false)]));
        assert_eq!(a.outcome(0, &[0; 6]).await, GOOD, "the other pool's hosts notice nothing");
        // The holder's session ends at the port of the controller that had the pool.
        drop(b);
        rig.world.sleep(Duration::from_millis(10)).await;
        assert_eq!(a.outcome(1, &[0; 6]).await, GOOD);
    });
}

/// WCE of the current caching page of LUN 1.
async fn wce(host: &Host) -> u8 {
    let page = host.heard(1, &[0x1a, 0x08, 0x08, 0, 64, 0], Pieces::new()).await.data_in.joined();
    (page[4 + 2] >> 2) & 1
}

#[test]
fn a_session_that_ends_while_the_pool_moves_leaves_no_reserve_behind() {
    Rig::run(|mut rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        assert_eq!(b.outcome(1, &[0x16, 0, 0, 0, 0, 0]).await, GOOD);
        let world = rig.world.clone();
        // The drives take a tenth of a millisecond for each step: the pool is on its way.
        let ends = async move {
            world.sleep(Duration::from_millis(1)).await;
            drop(b);
        };
        join(async { rig.array.move_pool("p1", 0).await.expect("it moves") }, ends).await;
        let seen = a.heard(1, &[0; 6], Pieces::new()).await;
        assert_eq!(outcome(&seen), GOOD);
    });
}

#[test]
fn a_pool_whose_command_does_not_end_stays_and_hosts_go_on() {
    Rig::run(|mut rig| async move {
        let (world, host) = (rig.world.clone(), rig.host("a", 1, 2).await);
        assert_eq!(outcome(&host.heard(1, &write(0), filled(1)).await), GOOD);
        let disk = rig.disks.get("d1").expect("it is there");
        disk.hang();
        let cdb = write(0);
        let written = host.heard(1, &cdb, filled(2));
        let moved = async {
            world.sleep(Duration::from_millis(1)).await;
            let refused = rig.array.move_pool("p1", 0).await.expect_err("it does not end").to_string();
            disk.resume();
            refused
        };
        let (written, refused) = join(written, moved).await;
        assert!(refused.contains("volume \"v1\": a command on it does not end"), "{refused}");
        assert_eq!(outcome(&written), GOOD);
        assert_eq!(pools(&rig).await, [["p0"], ["p1"]]);
        assert_eq!(outcome(&host.heard(1, &write(0), filled(3)).await), GOOD);
        rig.array.move_pool("p1", 0).await.expect("now it moves");
        assert_eq!(outcome(&host.heard(1, &write(0), filled(4)).await), GOOD);
    });
}

#[test]
fn a_pool_that_the_other_controller_cannot_open_comes_back() {
    for config in [config(), cached()] {
        Rig::run_with(config, None, |mut rig| async move {
            let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
            assert_eq!(b.outcome(1, &[0x16, 0, 0, 0, 0, 0]).await, GOOD);
            assert_eq!(outcome(&b.heard(3, &write(0), filled(5)).await), GOOD);
            rig.disks.get("d1").expect("it is there").refuse_opens(1);
            let refused = rig.array.move_pool("p1", 0).await.expect_err("it cannot be opened").to_string();
            assert!(refused.contains("the disk refuses to be opened"), "{refused}");
            assert_eq!(pools(&rig).await, [["p0"], ["p1"]]);
            assert_eq!(rig.array.config().pools[1].controller, 1);
            let mut read = write(0);
            read[0] = 0x88;
            assert_eq!(b.heard(3, &read, Pieces::new()).await.data_in.first_difference(&filled(5)), None);
            assert_eq!(outcome(&a.heard(1, &[0; 6], Pieces::new()).await).0, Status::ReservationConflict);
            rig.array.move_pool("p1", 0).await.expect("now it moves");
            assert_eq!(b.heard(3, &read, Pieces::new()).await.data_in.first_difference(&filled(5)), None);
        });
    }
}

/// SET TARGET PORT GROUPS: groups with their states.
fn set_groups(states: &[(u8, u16)]) -> ([u8; 12], Pieces) {
    let mut list = vec![0; 4];
    for (state, group) in states {
        list.extend([*state, 0]);
        list.extend(group.to_be_bytes());
    }
    let mut cdb = [0; 12];
    (cdb[0], cdb[1], cdb[9]) = (0xa4, 0x0a, list.len() as u8);
    (cdb, Pieces::copy_of(&list))
}

/// TPGS of the standard INQUIRY data.
async fn tpgs(host: &Host, lun: u16) -> u8 {
    host.heard(lun, &[0x12, 0, 0, 0, 96, 0], Pieces::new()).await.data_in.joined()[5] >> 4
}

#[test]
fn a_host_asks_for_the_ports_of_another_controller_and_the_pool_moves() {
    let failed: Outcome = (Status::CheckCondition, Some((4, 0x670a)));
    let invalid: Outcome = (Status::CheckCondition, Some((5, 0x2600)));
    let mut config = config();
    let portal = |n| PortalConfig { listen: portal(n), controller: usize::from(n), segment_bytes_max: None };
    config.portals = vec![portal(0), portal(1)];
    Rig::run_with(config.clone(), None, |mut rig| async move {
        let host = rig.host("b", 0, 4).await;
        assert_eq!(tpgs(&host, 1).await, 3, "implicit and explicit");
        let set = async |lun, states: &[(u8, u16)]| {
            let (cdb, list) = set_groups(states);
            outcome(&host.heard(lun, &cdb, list).await)
        };
        // As it is: nothing moves.
        assert_eq!(set(1, &[]).await, GOOD);
        assert_eq!(set(1, &[(0, 2), (1, 1)]).await, GOOD);
        for wrong in [&[(2, 1)][..], &[(15, 1)], &[(0, 7)], &[(0, 1), (1, 1)]] {
            assert_eq!(set(1, wrong).await, invalid, "{wrong:?}");
        }
        assert_eq!(set(1, &[(0, 1), (1, 2)]).await, GOOD);
        assert_eq!(set(1, &[(0, 1)]).await, failed, "once in ten seconds");
        let asked = rig.asked.next().await.expect("a request");
        assert_eq!((asked.pool.as_str(), asked.controller), ("p1", 0));
        rig.array.move_pool(&asked.pool, asked.controller).await.expect("it moves");
        assert_eq!(optimized(&host, 1).await, BTreeMap::from([(1, true), (2, false)]));
        assert_eq!(set(1, &[(0, 2)]).await, failed, "it has only just come");
        rig.world.sleep(Duration::from_secs(10)).await;
        assert_eq!(set(1, &[(0, 2)]).await, GOOD);
        // Hosts may not ask.
        config.pools[1].controller = 0;
        config.explicit_alua = false;
        rig.array.apply(config).await.expect("applied");
        assert_eq!(tpgs(&host, 1).await, 1);
        let (cdb, list) = set_groups(&[(0, 2)]);
        assert_eq!(outcome(&host.heard(1, &cdb, list).await).1.expect("a sense").0, 5);
    });
}

/// A token whose data are being copied keeps the pool open, whatever LU they go to.
#[test]
fn a_pool_whose_data_are_being_copied_stays_and_is_served_as_before() {
    Rig::run(|mut rig| async move {
        rig.array.move_pool("p1", 0).await.expect("both pools are at controller 0");
        let host = rig.host_on("a", 0, [0, 1]).await;
        host.transfer(0x8a, 1, 0, Pieces::copy_of(&[7; 3 << 20]), 3 << 20).await;
        let token = host.populate(1).await;
        let disk = rig.disks.get("d0").expect("it is there");
        disk.hang();
        let world = rig.world.clone();
        let moved = async {
            world.sleep(Duration::from_millis(5)).await;
            let refused = rig.array.move_pool("p1", 1).await.expect_err("it is in use").to_string();
            disk.resume();
            refused
        };
        let (copied, refused) = join(host.write_using(0, &token, (0, 0, LEN)), moved).await;
        assert!(refused.contains("a copy of its data does not end"), "{refused}");
        assert_eq!(copied, GOOD);
        assert_eq!(pools(&rig).await, [vec!["p0".to_owned(), "p1".into()], vec![]]);
        assert_eq!(outcome(&host.heard(1, &write(0), filled(3)).await), GOOD);
        rig.array.move_pool("p1", 1).await.expect("now it moves");
        let mut read = write(0);
        read[0] = 0x88;
        assert_eq!(host.heard(1, &read, Pieces::new()).await.data_in.first_difference(&filled(3)), None);
    });
}

/// Any host can ask for a move (SET TARGET PORT GROUPS) while its copies run: all others must not wait for
/// them.
#[test]
fn a_move_that_copies_keep_from_beginning_holds_nobody() {
    Rig::run(|mut rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        a.transfer(0x8a, 0, 0, Pieces::copy_of(&[7; 3 << 20]), 3 << 20).await;
        let token = a.populate(0).await;
        let disk = rig.disks.get("d1").expect("it is there");
        disk.hang();
        let world = rig.world.clone();
        let moved = async {
            world.sleep(Duration::from_millis(5)).await;
            let refused = rig.array.move_pool("p1", 0).await.expect_err("it is in use").to_string();
            disk.resume();
            refused
        };
        let ready = async {
            let mut longest = Duration::ZERO;
            for _ in 0..100 {
                let begin = world.now();
                assert_eq!(outcome(&b.heard(3, &[0; 6], Pieces::new()).await), GOOD);
                longest = longest.max(world.now().since(begin));
                world.sleep(Duration::from_millis(50)).await;
            }
            longest
        };
        let (copied, (refused, longest)) =
            join(a.write_using(1, &token, (0, 0, LEN)), join(moved, ready)).await;
        assert!(refused.contains("hosts' copies on it"), "{refused}");
        assert!(longest < Duration::from_millis(50), "a command waited for {longest:?}");
        assert_eq!(copied, GOOD);
        rig.array.move_pool("p1", 0).await.expect("now it moves");
    });
}
