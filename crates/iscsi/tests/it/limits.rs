//! Limits: on sessions, logins, time and memory.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Error, LoginFailure, Options};
use iscsi::pdu::{
    CONTINUE, FINAL, Header, IMMEDIATE, ScsiCommand, TAG_NONE, TextRequest, TextResponse, opcode, reject,
};
use iscsi::target::Limits;
use scsi::Lun;

use crate::raw::Raw;
use crate::rig::{READ, WRITE, cdb10, check, check_with};

const OUT_OF_RESOURCES: Error = Error::Login(LoginFailure::Refused { class: 3, detail: 2 });

#[test]
fn sessions_are_limited_in_all_and_for_each_initiator() {
    check_with(
        Limits { sessions: 5, sessions_proven: 0, sessions_per_initiator: 3, ..Limits::default() },
        |rig| async move {
            let mut sessions = Vec::new();
            for port in 0..3 {
                sessions.push(rig.session(port).await);
            }
            assert_eq!(rig.login(&rig.options(3)).await.err(), Some(OUT_OF_RESOURCES));
            let other =
                |port| Options { initiator: "iqn.2026-01.example.host:two".into(), ..rig.options(port) };
            sessions.push(rig.login(&other(1)).await.expect("another initiator"));
            sessions.push(rig.login(&other(2)).await.expect("another initiator"));
            assert_eq!(rig.login(&other(3)).await.err(), Some(OUT_OF_RESOURCES));
            sessions.remove(0).logout().await.expect("a logout");
            rig.wait_until("room", || rig.portal.sessions().len() == 4).await;
            rig.login(&other(3)).await.expect("room again");
        },
    );
}

#[test]
fn a_source_cannot_take_all_logins_nor_all_time() {
    check_with(Limits { logins_per_source: 4, ..Limits::default() }, |rig| async move {
        let mut idle = Vec::new();
        for _ in 0..4 {
            idle.push(Raw::connect(&rig).await);
        }
        rig.sleep_ms(100).await;
        let before = rig.world.now();
        idle.push(Raw::connect(&rig).await);
        assert!(idle.remove(0).next().await.is_none());
        assert_eq!(rig.world.now().since(before).as_secs(), 0, "the fifth takes the place of the oldest");
        for raw in &mut idle {
            assert!(raw.next().await.is_none());
        }
        let waited = rig.world.now().since(before).as_secs();
        assert!((14..18).contains(&waited), "dropped after {waited} s");
        rig.session(1).await;
    });
}

#[test]
fn memory_for_data_is_limited_and_waited_for() {
    let limits = Limits { session_data_bytes: 1 << 20, portal_data_bytes: 1536 << 10, ..Limits::default() };
    check_with(limits, |rig| async move {
        let done = Rc::new(Cell::new(0));
        for port in 0..3 {
            let session = rig.session(port).await;
            for i in 0..40u32 {
                let (session, done) = (session.clone(), done.clone());
                rig.world.spawn(async move {
                    // Larger than all that the session may hold, and smaller: writes and reads in turn.
                    let blocks = if i % 3 == 0 { 3000u16 } else { 600 };
                    let len = usize::from(blocks) * 512;
                    let (cdb, data, room) = match i % 2 {
                        0 => {
                            let mut data = Pieces::new();
                            data.push_zeros(len);
                            (cdb10(WRITE, 0, blocks), data, 0)
                        }
                        _ => (cdb10(READ, 0, blocks), Pieces::new(), len as u32),
                    };
                    let answer = session.command(Lun(0), cdb, data, room).await.expect("an answer");
                    assert!(answer.is_good() && answer.data_in.len() == room as usize);
                    done.set(done.get() + 1);
                });
            }
        }
        rig.wait_until("all transfers", || done.get() == 120).await;
    });
}

