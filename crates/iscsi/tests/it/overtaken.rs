//! What a command says of itself to the array: when it arrived, whatever it then waits for, and that its data
//! are whole; and the attributes and the sense data that a portal refuses and makes itself.

use iscsi::pdu::{DataOut, FINAL, Header, R2t, ScsiCommand, ScsiResponse, opcode};
use scsi::Arrival;

use crate::ram::SLOW_READ;
use crate::raw::{Came, Raw};
use crate::rig::{READ, Rig, WRITE, cdb10, check};

const ORDERED: u8 = 2;
const ACA: u8 = 4;

fn sense(came: &Came) -> (u8, u8) {
    assert_eq!((came.opcode(), came.header::<ScsiResponse>().status), (opcode::SCSI_RESPONSE, 2), "{came:?}");
    (came.data[2 + 2], came.data[2 + 12])
}

async fn answer_r2t(raw: &mut Raw, r2t: &Came) {
    let header: &R2t = r2t.header();
    let header = DataOut {
        opcode: opcode::DATA_OUT,
        flags: FINAL,
        itt: header.itt,
        ttt: header.ttt,
        ..DataOut::default()
    };
    raw.send_pdu(header.bytes(), &[7; 512]).await;
}

#[test]
fn a_write_that_collects_its_data_arrived_before_them() {
    check(|rig| async move {
        let mut raw = Raw::login(&rig, 9, "InitialR2T=Yes\0ImmediateData=No\0").await;
        for (happens, want) in [(true, Some((5, 0x25))), (false, None)] {
            let header = raw.command(5, cdb10(WRITE, 0, 1), ScsiCommand::WRITE, 512);
            raw.send_pdu(&header, &[]).await;
            let r2t = raw.next().await.expect("an R2T");
            assert_eq!(r2t.opcode(), opcode::R2T);
            if happens {
                rig.ram.changed.set(Arrival::event());
            }
            answer_r2t(&mut raw, &r2t).await;
            let came = raw.next().await.expect("a response");
            match want {
                Some(want) => assert_eq!((sense(&came), rig.ram.writes.get()), (want, 0)),
                None => assert_eq!((came.header::<ScsiResponse>().status, rig.ram.writes.get()), (0, 1)),
            }
        }
    });
}

/// Three reads: the second waits for the first, and the third for the second.
async fn queued(rig: &Rig, raw: &mut Raw) {
    rig.ram.holds.set(true);
    for (itt, code, attribute) in [(1, SLOW_READ, 1), (2, READ, ORDERED), (3, READ, 1)] {
        let header = raw.command(itt, cdb10(code, 0, 1), ScsiCommand::READ | attribute, 512);
        raw.send_pdu(&header, &[]).await;
    }
    rig.sleep_ms(100).await;
}

#[test]
fn a_command_behind_an_ordered_one_arrived_when_it_came() {
    check(|rig| async move {
        let mut raw = Raw::login(&rig, 9, "").await;
        queued(&rig, &mut raw).await;
        rig.ram.changed.set(Arrival::event());
        rig.ram.release();
        assert_eq!(raw.next().await.expect("data").opcode(), opcode::DATA_IN, "it was executed before");
        for _ in 0..2 {
            assert_eq!(sense(&raw.next().await.expect("a response")), (5, 0x25));
        }
    });
}

#[test]
fn the_aca_attribute_is_refused() {
    check(|rig| async move {
        let mut raw = Raw::login(&rig, 9, "InitialR2T=Yes\0ImmediateData=Yes\0").await;
        for (code, flags) in [(READ, ScsiCommand::READ), (WRITE, ScsiCommand::WRITE), (0, 0)] {
            let header = raw.command(5, cdb10(code, 0, 1), flags | ACA, if code == 0 { 0 } else { 512 });
            raw.send_pdu(&header, &[]).await;
            let came = raw.next().await.expect("a response");
            assert_eq!((sense(&came), came.data[2 + 13]), ((5, 0x49), 0), "{code:02x}");
        }
        assert_eq!((rig.ram.writes.get(), rig.ram.order.borrow().len()), (0, 0));
    });
}

#[test]
fn what_the_portal_refuses_has_the_format_that_hosts_have_selected() {
    check(|rig| async move {
        let mut raw = Raw::login(&rig, 9, "").await;
        for (descriptors, want) in [(false, [0x70, 0, 5]), (true, [0x72, 5, 0x49])] {
            rig.ram.descriptors.set(descriptors);
            let header = raw.command(5, cdb10(READ, 0, 1), ScsiCommand::READ | ACA, 512);
            raw.send_pdu(&header, &[]).await;
            assert_eq!(raw.next().await.expect("a response").data[2..5], want);
        }
    });
}
