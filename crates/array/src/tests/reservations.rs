//! Reservations of hosts that did not ask for persistence (APTPL = 0), in an array of several nodes and in
//! one of one process.

use std::cell::RefCell;
use std::sync::Arc;

use block::Pieces;
use futures::FutureExt;
use iscsi::initiator::{Done, Options, Session};
use raid::Ownership;
use world::World;
use world_model::{Model, Outcome};

use super::rig::{TARGET, declaration, group, model, portal, start};
use crate::config::Level;
use crate::{Array, Control, ControllerHandle, Lun, Nodes, run_controller};

const ID: u8 = 71;
const GOOD: u8 = 0x00;
const RESERVATION_CONFLICT: u8 = 0x18;
const UNIT_ATTENTION: u8 = 0x6;
const READ_KEYS: u8 = 0;
const READ_FULL_STATUS: u8 = 3;

/// PERSISTENT RESERVE OUT: which host, service action, type, key, service action key, flags.
type Step = (usize, u8, u8, u64, u64, u8);

/// What two hosts do. ALL_TG_PT is 04h; nobody sets APTPL (01h).
const STEPS: [Step; 9] = [
    // Both register, one reserves for registrants, and fences the other one.
    (0, 0x06, 0, 0, 0xa, 0x04),
    (1, 0x00, 0, 0, 0xb, 0),
    (0, 0x01, 5, 0xa, 0, 0),
    (0, 0x04, 5, 0xa, 0xb, 0),
    // A new key; the same key again, which changes PRgeneration alone.
    (0, 0x00, 0, 0xa, 0xc, 0),
    (0, 0x00, 0, 0xc, 0xc, 0),
    (1, 0x06, 0, 0, 0xb, 0),
    (0, 0x02, 5, 0xc, 0, 0),
    (1, 0x03, 0, 0xb, 0, 0),
];

/// What hosts find: PRgeneration with all registrations and the reservation, and the status of a write of the
/// second host.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    full_status: Vec<u8>,
    write: u8,
}

/// One life of the array, as the owner in this epoch; none: alone.
async fn begin(world: &World, epoch: Option<u64>) -> (Array, [Session; 2]) {
    let mut array = start(world);
    let ownership = epoch.map(|epoch| Ownership { epoch, owner: epoch });
    let nodes = Arc::new(Nodes { ownership, ..Nodes::default() });
    array.controllers()[0].ask(Control::Nodes(nodes)).await.expect("told");
    array.apply(declaration(ID, 1, vec![group("g", Level::Raid0, 0..1)])).await.expect("applied");
    (array, log_in_both(world).await)
}

async fn log_in_both(world: &World) -> [Session; 2] {
    let log_in = async |name: &str| {
        let options = Options::new(portal(ID), &format!("iqn.2026-11.test:{name}"), TARGET, 1);
        Session::login(world, &options).await.expect("log in")
    };
    [log_in("a").await, log_in("b").await]
}

/// A command, again after each unit attention.
async fn send(host: &Session, start: &[u8], data: &[u8]) -> Done {
    let mut cdb = [0; 16];
    cdb[..start.len()].copy_from_slice(start);
    let data_in_max = if data.is_empty() { 4096 } else { 0 };
    loop {
        let done =
            host.command(Lun(0), cdb, Pieces::copy_of(data), data_in_max).await.expect("the session lives");
        if done.sense_codes().is_none_or(|(key, ..)| key != UNIT_ATTENTION) {
            return done;
        }
    }
}

async fn reserve(host: &Session, (_, action, kind, key, action_key, flags): Step) {
    let list = [key.to_be_bytes(), action_key.to_be_bytes(), [0, 0, 0, 0, flags, 0, 0, 0]].concat();
    let done = send(host, &[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], &list).await;
    assert!(done.is_good(), "service action {action}: {done:?}");
}

async fn look([a, b]: &[Session; 2]) -> Found {
    let asked = send(a, &[0x5e, READ_FULL_STATUS, 0, 0, 0, 0, 0, 0x10, 0, 0], &[]).await;
    assert!(asked.is_good(), "{asked:?}");
    let write = send(b, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[7; 512]).await.status;
    Found { full_status: asked.data_in.joined().to_vec(), write }
}

/// What hosts find before the first step and after each.
fn all_found() -> Vec<Found> {
    model(ID.into(), 1).run(async |world| {
        let (_array, hosts) = begin(&world, Some(1)).await;
        let mut found = vec![look(&hosts).await];
        for step in STEPS {
            reserve(&hosts[step.0], step).await;
            found.push(look(&hosts).await);
        }
        found
    })
}

