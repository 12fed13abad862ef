//! Values of the registry with numbers and names beyond their limits.

use registry::RecordError;
use registry::record::decode;

use super::*;
use crate::{
    EPOCH_MAX, LABELS, LabelsRecord, MemberRecord, RAISED_EPOCH_MAX, SERVES, ServesRecord, TestRecord,
};

fn named(key: &str) -> Key {
    Key::new(key).expect("a key")
}

#[test]
fn a_record_with_a_number_or_name_beyond_its_limit_is_damaged() {
    fn read<T>(decoded: Result<T, RecordError>) -> Result<(), String> {
        decoded.map(|_| ()).map_err(|error| error.to_string())
    }
    let epochs = |epoch: u64| {
        let serves = format!("node = \"n1\"\nepoch = {epoch}\n").into_bytes();
        let asked = format!("ask = \"drain\"\nepoch = {epoch}\n").into_bytes();
        let bare = format!("epoch = {epoch}\n").into_bytes();
        [
            read(OwnerRecord::decode(OWNER, &bare)),
            read(decode::<LabelsRecord>(LABELS, &bare)),
            read(decode::<ServesRecord>(SERVES, &serves)),
            read(decode::<AskRecord>(ASK, &asked)),
        ]
    };
    assert!(epochs(EPOCH_MAX).iter().all(Result::is_ok));
    for epoch in [EPOCH_MAX + 1, i64::MAX as u64, u64::MAX] {
        for (read, key) in epochs(epoch).into_iter().zip([OWNER, LABELS, SERVES, ASK]) {
            let said = read.expect_err(key);
            assert!(said.contains(&format!("{key} in the registry")), "{said}");
            assert!(said.contains(&format!("epoch {epoch}: must be at most {EPOCH_MAX}")), "{said}");
        }
    }
    let member =
        |number: u64| read(MemberRecord::decode("members/n1", format!("number = {number}\n").as_bytes()));
    assert_eq!(member(u64::from(NUMBERS_MAX) - 1), Ok(()));
    assert!(member(NUMBERS_MAX.into()).is_err_and(|said| said.contains("number 1023: must be below 1023")));
    assert!(member(65_535).is_err() && member(65_536).is_err());
    let names = |name: &str| {
        let name = name.replace('\n', "\\n");
        let text = |rest: &str| rest.replace("NAME", &name).into_bytes();
        [
            read(OwnerRecord::decode(OWNER, &text("node = \"NAME\"\nepoch = 1\n"))),
            read(OwnerRecord::decode(OWNER, &text("left_by = \"NAME\"\nepoch = 1\n"))),
            read(OwnerRecord::decode(OWNER, &text("left_to = \"NAME\"\nepoch = 1\n"))),
            read(decode::<AskRecord>(ASK, &text("ask = \"drain\"\nepoch = 1\nto = \"NAME\"\n"))),
            read(decode::<ServesRecord>(SERVES, &text("node = \"NAME\"\nepoch = 1\n"))),
            read(decode::<NumberRecord>("numbers/1", &text("node = \"NAME\"\n"))),
            read(decode::<TestRecord>("t", &text("from = \"NAME\"\nto = \"n1\"\ntook_ms = 1\nat_ms = 1\n"))),
            read(decode::<TestRecord>("t", &text("from = \"n1\"\nto = \"NAME\"\ntook_ms = 1\nat_ms = 1\n"))),
        ]
    };
    for good in ["n1", "host-7.example.net", "a_b", &"n".repeat(128)] {
        assert!(names(good).iter().all(Result::is_ok), "{good}");
    }
    for bad in ["", ".", "..", "a/b", "a b", "ä", "a\nb", &"n".repeat(129)] {
        assert!(names(bad).iter().all(Result::is_err), "{bad:?}");
    }
    // Leases of a directory are any number.
    for (lease, since_ms, is_read) in [(u64::MAX, 1, true), (1, i64::MAX as u64, false)] {
        let text = format!("lease = {lease}\nsince_ms = {since_ms}\nepoch = 1\n");
        assert_eq!(OwnerRecord::decode(OWNER, text.as_bytes()).is_ok(), is_read, "{text}");
        assert_eq!(NodeRecord::decode("nodes/n1", text.as_bytes()).is_ok(), is_read, "{text}");
    }
}