/// What is received ends in the middle of a PDU each time, but no PDU takes long.
#[test]
fn a_host_whose_pdus_are_never_all_received_at_once_is_kept() {
    check(|rig| async move {
        let mut busy = Raw::login(&rig, 1, "").await;
        let mut nop = [0u8; 48];
        (nop[0], nop[1]) = (opcode::NOP_OUT | IMMEDIATE, FINAL);
        nop[16..24].fill(0xff);
        busy.send(&nop[..1]).await;
        let shifted = [&nop[1..], &nop[..1]].concat();
        for _ in 0..30 {
            assert!(busy.send(&shifted).await);
            rig.world.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(rig.portal.sessions().len(), 1, "dropped, although each PDU took a second");
    });
}

#[test]
fn a_pdu_a_command_or_an_answer_that_takes_too_long_ends_the_connection() {
    check(|rig| async move {
        let seconds = |from: world::Instant| rig.world.now().since(from).as_secs();
        // Half a header, and no more.
        let mut slow = Raw::login(&rig, 1, "").await;
        slow.send(&[1, 2, 3]).await;
        let before = rig.world.now();
        assert!(slow.next().await.is_none());
        assert!((9..13).contains(&seconds(before)), "a PDU took {} s", seconds(before));
        // One byte a second is no better.
        let mut drop_by_drop = Raw::login(&rig, 2, "").await;
        let before = rig.world.now();
        while drop_by_drop.send(&[0]).await {
            rig.world.sleep(Duration::from_secs(1)).await;
        }
        assert!((9..13).contains(&seconds(before)), "a PDU took {} s", seconds(before));
        // A write whose data never comes, although the connection is alive.
        let mut mute = Raw::login(&rig, 3, "InitialR2T=Yes\0ImmediateData=No\0").await;
        let header = mute.command(5, cdb10(WRITE, 0, 1), ScsiCommand::WRITE, 512);
        mute.send_pdu(&header, &[]).await;
        assert_eq!(mute.next().await.expect("an R2T").opcode(), opcode::R2T);
        let before = rig.world.now();
        while let Some(came) = mute.next().await {
            assert_eq!(came.opcode(), opcode::NOP_IN);
            let mut pong = [0u8; 48];
            (pong[0], pong[1]) = (0x40, 0x80);
            pong[16..20].fill(0xff);
            pong[20..24].copy_from_slice(&came.bhs[20..24]);
            mute.send_pdu(&pong, &[]).await;
        }
        assert!((59..65).contains(&seconds(before)), "waited {} s for data", seconds(before));
    });
}

#[test]
fn a_text_response_must_be_taken_before_it_gets_longer() {
    check(|rig| async move {
        let mut raw = Raw::login(&rig, 1, "MaxRecvDataSegmentLength=512\0").await;
        let keys: String = (0..100).map(|i| format!("X-com.example.{i:03}=1\0")).collect();
        let request = |flags, ttt: u32| {
            *TextRequest {
                opcode: IMMEDIATE | opcode::TEXT_REQUEST,
                flags,
                itt: 7.into(),
                ttt: ttt.into(),
                cmd_sn: 1.into(),
                ..TextRequest::default()
            }
            .bytes()
        };
        // More keys with each request, while the response continues.
        raw.send_pdu(&request(0, TAG_NONE), keys.as_bytes()).await;
        let came = raw.next().await.expect("a response");
        let first: &TextResponse = came.header();
        assert_eq!((first.opcode, first.flags & CONTINUE, came.data.len()), (0x24, CONTINUE, 512));
        raw.send_pdu(&request(0, first.ttt.get()), keys.as_bytes()).await;
        let came = raw.next().await.expect("an answer");
        assert_eq!((came.opcode(), came.bhs[2]), (opcode::REJECT, reject::PROTOCOL));
        // The exchange has ended; the session goes on. Each of two texts is answered completely.
        let mut ttt = TAG_NONE;
        for flags in [0, FINAL] {
            let mut answer = Vec::new();
            let mut text = keys.as_bytes();
            loop {
                raw.send_pdu(&request(flags, ttt), text).await;
                let came = raw.next().await.expect("a response");
                let header: &TextResponse = came.header();
                assert_eq!(header.opcode, opcode::TEXT_RESPONSE);
                ttt = header.ttt.get();
                answer.extend(&came.data);
                text = &[];
                if header.flags & CONTINUE == 0 {
                    break;
                }
            }
            let answers = String::from_utf8(answer).expect("text");
            assert_eq!(answers.matches("=NotUnderstood\0").count(), 100);
        }
        assert_eq!(ttt, TAG_NONE);
    });
}

#[test]
fn others_run_while_the_commands_of_one_receive_are_processed() {
    check(|rig| async move {
        const COMMANDS: usize = 1000;
        let mut raw = Raw::login(&rig, 1, "").await;
        // From its second command on, a slot executes within the reader's turn.
        let header = raw.command(0, [0; 16], 0, 0);
        raw.send_pdu(&header, &[]).await;
        raw.next().await.expect("an answer");
        let longest = Rc::new(Cell::new(0));
        let (ram, seen) = (rig.ram.clone(), longest.clone());
        rig.world.spawn(async move {
            let mut last = 0;
            while last < COMMANDS {
                let more = || Some(ram.order.borrow().len()).filter(|done| *done > last);
                let done = ram.noted.wait_for(more).await;
                seen.set(seen.get().max(done - last));
                last = done;
            }
        });
        // TEST UNIT READY, marked in its last byte, so that the disk notes it.
        let mut bytes = Vec::new();
        for itt in 0..COMMANDS as u32 {
            let mut cdb = [0; 16];
            cdb[15] = 1;
            bytes.extend(raw.command(itt, cdb, 0, 0));
        }
        raw.send(&bytes).await;
        rig.wait_until("all commands", || rig.ram.order.borrow().len() == COMMANDS).await;
        // The executor picks among ready tasks at random: the reader may get some turns in a row.
        assert!(longest.get() <= 640, "{} commands in one turn", longest.get());
    });
}
