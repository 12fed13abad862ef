//! What hosts see of the ports of nodes, and what a standby carries for them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use block::Pieces;
use iscsi::initiator::{Options, Session};
use scsi::Lun;
use world::World;

use super::{
    Cluster, GIVES_UP, READ_10, SLOT_BYTES, TARGET, WAIT, WRITE_10, cdb, command, login, until, within,
};

/// The data of a command at LUN 0; unit attentions are collected.
async fn data_in(world: &World, session: &Session, cdb: &[u8], attentions: &mut Vec<u16>) -> Vec<u8> {
    let mut full = [0; 16];
    full[..cdb.len()].copy_from_slice(cdb);
    loop {
        let sent = session.command(Lun(0), full, Pieces::new(), 1024);
        let done = within(world, Duration::from_secs(5), sent).await.expect("in time").expect("carried out");
        match done.sense_codes() {
            _ if done.is_good() => return done.data_in.joined().to_vec(),
            Some((6, code, qualifier)) => attentions.push(u16::from_be_bytes([code, qualifier])),
            other => panic!("{cdb:02x?}: {other:02x?}"),
        }
    }
}

/// PREF and asymmetric access state of each target port group, as a session is told of them.
async fn groups(world: &World, session: &Session, attentions: &mut Vec<u16>) -> BTreeMap<u16, (u8, u8)> {
    let list = data_in(world, session, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0], attentions).await;
    let of = |group: &[u8]| (u16::from_be_bytes([group[2], group[3]]), (group[0] >> 7, group[0] & 15));
    list[4..].chunks(12).map(of).collect()
}

/// The same, at a port of this machine.
pub(super) fn groups_at(port: u16) -> BTreeMap<u16, (u8, u8)> {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let look = async move |world: World| {
        let session = Session::login(&world, &Options::new(at, HOST, TARGET, 9)).await.expect("a session");
        groups(&world, &session, &mut vec![]).await
    };
    world_real::run(world_real::Options::default(), look).expect("a world")
}

/// The relative target port and the target port group of a session, from VPD page 83h.
async fn own_port(world: &World, session: &Session) -> (u16, u16) {
    let page = data_in(world, session, &[0x12, 1, 0x83, 4, 0, 0], &mut vec![]).await;
    let (mut rest, mut found) = (&page[4..], (0, 0));
    while let [_, kind, _, len, value @ ..] = rest {
        let number = || u16::from_be_bytes([value[2], value[3]]);
        match kind & 0x3f {
            0x14 => found.0 = number(),
            0x15 => found.1 = number(),
            _ => {}
        }
        rest = &value[usize::from(*len)..];
    }
    found
}

/// What a host sees of two nodes.
struct Paths {
    /// The tag and the target port group of a session at the owner, and of one that the standby carries.
    direct: (u16, u16),
    carried: (u16, u16),
    listed: BTreeMap<u16, (u8, u8)>,
    /// The tags of portals, by TCP port.
    discovered: BTreeMap<u16, u16>,
}

const HOST: &str = "iqn.2026-11.net.example:host";

async fn paths(world: &World, owner: SocketAddr, standby: SocketAddr) -> Paths {
    // The same initiator port at both: two sessions, because the target ports differ.
    let login =
        async |at| Session::login(world, &Options::new(at, HOST, TARGET, 7)).await.expect("a session");
    let (direct, carried) = (login(owner).await, login(standby).await);
    let discovery = Options { target: None, ..Options::new(standby, HOST, TARGET, 8) };
    let found = iscsi::initiator::discover(world, &discovery).await.expect("a discovery").remove(0);
    Paths {
        direct: own_port(world, &direct).await,
        carried: own_port(world, &carried).await,
        listed: groups(world, &direct, &mut vec![]).await,
        discovered: found.addresses.iter().map(|(at, tag)| (at.port(), *tag)).collect(),
    }
}

/// Before, each node numbered its ports from 1: a host could not tell the paths of two nodes apart, and all
/// said that they were optimized.
#[test]
fn hosts_tell_the_ports_of_nodes_apart_and_learn_which_is_at_the_owner_and_which_is_down() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let standby = 1 - owner;
    cluster.nodes[standby].stands_by();
    let at = |cluster: &Cluster, node: usize| SocketAddr::from(([127, 0, 0, 1], cluster.nodes[node].port));
    let seen = |cluster: &Cluster, owner: usize| {
        let (owner, standby) = (at(cluster, owner), at(cluster, 1 - owner));
        let run = world_real::run(world_real::Options::default(), async move |world| {
            paths(&world, owner, standby).await
        });
        run.expect("a world")
    };
    let whole = |cluster: &Cluster, owner: usize| {
        until("the owner knows of the other node", || seen(cluster, owner).listed.len() == 2);
        seen(cluster, owner)
    };
    let Paths { direct, carried, listed, discovered } = whole(&cluster, owner);
    let tag = |node: usize| discovered[&cluster.nodes[node].port];
    assert_eq!((direct.0, carried.0), (tag(owner), tag(standby)), "as discovery says");
    assert_eq!((direct.1, carried.1), (direct.0, carried.0), "a group for each portal");
    assert_eq!(BTreeSet::from([direct.0, carried.0]), BTreeSet::from([1, 65]));
    assert_eq!(listed, BTreeMap::from([(direct.0, (1, 0)), (carried.0, (0, 1))]));
    // The standby dies: a host that asks all the time hears of it once.
    let address = at(&cluster, owner);
    let process = &mut cluster.nodes[standby].process;
    let run = world_real::run(world_real::Options::default(), async move |world| {
        let session =
            Session::login(&world, &Options::new(address, HOST, TARGET, 9)).await.expect("a session");
        let mut attentions = Vec::new();
        data_in(&world, &session, &[0; 6], &mut attentions).await;
        attentions.clear();
        process.kill().expect("kill -9");
        let begun = Instant::now();
        while attentions.is_empty() && begun.elapsed() < WAIT {
            data_in(&world, &session, &[0; 6], &mut attentions).await;
            world.sleep(Duration::from_millis(10)).await;
        }
        let listed = groups(&world, &session, &mut attentions).await;
        (listed, attentions)
    });
    let (listed, attentions) = run.expect("a world");
    assert_eq!(attentions, [0x2a06], "asymmetric access state changed");
    assert_eq!(listed, BTreeMap::from([(direct.0, (1, 0)), (carried.0, (0, 3))]), "unavailable");
    // The array moves: the tags stay.
    cluster.again(standby);
    cluster.nodes[standby].says("standby of");
    cluster.nodes[owner].signal("-TERM");
    cluster.nodes[standby].says("array: serves");
    assert_eq!(cluster.nodes[owner].ended(), Some(0));
    cluster.again(owner);
    cluster.nodes[owner].says("standby of");
    let moved = whole(&cluster, standby);
    assert_eq!((moved.direct, moved.carried), (carried, direct), "each portal is the port that it was");
    assert_eq!(moved.listed, BTreeMap::from([(direct.0, (0, 1)), (carried.0, (1, 0))]));
}

