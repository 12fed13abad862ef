//! Hosts do not reach each other: what one does, asks for or leaves undone costs no other host its login, its
//! session or its time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Error, LoginFailure, Options, Session, discover};
use iscsi::pdu::{BHS_LEN, Header};
use iscsi::pdu::{IMMEDIATE, LoginRequest, LoginResponse, ScsiCommand, opcode};
use iscsi::target::{Chap, Limits, Secret};
use scsi::Lun;

use crate::ram::TARGET;
use crate::raw::Raw;
use crate::rig::{HOST, READ, Rig, WRITE, cdb10, check, check_with};

const OUT_OF_RESOURCES: Error = Error::Login(LoginFailure::Refused { class: 3, detail: 2 });

fn initiator(n: u32) -> String {
    format!("iqn.2026-01.example.tenant:{n}")
}

/// The deadlines of a minute are a quarter of one; all other limits are those that hold.
const IMPATIENT: Limits =
    Limits { send_time: Duration::from_secs(15), data_out_time: Duration::from_secs(15), ..Limits::DEFAULT };

/// A session of some initiator that sends commands as it likes.
async fn raw_session(rig: &Rig, name: &str, port: u8) -> Raw {
    let mut raw = Raw::connect(rig).await;
    let header = LoginRequest {
        opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
        flags: 0x87,
        isid: [0x80, 0xff, port, 0, 0, 0],
        cmd_sn: 1.into(),
        ..LoginRequest::default()
    };
    raw.send_pdu(header.bytes(), format!("InitiatorName={name}\0TargetName={TARGET}\0").as_bytes()).await;
    let answer = raw.next().await.expect("an answer to the login");
    assert_eq!(answer.header::<LoginResponse>().status_class, 0, "{answer:?}");
    raw
}

/// A host that reads blocks now and then, and how long the slowest read took.
fn good_host(rig: &Rig, session: Session, blocks: u16) -> Rc<Cell<(u32, u64)>> {
    let (world, seen) = (rig.world.clone(), Rc::new(Cell::new((0, 0))));
    let result = seen.clone();
    rig.world.spawn(async move {
        loop {
            let before = world.now();
            let len = u32::from(blocks) * 512;
            let done = session.command(Lun(0), cdb10(READ, 0, blocks), Pieces::new(), len).await;
            assert!(done.is_ok_and(|d| d.is_good() && d.data_in.len() == len as usize));
            let (count, slowest) = result.get();
            result.set((count + 1, slowest.max(world.now().since(before).as_millis() as u64)));
            world.sleep(Duration::from_millis(100)).await;
        }
    });
    seen
}

/// Fills a session with reads of 1 MiB whose data it never takes.
async fn read_and_take_nothing(raw: &mut Raw) {
    for i in 0..100u32 {
        let header: [u8; BHS_LEN] = raw.command(i, cdb10(READ, 0, 2048), ScsiCommand::READ, 1 << 20);
        raw.send_pdu(&header, &[]).await;
    }
}

#[test]
fn sessions_that_take_no_answers_cost_others_no_time() {
    // Of one host, and each of a host of its own.
    for hosts in [1, 12] {
        check_with(IMPATIENT, |rig| async move {
            let seen = good_host(&rig, rig.session(1).await, 8);
            let large = good_host(&rig, rig.session(2).await, 4096);
            let mut unread = Vec::new();
            for i in 0..12u8 {
                rig.come_from(1 + i % hosts);
                let mut raw = raw_session(&rig, &initiator(u32::from(i % hosts)), i).await;
                read_and_take_nothing(&mut raw).await;
                unread.push(raw);
            }
            rig.sleep_ms(20_000).await;
            let (count, slowest) = seen.get();
            assert!(count > 150 && slowest < 50, "{count} reads, the slowest of {slowest} ms");
            let (count, slowest) = large.get();
            // 2 MiB are more than a session's own: where the misers are many, they are waited for, but not
            // for long.
            let most = if hosts == 1 { 50 } else { 12_000 };
            assert!(count > 50 && slowest < most, "{count} reads of 2 MiB, the slowest of {slowest} ms");
            // Who takes nothing is dropped.
            assert_eq!(rig.portal.sessions().len(), 2);
        });
    }
}

