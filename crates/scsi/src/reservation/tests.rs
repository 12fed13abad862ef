//! State as hosts use them: scripts of commands, and what every other host then sees.

mod everywhere;
mod kept;

use std::sync::Arc;

use super::it_nexus::ItNexus;
use super::out::{Surroundings, Verdict};
use super::record::{self, Persistence};
use super::state::{REGISTRANTS_MAX, State};
use crate::attention::Attention;
use crate::error::CommandError;
use crate::nexus::InitiatorPort;
use crate::opcode::Access;

const PORTS: [u16; 2] = [1, 2];

fn host(n: u8) -> ItNexus {
    ItNexus {
        initiator: Arc::new(InitiatorPort {
            name: format!("iqn.2026-01.test:h{n}"),
            isid: [0x80, 0, 0, 0, 0, n],
        }),
        port: 1,
    }
}

/// One target and what its hosts have sent so far.
struct Script {
    state: State,
    persistence: Persistence,
    /// The target's.
    ports: Vec<u16>,
}

impl Script {
    fn new() -> Script {
        Script::kept(Persistence::AsAsked)
    }

    fn kept(persistence: Persistence) -> Script {
        Script { state: State::default(), persistence, ports: PORTS.to_vec() }
    }

    /// The process ends, and another one begins with the last record.
    fn begins_with(record: &[u8], persistence: Persistence) -> Script {
        let state = State::restore(record).expect("reads back").begun(persistence);
        Script { state, ..Script::kept(persistence) }
    }

    fn raw(&mut self, n: u8, action: u8, kind: u8, list: &[u8]) -> Result<Verdict, CommandError> {
        self.raw_by(&host(n), action, kind, list)
    }

    fn raw_by(
        &mut self,
        nexus: &ItNexus,
        action: u8,
        kind: u8,
        list: &[u8],
    ) -> Result<Verdict, CommandError> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2]) = (0x5F, action, kind);
        let initiators: Vec<_> = (1..9).map(|n| host(n).initiator).collect();
        let persistence = self.persistence;
        let around = Surroundings { ports: &self.ports, initiators: &initiators, persistence };
        self.state.persistent_out(nexus, &cdb, list, around)
    }

    fn out(
        &mut self,
        n: u8,
        action: u8,
        kind: u8,
        key: u64,
        action_key: u64,
    ) -> Result<Verdict, CommandError> {
        self.raw(n, action, kind, &list(key, action_key, 0))
    }

    /// Registers hosts 1..=n with the keys 0x101, 0x102, ...
    fn registered(n: u8) -> Script {
        let mut script = Script::new();
        for i in 1..=n {
            script.out(i, 6, 0, 0, key(i)).expect("registering succeeds");
        }
        script
    }

    fn view(&self, action: u8) -> Vec<u8> {
        let mut cdb = [0; 16];
        cdb[1] = action;
        self.state.persistent_in(&cdb, true).expect("service actions 0 to 3 succeed")
    }

    fn keys(&self) -> Vec<u64> {
        self.view(0)[8..].chunks(8).map(|k| u64::from_be_bytes(k.try_into().expect("eight"))).collect()
    }

    fn generation(&self) -> u32 {
        u32::from_be_bytes(self.view(0)[..4].try_into().expect("four"))
    }

    /// Key and type of the reservation.
    fn reservation(&self) -> Option<(u64, u8)> {
        let view = self.view(1);
        (view.len() > 8).then(|| (u64::from_be_bytes(view[8..16].try_into().expect("eight")), view[21]))
    }

    /// Read and write access of a host.
    fn access(&self, n: u8) -> Rights {
        (!self.state.conflicts(&host(n), Access::Read), !self.state.conflicts(&host(n), Access::Write))
    }
}

/// Reading, writing.
type Rights = (bool, bool);

fn key(n: u8) -> u64 {
    0x100 + u64::from(n)
}

fn list(key: u64, action_key: u64, flags: u8) -> Vec<u8> {
    let mut list = key.to_be_bytes().to_vec();
    list.extend(action_key.to_be_bytes());
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    list
}

/// Who is told what.
fn told(verdict: &Verdict) -> Vec<(u8, Attention)> {
    verdict.attentions.iter().map(|(nexus, what)| (nexus.initiator.isid[5], *what)).collect()
}

