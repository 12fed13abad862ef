//! Registrations at all target ports (ALL_TG_PT), and ports that appear later.

use super::*;
use crate::reservation::Reservations;

const ALL_TG_PT: u8 = 0x04;
/// That of a node that joins later.
const LATER: u16 = 65;

fn at(n: u8, port: u16) -> ItNexus {
    ItNexus { port, ..host(n) }
}

/// Host 1 and host 2 are registered everywhere, host 3 at one port; host 1 holds the reservation of this
/// type.
fn reserved(kind: u8) -> Script {
    let mut s = Script::kept(Persistence::Always);
    for (n, flags) in [(1, ALL_TG_PT), (2, ALL_TG_PT), (3, 0)] {
        s.raw(n, 6, 0, &list(0, key(n), flags)).expect("registers");
    }
    s.out(1, 1, kind, key(1), 0).expect("reserves");
    s
}

/// Whether a write through this port is admitted, as a logical unit asks.
fn writes(s: &Script, n: u8, port: u16) -> bool {
    let reservations = Reservations::with(s.state.clone(), s.persistence);
    reservations.check_of(&at(n, port), Access::Write).is_ok()
}

/// A node had joined, and hosts were refused at its portals until they registered again.
#[test]
fn who_is_registered_everywhere_is_so_at_a_port_that_appears_later() {
    // Exclusive access with registrants, and with all of them as holders.
    for kind in [5, 6, 7, 8] {
        let s = reserved(kind);
        let all = [1, 2, 3].map(|n| writes(&s, n, LATER));
        assert_eq!(all, [true, true, false], "type {kind}");
    }
    // Without them, the holder's nexus alone has access.
    assert_eq!([1, 2, 3].map(|n| writes(&reserved(1), n, LATER)), [false; 3]);
    // A process that begins with the record has the same.
    let mut s = reserved(5);
    let record = s.raw(3, 6, 0, &list(0, key(3), 0)).expect("registers").save.expect("saved");
    let next = Script::begins_with(&record, Persistence::Always);
    assert_eq!([1, 2, 3].map(|n| writes(&next, n, LATER)), [true, true, false]);
    assert_eq!((next.keys(), next.generation()), (s.keys(), s.generation()));
}

#[test]
fn a_port_that_appears_has_all_that_a_registration_brings() {
    let mut s = reserved(5);
    s.ports.push(LATER);
    // The host may send each command by it, is listed there, and is told and aborted there.
    s.raw_by(&at(1, LATER), 1, 5, &list(key(1), 0, 0)).expect_err("it is no holder by another port");
    let verdict = s.raw_by(&at(1, LATER), 5, 5, &list(key(1), key(2), 0)).expect("preempts");
    let (told, doomed) = (vec![at(2, 1), at(2, 2), at(2, LATER)], verdict.abort.clone());
    assert_eq!(doomed, told);
    assert_eq!(s.keys(), [key(1), key(1), key(1), key(3)]);
    // What was taken from it everywhere does not come back with the next port.
    assert_eq!((writes(&s, 1, 129), writes(&s, 2, 129)), (true, false));
}

#[test]
fn one_that_changes_or_removes_a_registration_alone_is_registered_port_by_port() {
    let alone: [(&str, u8, Vec<u8>); 4] = [
        ("another key", 0, list(key(2), 9, 0)),
        ("unregistered at one port", 0, list(key(2), 0, 0)),
        ("unregistered everywhere", 0, list(key(2), 0, ALL_TG_PT)),
        ("unregistered, whatever the key", 6, list(0, 0, ALL_TG_PT)),
    ];
    for (what, action, list) in alone {
        let mut s = reserved(5);
        s.raw(2, action, 0, &list).expect(what);
        assert_eq!((writes(&s, 1, LATER), writes(&s, 2, LATER)), (true, false), "{what}");
    }
    let mut s = reserved(5);
    // The same key again changes nothing, and another one everywhere is one everywhere.
    s.raw(2, 0, 0, &list(key(2), key(2), 0)).expect("the same key");
    assert!(writes(&s, 2, LATER));
    s.ports = vec![1];
    s.raw(2, 0, 0, &list(key(2), 9, ALL_TG_PT)).expect("also at the port that is gone");
    assert_eq!(s.keys(), [key(1), key(1), 9, 9, key(3)]);
    assert!(writes(&s, 2, LATER));
    s.out(1, 3, 0, key(1), 0).expect("clears");
    assert_eq!((s.keys(), s.state.everywhere.len()), (vec![], 0));
}

/// An older masu knows no entries of port 0: it must read the record, and may have changed it.
#[test]
fn the_record_is_one_that_older_versions_read() {
    let mut s = reserved(5);
    let record = s.raw(3, 6, 0, &list(0, key(3), 0)).expect("registers").save.expect("saved");
    assert_eq!(record[..8], *b"masu-pr\x02");
    assert_eq!(u16::from_le_bytes([record[12], record[13]]), 5 + 2, "a registration more for each host");
    // An older one has changed the key of host 2 at port 2, the fourth entry.
    let entry = super::record::ENTRY_FIXED_LEN + host(1).initiator.name.len();
    let mut changed = record.clone();
    let at = 18 + 3 * entry;
    assert_eq!(changed[at..at + 8], key(2).to_le_bytes());
    changed[at] ^= 1;
    super::record::seal(&mut changed);
    let next = Script::begins_with(&changed, Persistence::Always);
    assert_eq!((writes(&next, 1, LATER), writes(&next, 2, LATER)), (true, false));
    // Held by no port: no record of ours.
    let mut malformed = record;
    malformed[10] = 5;
    super::record::seal(&mut malformed);
    assert!(State::restore(&malformed).is_err());
}

#[test]
fn registrations_everywhere_count_and_a_port_without_room_is_refused() {
    let mut s = Script::kept(Persistence::Always);
    // Each host takes two registrations and the entry for all ports.
    let hosts = REGISTRANTS_MAX / 3;
    for n in 0..hosts {
        s.raw(n as u8, 6, 0, &list(0, 7, ALL_TG_PT)).expect("registers");
    }
    let refused = s.raw(hosts as u8, 6, 0, &list(0, 7, ALL_TG_PT)).expect_err("no room");
    assert_eq!(refused, CommandError::InsufficientRegistrationResources);
    s.out(0, 1, 5, 7, 0).expect("reserves");
    // Room for one more registration.
    assert!(writes(&s, 0, LATER) && !writes(&s, 1, LATER));
}
