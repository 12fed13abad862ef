//! RFC 7143 4.2.4, 11.3, 11.7, 13.10, 13.11 and 13.14: every way to send the data of a command that was not
//! agreed on. Each is answered at once, by the command alone: nothing waits for a deadline, and the session
//! goes on.

use iscsi::pdu::{
    BHS_LEN, DataOut, FINAL, Header, LoginRequest, LoginResponse, R2t, ScsiCommand, ScsiResponse,
};
use iscsi::pdu::{IMMEDIATE, TAG_NONE, opcode};

use crate::ram::TARGET;
use crate::raw::{Came, Raw};
use crate::rig::{HOST, READ, Rig, WRITE, cdb10, check};

/// A Data-Out: target transfer tag, DataSN, offset, length, F.
type Out = (u32, u32, u32, usize, bool);

/// What a test sends of one command: a WRITE(10) of so many bytes with its flags, immediate data, and
/// Data-Outs.
struct Sends<'a> {
    name: &'a str,
    keys: &'a str,
    bytes: u32,
    /// Whether more follows unasked (F = 0).
    follows: bool,
    immediate: usize,
    outs: &'a [Out],
}

const UNEXPECTED: (u8, u8, u8) = (0x0b, 0x0c, 0x0c);
const AMOUNT: (u8, u8, u8) = (0x0b, 0x0c, 0x0d);
const ORDER: (u8, u8, u8) = (0x0b, 0x4b, 0);

const R2T_ONLY: &str = "InitialR2T=Yes\0ImmediateData=No\0";
const IMMEDIATE_ONLY: &str = "InitialR2T=Yes\0ImmediateData=Yes\0";
const UNASKED: &str = "InitialR2T=No\0ImmediateData=No\0FirstBurstLength=2048\0";
const BOTH: &str = "InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=2048\0";

fn out_header((ttt, data_sn, offset, _, is_final): Out) -> [u8; BHS_LEN] {
    let header = DataOut {
        opcode: opcode::DATA_OUT,
        flags: if is_final { FINAL } else { 0 },
        itt: 5.into(),
        ttt: ttt.into(),
        data_sn: data_sn.into(),
        offset: offset.into(),
        ..DataOut::default()
    };
    *header.bytes()
}

fn sense(came: &Came) -> (u8, u8, u8) {
    assert_eq!((came.opcode(), came.header::<ScsiResponse>().status), (opcode::SCSI_RESPONSE, 2), "{came:?}");
    (came.data[2 + 2], came.data[2 + 12], came.data[2 + 13])
}

/// Waits for the response to the command; target transfer tags of R2Ts that come before it are kept.
async fn response(raw: &mut Raw) -> Came {
    loop {
        let came = raw.next().await.expect("the session stays");
        if came.opcode() != opcode::R2T {
            return came;
        }
    }
}

/// Sends it all, and checks that the command ends so at once, that nothing was written, and that the session
/// still works.
async fn check_violation(rig: &Rig, port: u8, sends: &Sends<'_>, want: (u8, u8, u8)) {
    let mut raw = Raw::login(rig, port, sends.keys).await;
    let writes = rig.ram.writes.get();
    let mut header =
        raw.command(5, cdb10(WRITE, 0, (sends.bytes / 512) as u16), ScsiCommand::WRITE, sends.bytes);
    if sends.follows {
        header[1] &= !FINAL;
    }
    let before = rig.world.now();
    raw.send_pdu(&header, &vec![7; sends.immediate]).await;
    for out in sends.outs {
        raw.send_pdu(&out_header(*out), &vec![7; out.3]).await;
    }
    assert_eq!(sense(&response(&mut raw).await), want, "{}", sends.name);
    assert!(rig.world.now().since(before).as_secs() < 1, "{}: it was waited for", sends.name);
    assert_eq!(rig.ram.writes.get(), writes, "{}: it was executed", sends.name);
    goes_on(rig, raw, sends.name).await;
}

/// A read with the same tag is answered: the old command is over, and what came late for it was nobody's.
async fn goes_on(rig: &Rig, mut raw: Raw, name: &str) {
    let header = raw.command(5, cdb10(READ, 0, 1), ScsiCommand::READ, 512);
    raw.send_pdu(&header, &[]).await;
    assert_eq!(response(&mut raw).await.opcode(), opcode::DATA_IN, "{name}");
    raw.stream.close();
    rig.wait_until("the session's end", || rig.portal.sessions().is_empty()).await;
}

/// A row of a table: what is sent, and the sense of the answer.
fn row<'a>(
    name: &'a str,
    keys: &'a str,
    (bytes, follows, immediate): (u32, bool, usize),
    outs: &'a [Out],
) -> Sends<'a> {
    Sends { name, keys, bytes, follows, immediate, outs }
}

