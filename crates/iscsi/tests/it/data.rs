//! Data both ways under every agreement, residual counts, sequence errors.

use block::Pieces;
use iscsi::initiator::{Done, Residual, Session};
use iscsi::pdu::{DataOut, FINAL, Header, R2t, ScsiCommand, ScsiResponse, TAG_NONE, opcode};
use iscsi::{Digests, Offer};
use scsi::Lun;
use world::Data;

use crate::ram::BLOCK;
use crate::raw::{Came, Raw, framed};
use crate::rig::{READ, Rig, WRITE, cdb10, check};

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 7 + salt) % 253) as u8).collect()
}

fn pieces(bytes: &[u8]) -> Pieces {
    let mut pieces = Pieces::new();
    bytes.chunks(100_000).for_each(|part| pieces.push(Data::copy_of(part)));
    pieces
}

async fn write(session: &Session, lba: u32, bytes: &[u8]) -> Done {
    let cdb = cdb10(WRITE, lba, (bytes.len() / BLOCK) as u16);
    session.command(Lun(0), cdb, pieces(bytes), 0).await.expect("an answer")
}

async fn read(session: &Session, lba: u32, blocks: usize) -> Vec<u8> {
    let cdb = cdb10(READ, lba, blocks as u16);
    let done = session.command(Lun(0), cdb, Pieces::new(), (blocks * BLOCK) as u32).await.expect("an answer");
    assert!(done.is_good());
    done.data_in.iter().flat_map(|d| d.to_vec()).collect()
}

/// Writes and reads back transfers of many lengths under one agreement.
async fn check_agreement(rig: &Rig, change: impl Fn(&mut Offer)) {
    let mut options = rig.options(1);
    change(&mut options.offer);
    let session = rig.login(&options).await.expect("a login");
    for (i, blocks) in [1usize, 2, 8, 127, 128, 129, 511, 513, 2048, 5000].into_iter().enumerate() {
        let bytes = pattern(blocks * BLOCK, i);
        let done = write(&session, 64, &bytes).await;
        assert!(done.is_good() && done.residual == Residual::None, "{blocks} blocks: {done:?}");
        assert!(
            rig.ram.bytes(64 * BLOCK, bytes.len()) == bytes,
            "{blocks} blocks were written wrong under {options:?}",
            options = session.params()
        );
        assert!(
            read(&session, 64, blocks).await == bytes,
            "{blocks} blocks were read wrong under {:?}",
            session.params()
        );
    }
    session.logout().await.expect("a logout");
}

#[test]
fn data_arrives_under_every_agreement() {
    check(|rig| async move {
        for digests in [Digests::Never, Digests::Required] {
            for (initial_r2t, immediate_data) in [(false, true), (false, false), (true, true), (true, false)]
            {
                check_agreement(&rig, |offer| {
                    (offer.header_digest, offer.data_digest) = (digests, digests);
                    (offer.initial_r2t, offer.immediate_data) = (initial_r2t, immediate_data);
                })
                .await;
            }
        }
    });
}

#[test]
fn data_arrives_in_small_segments_and_bursts() {
    check(|rig| async move {
        for (segment, burst, first, r2ts) in [
            (512, 512, 512, 1),
            (1000, 3000, 2000, 3),
            (4096, 65_536, 4096, 8),
            (1 << 20, 1 << 20, 65_536, 1),
            (333_333, 777_777, 5, 2),
        ] {
            check_agreement(&rig, |offer| {
                offer.recv_segment_len_max = segment.max(512);
                offer.max_burst_len = burst;
                offer.first_burst_len = first.max(512);
                offer.max_outstanding_r2t = r2ts;
            })
            .await;
        }
    });
}

#[test]
fn many_commands_at_once_keep_their_data() {
    check(|rig| async move {
        let session = rig.session(1).await;
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        for i in 0..300u32 {
            let (session, done) = (session.clone(), done.clone());
            rig.world.spawn(async move {
                let bytes = pattern(8 * BLOCK, i as usize);
                assert!(write(&session, i * 8, &bytes).await.is_good());
                assert!(read(&session, i * 8, 8).await == bytes, "command {i}");
                done.set(done.get() + 1);
            });
        }
        rig.wait_until("300 writes and reads", || done.get() == 300).await;
        assert_eq!(rig.portal.counts().commands, 600);
    });
}

/// A command with another expected length than the CDB has.
async fn odd(session: &Session, opcode: u8, blocks: u16, expected: u32, writes: bool, bytes: usize) -> Done {
    let data = pieces(&pattern(bytes, 3));
    session.odd_command(Lun(0), cdb10(opcode, 100, blocks), data, expected, writes).await.expect("an answer")
}

#[test]
fn residuals_are_counted() {
    check(|rig| async move {
        let session = rig.session(1).await;
        for (blocks, expected, want, len) in [
            (1, 0, Residual::Overflow(512), 0),
            (1, 10_000, Residual::Underflow(9488), 512),
            (1, 200, Residual::Overflow(312), 200),
            (2, 512, Residual::Overflow(512), 512),
        ] {
            let done = odd(&session, READ, blocks, expected, false, 0).await;
            assert_eq!(
                (done.status, done.residual, done.data_in.len()),
                (0, want, len),
                "read of {expected}"
            );
        }
        for (blocks, expected, want) in [
            (1, 0, Residual::Overflow(512)),
            (1, 10_000, Residual::Underflow(9488)),
            (1, 200, Residual::Overflow(312)),
            (2, 512, Residual::Overflow(512)),
            (300, 300 * 512 + 40_000, Residual::Underflow(40_000)),
        ] {
            let done = odd(&session, WRITE, blocks, expected, true, expected as usize).await;
            assert_eq!((done.status, done.residual), (0, want), "write of {expected}");
        }
        // A read that is declared a write: its data is taken and dropped, and nothing comes back.
        let done = odd(&session, READ, 1, 512, true, 512).await;
        assert_eq!((done.status, done.data_in.len()), (0, 0));
    });
}