#[test]
fn writes_whose_data_never_comes_cost_others_no_time() {
    check_with(IMPATIENT, |rig| async move {
        let seen = good_host(&rig, rig.session(1).await, 8);
        let mut mute = Vec::new();
        for i in 0..12u8 {
            let mut raw = raw_session(&rig, &initiator(u32::from(i)), i).await;
            for n in 0..100u32 {
                let header: [u8; BHS_LEN] =
                    raw.command(n, cdb10(WRITE, 0, 2048), ScsiCommand::WRITE, 1 << 20);
                raw.send_pdu(&header, &[]).await;
            }
            mute.push(raw);
        }
        rig.sleep_ms(20_000).await;
        let (count, slowest) = seen.get();
        assert!(count > 150 && slowest < 50, "{count} reads, the slowest of {slowest} ms");
        assert_eq!(rig.portal.sessions().len(), 1);
    });
}

#[test]
fn logins_that_say_nothing_keep_nobody_out() {
    check(|rig| async move {
        // A host that has logged in before, and one that has not.
        rig.come_from(200);
        rig.session(1).await.logout().await.expect("a logout");
        let mut idle = Vec::new();
        for round in 0..70 {
            for source in 1..=40 {
                rig.come_from(source);
                idle.push(Raw::connect(&rig).await);
            }
            if round % 10 == 9 {
                for (source, port) in [(200, 1), (201, 2)] {
                    rig.come_from(source);
                    let before = rig.world.now();
                    rig.session(port).await.logout().await.expect("a logout");
                    assert!(rig.world.now().since(before).as_millis() < 500, "round {round}");
                }
            }
        }
        // Those that are left are not more than the limit.
        rig.sleep_ms(1000).await;
        let net = rig.net.clone().expect("a model");
        assert!(net.connections().len() <= Limits::default().logins, "{}", net.connections().len());
    });
}

#[test]
fn a_login_that_goes_on_is_not_what_gives_way() {
    // From an address of its own, and from the same one.
    for source in [100, 1] {
        check_with(Limits { logins: 20, logins_per_source: 10, ..Limits::default() }, |rig| async move {
            rig.come_from(source);
            let mut slow = Raw::connect(&rig).await;
            let mut header = LoginRequest {
                opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
                flags: 0x04,
                cmd_sn: 1.into(),
                ..LoginRequest::default()
            };
            slow.send_pdu(header.bytes(), format!("InitiatorName={HOST}\0TargetName={TARGET}\0").as_bytes())
                .await;
            assert_eq!(slow.next().await.expect("an answer").header::<LoginResponse>().status_class, 0);
            let mut idle = Vec::new();
            for _ in 0..60 {
                rig.come_from(1);
                idle.push(Raw::connect(&rig).await);
            }
            header.flags = 0x87;
            slow.send_pdu(header.bytes(), b"InitialR2T=No\0").await;
            assert_eq!(slow.next().await.expect("an answer").header::<LoginResponse>().status_class, 0);
        });
    }
}

fn secret(name: &str, secret: &str) -> Secret {
    Secret { name: name.into(), secret: secret.into() }
}

#[test]
fn discovery_in_the_name_of_a_host_does_not_count_as_the_host() {
    check(|rig| async move {
        let host = secret("host", "a secret of the host");
        *rig.ram.chap.borrow_mut() = Some(Chap { host: host.clone(), target: None });
        let thief = Options { target: None, ..rig.options(9) };
        let mut open = Vec::new();
        for _ in 0..200 {
            open.push(rig.login(&thief).await.expect("discovery"));
        }
        let limits = Limits::default();
        rig.sleep_ms(1000).await;
        assert_eq!(rig.portal.sessions().len(), limits.discoveries_per_source, "the oldest gave way");
        // From everywhere: at most so many in all.
        for source in 1..=20 {
            rig.come_from(source);
            for _ in 0..20 {
                open.push(rig.login(&thief).await.expect("discovery"));
            }
        }
        rig.sleep_ms(1000).await;
        assert_eq!(rig.portal.sessions().len(), limits.discoveries);
        let known = Options { chap: Some(host), ..rig.options(1) };
        let mut sessions = Vec::new();
        for port in 0..limits.sessions_per_initiator as u32 {
            sessions.push(
                rig.login(&Options { isid: rig.options(port).isid, ..known.clone() })
                    .await
                    .expect("the host itself"),
            );
        }
        discover(&rig.world, &Options { target: None, ..known }).await.expect("discovery of the host");
    });
}