#[test]
fn commands_that_announce_or_carry_what_was_not_agreed_on_are_refused_at_once() {
    check(|rig| async move {
        let two = [(TAG_NONE, 0, 0, 512, false), (TAG_NONE, 1, 512, 512, true)];
        for (sends, want) in [
            (row("F = 0 under InitialR2T=Yes, nothing follows", R2T_ONLY, (1024, true, 0), &[]), UNEXPECTED),
            (row("F = 0 under InitialR2T=Yes, data follows", R2T_ONLY, (1024, true, 0), &two), UNEXPECTED),
            (row("and immediate data", IMMEDIATE_ONLY, (1024, true, 512), &[]), UNEXPECTED),
            (row("ImmediateData=No with data", R2T_ONLY, (1024, false, 512), &[]), UNEXPECTED),
            (row("ImmediateData=No with data, and F = 0", UNASKED, (1024, true, 512), &[]), UNEXPECTED),
            (row("immediate data over FirstBurstLength", BOTH, (8192, false, 4096), &[]), UNEXPECTED),
            (row("immediate data over the transfer", BOTH, (512, false, 1024), &[]), AMOUNT),
            (row("F = 0 when FirstBurstLength has come", BOTH, (8192, true, 2048), &[]), UNEXPECTED),
            (row("F = 0 when the transfer has come", BOTH, (1024, true, 1024), &[]), UNEXPECTED),
            (row("F = 0 of a transfer of nothing", BOTH, (0, true, 0), &[]), UNEXPECTED),
        ] {
            check_violation(&rig, 9, &sends, want).await;
        }
    });
}

#[test]
fn unsolicited_data_that_was_not_agreed_on_is_refused_at_once() {
    check(|rig| async move {
        let one = |sn: u32, at: u32, len: usize, end: bool| [(TAG_NONE, sn, at, len, end)];
        let overlap = [(TAG_NONE, 0, 0, 512, false), (TAG_NONE, 1, 256, 512, false)];
        let twice = [(TAG_NONE, 0, 0, 512, false), (TAG_NONE, 0, 512, 512, false)];
        let of_nobody = [(0x1234_5600, 0, 0, 512, false)];
        for (sends, want) in [
            (row("under InitialR2T=Yes", R2T_ONLY, (1024, false, 0), &one(0, 0, 512, false)), UNEXPECTED),
            (row("over FirstBurstLength", UNASKED, (8192, true, 0), &one(0, 0, 4096, false)), UNEXPECTED),
            (row("over the transfer", UNASKED, (1024, true, 0), &one(0, 0, 1536, false)), UNEXPECTED),
            (row("less than FirstBurstLength", UNASKED, (8192, true, 0), &one(0, 0, 512, true)), AMOUNT),
            (row("and immediate data", BOTH, (8192, true, 512), &one(0, 512, 512, true)), AMOUNT),
            (row("a gap", UNASKED, (2048, true, 0), &one(0, 512, 512, false)), ORDER),
            (row("an overlap", UNASKED, (2048, true, 0), &overlap), ORDER),
            (row("DataSN does not begin at 0", UNASKED, (2048, true, 0), &one(1, 0, 512, false)), ORDER),
            (row("DataSN twice", UNASKED, (2048, true, 0), &twice), ORDER),
            (row("the last offset", UNASKED, (2048, true, 0), &one(0, u32::MAX - 3, 512, false)), ORDER),
            (row("a tag of nobody", R2T_ONLY, (1024, false, 0), &of_nobody), ORDER),
        ] {
            check_violation(&rig, 9, &sends, want).await;
        }
    });
}

/// The command under R2T_ONLY with R2Ts of 1,024 bytes, up to two at once.
async fn asked(rig: &Rig, bytes: u32) -> (Raw, Vec<R2t>) {
    let keys = format!("{R2T_ONLY}MaxBurstLength=1024\0MaxOutstandingR2T=2\0");
    let mut raw = Raw::login(rig, 9, &keys).await;
    let header = raw.command(5, cdb10(WRITE, 0, (bytes / 512) as u16), ScsiCommand::WRITE, bytes);
    raw.send_pdu(&header, &[]).await;
    let mut r2ts = Vec::new();
    for _ in 0..2 {
        let came = raw.next().await.expect("an R2T");
        assert_eq!(came.opcode(), opcode::R2T);
        r2ts.push(*came.header::<R2t>());
    }
    (raw, r2ts)
}