/// Before, a standby that was stopped delivered what its socket had taken meanwhile: a write that the host
/// had repeated elsewhere long ago, over what it wrote later.
#[test]
fn a_standby_that_stood_still_delivers_no_write_that_its_host_has_given_up() {
    let cluster = Cluster::start(2);
    let owner = cluster.owner();
    cluster.nodes[1 - owner].stands_by();
    let (direct, carried) = (cluster.nodes[owner].port, cluster.nodes[1 - owner].port);
    for hangs_up in [true, false] {
        let run = world_real::run(world_real::Options::default(), async |world| {
            let through = login(&world, WAIT, &[carried]).await.expect("a session");
            let session = login(&world, WAIT, &[direct]).await.expect("a session");
            let write = async |time: Duration, session: &Session, value: u64| {
                let data = Pieces::copy_of(&value.to_be_bytes().repeat(SLOT_BYTES / 8));
                command(&world, time, session, (cdb(WRITE_10, 1), data, 0)).await
            };
            write(WAIT, &through, 1).await.expect("written");
            write(WAIT, &session, 2).await.expect("written");
            cluster.nodes[1 - owner].signal("-STOP");
            until("all of its threads stand still", || cluster.nodes[1 - owner].stands_still());
            // It goes into the socket of the stopped one; the host gives it up, and writes elsewhere.
            assert!(write(GIVES_UP, &through, 3).await.is_none(), "nobody answers");
            if hangs_up {
                through.close();
            }
            write(WAIT, &session, 4).await.expect("written");
            world.sleep(Duration::from_millis(2500)).await;
            cluster.nodes[1 - owner].signal("-CONT");
            world.sleep(Duration::from_secs(1)).await;
            let read =
                command(&world, WAIT, &session, (cdb(READ_10, 1), Pieces::new(), SLOT_BYTES as u32)).await;
            let found = read.expect("readable").joined()[7];
            assert_eq!(found, 4, "hangs up: {hangs_up}");
            // It goes on to carry connections.
            let again = login(&world, WAIT, &[carried]).await.expect("a session");
            write(WAIT, &again, 5).await.expect("written");
        });
        run.expect("a world");
    }
}

/// The owner's end of a connection that a standby carries holds to the same rule: what it took before it
/// stood still is of no age that anybody knows, and its host may have hung up at the standby.
#[test]
fn an_owner_that_stood_still_delivers_no_write_that_a_standby_carried_meanwhile() {
    let cluster = Cluster::start(2);
    let owner = cluster.owner();
    cluster.nodes[1 - owner].stands_by();
    let (direct, carried) = (cluster.nodes[owner].port, cluster.nodes[1 - owner].port);
    for (hangs_up, still_ms) in [(true, 500), (false, 2500)] {
        let run = world_real::run(world_real::Options::default(), async |world| {
            let through = login(&world, WAIT, &[carried]).await.expect("a session");
            let write = async |time: Duration, session: &Session, value: u64| {
                let data = Pieces::copy_of(&value.to_be_bytes().repeat(SLOT_BYTES / 8));
                command(&world, time, session, (cdb(WRITE_10, 1), data, 0)).await
            };
            write(WAIT, &through, 1).await.expect("written");
            cluster.nodes[owner].signal("-STOP");
            until("all of its threads stand still", || cluster.nodes[owner].stands_still());
            assert!(write(GIVES_UP, &through, 2).await.is_none(), "nobody answers");
            if hangs_up {
                through.close();
            }
            world.sleep(Duration::from_millis(still_ms)).await;
            cluster.nodes[owner].signal("-CONT");
            world.sleep(Duration::from_secs(1)).await;
            let session = login(&world, WAIT, &[direct]).await.expect("it goes on");
            let read =
                command(&world, WAIT, &session, (cdb(READ_10, 1), Pieces::new(), SLOT_BYTES as u32)).await;
            assert_eq!(read.expect("readable").joined()[7], 1, "hangs up: {hangs_up}");
            let again = login(&world, WAIT, &[carried]).await.expect("a session");
            write(WAIT, &again, 3).await.expect("written");
        });
        run.expect("a world");
    }
}