#[test]
fn every_type_gives_the_access_that_the_table_says() {
    // Registered host 2, unregistered host 3; the holder, host 1, has all.
    let table: [(u8, Rights, Rights); 6] = [
        (1, (true, false), (true, false)),
        (3, (false, false), (false, false)),
        (5, (true, true), (true, false)),
        (6, (true, true), (false, false)),
        (7, (true, true), (true, false)),
        (8, (true, true), (false, false)),
    ];
    for (kind, registered, unregistered) in table {
        let mut s = Script::registered(2);
        s.out(1, 1, kind, key(1), 0).expect("reserving succeeds");
        assert_eq!(
            (s.access(1), s.access(2), s.access(3)),
            ((true, true), registered, unregistered),
            "type {kind}"
        );
        for free in [Access::Free, Access::Query, Access::Own] {
            assert!(!s.state.conflicts(&host(3), free));
        }
        let shown = if kind >= 7 { 0 } else { key(1) };
        assert_eq!(s.reservation(), Some((shown, kind)));
    }
}

#[test]
fn registering_follows_the_table() {
    let mut s = Script::new();
    assert_eq!(s.out(1, 0, 0, 5, 6), Err(CommandError::ReservationConflict));
    assert_eq!(s.out(1, 0, 0, 0, 0), Ok(Verdict::default()));
    assert_eq!(s.generation(), 0);
    s.out(1, 0, 0, 0, 6).expect("registers");
    assert_eq!((s.keys(), s.generation()), (vec![6], 1));
    assert_eq!(s.out(1, 0, 0, 0, 7), Err(CommandError::ReservationConflict));
    s.out(1, 0, 0, 6, 7).expect("changes the key");
    s.out(1, 6, 0, 99, 8).expect("ignores the old key");
    assert_eq!((s.keys(), s.generation()), (vec![8], 3));
    s.out(1, 0, 0, 8, 0).expect("unregisters");
    assert_eq!((s.keys(), s.generation()), (vec![], 4));
    assert_eq!(
        s.out(1, 1, 1, 8, 0),
        Err(CommandError::ReservationConflict),
        "unregistered hosts reserve nothing"
    );
}

#[test]
fn lists_have_one_length_and_fields_that_are_known() {
    let mut s = Script::registered(1);
    for len in [0, 8, 23, 25, 28] {
        let mut bytes = list(key(1), 0, 0);
        bytes.resize(len, 0);
        for action in 0..8 {
            assert_eq!(
                s.raw(1, action, 1, &bytes),
                Err(CommandError::ParameterListLength),
                "action {action}, {len} bytes"
            );
        }
    }
    for action in 8..0x20 {
        assert_eq!(s.out(1, action, 1, key(1), 0), Err(CommandError::field(1)), "action {action}");
    }
    for kind in [0, 2, 4, 9, 15, 0x11, 0x21] {
        assert_eq!(s.out(1, 1, kind, key(1), 0), Err(CommandError::field(2)), "type {kind:x}");
    }
    let mut cdb = [0; 16];
    for action in 4..0x20 {
        cdb[1] = action;
        assert_eq!(s.state.persistent_in(&cdb, true), Err(CommandError::field(1)));
    }
}

#[test]
fn only_the_holder_releases_and_the_registrants_are_told() {
    for kind in [1, 3, 5, 6, 7, 8] {
        let mut s = Script::registered(3);
        s.out(1, 1, kind, key(1), 0).expect("reserves");
        s.out(1, 1, kind, key(1), 0).expect("reserving again is good");
        let generation = s.generation();
        let other = if kind == 1 { 3 } else { 1 };
        assert_eq!(s.out(1, 2, other, key(1), 0), Err(CommandError::InvalidRelease));
        assert_eq!(s.out(2, 1, other, key(2), 0), Err(CommandError::ReservationConflict));
        if kind < 7 {
            assert_eq!(s.out(2, 2, kind, key(2), 0), Ok(Verdict::default()), "a GOOD without effect");
            assert!(s.reservation().is_some());
        }
        let by = if kind < 7 { 1 } else { 2 };
        let verdict = s.out(by, 2, kind, key(by), 0).expect("releases");
        let expected: Vec<_> =
            (1..=3).filter(|&n| n != by && kind >= 5).map(|n| (n, Attention::ReservationsReleased)).collect();
        assert_eq!(
            (told(&verdict), s.reservation(), s.generation()),
            (expected, None, generation),
            "type {kind}"
        );
    }
}