#[test]
fn discovery_can_require_the_proof() {
    check(|rig| async move {
        let host = secret("host", "a secret of the host");
        *rig.ram.chap.borrow_mut() = Some(Chap { host: host.clone(), target: None });
        rig.ram.discovery_chap.set(true);
        let refused = Error::Login(LoginFailure::Refused { class: 2, detail: 1 });
        let anybody = Options { target: None, ..rig.options(1) };
        assert_eq!(discover(&rig.world, &anybody).await.err(), Some(refused));
        let known = Options { chap: Some(host), ..anybody };
        assert_eq!(discover(&rig.world, &known).await.expect("found").len(), 1);
    });
}

#[test]
fn places_are_kept_for_hosts_that_prove_who_they_are() {
    check_with(Limits { sessions: 20, sessions_proven: 4, ..Limits::default() }, |rig| async move {
        let host = secret("host", "a secret of the host");
        *rig.ram.chap.borrow_mut() = Some(Chap { host: host.clone(), target: None });
        *rig.ram.protected.borrow_mut() = Some(HOST.into());
        let mut sessions = Vec::new();
        for n in 0..16 {
            let anybody = Options { initiator: initiator(n), ..rig.options(1) };
            sessions.push(rig.login(&anybody).await.expect("a place"));
        }
        let one_more = Options { initiator: initiator(16), ..rig.options(1) };
        assert_eq!(rig.login(&one_more).await.err(), Some(OUT_OF_RESOURCES));
        let known = Options { chap: Some(host), ..rig.options(1) };
        for port in 0..4 {
            sessions.push(
                rig.login(&Options { isid: rig.options(port).isid, ..known.clone() })
                    .await
                    .expect("a place that was kept"),
            );
        }
    });
}

#[test]
fn a_session_whose_rights_have_changed_ends_although_it_takes_no_answers() {
    check(|rig| async move {
        let other = Options { initiator: initiator(1), ..rig.options(1) };
        let other = rig.login(&other).await.expect("another host");
        let mut raw = raw_session(&rig, HOST, 1).await;
        read_and_take_nothing(&mut raw).await;
        rig.sleep_ms(100).await;
        let writes = rig.ram.writes.get();
        rig.portal.disconnect(&rig.world, |port| port.name == HOST);
        // What it still asks for is not done any more.
        let header: [u8; BHS_LEN] = raw.command(900, cdb10(WRITE, 0, 1), ScsiCommand::WRITE, 512);
        raw.send_pdu(&header, &[1; 512]).await;
        let before = rig.world.now();
        rig.wait_until("its end", || rig.ram.nexuses.get() == 1).await;
        assert!(rig.world.now().since(before).as_secs() < 4);
        assert_eq!(rig.ram.writes.get(), writes);
        other.ping(b"here").await.expect("an answer");
    });
}

#[test]
fn a_login_that_began_before_a_change_does_not_end_after_it() {
    check(|rig| async move {
        let mut raw = Raw::connect(&rig).await;
        let header = LoginRequest {
            opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
            flags: 0x04,
            cmd_sn: 1.into(),
            ..LoginRequest::default()
        };
        raw.send_pdu(header.bytes(), format!("InitiatorName={HOST}\0TargetName={TARGET}\0").as_bytes()).await;
        assert!(raw.next().await.is_some());
        rig.portal.restart_logins();
        assert!(raw.next().await.is_none(), "it has to log in anew");
        assert_eq!(rig.portal.counts().logins, 0);
    });
}
