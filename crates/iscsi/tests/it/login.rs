//! Logins, discovery, reinstatement, logout, the portal's end.

use iscsi::initiator::{Error, LoginFailure, Notice, Options, discover};
use iscsi::pdu::{Header, IMMEDIATE, LoginRequest, LoginResponse, opcode};
use iscsi::target::{Chap, Secret};
use iscsi::{Digests, RelayKey, Relayed};

use crate::ram::{RELAY_KEY, TARGET};
use crate::raw::Raw;
use crate::rig::{READ, cdb10, check};

fn secret(name: &str, secret: &str) -> Secret {
    Secret { name: name.into(), secret: secret.into() }
}

fn refused(result: Result<iscsi::initiator::Session, Error>) -> (u8, u8) {
    match result.err() {
        Some(Error::Login(LoginFailure::Refused { class, detail })) => (class, detail),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn chap_both_ways() {
    check(|rig| async move {
        let (host, array) = (secret("alice", "a long secret"), secret("masu", "another secret"));
        *rig.ram.chap.borrow_mut() = Some(Chap { host: host.clone(), target: Some(array.clone()) });
        let bare = rig.options(1);
        assert_eq!(refused(rig.login(&bare).await), (2, 1), "without a secret");
        let wrong = Options { chap: Some(secret("alice", "guess")), ..bare.clone() };
        assert_eq!(refused(rig.login(&wrong).await), (2, 1));
        let right = Options { chap: Some(host), ..bare };
        rig.login(&right).await.expect("one way").logout().await.expect("a logout");
        let mutual = Options { target_chap: Some(array), ..right.clone() };
        rig.login(&mutual).await.expect("both ways").logout().await.expect("a logout");
        let impostor = Options { target_chap: Some(secret("masu", "not its secret")), ..right };
        assert!(matches!(rig.login(&impostor).await.err(), Some(Error::Login(LoginFailure::Chap(_)))));
        assert_eq!(rig.portal.counts().logins, 2);
    });
}

#[test]
fn who_may_not_is_told_so() {
    check(|rig| async move {
        *rig.ram.refused.borrow_mut() = Some(":thief".into());
        let thief = Options { initiator: "iqn.2026-01.example.host:thief".into(), ..rig.options(1) };
        assert_eq!(refused(rig.login(&thief).await), (2, 2));
        let elsewhere = Options { target: Some("iqn.2026-01.example:other".into()), ..rig.options(1) };
        assert_eq!(refused(rig.login(&elsewhere).await), (2, 3));
    });
}

#[test]
fn discovery_lists_all_targets_in_as_many_parts_as_it_takes() {
    check(|rig| async move {
        rig.ram.more_targets.set(200);
        let mut options = rig.options(1);
        options.offer.recv_segment_len_max = 512;
        let found = discover(&rig.world, &options).await.expect("a discovery");
        assert_eq!(found.len(), 201);
        assert_eq!((found[0].name.as_str(), &found[0].addresses[..]), (TARGET, &[(rig.address, 1)][..]));
        // A discovery session takes no commands.
        let session = rig.login(&Options { target: None, ..options }).await.expect("a login");
        let refused = session.command(scsi::Lun(0), cdb10(READ, 0, 1), block::Pieces::new(), 512).await;
        assert_eq!(refused.err(), Some(Error::Rejected(4)));
        // A normal session may ask for its own target only.
        let session = rig.session(2).await;
        let own = session.text(&[("SendTargets", "")]).await.expect("an answer");
        assert_eq!(own.len(), 2);
        let all = session.text(&[("SendTargets", "All")]).await.expect("an answer");
        assert_eq!(all, [("SendTargets".to_owned(), "Reject".to_owned())]);
    });
}

#[test]
fn a_session_is_reinstated_by_its_own_port_only() {
    check(|rig| async move {
        let first = rig.session(1).await;
        let other = rig.session(2).await;
        assert_eq!(rig.ram.nexuses.get(), 2);
        let again = rig.session(1).await;
        assert_eq!(
            (rig.ram.nexuses.get(), rig.ram.opened.get()),
            (2, 3),
            "the old nexus went before the new one came"
        );
        rig.wait_until("the first session's end", || first.error().is_some()).await;
        for session in [&other, &again] {
            session.ping(b"there?").await.expect("an answer");
        }
    });
}

#[test]
fn a_connection_that_a_node_carries_is_at_that_nodes_portal_and_ends_no_session_elsewhere() {
    check(|rig| async move {
        let relayed = |portal_group: u16, key: RelayKey| {
            let (host, portal) = ("10.0.0.9:41000", "10.0.0.2:3260");
            let (host, portal) = (host.parse().expect("an address"), portal.parse().expect("an address"));
            Relayed { host, portal, portal_group, key }.encode()
        };
        let direct = rig.session(1).await;
        let mut held = Vec::new();
        for group in [65, 129, 65] {
            let mut raw = Raw::connect(&rig).await;
            // In pieces, as a network may deliver it.
            let bytes = relayed(group, RELAY_KEY);
            for part in bytes.chunks(7) {
                assert!(raw.send(part).await);
                rig.sleep_ms(1).await;
            }
            held.push(raw.logged_in(1, "").await);
        }
        direct.ping(b"there?").await.expect("the session at the own portal lives");
        assert_eq!(*rig.ram.groups.borrow(), [1, 65, 129, 65]);
        assert_eq!(rig.ram.nexuses.get(), 3, "one at each portal: the last has ended the second");
        assert!(held[0].next().await.is_none(), "the same port at the same portal has logged in again");
        let from: Vec<_> = rig.portal.sessions().iter().map(|session| session.peer.to_string()).collect();
        assert_eq!(from[1..], ["10.0.0.9:41000"; 2], "the host's address, not the node's");
    });
}

#[test]
fn a_stranger_that_pretends_to_carry_a_connection_is_refused_before_its_login() {
    check(|rig| async move {
        let (host, portal) = ("10.0.0.9:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"));
        let wrong = Relayed { host, portal, portal_group: 65, key: RelayKey([0; 16]) }.encode();
        let plain = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x09\x0a\0\0\x02\0\x01\0\x02".to_vec();
        let endless = [&plain[..14], &[0xff, 0xff][..]].concat();
        for bytes in [wrong, plain, endless] {
            let mut raw = Raw::connect(&rig).await;
            raw.send(&bytes).await;
            raw.send_login(1, "").await;
            assert_eq!(raw.until_closed().await, [0_u8; 0]);
        }
        // One that never ends its header is closed as any login is that takes too long.
        let mut slow = Raw::connect(&rig).await;
        slow.send(&[0x0d, 0x0a]).await;
        assert_eq!(slow.until_closed().await, [0_u8; 0]);
        assert_eq!((rig.ram.opened.get(), rig.portal.counts().login_failures), (0, 4));
        rig.session(1).await.ping(b"there?").await.expect("others are served");
    });
}

#[test]
fn a_reinstatement_waits_for_what_executes() {
    check(|rig| async move {
        rig.ram.holds.set(true);
        let first = rig.session(1).await;
        let slow = first.command(scsi::Lun(0), cdb10(crate::ram::SLOW_READ, 0, 1), block::Pieces::new(), 512);
        let (world, ram) = (rig.world.clone(), rig.ram.clone());
        rig.world.spawn(async move {
            world.sleep(std::time::Duration::from_secs(3)).await;
            ram.release();
        });
        let again = async {
            rig.sleep_ms(100).await;
            rig.session(1).await
        };
        let mut slow = std::pin::pin!(slow);
        let mut again = std::pin::pin!(again);
        let (mut lost, mut session) = (None, None);
        std::future::poll_fn(|cx| {
            if lost.is_none()
                && let std::task::Poll::Ready(r) = slow.as_mut().poll(cx)
            {
                lost = Some(r);
            }
            match again.as_mut().poll(cx) {
                std::task::Poll::Ready(s) => {
                    session = Some(s);
                    std::task::Poll::Ready(())
                }
                std::task::Poll::Pending => std::task::Poll::Pending,
            }
        })
        .await;
        assert!(lost.expect("ended").is_err());
        assert!(rig.world.now().0 >= 3_000_000_000, "the old command ended first");
        assert_eq!(rig.ram.nexuses.get(), 1);
    });
}

/// What the target answers to a lone login request.
async fn answer(rig: &crate::rig::Rig, header: LoginRequest, text: &str) -> (u8, u8) {
    let mut raw = Raw::connect(rig).await;
    raw.send_pdu(header.bytes(), text.as_bytes()).await;
    let came = raw.next().await.expect("an answer");
    let header: &LoginResponse = came.header();
    (header.status_class, header.status_detail)
}

#[test]
fn handles_of_nobody_and_second_connections() {
    check(|rig| async move {
        let _session = rig.session(1).await;
        let who = format!("InitiatorName={}\0TargetName={TARGET}\0", crate::rig::HOST);
        let base = LoginRequest {
            opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
            flags: 0x87,
            ..LoginRequest::default()
        };
        assert_eq!(answer(&rig, LoginRequest { tsih: 77.into(), ..base }, &who).await, (2, 0x0a));
        assert_eq!(answer(&rig, LoginRequest { tsih: 1.into(), ..base }, &who).await, (2, 0x06));
        assert_eq!(answer(&rig, LoginRequest { version_min: 1, ..base }, &who).await, (2, 0x05));
        assert_eq!(answer(&rig, base, "TargetName=iqn.x:y\0").await, (2, 0x07));
    });
}

#[test]
fn logging_out_ends_the_nexus() {
    check(|rig| async move {
        let session = rig.session(1).await;
        session.logout().await.expect("a logout");
        rig.wait_until("no nexus", || rig.ram.nexuses.get() == 0).await;
        assert!(rig.portal.sessions().is_empty());
    });
}

#[test]
fn a_stopping_portal_asks_for_logouts_and_then_drops() {
    check(|rig| async move {
        let (polite, stubborn) = (rig.session(1).await, rig.session(2).await);
        rig.portal.stop();
        assert_eq!(polite.next_notice().await, Ok(Notice::LogoutRequested(5)));
        polite.logout().await.expect("a logout");
        assert_eq!(stubborn.next_notice().await, Ok(Notice::LogoutRequested(5)));
        assert_eq!(stubborn.next_notice().await, Ok(Notice::Dropped));
        rig.wait_until("no nexus", || rig.ram.nexuses.get() == 0).await;
        assert!(rig.login(&rig.options(3)).await.is_err(), "nobody listens any more");
    });
}

#[test]
fn digests_are_agreed_on() {
    check(|rig| async move {
        let mut options = rig.options(1);
        (options.offer.header_digest, options.offer.data_digest) = (Digests::Required, Digests::Preferred);
        let session = rig.login(&options).await.expect("a login");
        assert!(session.params().header_digest && session.params().data_digest);
        assert_eq!(session.ping(b"12345").await.expect("an answer"), b"12345");
    });
}