/// Before, each node in turn took the array with the next epoch, which no label of a drive can have, or ended
/// with an overflow.
#[test]
fn nobody_counts_on_from_an_epoch_beyond_the_limit() {
    for epoch in [EPOCH_MAX + 1, i64::MAX as u64, u64::MAX] {
        with_bed(&[0, 0], async |bed| {
            bed.until_owned(|_| true).await;
            bed.sleep(1).await;
            let (owner, before) = bed.owner().expect("an owner");
            let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
            let (mut kept, _) = Kept::claim(client.clone(), STATE, before).await.expect("claimed");
            kept.replace(b"text").await.expect("kept");
            bed.nodes[owner].kill();
            overwrite(bed, OWNER, format!("epoch = {epoch}\n").as_bytes(), None).await;
            assert_eq!(bed.looks(Duration::from_secs(20)).await, []);
            let state = bed.nodes[1 - owner].member.borrow().state();
            let fault = state.fault.unwrap_or_default();
            assert!(fault.contains(&format!("owner/array in the registry: epoch {epoch}")), "{fault}");
            assert_eq!(state.epoch_seen, before);
            bed.nodes[1 - owner].kill();
            bed.sleep(10).await;
            let restored = restore_state(client, &[(STATE, Some(b"text".to_vec()))], before).await;
            assert_eq!(restored, Ok(before));
            bed.nodes[1 - owner].start(&bed.world);
            bed.until_owned(|_| true).await;
            assert_eq!(bed.owner(), Some((1 - owner, before + 1)));
        });
    }
}

/// Before, the highest epoch that could be typed was the highest that could be read: the next owner had one
/// that neither command took, and the array could not be restored any more.
#[test]
fn an_array_whose_epoch_was_raised_as_far_as_possible_can_be_restored() {
    with_bed(&[0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.nodes[0].kill();
        bed.sleep(10).await;
        let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
        let wanted = RAISED_EPOCH_MAX + 1;
        assert_eq!(raise_epoch(&*client, wanted).await, Err(RaiseError::TooHigh { wanted }));
        assert_eq!(raise_epoch(&*client, RAISED_EPOCH_MAX).await, Ok(1));
        bed.nodes[0].start(&bed.world);
        bed.until_owned(|_| true).await;
        assert_eq!(bed.owner(), Some((0, wanted)));
        bed.nodes[0].kill();
        bed.sleep(10).await;
        bed.store.forget("");
        let text = || Some(b"text".to_vec());
        assert_eq!(restore_state(client.clone(), &[(STATE, text())], wanted).await, Ok(wanted));
        bed.nodes[0].start(&bed.world);
        bed.until_owned(|_| true).await;
        assert_eq!(bed.owner(), Some((0, wanted + 1)));
        bed.nodes[0].kill();
        bed.sleep(10).await;
        let last = restore_state(client, &[(STATE, text())], EPOCH_MAX).await;
        assert_eq!(last, Err(RaiseError::LastEpoch { found: EPOCH_MAX }));
    });
}

/// Before, masu advised to raise the epoch to that of the labels, and refused to do it.
#[test]
fn an_epoch_that_labels_want_can_be_raised_to_as_far_as_an_owner_can_follow() {
    for labels in [RAISED_EPOCH_MAX + 5, EPOCH_MAX - 1, EPOCH_MAX] {
        with_bed(&[0], async |bed| {
            bed.until_owned(|_| true).await;
            let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
            wants_epoch(&*client, labels).await.expect("put");
            bed.nodes[0].kill();
            bed.sleep(10).await;
            bed.nodes[0].start(&bed.world);
            bed.sleep(3).await;
            let Standing::Standby(waits) = bed.nodes[0].standing() else { panic!("it owns the array") };
            assert_eq!(waits, Waits::OlderThanDrives { found: 1, wanted: labels });
            // Another one than that which the labels want is a slip of a hand.
            let wanted = RAISED_EPOCH_MAX + 1;
            assert_eq!(raise_epoch(&*client, wanted).await, Err(RaiseError::TooHigh { wanted }));
            let (advised, raised) = (waits.text(), raise_epoch(&*client, labels).await);
            if labels == EPOCH_MAX {
                assert_eq!(raised, Err(RaiseError::TooHigh { wanted: labels }));
                assert!(
                    advised.contains("replace these drives") && !advised.contains("raise-epoch"),
                    "{advised}"
                );
                return;
            }
            assert!(advised.contains(&format!("masu node raise-epoch {labels}")), "{advised}");
            assert_eq!(raised, Ok(1));
            bed.until_owned(|_| true).await;
            assert_eq!(bed.owner(), Some((0, labels + 1)));
        });
    }
}

