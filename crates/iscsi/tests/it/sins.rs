//! Everything that a peer can do wrong.

use std::time::Duration;

use iscsi::pdu::{
    BHS_LEN, DataOut, FINAL, Header, IMMEDIATE, LoginRequest, NopOut, ScsiCommand, TAG_NONE, TextRequest,
    opcode,
};

use crate::raw::Raw;
use crate::rig::{READ, Rig, WRITE, cdb10};

/// Everything that a peer can do wrong. Each is tried on a new connection; most end it, none may harm another
/// one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sin {
    TruncatedHeader,
    TruncatedData,
    OversizedData,
    HugeAhs,
    Garbage,
    GarbageInLogin,
    SlowBytes,
    WrongHeaderDigest,
    WrongDataDigest,
    CmdSnFarAhead,
    CmdSnGapForEver,
    SameTagTwice,
    EndlessText,
    EndlessLogin,
    TextWithoutEquals,
    UnknownOpcodes,
    ResponsesAsRequests,
    DataForNobody,
    DataBeyondTheEnd,
    IgnoredR2ts,
    UnreadAnswers,
    ManyImmediates,
    LoginTwice,
    Snack,
    LogoutOfAnother,
    ClosedInTheMiddle,
}

pub(crate) const SINS: [Sin; 26] = [
    Sin::TruncatedHeader,
    Sin::TruncatedData,
    Sin::OversizedData,
    Sin::HugeAhs,
    Sin::Garbage,
    Sin::GarbageInLogin,
    Sin::SlowBytes,
    Sin::WrongHeaderDigest,
    Sin::WrongDataDigest,
    Sin::CmdSnFarAhead,
    Sin::CmdSnGapForEver,
    Sin::SameTagTwice,
    Sin::EndlessText,
    Sin::EndlessLogin,
    Sin::TextWithoutEquals,
    Sin::UnknownOpcodes,
    Sin::ResponsesAsRequests,
    Sin::DataForNobody,
    Sin::DataBeyondTheEnd,
    Sin::IgnoredR2ts,
    Sin::UnreadAnswers,
    Sin::ManyImmediates,
    Sin::LoginTwice,
    Sin::Snack,
    Sin::LogoutOfAnother,
    Sin::ClosedInTheMiddle,
];

fn nop(data_len: u32) -> [u8; BHS_LEN] {
    let header =
        NopOut { opcode: IMMEDIATE, flags: FINAL, itt: 1.into(), ttt: TAG_NONE.into(), ..NopOut::default() };
    let mut bhs = *header.bytes();
    bhs[5..8].copy_from_slice(&data_len.to_be_bytes()[1..]);
    bhs
}

/// Text that goes on and on, until the connection is closed.
async fn endless(raw: &mut Raw, header: &[u8; BHS_LEN]) {
    for _ in 0..10_000 {
        if !raw.send_pdu(header, &[b'x'; 4000]).await {
            return;
        }
        let Some(came) = raw.next().await else { return };
        if came.opcode() == opcode::LOGIN_RESPONSE && came.bhs[36] != 0 {
            return;
        }
    }
    panic!("ten thousand texts were taken");
}

/// Commits one on a new connection, until the target has ended it.
pub(crate) async fn sin(rig: &Rig, sin: Sin, rng: &mut fastrand::Rng) {
    let keys = match sin {
        Sin::WrongHeaderDigest => "HeaderDigest=CRC32C\0",
        Sin::WrongDataDigest => "DataDigest=CRC32C\0",
        Sin::IgnoredR2ts => "InitialR2T=Yes\0ImmediateData=No\0",
        _ => "",
    };
    let mut raw = match sin {
        Sin::GarbageInLogin | Sin::EndlessLogin => Raw::connect(rig).await,
        _ => Raw::login(rig, 200, keys).await,
    };
    frame_sin(rig, &mut raw, sin, rng).await;
    request_sin(&mut raw, sin, rng).await;
    text_sin(&mut raw, sin).await;
    data_sin(rig, &mut raw, sin, rng).await;
    // Whatever the target still has to say is read, until it closes.
    raw.until_closed().await;
}

