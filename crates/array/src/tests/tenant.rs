//! A tenant beside a good host: it sends commands of every kind, resets, bad logins and half ones, and takes
//! no answers. The good host's data and latency must not notice.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Options, Session};
use iscsi::pdu::{BHS_LEN, DataOut, Header, IMMEDIATE, LoginRequest, ScsiCommand, function, opcode};
use world::{Batch, Buf, Rng, Stream, World};

use super::hosts::{initiator, log_in, two_hosts};
use super::rig::{TARGET, model, portal, start};
use crate::Lun;

const ID: u8 = 7;
/// How long the tenant goes on.
const FOR: Duration = Duration::from_secs(60);
/// What a read or write of 16 KiB takes when nobody else is there, many times over.
const SLOWEST_MS: u64 = 60;

/// A good host that writes and reads back 16 KiB again and again, all over its volume.
async fn good_host(world: World, session: Session, over: Rc<Cell<bool>>) -> (u64, u64) {
    let (mut rounds, mut slowest) = (0u64, 0);
    while !over.get() {
        let at = (rounds * 7 % 60) as u32 * 32;
        let data = Pieces::copy_of(&[rounds as u8 ^ 0x5a; 16 << 10]);
        for opcode in [0x2a, 0x28] {
            let mut cdb = [0; 16];
            cdb[0] = opcode;
            cdb[2..6].copy_from_slice(&at.to_be_bytes());
            cdb[8] = 32;
            let (out, max) = if opcode == 0x2a { (data.clone(), 0) } else { (Pieces::new(), 16 << 10) };
            let before = world.now();
            let done = session.command(Lun(0), cdb, out, max).await.expect("the session lives");
            // The new nexus's unit attention comes with the first command, and nothing after it.
            assert!(done.is_good() || rounds == 0, "round {rounds}: {:02x?}", done.sense);
            slowest = slowest.max(world.now().since(before).as_millis() as u64);
            if opcode == 0x28 && rounds > 0 {
                assert_eq!(done.data_in.first_difference(&data), None, "round {rounds}");
            }
        }
        rounds += 1;
        world.sleep(Duration::from_millis(20)).await;
    }
    (rounds, slowest)
}

/// A connection that sends bytes and does not care.
struct Rude(Stream);

impl Rude {
    async fn connect(world: &World) -> Rude {
        Rude(world.connect(portal(ID), Default::default()).await.expect("a connection"))
    }

    async fn send(&self, bhs: &[u8; BHS_LEN], data: &[u8]) {
        let mut bytes = bhs.to_vec();
        bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        bytes.extend(data);
        bytes.resize(BHS_LEN + data.len().next_multiple_of(4), 0);
        let mut batch = Batch::default();
        batch.push_head(&bytes);
        let _ = self.0.send(batch).await;
    }

    async fn log_in(world: &World, port: u8, text: &str) -> Rude {
        let rude = Rude::connect(world).await;
        let header = LoginRequest {
            opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
            flags: 0x87,
            isid: [0x80, 0xee, port, 0, 0, 0],
            cmd_sn: 1.into(),
            ..LoginRequest::default()
        };
        let text = format!("InitiatorName={}\0TargetName={TARGET}\0{text}", initiator("a"));
        rude.send(header.bytes(), text.as_bytes()).await;
        let _ = rude.0.recv(Buf::new(4096), 0).await;
        rude
    }
}

/// Commands of any kind, with any flags, and data that nobody asked for.
async fn odd_commands(world: &World, rng: &mut Rng, port: u8) {
    let keys = ["", "InitialR2T=Yes\0ImmediateData=No\0", "MaxBurstLength=512\0FirstBurstLength=65536\0"];
    let rude = Rude::log_in(world, port, keys[rng.usize(..keys.len())]).await;
    for n in 1..40u32 {
        let mut cdb = [0; 16];
        cdb.iter_mut().for_each(|b| *b = rng.u8(..));
        let known =
            [0x00, 0x12, 0x25, 0x28, 0x2a, 0x35, 0x41, 0x42, 0x5e, 0x83, 0x84, 0x88, 0x89, 0x8a, 0x93, 0xa0];
        cdb[0] = if rng.bool() { known[rng.usize(..known.len())] } else { rng.u8(..) };
        cdb[2..8].fill(0);
        let header = ScsiCommand {
            opcode: opcode::SCSI_COMMAND | if rng.u8(..8) == 0 { IMMEDIATE } else { 0 },
            flags: rng.u8(..),
            lun: [0, rng.u8(..3), 0, 0, 0, 0, 0, 0],
            itt: rng.u32(..8).into(),
            expected_len: rng.u32(..100_000).into(),
            cmd_sn: n.into(),
            cdb,
            ..ScsiCommand::default()
        };
        rude.send(header.bytes(), &vec![9; rng.usize(..2000)]).await;
        let out = DataOut {
            opcode: opcode::DATA_OUT,
            flags: rng.u8(..),
            itt: rng.u32(..8).into(),
            ttt: if rng.bool() { u32::MAX } else { rng.u32(..) }.into(),
            offset: rng.u32(..4096).into(),
            data_sn: rng.u32(..3).into(),
            ..DataOut::default()
        };
        rude.send(out.bytes(), &vec![9; rng.usize(..5000)]).await;
    }
    world.sleep(Duration::from_millis(rng.u64(..500))).await;
    rude.0.close();
}