#[test]
fn a_holder_that_unregisters_releases_unless_all_registrants_hold() {
    for kind in [1, 3, 5, 6, 7, 8] {
        let mut s = Script::registered(2);
        s.out(1, 1, kind, key(1), 0).expect("reserves");
        let verdict = s.out(1, 0, 0, key(1), 0).expect("unregisters");
        let expected =
            if matches!(kind, 5 | 6) { vec![(2, Attention::ReservationsReleased)] } else { vec![] };
        assert_eq!((told(&verdict), s.reservation().is_some()), (expected, kind >= 7), "type {kind}");
        let verdict = s.out(2, 6, 0, 0, 0).expect("unregisters");
        assert_eq!((told(&verdict), s.reservation()), (vec![], None));
    }
}

#[test]
fn clear_removes_everything_and_tells_everybody_else() {
    let mut s = Script::registered(3);
    s.out(1, 1, 5, key(1), 0).expect("reserves");
    assert_eq!(s.out(4, 3, 0, 0, 0), Err(CommandError::ReservationConflict));
    let verdict = s.out(2, 3, 0, key(2), 0).expect("clears");
    assert_eq!(
        told(&verdict),
        vec![(1, Attention::ReservationsPreempted), (3, Attention::ReservationsPreempted)]
    );
    assert_eq!((s.keys(), s.reservation(), s.generation()), (vec![], None, 4));
}

#[test]
fn preempt_takes_registrations_or_the_reservation() {
    let mut s = Script::registered(3);
    assert_eq!(s.out(1, 4, 1, key(1), 0x999), Err(CommandError::ReservationConflict), "nobody has that key");
    let verdict = s.out(1, 4, 0, key(1), key(2)).expect("removes a registration");
    assert_eq!((told(&verdict), &verdict.abort), (vec![(2, Attention::RegistrationsPreempted)], &vec![]));
    assert_eq!((s.keys(), s.generation()), (vec![key(1), key(3)], 4));

    s.out(3, 1, 5, key(3), 0).expect("reserves");
    assert_eq!(
        s.out(1, 4, 3, key(1), 0),
        Err(CommandError::parameter(8)),
        "zero is only for the all registrants types"
    );
    s.out(2, 6, 0, 0, key(2)).expect("comes back");
    let verdict = s.out(1, 5, 3, key(1), key(3)).expect("takes the reservation");
    assert_eq!(
        told(&verdict),
        vec![(3, Attention::RegistrationsPreempted), (2, Attention::ReservationsReleased)]
    );
    assert_eq!(verdict.abort, vec![host(3)]);
    assert_eq!((s.reservation(), s.keys()), (Some((key(1), 3)), vec![key(1), key(2)]));
    assert_eq!(s.access(3), (false, false));

    let verdict = s.out(1, 4, 3, key(1), key(1)).expect("a holder preempts itself");
    assert_eq!((told(&verdict), s.reservation()), (vec![], Some((key(1), 3))));
}

#[test]
fn preempt_of_all_registrants_needs_key_zero() {
    let mut s = Script::registered(3);
    s.out(1, 1, 7, key(1), 0).expect("reserves");
    let verdict = s.out(2, 4, 1, key(2), key(3)).expect("removes a registration");
    assert_eq!(
        (told(&verdict), s.reservation()),
        (vec![(3, Attention::RegistrationsPreempted)], Some((0, 7)))
    );
    let verdict = s.out(2, 5, 1, key(2), 0).expect("takes all");
    assert_eq!(
        (told(&verdict), verdict.abort),
        (vec![(1, Attention::RegistrationsPreempted)], vec![host(1)])
    );
    assert_eq!((s.keys(), s.reservation()), (vec![key(2)], Some((key(2), 1))));
}