/// Bytes that are no PDU, or not whole, or not in time.
async fn frame_sin(rig: &Rig, raw: &mut Raw, sin: Sin, rng: &mut fastrand::Rng) {
    match sin {
        Sin::TruncatedHeader => drop(raw.send(&[1; 20]).await),
        Sin::TruncatedData => drop(raw.send(&nop(5000)).await),
        Sin::OversizedData => drop(raw.send(&nop(0xff_ffff)).await),
        Sin::HugeAhs => {
            let mut bhs = nop(0);
            bhs[4] = 255;
            raw.send(&bhs).await;
        }
        Sin::Garbage | Sin::GarbageInLogin => {
            for _ in 0..50 {
                let garbage: Vec<u8> = (0..rng.usize(1..3000)).map(|_| rng.u8(..)).collect();
                raw.send(&garbage).await;
            }
        }
        Sin::SlowBytes => {
            while raw.send(&[0]).await {
                rig.world.sleep(Duration::from_secs(1)).await;
            }
        }
        Sin::WrongHeaderDigest => drop(raw.send(&[&nop(0)[..], &[1, 2, 3, 4]].concat()).await),
        Sin::WrongDataDigest => drop(raw.send(&[&nop(4)[..], b"data", &[1, 2, 3, 4]].concat()).await),
        Sin::ClosedInTheMiddle => {
            let header = raw.command(3, cdb10(WRITE, 0, 8), ScsiCommand::WRITE, 4096);
            raw.send(&header[..40]).await;
            raw.stream.close();
        }
        _ => {}
    }
}