/// Takes the steps; the owner dies after so many persistence points. How many there are, and how many steps
/// were acknowledged.
fn die_after(model: &Model, points: Option<u64>) -> (u64, usize) {
    let (mut begun, acknowledged) = (0, RefCell::new(0));
    let ended = model.run_until_crash(async |world| {
        let (_array, hosts) = begin(&world, Some(1)).await;
        begun = model.disks().persistence_points();
        points.iter().for_each(|points| model.disks().cut_power_after(begun + points));
        for step in STEPS {
            reserve(&hosts[step.0], step).await;
            *acknowledged.borrow_mut() += 1;
        }
    });
    if ended == Outcome::PowerCut {
        model.reboot();
    }
    model.disks().keep_power();
    (model.disks().persistence_points() - begun, acknowledged.into_inner())
}

#[test]
fn the_next_node_finds_what_was_acknowledged_wherever_the_last_one_died() {
    let found = all_found();
    let writes: Vec<u8> = found.iter().map(|found| found.write).collect();
    let fenced = [4, 5, 6].into_iter().collect::<std::collections::BTreeSet<_>>();
    for (step, write) in writes.iter().enumerate() {
        let expected = if fenced.contains(&step) { RESERVATION_CONFLICT } else { GOOD };
        assert_eq!(*write, expected, "a write of the second host after step {step}");
    }
    let (points, all) = die_after(&model(ID.into(), 1), None);
    assert_eq!(all, STEPS.len());
    assert!(points >= 2 * STEPS.len() as u64, "{points} persistence points");
    for cut in 0..points {
        let model = model(ID.into(), 1);
        let (_, acknowledged) = die_after(&model, Some(cut));
        let now = model.run(async |world| look(&begin(&world, Some(2)).await.1).await);
        let next = found.get(acknowledged + 1);
        assert!(
            now == found[acknowledged] || Some(&now) == next,
            "cut {cut}: {now:02x?} after {acknowledged} steps, not {:02x?} nor {next:02x?}",
            found[acknowledged]
        );
    }
}

#[test]
fn an_array_that_is_handed_over_keeps_them_and_one_that_ends_alone_does_not() {
    for (next, keeps) in [(Some(2), true), (None, false)] {
        let model = model(ID.into(), 1);
        let before = model.run(async |world| {
            let (array, hosts) = begin(&world, next.map(|_| 1)).await;
            for step in &STEPS[..4] {
                reserve(&hosts[step.0], *step).await;
            }
            let found = look(&hosts).await;
            assert_eq!(found.write, RESERVATION_CONFLICT);
            for host in hosts {
                host.logout().await.expect("log out");
            }
            array.stop().await.expect("stopped");
            found
        });
        let (after, keys) = model.run(async |world| {
            let (_array, hosts) = begin(&world, next).await;
            let keys = send(&hosts[0], &[0x5e, READ_KEYS, 0, 0, 0, 0, 0, 0, 64, 0], &[]).await;
            (look(&hosts).await, keys.data_in.joined().to_vec())
        });
        assert_eq!(after == before, keeps, "{after:02x?}");
        if !keeps {
            assert_eq!((after.write, keys), (GOOD, vec![0; 8]), "the power of the target was lost");
        }
    }
}

/// What a controller has to know of the nodes was a message, and one that found no room was lost.
#[test]
fn a_controller_knows_its_nodes_when_it_begins_however_full_its_mailbox_is() {
    let model = model(ID.into(), 1);
    let life = async |world: World, steps: usize| {
        let (handle, mailbox) = ControllerHandle::new(0);
        let mut waiting: Vec<_> = (0..2000).map(|_| Box::pin(handle.ask(Control::Ping))).collect();
        assert_eq!(waiting.iter_mut().filter_map(|ask| ask.as_mut().now_or_never()).count(), 0);
        let ownership = Some(Ownership { epoch: 1, owner: 1 });
        let mailbox = mailbox.knowing(Arc::new(Nodes { ownership, ..Nodes::default() }));
        world.spawn(run_controller(world.clone(), 0, mailbox, vec![handle.clone()]));
        drop(waiting);
        let mut array = Array::new(vec![handle], TARGET);
        array.apply(declaration(ID, 1, vec![group("g", Level::Raid0, 0..1)])).await.expect("applied");
        let hosts = log_in_both(&world).await;
        for step in &STEPS[..steps] {
            reserve(&hosts[step.0], *step).await;
        }
        let found = look(&hosts).await;
        for host in hosts {
            host.logout().await.expect("log out");
        }
        array.stop().await.expect("stopped");
        found
    };
    let before = model.run(async |world| life(world, 4).await);
    assert_eq!(before.write, RESERVATION_CONFLICT);
    assert_eq!(model.run(async |world| life(world, 0).await), before);
}