#[test]
fn a_reservation_moves_to_another_nexus() {
    let mut s = Script::registered(1);
    let to = |port: u16, id: Vec<u8>, flags: u8, action_key: u64| {
        let mut bytes = list(key(1), action_key, 0);
        bytes[17] = flags;
        bytes[18..20].copy_from_slice(&port.to_be_bytes());
        bytes[20..24].copy_from_slice(&(id.len() as u32).to_be_bytes());
        bytes.extend(id);
        bytes
    };
    let id = host(2).initiator.transport_id();
    assert_eq!(
        s.raw(1, 7, 0, &to(2, id.clone(), 0, 9)),
        Err(CommandError::ReservationConflict),
        "it holds nothing"
    );
    s.out(1, 1, 3, key(1), 0).expect("reserves");
    assert_eq!(s.raw(1, 7, 0, &to(2, id.clone(), 0, 0)), Err(CommandError::parameter(8)));
    assert_eq!(s.raw(1, 7, 0, &to(7, id.clone(), 0, 9)), Err(CommandError::parameter(18)));
    assert_eq!(s.raw(1, 7, 0, &to(2, vec![0; 24], 0, 9)), Err(CommandError::parameter(24)));
    assert_eq!(
        s.raw(1, 7, 0, &to(1, host(1).initiator.transport_id(), 0, 9)),
        Err(CommandError::parameter(24))
    );
    s.raw(1, 7, 0, &to(2, id, 2, 9)).expect("moves");
    assert_eq!((s.reservation(), s.keys()), (Some((9, 3)), vec![9]));
    let there = ItNexus { port: 2, ..host(2) };
    assert!(!s.state.conflicts(&there, Access::Write));
    assert!(s.state.conflicts(&host(1), Access::Read));
}

#[test]
fn one_command_registers_other_initiators_and_ports() {
    let with_ids = |ids: &[Vec<u8>], flags: u8| {
        let mut bytes = list(0, 7, flags);
        let len: usize = ids.iter().map(Vec::len).sum();
        bytes.extend((len as u32).to_be_bytes());
        bytes.extend(ids.iter().flatten());
        bytes
    };
    let ids = [host(2).initiator.transport_id(), host(3).initiator.transport_id()];
    let mut s = Script::new();
    s.raw(1, 0, 0, &with_ids(&ids, 0x0C)).expect("registers");
    assert_eq!((s.keys(), s.generation()), (vec![7; 6], 1), "three hosts through two ports");
    assert_eq!(s.view(3).len(), 8 + 6 * (24 + 44));
    assert_eq!(
        s.raw(1, 0, 0, &with_ids(&ids, 0x08)),
        Err(CommandError::ReservationConflict),
        "the key is 7 now"
    );

    let mut device = vec![0u8; 24];
    (device[0], device[3]) = (0x05, 20);
    device[4..22].copy_from_slice(b"iqn.2026-01.test:h");
    let mut s = Script::new();
    s.raw(1, 0, 0, &with_ids(std::slice::from_ref(&device), 0x08))
        .expect("a device that is not logged in has no ports");
    assert_eq!(s.keys(), vec![7]);
    device[22] = b'5';
    assert_eq!(Script::new().raw(1, 0, 0, &with_ids(&[vec![5; 24]], 0x08)), Err(CommandError::parameter(28)));
    let mut s = Script::new();
    s.raw(1, 0, 0, &with_ids(&[device], 0x08)).expect("registers every known port of the device");
    assert_eq!(s.keys(), vec![7, 7]);
    assert_eq!(
        s.raw(1, 6, 0, &list(0, 7, 8)),
        Err(CommandError::parameter(20)),
        "only REGISTER names others"
    );
    let mut cut = with_ids(&ids, 8);
    cut.pop();
    assert_eq!(Script::new().raw(1, 0, 0, &cut), Err(CommandError::ParameterListLength));
}