/// Requests out of order, or such as nobody may send.
async fn request_sin(raw: &mut Raw, sin: Sin, rng: &mut fastrand::Rng) {
    match sin {
        Sin::CmdSnFarAhead | Sin::CmdSnGapForEver => {
            for i in 0..2000u32 {
                let mut header = raw.command(i, cdb10(READ, 0, 1), ScsiCommand::READ, 512);
                let cmd_sn = if matches!(sin, Sin::CmdSnFarAhead) { rng.u32(..) | 0x4000 } else { i + 2 };
                header[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
                raw.send_pdu(&header, &[7; 600]).await;
            }
        }
        Sin::SameTagTwice => {
            for _ in 0..50 {
                let header = raw.command(7, cdb10(WRITE, 0, 8), ScsiCommand::WRITE, 4096);
                raw.send_pdu(&header, &[]).await;
            }
        }
        Sin::UnknownOpcodes | Sin::ResponsesAsRequests => {
            for code in if matches!(sin, Sin::UnknownOpcodes) { 0x07..0x1fu8 } else { 0x20..0x40 } {
                let mut bhs = nop(0);
                bhs[0] = code;
                raw.send_pdu(&bhs, &[9; 40]).await;
            }
        }
        Sin::ManyImmediates => {
            for _ in 0..1000 {
                raw.send_pdu(&nop(0), &[1; 100]).await;
            }
        }
        Sin::LoginTwice => {
            let header = LoginRequest {
                opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
                flags: 0x87,
                ..LoginRequest::default()
            };
            raw.send_pdu(header.bytes(), b"InitiatorName=iqn.x:y\0").await;
        }
        Sin::Snack => {
            let mut bhs = nop(0);
            (bhs[0], bhs[1]) = (opcode::SNACK, 0x80);
            raw.send_pdu(&bhs, &[]).await;
            assert_eq!(raw.next().await.map(|c| (c.opcode(), c.bhs[2])), Some((opcode::REJECT, 3)));
        }
        Sin::LogoutOfAnother => {
            let mut bhs = nop(0);
            (bhs[0], bhs[1], bhs[21]) = (IMMEDIATE | opcode::LOGOUT_REQUEST, 0x81, 9);
            raw.send_pdu(&bhs, &[]).await;
            assert_eq!(raw.next().await.map(|c| (c.opcode(), c.bhs[2])), Some((opcode::LOGOUT_RESPONSE, 1)));
        }
        _ => {}
    }
}

async fn text_sin(raw: &mut Raw, sin: Sin) {
    match sin {
        Sin::EndlessText => {
            let header = TextRequest {
                opcode: IMMEDIATE | opcode::TEXT_REQUEST,
                flags: 0x40,
                ttt: TAG_NONE.into(),
                ..TextRequest::default()
            };
            let mut bhs = *header.bytes();
            raw.send_pdu(&bhs, b"x").await;
            let came = raw.next().await.expect("an answer");
            bhs[20..24].copy_from_slice(&came.bhs[20..24]);
            raw.send_pdu(&bhs, &[b'y'; 8000]).await;
            raw.send_pdu(&bhs, &[b'y'; 8000]).await;
            bhs[20..24].fill(0xff);
            endless_text(raw, &mut bhs).await;
        }
        Sin::EndlessLogin => {
            let header = LoginRequest {
                opcode: IMMEDIATE | opcode::LOGIN_REQUEST,
                flags: 0x44,
                ..LoginRequest::default()
            };
            endless(raw, header.bytes()).await;
        }
        Sin::TextWithoutEquals => {
            let header = TextRequest {
                opcode: IMMEDIATE | opcode::TEXT_REQUEST,
                flags: FINAL,
                ttt: TAG_NONE.into(),
                ..TextRequest::default()
            };
            raw.send_pdu(header.bytes(), b"no equals sign, no end").await;
        }
        _ => {}
    }
}

/// Data, and what is not taken or not given.
async fn data_sin(rig: &Rig, raw: &mut Raw, sin: Sin, rng: &mut fastrand::Rng) {
    match sin {
        Sin::DataForNobody | Sin::DataBeyondTheEnd => {
            let header = raw.command(3, cdb10(WRITE, 0, 1), ScsiCommand::WRITE, 512);
            raw.send_pdu(&header, &[]).await;
            for i in 0..200u32 {
                let ttt = if i % 2 == 0 { rng.u32(..) } else { TAG_NONE };
                let data = DataOut {
                    opcode: opcode::DATA_OUT,
                    itt: if matches!(sin, Sin::DataForNobody) { rng.u32(..) } else { 3 }.into(),
                    ttt: ttt.into(),
                    offset: rng.u32(..).into(),
                    data_sn: i.into(),
                    ..DataOut::default()
                };
                raw.send_pdu(data.bytes(), &vec![1; rng.usize(..60_000)]).await;
            }
        }
        Sin::IgnoredR2ts => {
            for i in 0..128 {
                let header = raw.command(i, cdb10(WRITE, 0, 8), ScsiCommand::WRITE, 4096);
                raw.send_pdu(&header, &[]).await;
            }
        }
        Sin::UnreadAnswers => {
            for i in 0..500u32 {
                let header = raw.command(i, cdb10(READ, 0, 2048), ScsiCommand::READ, 1 << 20);
                raw.send_pdu(&header, &[]).await;
            }
            rig.world.sleep(Duration::from_secs(100)).await;
            raw.stream.close();
        }
        _ => {}
    }
}

/// A text exchange whose request never ends.
async fn endless_text(raw: &mut Raw, bhs: &mut [u8; BHS_LEN]) {
    for _ in 0..10_000 {
        if !raw.send_pdu(bhs, &[b'x'; 4000]).await {
            return;
        }
        let Some(came) = raw.next().await else { return };
        if came.opcode() == opcode::TEXT_RESPONSE {
            bhs[20..24].copy_from_slice(&came.bhs[20..24]);
        }
    }
    panic!("ten thousand texts were taken");
}