#[test]
fn after_an_owner_of_the_highest_epoch_nobody_takes_over_and_each_says_what_to_do() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, before) = bed.owner().expect("an owner");
        bed.nodes[owner].kill();
        overwrite(bed, OWNER, &OwnerRecord { epoch: EPOCH_MAX, ..OwnerRecord::default() }.encode(), None)
            .await;
        assert_eq!(bed.looks(Duration::from_secs(20)).await, []);
        let Standing::Standby(waits) = bed.nodes[1 - owner].standing() else { panic!("a standby") };
        assert_eq!(waits, Waits::LastEpoch { found: EPOCH_MAX });
        assert!(
            waits.text().contains("delete the key owner/array") && waits.text().contains("restore-state")
        );
        // The record may be wrong: what it says is not remembered.
        assert_eq!(bed.nodes[1 - owner].member.borrow().state().epoch_seen, before);
    });
}

/// Before, the portals of such a node counted as those of node 0, or their tags overflowed.
#[test]
fn a_node_whose_number_no_node_can_have_is_passed_over_and_gets_another_one() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        let (owner, _) = bed.owner().expect("an owner");
        for number in ["1023", "65535"] {
            let member = format!("portals = [\"[::1]:3260\"]\nnumber = {number}\n");
            overwrite(bed, &format!("{MEMBERS}m{number}"), member.as_bytes(), None).await;
            overwrite(bed, &format!("{NUMBERS}{number}"), b"node = \"n9\"\n", None).await;
        }
        overwrite(bed, &format!("{MEMBERS}older"), b"portals = [\"[::1]:3260\"]\n", None).await;
        overwrite(bed, &format!("{NUMBERS}007"), b"node = \"n9\"\n", None).await;
        bed.sleep(5).await;
        let state = bed.nodes[owner].member.borrow().state();
        assert_eq!(state.others.len(), 1, "the standby: {:?}", state.others);
        for key in ["members/m1023", "members/m65535"] {
            assert!(state.passed_over.iter().any(|text| text.contains(key)), "{:?}", state.passed_over);
        }
        let new = Process::new(bed, "n9", 0);
        new.start(&bed.world);
        bed.sleep(2).await;
        assert_eq!(new.member.borrow().state().number, Some(2));
    });
}

/// Before, a node that took over put such a head again, with its own epoch.
#[test]
fn a_head_of_the_state_beyond_its_limits_is_damaged() {
    with_bed(&[], async |bed| {
        let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
        let rows = [
            format!("epoch = {}\nslot = 0\nlen = 0\nparts = []\n", EPOCH_MAX + 1),
            format!("epoch = 1\nslot = 0\nlen = 1\nparts = [{}]\n", u64::MAX),
            format!("epoch = 1\nslot = 0\nlen = {}\nparts = [1]\n", u64::MAX),
            "epoch = 1\nslot = 2\nlen = 0\nparts = []\n".to_owned(),
        ];
        for head in rows {
            overwrite(bed, "state/array", head.as_bytes(), None).await;
            let claimed = Kept::claim(client.clone(), STATE, 5).await.map(|_| ());
            assert!(matches!(claimed, Err(KeptError::Damaged(_))), "{head}: {claimed:?}");
            let found = client.get(&named("state/array")).await.expect("it answers").expect("there");
            assert_eq!(found.value, head.as_bytes(), "it was not replaced");
        }
    });
}