#[test]
fn solicited_data_that_is_not_what_was_asked_for_is_refused_at_once() {
    check(|rig| async move {
        // Which R2T (by index), DataSN, offset, length, F.
        let one = |r2t: usize, sn: u32, at: u32, len: usize, end: bool| vec![(r2t, sn, at, len, end)];
        for (name, outs, want) in [
            ("too little", one(0, 0, 0, 512, true), AMOUNT),
            ("nothing at all", one(0, 0, 0, 0, true), AMOUNT),
            ("too much", one(0, 0, 0, 1536, true), AMOUNT),
            ("too much, and not the end", one(0, 0, 0, 1536, false), AMOUNT),
            ("the second R2T first", one(1, 0, 1024, 1024, true), ORDER),
            ("before its offset", vec![(0, 0, 0, 1024, true), (1, 0, 512, 1024, true)], ORDER),
            ("behind its offset", one(0, 0, 512, 512, true), ORDER),
            (
                "DataSN goes on from the sequence before",
                vec![(0, 0, 0, 1024, true), (1, 1, 1024, 1024, true)],
                ORDER,
            ),
            ("an R2T twice", vec![(0, 0, 0, 1024, true), (0, 0, 0, 1024, true)], ORDER),
        ] {
            let (mut raw, r2ts) = asked(&rig, 4096).await;
            let (before, writes) = (rig.world.now(), rig.ram.writes.get());
            for (r2t, sn, at, len, end) in outs {
                let out = (r2ts[r2t].ttt.get(), sn, at, len, end);
                raw.send_pdu(&out_header(out), &vec![7; len]).await;
            }
            assert_eq!(sense(&response(&mut raw).await), want, "{name}");
            assert!(rig.world.now().since(before).as_secs() < 1, "{name}: it was waited for");
            assert_eq!(rig.ram.writes.get(), writes, "{name}: it was executed");
            goes_on(&rig, raw, name).await;
        }
        // Data without a target transfer tag while R2Ts are in flight.
        let (mut raw, _) = asked(&rig, 4096).await;
        raw.send_pdu(&out_header((TAG_NONE, 0, 0, 512, false)), &[7; 512]).await;
        assert_eq!(sense(&response(&mut raw).await), UNEXPECTED);
        goes_on(&rig, raw, "unasked beside R2Ts").await;
    });
}

#[test]
fn commands_that_send_no_data_send_none() {
    check(|rig| async move {
        // 11.3.1: W = 0 with F = 0 is an error.
        let mut raw = Raw::login(&rig, 9, "").await;
        let mut header = raw.command(5, cdb10(READ, 0, 1), ScsiCommand::READ, 512);
        header[1] &= !FINAL;
        raw.send_pdu(&header, &[]).await;
        let came = raw.next().await.expect("an answer");
        assert_eq!((came.opcode(), came.bhs[2]), (opcode::REJECT, 4));
        // A read with immediate data.
        let header = raw.command(6, cdb10(READ, 0, 1), ScsiCommand::READ, 512);
        raw.send_pdu(&header, &[1; 512]).await;
        assert_eq!(sense(&raw.next().await.expect("an answer")), UNEXPECTED);
        // Both directions, with data that is said to follow.
        let mut header = raw.command(7, cdb10(WRITE, 0, 8), ScsiCommand::WRITE | ScsiCommand::READ, 4096);
        header[1] &= !FINAL;
        raw.send_pdu(&header, &[]).await;
        assert_eq!(sense(&raw.next().await.expect("an answer")), (5, 0x0e, 3));
        goes_on(&rig, raw, "no direction").await;
    });
}

/// Logs in with keys, and gives what the target answers to them; the status when it refuses.
async fn negotiate(rig: &Rig, keys: &str) -> Result<String, (u8, u8)> {
    let mut raw = Raw::connect(rig).await;
    let header = LoginRequest {
        opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
        flags: 0x87,
        isid: [0x80, 0, 0, 0, 0, 9],
        cmd_sn: 1.into(),
        ..LoginRequest::default()
    };
    raw.send_pdu(header.bytes(), format!("InitiatorName={HOST}\0TargetName={TARGET}\0{keys}").as_bytes())
        .await;
    let came = raw.next().await.expect("an answer");
    let header: &LoginResponse = came.header();
    match (header.status_class, header.status_detail) {
        (0, 0) => Ok(String::from_utf8(came.data).expect("text")),
        refused => Err(refused),
    }
}

#[test]
fn first_bursts_stay_within_bursts_on_the_wire() {
    check(|rig| async move {
        for keys in
            ["FirstBurstLength=65536\0MaxBurstLength=8192\0", "MaxBurstLength=8192\0FirstBurstLength=65536\0"]
        {
            let answer = negotiate(&rig, keys).await.expect("a login");
            assert!(answer.contains("FirstBurstLength=8192\0"), "{answer:?}");
            // What was agreed on holds: 8 KiB unasked are taken, the rest is asked for.
            let mut raw = Raw::login(&rig, 9, &format!("InitialR2T=No\0ImmediateData=No\0{keys}")).await;
            let mut header = raw.command(5, cdb10(WRITE, 0, 32), ScsiCommand::WRITE, 32 * 512);
            header[1] &= !FINAL;
            raw.send_pdu(&header, &[]).await;
            raw.send_pdu(&out_header((TAG_NONE, 0, 0, 8192, true)), &[7; 8192]).await;
            let came = raw.next().await.expect("an R2T");
            let r2t: &R2t = came.header();
            assert_eq!((came.opcode(), r2t.offset.get(), r2t.desired_len.get()), (opcode::R2T, 8192, 8192));
            raw.stream.close();
            rig.wait_until("the session's end", || rig.portal.sessions().is_empty()).await;
        }
        for twice in
            ["InitialR2T=No\0InitialR2T=No\0", "InitiatorName=iqn.2026-01.x:y\0", "SendTargets=All\0"]
        {
            assert_eq!(negotiate(&rig, twice).await.err(), Some((2, 0)), "{twice:?}");
        }
    });
}
