//! Who gets a lock, and in which order.

use std::sync::{Arc, Mutex};
use std::task::Wake;

use super::*;

fn is_held(lock: &Acquire<'_>) -> bool {
    let guard = lock.0.as_ref().expect("not taken");
    guard.locks.0.borrow().slots[guard.slot].blockers == 0
}

#[test]
fn locks_are_shared_exclusive_and_fair() {
    let locks = RangeLocks::default();
    let (a, b) = (locks.shared(0..10), locks.shared(5..15));
    assert!(is_held(&a) && is_held(&b), "shared locks overlap");
    let c = locks.exclusive(8..9);
    let d = locks.shared(8..9);
    let e = locks.exclusive(100..101);
    assert!(!is_held(&c), "exclusive waits for both");
    assert!(!is_held(&d), "a younger shared lock does not overtake");
    assert!(is_held(&e), "another range is free");
    assert!(is_held(&locks.shared(15..100)), "between them, too");
    assert!(!locks.is_held_exclusively(&(0..100)) && locks.is_held_exclusively(&(0..101)));
    assert!(locks.has_exclusive(&(8..9)) && !locks.has_exclusive(&(9..100)), "it waits, and counts");
    drop(a);
    assert!(!is_held(&c));
    drop(b);
    assert!(is_held(&c) && !is_held(&d));
    assert!(locks.is_held_exclusively(&(0..100)) && !locks.is_held_exclusively(&(9..100)));
    drop(c);
    assert!(is_held(&d));
    drop((d, e));
    assert_eq!(locks.in_use(), 0);
}

#[test]
fn writes_exclude_writes_and_share_with_reads() {
    let locks = RangeLocks::default();
    let (a, read) = (locks.write(0..10), locks.shared(5..15));
    assert!(is_held(&a) && is_held(&read) && is_held(&locks.write(10..20)));
    let (b, later) = (locks.write(9..11), locks.shared(9..11));
    assert!(!is_held(&b) && is_held(&later), "a read waits for no write");
    let exclusive = locks.exclusive(12..13);
    assert!(!is_held(&exclusive), "it waits for the read");
    drop(read);
    assert!(is_held(&exclusive) && !is_held(&b));
    drop(a);
    assert!(is_held(&b));
    drop((b, later, exclusive));
    assert_eq!(locks.in_use(), 0);
}

#[test]
fn a_waiter_that_gives_up_lets_the_next_one_through() {
    let locks = RangeLocks::default();
    let held = locks.shared(0..4);
    let tired = locks.exclusive(0..4);
    let next = locks.shared(0..4);
    assert!(!is_held(&next));
    drop(tired);
    assert!(is_held(&next));
    drop(held);
}

#[test]
fn who_only_tries_gets_what_is_free_and_does_not_wait() {
    let locks = RangeLocks::default();
    let held = locks.try_exclusive(0..10).expect("free");
    assert!(locks.is_held_exclusively(&(5..6)));
    assert!(locks.try_exclusive(9..20).is_none() && locks.try_exclusive(10..20).is_some());
    let writer = locks.shared(5..15);
    assert!(!is_held(&writer));
    assert!(locks.try_exclusive(12..13).is_none(), "somebody waits for it");
    drop(held);
    assert!(is_held(&writer) && !locks.is_held_exclusively(&(0..100)));
}

#[test]
fn several_ranges_are_locked_at_once_and_nothing_between_them() {
    let locks = RangeLocks::default();
    let held = locks.exclusive_of([20..21, 0..2, 10..12, 1..3]);
    assert!(is_held(&held));
    for (range, is_free) in [(0..1, false), (2..3, false), (3..10, true), (11..20, false), (21..99, true)] {
        assert_eq!(locks.is_free(&range), is_free, "{range:?}");
        assert_eq!(is_held(&locks.shared(range.clone())), is_free, "{range:?}");
    }
    let two = locks.exclusive_of([5..6, 20..30]);
    let between = locks.exclusive_of([3..4, 12..20]);
    assert!(!is_held(&two) && is_held(&between));
    assert!(!is_held(&locks.shared(5..6)), "one that waits is not passed");
    drop(held);
    assert!(is_held(&two));
    assert!(is_held(&locks.exclusive_of([])), "nothing is always free");
    drop((two, between));
    assert!(locks.is_free(&(0..u64::MAX)) && locks.in_use() == 0);
}