/// A WRITE(10) of `blocks` whose data comes by the given Data-Outs: (DataSN, offset, length, F); gives the
/// response.
async fn check_sequence(rig: &Rig, blocks: u16, pdus: &[(u32, u32, usize, bool)]) -> Came {
    let mut raw = Raw::login(rig, 9, "InitialR2T=No\0ImmediateData=No\0").await;
    let header = raw.command(5, cdb10(WRITE, 0, blocks), ScsiCommand::WRITE, u32::from(blocks) * 512);
    let mut unsolicited = header;
    unsolicited[1] &= !FINAL;
    raw.send_pdu(&unsolicited, &[]).await;
    for &(data_sn, offset, len, is_final) in pdus {
        let header = DataOut {
            opcode: opcode::DATA_OUT,
            flags: if is_final { FINAL } else { 0 },
            itt: 5.into(),
            ttt: TAG_NONE.into(),
            data_sn: data_sn.into(),
            offset: offset.into(),
            ..DataOut::default()
        };
        raw.send_pdu(header.bytes(), &pattern(len, 0)).await;
    }
    let came = raw.next().await.expect("an answer");
    raw.stream.close();
    rig.wait_until("the session's end", || rig.portal.sessions().is_empty()).await;
    came
}

fn sense(came: &Came) -> (u8, u8, u8) {
    assert_eq!(came.opcode(), opcode::SCSI_RESPONSE);
    assert_eq!(came.header::<ScsiResponse>().status, 2, "CHECK CONDITION");
    (came.data[2 + 2], came.data[2 + 12], came.data[2 + 13])
}

#[test]
fn sequence_errors_end_the_command_and_nothing_else() {
    check(|rig| async move {
        let good = check_sequence(&rig, 2, &[(0, 0, 512, false), (1, 512, 512, true)]).await;
        assert_eq!(good.header::<ScsiResponse>().status, 0);
        for bad in [
            &[(0, 0, 512, false), (0, 512, 512, true)][..],
            &[(27, 0, 1024, true)],
            &[(u32::MAX, 0, 1024, true)],
            &[(1, 512, 512, false), (0, 0, 512, true)],
            &[(0, 512, 512, true)],
        ] {
            assert_eq!(sense(&check_sequence(&rig, 2, bad).await), (0x0b, 0x4b, 0), "{bad:?}");
        }
        let too_much = check_sequence(&rig, 2, &[(0, 0, 2048, true)]).await;
        assert_eq!(sense(&too_much), (0x0b, 0x0c, 0x0c));
        assert_eq!(rig.ram.writes.get(), 1);
    });
}

#[test]
fn several_r2ts_are_in_flight_and_are_answered_in_order() {
    check(|rig| async move {
        let keys = "MaxOutstandingR2T=3\0MaxBurstLength=512\0InitialR2T=Yes\0ImmediateData=No\0";
        for in_order in [true, false] {
            let mut raw = Raw::login(&rig, 9, keys).await;
            let header = raw.command(5, cdb10(WRITE, 0, 5), ScsiCommand::WRITE, 5 * 512);
            raw.send_pdu(&header, &[]).await;
            let mut asked = Vec::new();
            for i in 0..3 {
                let came = raw.next().await.expect("an R2T");
                let r2t: &R2t = came.header();
                assert_eq!(
                    (came.opcode(), r2t.r2t_sn.get(), r2t.offset.get(), r2t.desired_len.get()),
                    (opcode::R2T, i, i * 512, 512)
                );
                asked.push(*r2t);
            }
            if !in_order {
                asked.swap(0, 1);
            }
            for r2t in &asked {
                let header = DataOut {
                    opcode: opcode::DATA_OUT,
                    flags: FINAL,
                    itt: 5.into(),
                    ttt: r2t.ttt,
                    offset: r2t.offset,
                    ..DataOut::default()
                };
                raw.send_pdu(header.bytes(), &pattern(512, 0)).await;
            }
            let came = raw.next().await.expect("the next PDU");
            match in_order {
                true => assert_eq!(came.opcode(), opcode::R2T),
                false => assert_eq!(sense(&came), (0x0b, 0x4b, 0)),
            }
            raw.stream.close();
            rig.wait_until("the session's end", || rig.portal.sessions().is_empty()).await;
        }
    });
}

#[test]
fn a_wrong_data_digest_costs_the_command() {
    check(|rig| async move {
        let mut raw = Raw::login(&rig, 9, "DataDigest=CRC32C\0").await;
        let header = raw.command(5, cdb10(WRITE, 0, 1), ScsiCommand::WRITE, 512);
        let mut bytes = framed(&header, &pattern(512, 0));
        bytes.extend([1, 2, 3, 4]);
        raw.send(&bytes).await;
        let reject = raw.next().await.expect("a reject");
        assert_eq!((reject.opcode(), reject.bhs[2]), (opcode::REJECT, 2));
        // The reject's own data has a digest, too; the raw reader does not know of digests.
        let header = raw.command(6, cdb10(0x00, 0, 0), 0, 0);
        assert!(raw.send_pdu(&header, &[]).await, "the connection stays");
        assert_eq!(rig.ram.writes.get(), 0);
        assert_eq!(rig.portal.counts().digest_errors, 1);
    });
}