#[test]
fn registrations_have_a_limit_and_a_refused_list_changes_nothing() {
    let mut s = Script::new();
    for n in 0..REGISTRANTS_MAX {
        let nexus = ItNexus { port: n as u16, ..host(1) };
        let cdb = [0x5F, 6, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0];
        let around = Surroundings { ports: &PORTS, initiators: &[], persistence: s.persistence };
        s.state.persistent_out(&nexus, &cdb, &list(0, 5, 1), around).expect("there is room");
    }
    let before = s.view(3);
    assert_eq!(s.out(2, 6, 0, 0, 5), Err(CommandError::InsufficientRegistrationResources));
    assert_eq!(s.view(3), before);
    assert!(s.state.encode(Persistence::Always).len() <= 64 << 10);
}

#[test]
fn reserve_and_release_follow_the_old_rules_and_yield_to_the_new() {
    let mut s = Script::new();
    s.state.reserve(&host(1)).expect("free");
    s.state.reserve(&host(1)).expect("its own");
    assert_eq!(s.state.reserve(&host(2)), Err(CommandError::ReservationConflict));
    s.state.release(&host(2)).expect("a GOOD without effect");
    for class in [Access::Query, Access::Read, Access::Write] {
        assert!(s.state.conflicts(&host(2), class) && !s.state.conflicts(&host(1), class));
    }
    assert!(!s.state.conflicts(&host(2), Access::Free));
    assert_eq!(s.out(1, 6, 0, 0, 5), Err(CommandError::ReservationConflict));
    assert_eq!(s.state.persistent_in(&[0; 16], true), Err(CommandError::ReservationConflict));
    s.state.nexus_lost(&host(1));
    assert!(!s.state.is_reserved());

    let mut s = Script::registered(2);
    assert_eq!(
        s.state.reserve(&host(1)),
        Err(CommandError::ReservationConflict),
        "keys are registered, nothing is held"
    );
    s.out(1, 1, 1, key(1), 0).expect("reserves");
    s.state.reserve(&host(1)).expect("the holder is exempt");
    assert_eq!(s.state.reserve(&host(2)), Err(CommandError::ReservationConflict));
    s.out(1, 2, 1, key(1), 0).expect("releases");
    s.out(1, 1, 6, key(1), 0).expect("reserves");
    s.state.release(&host(2)).expect("registrants are exempt");
    assert_eq!(s.state.release(&host(3)), Err(CommandError::ReservationConflict));
    assert_eq!(s.reservation(), Some((key(1), 6)), "nothing was released");
}

#[test]
fn hostile_records_and_lists_are_answered() {
    [Persistence::AsAsked, Persistence::Always].into_iter().for_each(hostile_records_and_lists);
}

fn hostile_records_and_lists(persistence: Persistence) {
    let mut rng = Dice(7);
    let mut s = Script { persistence, ..Script::registered(3) };
    s.raw(1, 1, 5, &list(key(1), 0, 0)).expect("reserves");
    s.raw(1, 6, 0, &list(0, key(1), 1)).expect("survives power loss");
    let record = s.state.encode(persistence);
    let mut restored = 0;
    for _ in 0..100_000 {
        let mut bytes = record.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next() as u8;
        }
        if rng.below(4) == 0 {
            bytes.truncate(rng.below(bytes.len()));
        }
        if rng.below(2) == 0 && bytes.len() > 8 {
            record::seal(&mut bytes);
        }
        if let Ok(state) = State::restore(&bytes) {
            restored += 1;
            assert!(state.registrants().count() <= REGISTRANTS_MAX);
            state
                .persistent_in(&[0x5E, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], true)
                .expect("every state can be shown");
        }
    }
    assert!(restored > 0);
    for _ in 0..100_000 {
        let mut bytes = list(key(1 + rng.below(3) as u8), key(rng.below(5) as u8), rng.next() as u8 & 0x0D);
        let tail = rng.below(96);
        bytes.extend((tail as u32).to_be_bytes());
        bytes.extend((0..tail).map(|_| rng.next() as u8));
        for _ in 0..rng.below(3) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next() as u8;
        }
        if bytes[20] & 8 == 0 && rng.below(4) > 0 {
            bytes.truncate(24);
        }
        let _ = s.raw(1 + rng.below(4) as u8, rng.below(9) as u8, rng.below(9) as u8, &bytes);
        assert!(!s.state.holder_is_gone(), "a reservation always has a holder");
        assert!(s.state.registrants().count() <= REGISTRANTS_MAX);
    }
}

/// A small generator: xorshift.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
