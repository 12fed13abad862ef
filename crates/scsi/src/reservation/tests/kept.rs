//! What is in the record of reservations, and what another process makes of it.

use super::*;

#[test]
fn what_survives_a_power_loss_is_in_the_record() {
    let mut s = Script::new();
    assert_eq!(s.raw(1, 6, 0, &list(0, 5, 0)).expect("registers").save, None);
    let mut record = s.raw(2, 6, 0, &list(0, 6, 1)).expect("registers").save.expect("saved");
    assert_eq!(s.view(2)[3] & 1, 1, "PTPL_A");
    record = s.out(2, 1, 8, 6, 0).expect("reserves").save.unwrap_or(record);
    let mut after = Script::begins_with(&record, Persistence::AsAsked);
    assert_eq!((after.keys(), after.reservation(), after.generation()), (vec![5, 6], Some((0, 8)), 0));
    assert_eq!(after.access(3), (false, false));
    // The last registration says that nothing is to survive: an empty record replaces the old one.
    let empty = after.raw(1, 6, 0, &list(0, 5, 0)).expect("registers").save.expect("saved");
    assert_eq!(Script::begins_with(&empty, Persistence::AsAsked).keys(), Vec::<u64>::new());
}

/// Of an array of several nodes, of which each may end at any moment.
#[test]
fn every_change_is_in_the_record_that_the_next_node_begins_with() {
    let mut s = Script::kept(Persistence::Always);
    let mut record = Vec::new();
    // Registers without APTPL, through all ports and for another initiator port, reserves, changes a key,
    // preempts, moves, releases.
    let another = host(4).initiator.transport_id();
    let mut specified = list(0, key(1), 0x0C);
    specified.extend((another.len() as u32).to_be_bytes());
    specified.extend(another);
    let steps: [(u8, u8, u8, Vec<u8>); 8] = [
        (1, 0, 0, specified),
        (2, 6, 0, list(0, key(2), 0)),
        (1, 1, 5, list(key(1), 0, 0)),
        (3, 6, 0, list(0, key(3), 0)),
        // The same key again: PRgeneration alone changes.
        (3, 6, 0, list(0, key(3), 0)),
        (2, 4, 6, list(key(2), key(1), 0)),
        (2, 2, 6, list(key(2), 0, 0)),
        (3, 3, 0, list(key(3), 0, 0)),
    ];
    for (n, action, kind, list) in steps {
        let step = format!("action {action} of host {n}");
        record = s.raw(n, action, kind, &list).expect(&step).save.expect(&step);
        let next = Script::begins_with(&record, Persistence::Always);
        for view in 0..=3 {
            assert_eq!(next.view(view), s.view(view), "view {view} after {step}");
        }
        for n in 1..=4 {
            assert_eq!(next.access(n), s.access(n), "access of host {n} after {step}");
        }
    }
    assert_eq!((s.generation(), s.keys()), (6, vec![]));
    assert_eq!(s.out(1, 0, 0, 0, 0).expect("nothing to unregister").save, None, "and nothing to save");
    // PTPL_A is what the host has asked for, not what the array does.
    s.raw(1, 6, 0, &list(0, key(1), 1)).expect("registers");
    record = s.out(1, 1, 1, key(1), 0).expect("reserves").save.unwrap_or(record);
    assert_eq!(Script::begins_with(&record, Persistence::Always).view(2)[3] & 1, 1);
    // With one process again, what was not to survive it is gone.
    let alone = Script::begins_with(&record, Persistence::AsAsked);
    assert_eq!((alone.keys(), alone.generation(), alone.reservation()), (vec![key(1)], 0, Some((key(1), 1))));
    record = s.raw(1, 6, 0, &list(0, key(1), 0)).expect("registers").save.expect("saved");
    assert_eq!(Script::begins_with(&record, Persistence::AsAsked).keys(), Vec::<u64>::new());
}

#[test]
fn a_record_of_an_array_of_one_process_is_read_by_one_of_several_nodes() {
    let mut s = Script::new();
    s.raw(1, 6, 0, &list(0, key(1), 1)).expect("registers");
    let record = s.out(1, 1, 3, key(1), 0).expect("reserves").save.expect("saved");
    assert_eq!(record[..8], *b"masu-pr\x01", "the lowest format that represents it");
    let next = Script::begins_with(&record, Persistence::Always);
    assert_eq!((next.keys(), next.reservation(), next.generation()), (vec![key(1)], Some((key(1), 3)), 0));
}