/// Large reads whose data is never taken.
async fn unread(world: &World, port: u8) -> Rude {
    let rude = Rude::log_in(world, port, "").await;
    for n in 1..100u32 {
        let mut cdb = [0; 16];
        (cdb[0], cdb[7]) = (0x28, 8);
        let header = ScsiCommand {
            opcode: opcode::SCSI_COMMAND,
            flags: 0x80 | ScsiCommand::READ,
            itt: n.into(),
            expected_len: (1 << 20).into(),
            cmd_sn: n.into(),
            cdb,
            ..ScsiCommand::default()
        };
        rude.send(header.bytes(), &[]).await;
    }
    rude
}

/// One thing that a tenant may do.
async fn misdeed(world: &World, rng: &mut Rng, kept: &mut Vec<Rude>, port: u8) {
    match rng.u8(..6) {
        0 | 1 => odd_commands(world, rng, port).await,
        2 => {
            let Some(session) = log_in(world, "a", None).await else { return };
            let resets = [function::LUN_RESET, function::TARGET_WARM_RESET, function::TARGET_COLD_RESET];
            let reset = resets[rng.usize(..resets.len())];
            let _ = session.task_function(reset, Lun(rng.u16(..2))).await;
        }
        3 => kept.push(unread(world, port).await),
        4 => {
            for _ in 0..rng.usize(..100) {
                kept.push(Rude::connect(world).await);
            }
        }
        _ => {
            // In the good host's name: it has a secret.
            let thief = Options {
                target: None,
                ..Options::new(portal(ID), &initiator("b"), TARGET, u32::from(port))
            };
            for _ in 0..rng.usize(..30) {
                let _ = Session::login(world, &thief).await;
            }
        }
    }
}

#[test]
fn a_tenant_costs_a_good_host_neither_data_nor_time() {
    for seed in [1, 2] {
        model(seed, 2).run(async |world| {
            let mut array = start(&world);
            let mut config = two_hosts();
            config.hosts[1].chap =
                Some(crate::config::ChapConfig { name: "b".into(), secret: "a secret of b".into() });
            // The tenant's LUs are its own: what hosts share, they share in every way.
            config.hosts.iter_mut().for_each(|host| drop(host.luns.remove(&1)));
            array.apply(config).await.expect("apply");
            let session = log_in(&world, "b", Some("a secret of b")).await.expect("a login");
            let over = Rc::new(Cell::new(false));
            let (told, result) = (over.clone(), Rc::new(Cell::new(None)));
            let (gives, host_world) = (result.clone(), world.clone());
            world.spawn(async move { gives.set(Some(good_host(host_world, session, told).await)) });
            let (mut rng, mut kept) = (world.random("tenant"), Vec::new());
            let began = world.now();
            let mut port = 0u8;
            while world.now().since(began) < FOR {
                port = port.wrapping_add(1) % 12;
                misdeed(&world, &mut rng, &mut kept, port).await;
                if port == 0 {
                    // A good host can come at any time.
                    let before = world.now();
                    let again = Options::new(portal(ID), &initiator("b"), TARGET, 2);
                    let chap = iscsi::target::Secret { name: "b".into(), secret: "a secret of b".into() };
                    let again = Session::login(&world, &Options { chap: Some(chap), ..again }).await;
                    again.expect("a login").logout().await.expect("a logout");
                    assert!(world.now().since(before).as_secs() < 1);
                }
                world.sleep(Duration::from_millis(rng.u64(..200))).await;
            }
            over.set(true);
            world.sleep(Duration::from_secs(2)).await;
            let (rounds, slowest) = result.get().expect("the good host has ended");
            assert!(rounds > 500 && slowest < SLOWEST_MS, "{rounds} rounds, the slowest of {slowest} ms");
            drop(kept);
            array.stop().await.expect("stop");
        });
    }
}
