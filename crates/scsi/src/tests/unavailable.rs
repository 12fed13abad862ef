//! A logical unit that is mapped and cannot be served now.

use std::collections::BTreeMap;

use super::{bench, check, hex, request, send};
use crate::host_view::HostView;
use crate::request::{Lun, TaskFunction, TaskOutcome};
use crate::unit::{LogicalUnit, Unavailable};

#[test]
fn a_unit_that_cannot_be_served_now_is_not_ready_and_stays_the_one_that_it_is() {
    bench(async |b| {
        let host = b.host(1).await;
        let asked = ["12 00 00 0060 00", "12 01 80 0100 00", "12 01 83 0100 00"];
        let mut known = Vec::new();
        for cdb in asked {
            known.push(check(&host, cdb, &[], "good").await);
        }
        let identity = b.lu.identity.clone();
        let unit = Unavailable { key: identity.key, identity: Some(identity.clone()), is_busy: false };
        host.unmap(Lun(0));
        host.set_unavailable(BTreeMap::from([(Lun(0), unit)]));

        // TEST UNIT READY, READ(10), WRITE(10), READ CAPACITY(10), PERSISTENT RESERVE IN, EXTENDED COPY, and
        // an operation code that nobody knows: whoever asks is to come again.
        for cdb in [
            "00",
            "28 00 00000000 00 0001 00",
            "2a 00 00000000 00 0001 00",
            "25",
            "5e 00 000000 000000 0100 00",
            "83 00",
            "ff",
        ] {
            check(&host, cdb, &[], "2/0403").await;
        }
        assert_eq!(
            &check(&host, "03 00 0000 12 00", &[], "good").await[2..14],
            hex("02 00000000 0a 00000000 0403")
        );
        let luns = check(&host, "a0 00 00 000000 00000100 00 00", &[], "good").await;
        assert_eq!(luns, hex("00000008 00000000 0000000000000000"));
        for (cdb, known) in asked.into_iter().zip(&known) {
            assert_eq!(check(&host, cdb, &[], "good").await, *known, "{cdb}");
        }
        assert_eq!(check(&host, "12 01 00 0100 00", &[], "good").await, hex("00000003 008083"));
        check(&host, "12 01 b0 0100 00", &[], "2/0403").await;
        check(&host, "12 01 55 0100 00", &[], "5/2400 cdb 2").await;
        for function in [TaskFunction::AbortTask(Lun(0), 7), TaskFunction::LunReset(Lun(0))] {
            assert_eq!(host.manage(function).await, TaskOutcome::Complete);
        }
        assert_eq!(send(&host, 5, request("00", &[])).await.0, "5/2500", "there is none");

        // It is served: the host hears that, and that it is no other one.
        host.map(Lun(0), LogicalUnit::new(b.world.clone(), identity, b.disk.clone()));
        host.set_unavailable(BTreeMap::new());
        check(&host, "00", &[], "6/2900").await;
        check(&host, "00", &[], "6/3f0e").await;
        check(&host, "00", &[], "good").await;
        // It is mapped no more.
        host.unmap(Lun(0));
        check(&host, "00", &[], "5/2500").await;
    });
}

#[test]
fn a_unit_that_is_being_taken_over_is_busy_and_answers_what_needs_no_medium() {
    bench(async |b| {
        let host = b.host(1).await;
        let (asked, identity) = ("12 01 83 0100 00", b.lu.identity.clone());
        let known = check(&host, asked, &[], "good").await;
        let unit = Unavailable { key: identity.key, identity: Some(identity), is_busy: true };
        host.unmap(Lun(0));
        host.set_unavailable(BTreeMap::from([(Lun(0), unit)]));
        for cdb in
            ["00", "28 00 00000000 00 0001 00", "5e 00 000000 000000 0100 00", "12 01 b0 0100 00", "ff"]
        {
            assert_eq!(send(&host, 0, request(cdb, &[])).await.0, "Busy", "{cdb}");
        }
        assert_eq!(check(&host, asked, &[], "good").await, known);
        let sense = check(&host, "03 00 0000 12 00", &[], "good").await;
        assert_eq!(&sense[2..14], hex("02 00000000 0a 00000000 0401"), "becoming ready");
    });
}

#[test]
fn a_unit_that_was_never_open_has_no_designator_yet() {
    bench(async |b| {
        let host = b.host(1).await;
        host.set_unavailable(BTreeMap::from([(
            Lun(4),
            Unavailable { key: 4, identity: None, is_busy: false },
        )]));
        let data = send(&host, 4, request("12 00 00 0060 00", &[])).await;
        assert_eq!((data.0.as_str(), data.1[0], &data.1[8..12]), ("good", 0, &b"MASU"[..]));
        assert_eq!(send(&host, 4, request("12 01 83 0100 00", &[])).await.0, "2/0403");
        assert_eq!(send(&host, 4, request("00", &[])).await.0, "2/0403");
        host.set_unavailable(BTreeMap::new());
        assert_eq!(send(&host, 4, request("00", &[])).await.0, "5/2500");
    });
}