/// Random locks and releases against the rule, said as simply as it can be: a lock is held exactly when no
/// older one conflicts with it.
#[test]
fn what_is_held_follows_the_rule() {
    let locks = RangeLocks::default();
    let mut all: Vec<(Range<u64>, LockMode, Acquire<'_>)> = Vec::new();
    let mut state = 1u64;
    let mut random = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    for step in 0..20_000 {
        if all.len() < 40 && random(2) == 0 {
            let from = random(50);
            let range = from..from + random(8);
            let mode = if random(3) == 0 { LockMode::Exclusive } else { LockMode::Shared };
            all.push((range.clone(), mode, locks.lock(range, mode)));
        } else if !all.is_empty() {
            drop(all.remove(random(all.len() as u64) as usize));
        }
        for (i, (range, mode, lock)) in all.iter().enumerate() {
            let stands_against = |(other, other_mode, _): &(Range<u64>, LockMode, Acquire<'_>)| {
                (*mode, *other_mode) != (LockMode::Shared, LockMode::Shared)
                    && range.start < other.end
                    && other.start < range.end
            };
            assert_eq!(is_held(lock), !all[..i].iter().any(stands_against), "step {step}: {range:?}");
        }
        assert_eq!(locks.in_use(), all.len());
    }
    let slots = locks.0.borrow().slots.len();
    assert!(slots <= 40, "{slots} slots: those that were released are taken again");
}

/// Notes its number when it is woken.
struct Noted(usize, Arc<Mutex<Vec<usize>>>);

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.1.lock().expect("one thread").push(self.0);
    }
}

/// Six hundred steps of one history: whose lock is held after each, and the order in which they were woken.
fn history(seed: u64, indexed_from: usize) -> (Vec<Vec<bool>>, Vec<usize>) {
    let locks = RangeLocks::default();
    locks.0.borrow_mut().indexed_from = indexed_from;
    let (mut rng, woken) = (world::Rng::with_seed(seed), Arc::<Mutex<Vec<usize>>>::default());
    let (mut all, mut states) = (Vec::<Acquire<'_>>::new(), Vec::new());
    for step in 0..600 {
        if !all.is_empty() && rng.u32(..10) < if step < 400 { 2 } else { 8 } {
            drop(all.swap_remove(rng.usize(..all.len())));
        } else {
            let mut range = || {
                let start = rng.u64(..1000);
                start..start + rng.u64(..if step % 40 == 0 { 400 } else { 12 })
            };
            let (one, two) = (range(), range());
            let mut lock = match rng.u32(..8) {
                0 => locks.exclusive_of([one, two]),
                1 => locks.exclusive(one),
                2..=4 => locks.shared(one),
                _ => locks.write(one),
            };
            if !is_held(&lock) {
                let waker = Arc::new(Noted(step, woken.clone())).into();
                assert!(Pin::new(&mut lock).poll(&mut Context::from_waker(&waker)).is_pending());
            }
            all.push(lock);
        }
        let mut state: Vec<bool> = all.iter().map(is_held).collect();
        let probe = 500..510;
        state.extend([locks.is_free(&probe), locks.has_exclusive(&probe), locks.is_held_exclusively(&probe)]);
        states.push(state);
    }
    drop(all);
    assert_eq!((locks.in_use(), locks.0.borrow().waiting), (0, 0));
    let woken = woken.lock().expect("one thread").clone();
    (states, woken)
}

#[test]
fn an_index_changes_neither_who_gets_a_lock_nor_the_order() {
    for seed in 0..40 {
        let plain = history(seed, usize::MAX);
        assert!(plain.1.len() > 50, "locks waited");
        // Begun at once; and begun and ended in the middle.
        for indexed_from in [1, 100] {
            assert!(history(seed, indexed_from) == plain, "seed {seed}, from {indexed_from} locks");
        }
    }
}

/// Each lock read all others: 40 us for ten thousand, for every host.
#[test]
fn a_lock_beside_ten_thousand_looks_at_few() {
    let locks = RangeLocks::default();
    let held: Vec<_> = (0..10_000).map(|n| locks.write(n * 8192..n * 8192 + 4096)).collect();
    let table = locks.0.borrow();
    assert!(table.is_indexed);
    let mut found = 0;
    let looked = table.index.overlapping(&(4096..8193), &mut |_| found += 1);
    assert!(found == 1 && looked < 100, "{found} found, {looked} looked at");
    drop(table);
    drop(held);
    assert!(!locks.0.borrow().is_indexed);
}
